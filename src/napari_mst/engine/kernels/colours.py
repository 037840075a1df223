"""The smallest change of spectra that moves their colours to where they are allowed.

`reconstruction.colour_fidelity` says the mathematics, does the same in NumPy, and calls this
where it can. Loops over the pixels of a piece are the inner ones, of which LLVM makes vector
instructions.
"""

import math
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Mask, Singles
from napari_mst.engine.kernels.caching import kernel, part
from napari_mst.engine.kernels.emitter import LLVMNumber, flags, floats, fused
from napari_mst.engine.kernels.powers import ONE, ZERO, larger, smaller

COEFFICIENTS = 9
"""Numbers of each band: its response in three colours, and their six products."""

_PIECE = 128
"""Pixels of a row that are moved together: their spectra stay in the fastest cache."""

_FLOAT_BYTES = 4
_ROW = _PIECE * _FLOAT_BYTES


class SpectraPlanes(NamedTuple):
    """Spectra (B, h, w), whose pixels lie side by side.

    Attributes
    ----------
    address
        Of the first number.
    band, row
        Bytes from one band, and from one row, to the next.
    bands, height, width
        The shape.
    """

    address: int
    band: int
    row: int
    bands: int
    height: int
    width: int


class ColourPlanes(NamedTuple):
    """Addresses of colours (3, h, w) that lie side by side: those shown, and those allowed."""

    shown: int
    low: int
    high: int


class Moving(NamedTuple):
    """Numbers that a change of spectra needs.

    Attributes
    ----------
    coefficients
        The address of the `COEFFICIENTS` of each band.
    limits
        The address of three numbers: how near to its cell a colour is within it, the least
        reflectance of a band that weighs, and the highest of a surface.
    steps
        Towards a cell, at most.
    """

    coefficients: int
    limits: int
    steps: int


class _Piece(NamedTuple):
    """Some pixels of a row: their number, and where their spectra and colours begin."""

    spectra: int
    band: int
    first: int
    channel: int
    pixels: int


@part
def _add_up(spectra: Singles, weights: Singles, sums: Singles, moving: Moving) -> None:
    """Write the colours of *spectra*, their *weights* and, behind the colours, their equations."""
    bands = len(spectra) // _PIECE
    coefficients = floats(moving.coefficients, bands * COEFFICIENTS)
    least = floats(moving.limits, 3)[1]
    for place in range(len(sums)):
        sums[place] = ZERO
    for band in range(bands):
        first = band * _PIECE
        for place in range(first, first + _PIECE):
            weights[place] = math.sqrt(larger(spectra[place], least))
        for index in range(COEFFICIENTS):
            factors = spectra if index < 3 else weights
            coefficient = coefficients[band * COEFFICIENTS + index]
            total = index * _PIECE
            for x in range(_PIECE):
                sums[total + x] = fused(coefficient, factors[first + x], sums[total + x])


@part
def _missing(
    shown: LLVMNumber, low: LLVMNumber, high: LLVMNumber, close: LLVMNumber
) -> tuple[LLVMNumber, bool, bool]:
    """Measure by how much a colour misses its cell, if it is outside, and if it is free."""
    missing = smaller(larger(shown, low), high) - shown
    is_far = abs(missing) > close
    # A channel within its cell may change where clipping leaves the cell open on one side.
    is_free = not is_far and high - low == np.inf
    return ZERO if is_free else missing, is_far, is_free


@part
def _dot(left: tuple[LLVMNumber, ...], right: tuple[LLVMNumber, ...]) -> LLVMNumber:
    return fused(left[2], right[2], fused(left[1], right[1], left[0] * right[0]))


@part
def _solve(sums: Singles, cells: Singles, close: LLVMNumber, solution: Singles, moves: Mask) -> int:
    """Write the *solution* of the equations of each pixel, and which of them move; count those.

    They are symmetric systems of three, solved by their adjugates.
    """
    n = _PIECE
    count = 0
    for x in range(n):
        red, is_red_far, red_free = _missing(sums[x], cells[x], cells[3 * n + x], close)
        green, is_green_far, green_free = _missing(
            sums[n + x], cells[n + x], cells[4 * n + x], close
        )
        blue, is_blue_far, blue_free = _missing(
            sums[2 * n + x], cells[2 * n + x], cells[5 * n + x], close
        )
        moves[x] = is_red_far | is_green_far | is_blue_far
        count += moves[x]
        # A free channel leaves the system of equations: its row and column become the identity's.
        rr = ONE if red_free else sums[3 * n + x]
        rg = ZERO if red_free | green_free else sums[4 * n + x]
        rb = ZERO if red_free | blue_free else sums[5 * n + x]
        gg = ONE if green_free else sums[6 * n + x]
        gb = ZERO if green_free | blue_free else sums[7 * n + x]
        bb = ONE if blue_free else sums[8 * n + x]
        first = gg * bb - gb * gb, rb * gb - rg * bb, rg * gb - rb * gg
        second = first[1], rr * bb - rb * rb, rg * rb - rr * gb
        third = first[2], second[2], rr * gg - rg * rg
        right = red, green, blue
        inverse = ONE / _dot((rr, rg, rb), first)
        solution[x] = _dot(first, right) * inverse
        solution[n + x] = _dot(second, right) * inverse
        solution[2 * n + x] = _dot(third, right) * inverse
    return count


@part
def _change(
    spectra: Singles, weights: Singles, solution: Singles, moves: Mask, moving: Moving
) -> None:
    """Change the *spectra* that move: by weights x response x *solution*."""
    bands = len(spectra) // _PIECE
    coefficients = floats(moving.coefficients, bands * COEFFICIENTS)
    for band in range(bands):
        first = band * COEFFICIENTS
        response = coefficients[first], coefficients[first + 1], coefficients[first + 2]
        for x in range(_PIECE):
            place = band * _PIECE + x
            own = spectra[place]
            change = _dot(response, (solution[x], solution[_PIECE + x], solution[2 * _PIECE + x]))
            changed = larger(fused(change, weights[place], own), ZERO)
            spectra[place] = changed if moves[x] else own


@part
def _look(
    colours: ColourPlanes, piece: _Piece, close: LLVMNumber, cells: Singles, outside: Mask
) -> int:
    """Write the *cells* of a piece, and which spectra are *outside* of theirs; count those."""
    for x in range(_PIECE):
        outside[x] = False
    for channel in range(3):
        shift = channel * piece.channel + piece.first * _FLOAT_BYTES
        shown = floats(colours.shown + shift, piece.pixels)
        low = floats(colours.low + shift, piece.pixels)
        high = floats(colours.high + shift, piece.pixels)
        for x in range(piece.pixels):
            outside[x] |= (shown[x] < low[x] - close) | (shown[x] > high[x] + close)
            cells[channel * _PIECE + x] = low[x]
            cells[(3 + channel) * _PIECE + x] = high[x]
    found = 0
    for x in range(piece.pixels):
        found += outside[x]
    return found


@part
def _take(piece: _Piece, moved: Singles) -> None:
    """Copy the spectra of a piece."""
    for band in range(len(moved) // _PIECE):
        own = floats(piece.spectra + band * piece.band, piece.pixels)
        for x in range(piece.pixels):
            moved[band * _PIECE + x] = own[x]


@part
def _write_surfaces(
    piece: _Piece, moved: Singles, most: Singles, highest: LLVMNumber, outside: Mask
) -> None:
    """Put back what was outside and has *moved*, but not spectra that no surface has."""
    for x in range(piece.pixels):
        most[x], most[_PIECE + x] = ZERO, ONE
    for band in range(len(moved) // _PIECE):
        own = floats(piece.spectra + band * piece.band, piece.pixels)
        for x in range(piece.pixels):
            most[x] = larger(moved[band * _PIECE + x], most[x])
            most[_PIECE + x] = larger(own[x], most[_PIECE + x])
    for x in range(piece.pixels):
        outside[x] &= most[x] <= most[_PIECE + x] * highest
    for band in range(len(moved) // _PIECE):
        own = floats(piece.spectra + band * piece.band, piece.pixels)
        for x in range(piece.pixels):
            own[x] = moved[band * _PIECE + x] if outside[x] else own[x]


def scratch_bytes(bands: int) -> int:
    """Scratch memory that `move_spectra` needs."""
    return (2 * bands + COEFFICIENTS + 11) * _ROW


@kernel
def move_spectra(
    spectra: SpectraPlanes, colours: ColourPlanes, moving: Moving, scratch: int
) -> int:
    """Move *spectra*, in place, until they show *colours* that are allowed; count those outside.

    *scratch* are `scratch_bytes`, all of them 0.
    """
    limits = floats(moving.limits, 3)
    close, highest = limits[0], limits[2]
    moved = floats(scratch, spectra.bands * _PIECE)
    weights = floats(scratch + spectra.bands * _ROW, spectra.bands * _PIECE)
    rest = scratch + 2 * spectra.bands * _ROW
    sums = floats(rest, COEFFICIENTS * _PIECE)
    cells = floats(rest + COEFFICIENTS * _ROW, 6 * _PIECE)
    solution = floats(rest + (COEFFICIENTS + 6) * _ROW, 3 * _PIECE)
    outside = flags(rest + (COEFFICIENTS + 9) * _ROW, _PIECE)
    moves = flags(rest + (COEFFICIENTS + 10) * _ROW, _PIECE)
    channel = spectra.height * spectra.width * _FLOAT_BYTES
    total = 0
    for y in range(spectra.height):
        for start in range(0, spectra.width, _PIECE):
            place = spectra.address + y * spectra.row + start * _FLOAT_BYTES
            count = min(_PIECE, spectra.width - start)
            piece = _Piece(place, spectra.band, y * spectra.width + start, channel, count)
            found = _look(colours, piece, close, cells, outside)
            total += found
            if not found:
                continue
            _take(piece, moved)
            for _ in range(moving.steps):
                _add_up(moved, weights, sums, moving)
                if not _solve(sums, cells, close, solution, moves):
                    break
                _change(moved, weights, solution, moves, moving)
            _write_surfaces(piece, moved, sums, highest, outside)
    return total
