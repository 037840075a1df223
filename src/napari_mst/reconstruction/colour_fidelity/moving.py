"""The smallest change that moves spectra to the colours that a photo allows.

With the response S, a spectrum r becomes r + W S (S'WS)^-1 (target - S'r), the smallest change by
weighted least squares. Lin & Finlayson, Sensors 20 (2020) 6399, doi:10.3390/s20216399; here the
target is the nearest point of the cell instead of its centre. The weights W are the roots of r.
They lie halfway between equal changes in all bands, which are too large for the dark bands of a
saturated colour, and changes in proportion to r.

Letters: B bands, C colours, h rows, w columns, n spectra.
"""

import numpy as np

from napari_mst.base.arrays import Floats, Mask, Singles
from napari_mst.reconstruction.colour_fidelity.code_cells import Bounds, ColourCheck, has_kernels

CLOSE = 1e-6
"""Distance from a cell, in linear light, that still counts as within it."""

DARKEST = 1e-4
"""Smallest reflectance assumed for the weight of a band, so that black bands can brighten."""

HIGHEST = 1.25
"""Largest plausible reflectance of a moved spectrum, unless the estimate exceeds it."""

STEPS = 8
"""Largest number of steps towards a cell; one is enough unless a spectrum becomes negative."""


def move(comparison: ColourCheck, rows: slice, rendered: Floats, bounds: Bounds) -> int:
    """Move, in place, the spectra of *rows* with colours *rendered* (C, rows, W) beyond *bounds*.

    Returns the number of moved spectra.
    """
    block = comparison.data[:, rows]
    if has_kernels(block):
        return moved_by_kernel(block, rendered, bounds, comparison.response)
    is_low = rendered < bounds.low - CLOSE
    is_high = rendered > bounds.high + CLOSE
    outside = np.asarray((is_low | is_high).any(axis=0))
    cells = Bounds(bounds.low[:, outside], bounds.high[:, outside])
    block[:, outside] = moved_into(block[:, outside], cells, comparison.response)
    return int(np.count_nonzero(outside))


def moved_by_kernel(spectra: Singles, shown: Floats, cells: Bounds, response: Floats) -> int:
    """Move, in place, *spectra* (B, h, w) with colours *shown* beyond *cells*; returns how many."""
    from napari_mst.engine.kernels.colours import (
        ColourPlanes,
        Moving,
        SpectraPlanes,
        move_spectra,
        scratch_bytes,
    )

    # Kept alive until the end, since the records hold only their addresses.
    planes = [np.ascontiguousarray(each, dtype=np.float32) for each in (shown, *cells)]
    rows, columns = np.triu_indices(3)
    products = response[:, rows] * response[:, columns]
    # The kernel reads rows of nine, but the response of a chart is stored by column.
    coefficients = np.ascontiguousarray(np.concatenate([response, products], axis=1), np.float32)
    limits = np.array([CLOSE, DARKEST, HIGHEST], dtype=np.float32)
    band, row, _ = spectra.strides
    place = SpectraPlanes(spectra.ctypes.data, band, row, *spectra.shape)
    colours = ColourPlanes(*(each.ctypes.data for each in planes))
    moving = Moving(coefficients.ctypes.data, limits.ctypes.data, STEPS)
    scratch = np.zeros(scratch_bytes(place.bands), np.uint8)
    return move_spectra(place, colours, moving, scratch.ctypes.data)


def moved_into(spectra: Floats, bounds: Bounds, response: Floats) -> Floats:
    """Change *spectra* (B, n) as little as possible to bring their colours within *bounds* (C, n).

    Spectra never become negative. A spectrum that would have to be brighter than any surface stays
    unchanged. *response* is (B, C).
    """
    moved = spectra
    for _ in range(STEPS):
        rendered = np.einsum("bc,bn->cn", response, moved)
        missing = np.clip(rendered, bounds.low, bounds.high) - rendered
        is_far = np.abs(missing) > CLOSE
        if not is_far.any():
            break
        # A channel within its cell may change where clipping leaves the cell open on one side.
        is_free = ~is_far & np.isinf(bounds.high - bounds.low)
        moved = np.where(is_far.any(axis=0), _stepped(moved, missing, is_free, response), moved)
    is_surface = moved.max(axis=0) <= HIGHEST * np.maximum(spectra.max(axis=0), 1)
    return np.where(is_surface, moved, spectra)


def _stepped(spectra: Floats, missing: Floats, is_free: Mask, response: Floats) -> Floats:
    """Change *spectra* (B, n) as little as possible to change their colours by *missing* (C, n).

    Channels marked by *is_free* (C, n) may change by any amount.
    """
    weights = np.sqrt(np.maximum(spectra, DARKEST))
    system = np.tensordot(response[:, :, None] * response[:, None], weights, (0, 0))
    # A free channel leaves the system of equations: its row and column become the identity.
    system = np.where(is_free | is_free[:, None], np.eye(3)[..., None], system)
    missing = np.where(is_free, 0, missing)
    # Inverted by the adjugate, since NumPy's solver takes a hundred times as long.
    first, second, third = system
    pairs = (second, third), (third, first), (first, second)
    adjugate = np.stack([np.cross(one, other, axis=0) for one, other in pairs])
    solution = (adjugate * missing).sum(axis=1) / (first * adjugate[0]).sum(axis=0)
    return np.maximum(spectra + weights * (response @ solution), 0)
