"""Networks that see one pixel at a time: from linear RGB to its spectrum; and encoded spectra back.

One of them also knows both sides of a prediction interval: see `reconstruction.model_intervals`.

A row is computed in short pieces, whose layers stay in the fastest cache. Loops over the pixels of
a piece, or over the channels of a vector, are the inner ones: LLVM makes vector instructions of
them.
"""

import math
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Indices, Singles
from napari_mst.engine.kernels.caching import kernel, part
from napari_mst.engine.kernels.emitter import floats, fused, integers
from napari_mst.engine.kernels.packed_rows import (
    Features,
    PackedRow,
    PixelRow,
    from_pixel,
    row_bytes,
    unpack_row,
)
from napari_mst.engine.kernels.powers import (
    ONE,
    ZERO,
    exponential,
    larger,
    logarithm,
    power,
    smaller,
)
from napari_mst.engine.kernels.processor import LANES, PIXELS, VECTOR
from napari_mst.engine.kernels.products import POINT, Layer, Target, multiply_row

FEATURES = 9
"""Number of inputs of the first layer for each pixel."""

_FLOAT_BYTES = 4
_PIECE = 8 * PIXELS
"""Pixels of a row that go through all layers together."""

_FEATURE_PLANES = -(-FEATURES // LANES)

FEATURE_CHANNELS = _FEATURE_PLANES * LANES
"""Channels that the weights of the first layer are filled up to."""


class PhotoPlanes(NamedTuple):
    """A picture whose channels are planes, (C, h, w): an address, and bytes to the next of each."""

    address: int
    channel: int
    row: int


class SpectrumWeights(NamedTuple):
    """The weights and biases of a network that sees one pixel at a time, by their addresses.

    Attributes
    ----------
    is_encoded
        1 where spectra are encoded, else 0.
    hidden_planes, planes
        Vectors of a pixel in the hidden layers, and of the numbers that the last layer gives.
    first, second, third, last
        The weights of the layers.
    first_bias, second_bias, third_bias, last_bias
        What they add.
    start
        The matrix of the spectra to start from: their vectors for each colour.
    limits
        The numbers named `LIMITS`.
    """

    is_encoded: int
    hidden_planes: int
    planes: int
    first: int
    first_bias: int
    second: int
    second_bias: int
    third: int
    third_bias: int
    last: int
    last_bias: int
    start: int
    limits: int


LIMITS = ("black", "darkest", "offset", "limit", "slope", "least", "most", "bend")
"""The light that is added before a spectrum is encoded; the least light of a photo; the offset of
its brightness; and, of `pixelwise.Start`, the limit of a reflectance and four numbers."""

_BLACK, _DARKEST, _OFFSET, _LIMIT, _SLOPE, _LEAST, _MOST, _BEND = range(len(LIMITS))

# The numbers of a piece, each for all of its pixels: its colours, what its spectra are bounded by
# (their least light and their limit), its features, and a factor of them.
_FIRST_FEATURE = 5
_SHARES = (_FIRST_FEATURE + FEATURES) * _PIECE
_NUMBERS = -(-(_SHARES + _PIECE) // 16) * 16  # whole cache lines, behind which lie rows


@part
def _take_features(numbers: Singles, limits: Singles, features: PackedRow, width: int) -> None:
    """Write the bounds of a piece, and its features to a row; see `colour_features`."""
    darkest, offset, limit = limits[_DARKEST], limits[_OFFSET], limits[_LIMIT]
    slope, least = limits[_SLOPE], limits[_LEAST]
    shares = numbers[_SHARES:]
    for x in range(width):
        red = larger(numbers[x], darkest)
        green = larger(numbers[_PIECE + x], darkest)
        blue = larger(numbers[2 * _PIECE + x], darkest)
        total = red + green + blue
        brightest = larger(larger(larger(red, green), blue), ONE)
        numbers[x], numbers[_PIECE + x], numbers[2 * _PIECE + x] = red, green, blue
        numbers[3 * _PIECE + x] = fused(total, slope, least)
        numbers[4 * _PIECE + x] = limit * brightest
        shares[x] = np.float32(3) / (total + offset)
    for colour in range(3):
        light, other = numbers[colour * _PIECE :], numbers[(colour + 2) % 3 * _PIECE :]
        of_colour = numbers[(_FIRST_FEATURE + colour) * _PIECE :]
        for x in range(width):
            code = power(smaller(light[x], ONE), 5, 12)
            of_colour[x] = fused(light[x], shares[x], -ONE)
            of_colour[3 * _PIECE + x] = fused(math.sqrt(light[x] * other[x]), shares[x], -ONE)
            of_colour[6 * _PIECE + x] = fused(code, np.float32(2), -ONE)
    for plane in range(_FEATURE_PLANES):
        row = floats(features.address + plane * features.plane, width * LANES)
        for x in range(width):
            for lane in range(LANES):
                index = plane * LANES + lane
                place = (_FIRST_FEATURE + index) * _PIECE + x
                row[x * LANES + lane] = numbers[place] if index < FEATURES else ZERO


@part
def _make_spectra(numbers: Singles, last: PackedRow, weights: SpectrumWeights, width: int) -> None:
    """Make spectra of the numbers of the *last* layer, in place; see `pixelwise.Start`."""
    limits = floats(weights.limits, len(LIMITS))
    black, highest, bend = limits[_BLACK], limits[_MOST], limits[_BEND]
    colours = floats(weights.start, 3 * last.planes * LANES)
    for plane in range(last.planes):
        spectra = floats(last.address + plane * last.plane, width * LANES)
        reds = colours[plane * LANES :]
        greens, blues = reds[last.planes * LANES :], reds[2 * last.planes * LANES :]
        for x in range(width):
            red, green, blue = numbers[x], numbers[_PIECE + x], numbers[2 * _PIECE + x]
            least, limit = numbers[3 * _PIECE + x], numbers[4 * _PIECE + x]
            of_pixel = spectra[x * LANES :]
            for lane in range(LANES):
                start = fused(greens[lane], green, reds[lane] * red)
                start = fused(blues[lane], blue, start)
                start = smaller(larger(start, least), limit * highest)
                # limit x sigmoid(y + log(share / (1 - bend x share))), the share being start /
                # limit, but without a logarithm.
                rest = exponential(-of_pixel[lane])
                of_pixel[lane] = start * limit / fused(rest, limit - bend * start, start)
        for index in range(width * LANES * weights.is_encoded):
            spectra[index] = power(spectra[index] + black, 5, 12)


def scratch_bytes(weights: SpectrumWeights) -> int:
    """Scratch memory that `estimate_spectra` and `write_sides` need."""
    planes = _FEATURE_PLANES + 2 * max(weights.hidden_planes, weights.planes)
    return row_bytes(_PIECE, planes) + _NUMBERS * _FLOAT_BYTES + _SEEN_BYTES


@part
def _multiply_layer(source: PackedRow, layer: Layer, target: PackedRow, width: int) -> None:
    """One layer of *width* pixels; compiled once for all of them, which halves the wait for it."""
    place = Target(target.address, VECTOR, target.planes, 0, 0)
    multiply_row(source, POINT, layer, place, width)


@part
def _last_layer(numbers: Singles, weights: SpectrumWeights, scratch: int, width: int) -> PackedRow:
    """The numbers of the last layer for a piece: all layers, of which two rows take turns."""
    plane = row_bytes(_PIECE, 1)
    features = PackedRow(scratch, _FEATURE_PLANES, plane)
    here = PackedRow(scratch + _FEATURE_PLANES * plane, weights.hidden_planes, plane)
    there = PackedRow(
        here.address + max(weights.hidden_planes, weights.planes) * plane, here.planes, plane
    )
    last = PackedRow(there.address, weights.planes, plane)
    _take_features(numbers, floats(weights.limits, len(LIMITS)), features, width)
    _multiply_layer(features, Layer(weights.first, weights.first_bias, 1), here, width)
    _multiply_layer(here, Layer(weights.second, weights.second_bias, 1), there, width)
    _multiply_layer(there, Layer(weights.third, weights.third_bias, 1), here, width)
    _multiply_layer(here, Layer(weights.last, weights.last_bias, 0), last, width)
    return last


# Of the pixels of a tile, 40 to 90 % have a colour that another one had before.
_SLOTS = 1 << 12
_MOST_COPIES = 8 * _PIECE
_SEEN_BYTES = 16 * _SLOTS + 8 * _PIECE + 16 * _MOST_COPIES


@part
def _slot_of(red: float, green: float, blue: float) -> np.int64:
    """The slot of a colour among those that were seen last: a hash of its bits."""
    total = np.int64(np.float32(red).view(np.int32)) * 0x9E3779B1
    total += np.int64(np.float32(green).view(np.int32)) * 0x85EBCA77
    total += np.int64(np.float32(blue).view(np.int32)) * 0xC2B2AE3D
    return (total >> 20) & (_SLOTS - 1)


@part
def _write_spectra(
    numbers: Singles, weights: SpectrumWeights, rows: int, places: Indices, channels: int
) -> None:
    """Compute the spectra of the colours in *numbers*, and put each at the address of its pixel."""
    last = _last_layer(numbers, weights, rows, len(places))
    _make_spectra(numbers, last, weights, len(places))
    for index in range(len(places)):
        unpack_row(from_pixel(last, index), PixelRow(places[index], 0, channels), 1)


@part
def _copy_spectra(copies: Indices, channels: int) -> None:
    """Copy spectra between pairs of addresses."""
    for index in range(0, len(copies), 2):
        source, target = floats(copies[index], channels), floats(copies[index + 1], channels)
        for channel in range(channels):
            target[channel] = source[channel]


@kernel
def estimate_spectra(
    photo: PhotoPlanes, weights: SpectrumWeights, out: Features, scratch: int
) -> None:
    """Compute the spectra *out* of all pixels of the *photo*, once for each colour."""
    seen = integers(scratch, 2 * _SLOTS)  # addresses of a pixel's red light and its spectrum
    places = integers(scratch + 16 * _SLOTS, _PIECE)
    copies = integers(scratch + 16 * _SLOTS + 8 * _PIECE, 2 * _MOST_COPIES)
    numbers = floats(scratch + _SEEN_BYTES, _NUMBERS)
    rows = scratch + _SEEN_BYTES + _NUMBERS * _FLOAT_BYTES
    new = copied = 0
    for index in range(_SLOTS):
        seen[2 * index] = -1
    for y in range(out.height):
        for x in range(out.width):
            here = photo.address + y * photo.row + x * _FLOAT_BYTES
            place = out.address + y * out.row + x * out.pixel
            red = floats(here, 1)[0]
            green = floats(here + photo.channel, 1)[0]
            blue = floats(here + 2 * photo.channel, 1)[0]
            slot = 2 * _slot_of(red, green, blue)
            there = seen[slot]
            if (
                there >= 0
                and floats(there, 1)[0] == red
                and floats(there + photo.channel, 1)[0] == green
                and floats(there + 2 * photo.channel, 1)[0] == blue
            ):
                copies[2 * copied], copies[2 * copied + 1] = seen[slot + 1], place
                copied += 1
            else:
                seen[slot], seen[slot + 1], places[new] = here, place, place
                numbers[new], numbers[_PIECE + new] = red, green
                numbers[2 * _PIECE + new] = blue
                new += 1
            if new == _PIECE or copied == _MOST_COPIES:
                _write_spectra(numbers, weights, rows, places[:new], out.channels)
                _copy_spectra(copies[: 2 * copied], out.channels)
                new = copied = 0
    _write_spectra(numbers, weights, rows, places[:new], out.channels)
    _copy_spectra(copies[: 2 * copied], out.channels)


@kernel
def encode_photo(photo: PhotoPlanes, black: int, out: Features) -> None:
    """Compute the encoded light *out* of a *photo*; *black* is the address of that number."""
    darkness = floats(black, 1)[0]
    for y in range(out.height):
        for channel in range(out.channels):
            light = floats(photo.address + channel * photo.channel + y * photo.row, out.width)
            place = out.address + y * out.row + channel * _FLOAT_BYTES
            step = out.pixel // _FLOAT_BYTES
            codes = floats(place, (out.width - 1) * step + 1)
            for x in range(out.width):
                codes[x * step] = power(larger(light[x], ZERO) + darkness, 5, 12)


@kernel
def decode_spectra(source: Features, black: int, out: PhotoPlanes) -> None:
    """Compute the reflectances *out* of encoded spectra; *black* is the address of that number."""
    darkness = floats(black, 1)[0]
    for y in range(source.height):
        for band in range(source.channels):
            place = source.address + y * source.row + band * _FLOAT_BYTES
            step = source.pixel // _FLOAT_BYTES
            codes = floats(place, (source.width - 1) * step + 1)
            light = floats(out.address + band * out.channel + y * out.row, source.width)
            for x in range(source.width):
                light[x] = codes[x * step]
            for x in range(source.width):
                # Codes of all light that float32 holds; the least is zero, once black is taken off.
                code = smaller(larger(light[x], np.float32(1e-9)), np.float32(1e15))
                light[x] = larger(power(code, 12, 5) - darkness, ZERO)


# Prediction intervals

SIDES = 3
"""Spectra in the last layer of a network with prediction intervals: the estimate and two sides."""

DOUBTS = 6
"""Numbers of each band: its response in three colours, factor, doubt, error of the instrument."""


class Estimates(NamedTuple):
    """Estimated spectra (B, h, w): as `PhotoPlanes`, their shape, and the address of `DOUBTS`."""

    address: int
    channel: int
    row: int
    bands: int
    height: int
    width: int
    doubts: int


@kernel
def write_sides(
    estimates: Estimates, weights: SpectrumWeights, out: PhotoPlanes, scratch: int
) -> None:
    """Write the lower spectra of *estimates*, and then the upper ones, band by band."""
    numbers = floats(scratch, _NUMBERS)
    rows = scratch + _NUMBERS * _FLOAT_BYTES
    doubts = floats(estimates.doubts, estimates.bands * DOUBTS)
    for y in range(estimates.height):
        for start in range(0, estimates.width, _PIECE):
            width = min(_PIECE, estimates.width - start)
            source = estimates.address + y * estimates.row + start * _FLOAT_BYTES
            target = out.address + y * out.row + start * _FLOAT_BYTES
            # The colours that the spectra show
            for place in range(3 * _PIECE):
                numbers[place] = ZERO
            for band in range(estimates.bands):
                spectra = floats(source + band * estimates.channel, width)
                for colour in range(3):
                    response = doubts[band * DOUBTS + colour]
                    for x in range(width):
                        place = colour * _PIECE + x
                        numbers[place] = fused(spectra[x], response, numbers[place])
            last = _last_layer(numbers, weights, rows, width)
            spectrum = PackedRow(last.address, weights.planes // SIDES, last.plane)
            _make_spectra(numbers, spectrum, weights, width)
            side = spectrum.planes * spectrum.plane
            for band in range(estimates.bands):
                place = band // LANES * spectrum.plane + band % LANES * _FLOAT_BYTES
                _widen(
                    floats(source + band * estimates.channel, width),
                    doubts[band * DOUBTS :],
                    PackedRow(last.address + place, SIDES, side),
                    floats(target + band * out.channel, width),
                    floats(target + (estimates.bands + band) * out.channel, width),
                )


@part
def _widen(
    spectra: Singles, doubts: Singles, estimate: PackedRow, lower: Singles, upper: Singles
) -> None:
    """Write both sides of a band of *spectra*, by its *doubts*. See `PixelwiseNetwork.quantiles`.

    The planes of the *estimate* are the band in the network's own spectra, and its two margins.
    """
    count = (len(spectra) - 1) * LANES + 1
    first, plane = estimate.address, estimate.plane
    middle = floats(first, count)
    below, above = floats(first + plane, count), floats(first + 2 * plane, count)
    factor, doubt, error = doubts[3], doubts[4], doubts[5]
    for x in range(len(spectra)):
        own, margin = spectra[x], factor * middle[x * LANES]
        doubted = doubt * own * (doubt * own)
        down = margin / (ONE + exponential(below[x * LANES]))
        up = margin * logarithm(ONE + exponential(above[x * LANES]))
        lower[x] = larger(own - (math.sqrt(fused(down, down, doubted)) + error), ZERO)
        upper[x] = own + (math.sqrt(fused(up, up, doubted)) + error)
