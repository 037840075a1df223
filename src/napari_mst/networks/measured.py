"""Any torch module as a network of one pass, which the engine runs tile by tile.

The properties of the pass are measured: the multiple that sides must have, the period with which
the module treats pixels alike, and the reach of an output pixel. Letters: N batch, C channels, B
bands, H rows, W columns.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from napari_mst.base.errors import ModelError, shown
from napari_mst.networks.module import Network
from napari_mst.networks.network import PHOTO, Pass, Program

Reach = int | None | Literal["measured"]
"""Pixels on each side on which an output pixel depends; None for the whole photo."""

_LARGEST_MULTIPLE = 32
_SIDES = 128, 256, 512
"""Sides of the photos for measuring the reach; more than half of the last side counts as global."""

_TOLERANCE = 1e-5
"""Error of a tile, as a share of the largest value, explained by rounding in torch."""


@dataclass(frozen=True)
class Geometry:
    """The geometry of a module from *in_bands* to *out_bands*.

    Attributes
    ----------
    multiple
        Sides must be multiples of this.
    align
        Parts that begin at multiples of this are treated like the whole; a multiple of `multiple`.
    reach
        Pixels around an aligned window on which the window depends; None for the whole photo.
    """

    in_bands: int
    out_bands: int
    multiple: int
    align: int
    reach: int | None


class MeasuredNetwork(Network):
    """A module (N, C, H, W) -> (N, B, H, W) as one pass."""

    def __init__(self, module: nn.Module, geometry: Geometry) -> None:
        super().__init__()
        self.module, self.geometry = module, geometry
        self.in_bands, self.out_bands = geometry.in_bands, geometry.out_bands

    def program(self) -> Program:
        """A single pass, the module itself."""
        geometry = self.geometry
        kernels = [each for each in self.module.parameters() if each.ndim == 4]
        # A layer, its input and the same again for skips: the widest layer determines the memory.
        widest = max((sum(each.shape[:2]) for each in kernels), default=geometry.out_bands)
        align = geometry.align if geometry.reach is not None else 1
        whole = Pass(
            "bands",
            (PHOTO,),
            self.module,
            geometry.out_bands,
            halo=geometry.reach,
            align=align,
            values=4 * widest,
        )
        dtype = next((each.dtype for each in self.parameters()), torch.float32)
        return Program((whole,), geometry.in_bands, geometry.multiple, dtype)


@torch.inference_mode()
def measured(
    module: nn.Module, in_bands: int = 3, reach: Reach = "measured", least: int = 1
) -> MeasuredNetwork:
    """*module* as a network; it must be in evaluation mode, in float32, on the CPU.

    Images are padded to a measured multiple, which is itself a multiple of *least*.

    Raises
    ------
    ModelError
        If the module does not accept a photo of *in_bands* channels, its result has another size or
        differs each time, or a given *reach* is invalid or too short.
    """
    if reach not in (None, "measured") and (type(reach) is not int or reach < 0):
        raise ModelError(
            f"Expected a reach of 0 or more whole pixels, or None, got {shown(reach, 40)}. "
            "Leave it out: it is then measured."
        )
    geometry = _accepted(module, in_bands, least)
    error = 0.0
    while geometry.align <= _LARGEST_MULTIPLE:
        geometry = replace(
            geometry, reach=_measured_reach(module, geometry) if reach == "measured" else reach
        )
        error = 0.0 if geometry.reach is None else _error_of_parts(module, geometry)
        if error <= _TOLERANCE:
            return MeasuredNetwork(module, geometry)
        # The module accepts any size but counts from the first pixel, like one that pads by itself.
        geometry = replace(geometry, align=2 * geometry.align)
    if reach == "measured":
        return MeasuredNetwork(module, replace(geometry, reach=None))
    raise ModelError(
        f"Expected a module that looks {reach} pixels far, got tiles that are {error:.2g} of the "
        "largest value off. Leave `reach` out: it is then measured."
    )


def _accepted(module: nn.Module, in_bands: int, least: int) -> Geometry:
    """The geometry with the smallest number whose multiples *module* accepts and keeps as sides."""
    fault = ""
    for multiple in range(least, _LARGEST_MULTIPLE + 1, least):
        count = _LARGEST_MULTIPLE // multiple + 1
        # Consecutive numbers have no common factor, so no larger multiple divides both sides.
        photo = _noise((1, in_bands, count * multiple, (count + 1) * multiple))
        try:
            result = module(photo)
        except Exception as error:  # noqa: BLE001 - a module may raise anything about a size
            fault = fault or shown(error, 80)
            continue
        if not isinstance(result, Tensor) or result.ndim != 4 or len(result) != 1:
            fault = f"{type(result).__name__} {tuple(getattr(result, 'shape', ()))}"
        elif result.shape[2:] == photo.shape[2:]:
            if not torch.allclose(module(photo), result, rtol=_TOLERANCE, equal_nan=True):
                raise ModelError(
                    "Expected a module that makes the same of a photo each time, got one that "
                    "draws random numbers. Have it draw none in evaluation mode."
                )
            return Geometry(in_bands, result.shape[1], multiple, multiple, None)
        else:
            fault = fault or f"{tuple(result.shape)} of {tuple(photo.shape)}"
    raise ModelError(
        f"Expected a module of (1, {in_bands}, H, W) to (1, B, H, W) for sides that are multiples "
        f"of at most {_LARGEST_MULTIPLE}, got: {fault}. Wrap it in one."
    )


def _measured_reach(module: nn.Module, geometry: Geometry) -> int | None:
    """The larger reach of rows and columns; None if a change affects everything."""
    far = max(_reach_along(axis, module, geometry) for axis in (2, 3))
    return None if math.isinf(far) else int(far)


def _reach_along(axis: int, module: nn.Module, geometry: Geometry) -> float:
    """The distance at which *module* reacts to a changed stripe of `align` pixels.

    Infinite if a change affects everything.
    """
    for least in _SIDES:
        shape = [1, geometry.in_bands, *(2 * [_up_to(_LARGEST_MULTIPLE, geometry.align)])]
        shape[axis] = side = _up_to(least, geometry.align)
        start = side // 2 // geometry.align * geometry.align
        changed = _changed(axis, slice(start, start + geometry.align), module, _noise(tuple(shape)))
        first, last = min(changed, default=start), max(changed, default=start)
        if first > 0 and last < side - 1:
            return max(start - first, last + 1 - start - geometry.align, 0)
    return math.inf


def _changed(axis: int, stripe: slice, module: nn.Module, photo: Tensor) -> list[int]:
    """The rows or columns of the result that change with *stripe* of the photo."""
    before = module(photo)
    touched = torch.zeros(photo.shape[axis], dtype=torch.bool)
    # NaN passes through every weight and every ReLU, however small its effect; other numbers pass
    # through modules that replace NaN.
    for values in (torch.full_like(photo, torch.nan), _noise(tuple(photo.shape), seed=1)):
        other = photo.clone()
        other.movedim(axis, 0)[stripe] = values.movedim(axis, 0)[stripe]
        touched |= (module(other) != before).movedim(axis, 0).flatten(1).any(1)
    return touched.nonzero().flatten().tolist()


def _error_of_parts(module: nn.Module, geometry: Geometry) -> float:
    """The largest difference between parts and the whole, as a share of the largest value."""
    halo = _up_to(geometry.reach or 0, geometry.align)
    size = _up_to(_LARGEST_MULTIPLE, geometry.align)
    photo = _noise((1, geometry.in_bands, *(2 * [geometry.align + halo + size])))
    whole = module(photo)
    errors = [
        whole[..., cut, cut] - module(photo[..., read, read])[..., within, within]
        for read, within, cut in _parts(geometry.align, halo, size)
    ]
    return max(float(each.abs().max() / whole.abs().max()) for each in errors)


def _parts(align: int, halo: int, size: int) -> Iterator[tuple[slice, slice, slice]]:
    """Parts of a photo to read, the valid part of each result, and its place in the whole."""
    # The first part begins after one period, where a map of twice the period would differ.
    yield slice(align, None), slice(halo, None), slice(align + halo, None)
    yield slice(None, size + halo), slice(None, size), slice(None, size)


def _noise(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def _up_to(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def network_of(module: nn.Module, in_bands: int, reach: Reach) -> Network:
    """A copy of *module* as a network, in evaluation mode and float32; see `Model.of`."""
    copied = copy.deepcopy(module).cpu().float().eval().requires_grad_(False)
    return copied if isinstance(copied, Network) else measured(copied, in_bands, reach)
