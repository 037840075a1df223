"""`check_network` compares every pass of a network, computed in tiles, with the pass as a whole.

A pass says how far it looks, where its windows begin, and what adds up over all pixels. The engine
relies on the declaration, so a wrong one would give a wrong cube. Letters: H rows, W columns of a
map.
"""

import torch
from torch import Tensor

from napari_mst.base.errors import ModelError
from napari_mst.engine.steps import Execute, Step, executable, needs, step_of, within
from napari_mst.engine.tensors import exact_products
from napari_mst.engine.windows import Window, tiles, whole
from napari_mst.networks.module import Network
from napari_mst.networks.network import PHOTO, Folded, Pass, pad

_SIZE = 61, 83
_TILINGS = (16, 24), (31, 40), (45, 19)

_TOLERANCE = 1e-5
"""Share of the largest value that the rounding of torch explains."""

_TOLERANCE_OF_SUMS = 1e-4
"""Such a share for statistics, which are long sums."""


def check_network(network: Network) -> None:
    """Check that tiles of any size give what `forward` gives: on noise, of an odd size.

    Every pass of *network* is computed in three tilings, with as much around each tile as the pass
    says that it needs. `Reconstructor` does this once for a network that is not ours.

    Raises
    ------
    ModelError
        If a pass looks further than its `halo`, if its windows begin elsewhere than at multiples of
        `align`, if its statistic does not add up over tiles, or if `forward` is not the program.
        The error names the first such pass, and how far it is off.

    Notes
    -----
    =======  ===============================================================================
    network  (N, in_bands, H, W) -> (N, out_bands, H, W), in evaluation mode and on one device
    =======  ===============================================================================

    Examples
    --------
    >>> nm.check_network(nm.load_model("mstpp-srgb").network)  # all is well
    """
    program = network.program()
    device = next((each.device for each in network.parameters()), torch.device("cpu"))
    noise = torch.rand(1, program.in_bands, *_SIZE, generator=torch.Generator().manual_seed(0))
    photo = noise.to(device, program.dtype)
    sizes = program.sizes(*_SIZE)
    dtypes = dict.fromkeys(sizes, program.dtype)
    maps = {PHOTO: (whole(sizes[PHOTO]), pad(photo, program.multiple))}
    folded: Folded = {}
    with exact_products(device), torch.inference_mode():
        for each in program.passes:
            step = step_of((each,), None)
            compute = executable(step, dtypes, folded)

            def part(tile: Window, step: Step = step, compute: Execute = compute) -> Tensor:
                name = step.last.writes
                window = needs([step], {name: tile}, sizes)[name]
                return within(tile, window, compute(maps, window, sizes))

            size = sizes[each.writes]
            result = part(whole(size))
            if result.shape[1:] != (each.channels, *size):
                raise ModelError(
                    f"Expected the pass {each.writes} to write {each.channels} channels of "
                    f"{size[0]} x {size[1]}, got {tuple(result.shape[1:])}. Correct its channels "
                    "or scale."
                )
            # A tile of a pass that reads all pixels costs as much as the map.
            for tiling in _TILINGS if each.halo is not None else (size,):
                _check_parts(each, result, [(tile, part(tile)) for tile in tiles(size, *tiling)])
            maps[each.writes] = whole(size), result
            if each.statistic is not None:
                folded[each.writes] = each.fold(each.statistic(result), size[0] * size[1])
        forward = network(photo)
    error, share = _difference(forward, result[..., : forward.shape[2], : forward.shape[3]])
    if not error <= _TOLERANCE:
        raise ModelError(
            f"Expected `forward` to be the program, got {share:.0%} of its numbers off by up to "
            f"{error:.2g} of the largest. Leave `forward` to `Network`."
        )


def _check_parts(each: Pass, result: Tensor, parts: list[tuple[Window, Tensor]]) -> None:
    """Compare the *parts* of a map, and the statistic over them, with the whole *result*."""
    joined = torch.empty_like(result)
    for tile, values in parts:
        joined[..., tile.rows, tile.columns] = values
    error, share = _difference(joined, result)
    if not error <= _TOLERANCE:
        raise ModelError(
            f"Expected tiles of the pass {each.writes} to be those of the whole map, got "
            f"{share:.0%} of their numbers off by up to {error:.2g} of the largest. "
            f"Correct its halo ({each.halo}) or align ({each.align})."
        )
    # Gathered numbers stand in the order of the tiles.
    if each.statistic is not None and not each.gathers:
        added_up = sum(each.statistic(values) for _, values in parts)
        error, _ = _difference(torch.as_tensor(added_up), each.statistic(result))
        if not error <= _TOLERANCE_OF_SUMS:
            raise ModelError(
                f"Expected the statistic of the pass {each.writes} to add up over tiles, got "
                f"{error:.2g} of the largest number too much or too little. Return a sum."
            )


def _difference(found: Tensor, expected: Tensor) -> tuple[float, float]:
    """The largest difference, by the largest number, and the share of numbers that are off."""
    errors = (found - expected).abs() / expected.abs().max().clamp_min(1e-30)
    return float(errors.max()), float((errors > _TOLERANCE).double().mean())
