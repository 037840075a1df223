"""The rounding of `mstpp-srgb`: its error against float64, and what is left of it where one kind of pass is exact.

    python -m lab.benchmarks.rounding [--size 200x264]

An exact pass computes in float64 from its maps of float32, and rounds its result to float32. "all"
leaves nothing but the rounding of the maps between the passes. Errors are the largest and the root
of the mean square, by the largest value.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.benchmarks import common
from napari_mst import load_model
from napari_mst.base.arrays import Array
from napari_mst.engine.fast_paths import table
from napari_mst.engine.fast_paths.table import FAST_PATHS, ComputeWindows, FastPath
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.run import execute
from napari_mst.networks.attention.spectral import HALO
from napari_mst.networks.network import Pass
from napari_mst.networks.refining_mst_plus_plus import decoded, encoded

CPU = torch.device("cpu")
Sides = tuple[int, int, int, int]


def doubled(module: nn.Module) -> Any:
    """A copy of *module* in float64."""
    return copy.deepcopy(module).double()


def exact_block(passes: Sequence[Pass], mixing: Tensor, _dtype: torch.dtype) -> ComputeWindows:
    """The local part of a block."""
    block = doubled(passes[0].local.__self__)

    def compute(windows: Sequence[Tensor], missing: Sides) -> Tensor:
        top, bottom, left, right = (HALO - side for side in missing)
        features = windows[0].double()
        height, width = features.shape[-2:]
        result = block.apply_mixing(features, mixing.double())
        return result[..., top : height - bottom, left : width - right].float()

    return compute


def exact_convolution(passes: Sequence[Pass], _folded: None, _dtype: torch.dtype) -> ComputeWindows:
    """A convolution, and what is added to it."""
    convolution = getattr(passes[0].local, "convolution", passes[0].local)
    weight, bias = convolution.weight.double(), convolution.bias
    bias = None if bias is None else bias.double()

    def compute(windows: Sequence[Tensor], missing: Sides) -> Tensor:
        features, *others = windows
        top, bottom, left, right = missing
        padded = F.pad(features.double(), (left, right, top, bottom))
        result = F.conv2d(padded, weight, bias, convolution.stride)
        return (result + sum(other.double() for other in others)).float()

    return compute


def exact_up(passes: Sequence[Pass], _folded: None, _dtype: torch.dtype) -> ComputeWindows:
    """Features doubled in size and fused with a skip."""
    up, fuse = doubled(passes[0].local), passes[1].local.convolution.weight.double()

    def compute(windows: Sequence[Tensor], _missing: Sides) -> Tensor:
        both = torch.cat([up(windows[0].double()), windows[1].double()], dim=1)
        return F.conv2d(both, fuse).float()

    return compute


def exact_estimate(passes: Sequence[Pass], _folded: None, _dtype: torch.dtype) -> ComputeWindows:
    """The encoded pixelwise estimate."""
    network = doubled(passes[0].local.__self__.pixelwise)
    return lambda windows, _missing: encoded(network(windows[0].double())).float()


def exact_decoding(_passes: Sequence[Pass], _folded: None, _dtype: torch.dtype) -> ComputeWindows:
    """Encoded spectra as reflectances."""
    return lambda windows, _missing: decoded(windows[0].double()).float()


EXACT: dict[str, Callable[..., ComputeWindows]] = {
    "block": exact_block,
    "convolution": exact_convolution,
    "doubling and fusion": exact_up,
    "estimate": exact_estimate,
    "decoding": exact_decoding,
}


def with_exact(names: Sequence[str]) -> list[FastPath]:
    """The table of fast paths, with those of *names* computed in float64."""
    return [
        replace(fast_path, build=EXACT[fast_path.name], takes_arrays=False)
        if fast_path.name in names
        else fast_path
        for fast_path in FAST_PATHS
    ]


def cube(network: Any, photo: Array, names: Sequence[str] = ()) -> Array:
    """The reflectances (B, H, W) of *photo* (3, H, W)."""
    source = PhotoRows(lambda start, stop: photo[:, start:stop], *photo.shape[1:])
    with patch.object(table, "FAST_PATHS", with_exact(names)):
        return np.asarray(execute(network.program(), source, CPU).numbers, np.float64)


def main() -> None:
    """Print the table."""
    parser = common.parser(__doc__)
    parser.add_argument("--size", default="200x264")
    height, width = common.sides(parser.parse_args().size)
    network = load_model("mstpp-srgb").network
    photo = np.random.default_rng(0).random((3, height, width)).astype(np.float32)
    reference = cube(doubled(network), photo.astype(np.float64))
    print("| exact | largest | root of the mean square |\n|---|---|---|")
    for name, names in {"none": (), **{name: (name,) for name in EXACT}, "all": EXACT}.items():
        off = (cube(network, photo, list(names)) - reference) / reference.max()
        print(f"| {name} | {abs(off).max():.2g} | {np.sqrt((off**2).mean()):.2g} |", flush=True)


if __name__ == "__main__":
    main()
