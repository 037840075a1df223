"""The smallest change that moves spectra to the colours that a photo allows.

A spectrum r becomes r + W S (S'WS)^-1 (target - S'r), S being the response: the least change in the
sense of least squares. Lin & Finlayson, Sensors 20 (2020) 6399, doi:10.3390/s20216399; the target
here is the nearest point of the cell instead of its centre. The weights W are the roots of r. They
lie halfway between equal changes in all bands, which are too large for the dark bands of a
saturated colour, and changes in proportion to r.

Letters: B bands, C colours, W columns, n spectra.
"""

import numpy as np

from napari_mst.arrays import Floats, Mask
from napari_mst.reconstruction.consistency.cells import (
    CLOSE,
    DARKEST,
    HIGHEST,
    STEPS,
    UPPER,
    Bounds,
    ColourCheck,
    compiled_colours,
)

SPECTRA_AT_ONCE = 1 << 12
"""Spectra that are moved at once: all arrays that this takes stay in the cache of a core."""


def move(comparison: ColourCheck, rows: slice, rendered: Floats, bounds: Bounds) -> int:
    """Move the spectra of *rows* whose colours *rendered* (C, rows, W) lie beyond *bounds*.

    They are moved in place. Returns how many there were.
    """
    block = comparison.data[:, rows]
    compiled = compiled_colours(block)
    if compiled is not None:
        return compiled.move(block, rendered, bounds, comparison.response)
    is_low = rendered < bounds.low - CLOSE
    is_high = rendered > bounds.high + CLOSE
    outside = np.asarray((is_low | is_high).any(axis=0))
    if outside.any():
        spectra = _at(outside, block)
        cells = Bounds(_at(outside, bounds.low), _at(outside, bounds.high))
        moved = moved_into(spectra, cells, comparison.response)
        # Band by band, since a mask over two of three axes is slow.
        for band, values in zip(block, moved, strict=True):
            band[outside] = values
    return int(np.count_nonzero(outside))


def moved_into(spectra: Floats, bounds: Bounds, response: Floats) -> Floats:
    """*spectra* (B, n), changed as little as brings their colours within *bounds* (C, n).

    They never become negative. A spectrum that would have to be brighter than any surface, for a
    colour that none has, stays as it is. *response* is (B, C).
    """
    moved = np.empty_like(spectra)
    for start in range(0, spectra.shape[1], SPECTRA_AT_ONCE):
        part = np.s_[:, start : start + SPECTRA_AT_ONCE]
        cells = Bounds(bounds.low[part], bounds.high[part])
        moved[part] = _moved_into(spectra[part], cells, response)
    return moved


def _at(mask: Mask, planes: Floats) -> Floats:
    """The values of *planes* (n, rows, W) at the pixels of *mask*, plane by plane."""
    return np.stack([plane[mask] for plane in planes])


def _moved_into(spectra: Floats, bounds: Bounds, response: Floats) -> Floats:
    moved = spectra.copy()
    far = spectra
    left = np.arange(spectra.shape[1])  # the places of those that are not within their cells yet
    for _ in range(STEPS):
        rendered = np.einsum("bc,bn->cn", response, far)
        missing = np.clip(rendered, bounds.low, bounds.high) - rendered
        is_far = np.abs(missing) > CLOSE
        chosen = np.flatnonzero(is_far.any(axis=0))
        if not chosen.size:
            break
        if chosen.size < left.size:
            left = left[chosen]
            far = far[:, chosen]
            missing = missing[:, chosen]
            is_far = is_far[:, chosen]
            bounds = Bounds(bounds.low[:, chosen], bounds.high[:, chosen])
        # A channel within its cell may change where clipping leaves the cell open on one side.
        is_free = ~is_far & np.isinf(bounds.high - bounds.low)
        far = _stepped(far, missing, is_free, response)
        if left.size == moved.shape[1]:
            moved = far
        else:
            moved[:, left] = far
    is_surface = moved.max(axis=0) <= HIGHEST * np.maximum(spectra.max(axis=0), 1)
    return moved if is_surface.all() else np.where(is_surface, moved, spectra)


def _stepped(
    spectra: Floats,
    missing: Floats,
    is_free: Mask,
    response: Floats,
) -> Floats:
    """*spectra* (B, n), changed least so that their colours change by *missing* (C, n).

    Channels that are *is_free* (C, n) may change by anything.
    """
    weights = np.sqrt(np.maximum(spectra, DARKEST))
    rows, columns = UPPER
    system = np.einsum("bk,bn->kn", response[:, rows] * response[:, columns], weights)
    if is_free.any():
        missing = np.where(is_free, 0, missing)
        # A free channel leaves the system of equations: its row and column become those of 1.
        is_left_out = is_free[rows] | is_free[columns]
        is_diagonal = (rows == columns)[:, None]
        system = np.where(is_left_out, is_diagonal, system)
    changed = np.einsum("bc,cn->bn", response, _solved(system, missing))
    changed *= weights
    changed += spectra
    return np.maximum(changed, 0, out=changed)


def _solved(system: Floats, right: Floats) -> Floats:
    """The solutions (3, n) of n symmetric systems of three equations with right sides *right*.

    *system* (6, n) is the upper triangle, row by row. It is inverted by its adjugate: NumPy's own
    solver takes a hundred times as long for as many small systems.
    """
    rr, rg, rb, gg, gb, bb = system
    red, green, blue = right
    first = gg * bb - gb * gb
    second = rb * gb - rg * bb
    third = rg * gb - rb * gg
    solution = np.stack(
        [
            first * red + second * green + third * blue,
            second * red + (rr * bb - rb * rb) * green + (rg * rb - rr * gb) * blue,
            third * red + (rg * rb - rr * gb) * green + (rr * gg - rg * rg) * blue,
        ]
    )
    solution /= rr * first + rg * second + rb * third
    return solution
