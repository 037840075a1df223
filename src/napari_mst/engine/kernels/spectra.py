"""Networks that see one pixel at a time: from linear RGB to its spectrum; and encoded spectra back.

One of them also knows both sides of an error band; `reconstruction.error_bands` says how.

Pixels lie in the lanes of a vector where a step has a few numbers for each of them, and channels
where it has many. A row is computed in short pieces, whose layers stay in the fastest cache.
"""

from fractions import Fraction
from typing import NamedTuple

from napari_mst.engine.kernels.caching import part
from napari_mst.engine.kernels.emitter import FLOAT, Emitter, Value, emitted
from napari_mst.engine.kernels.powers import exponential, logarithm, power
from napari_mst.engine.kernels.processor import LANES, PIXELS, VECTOR, kernel
from napari_mst.engine.kernels.products import POINT, Layer, Target, multiply_row
from napari_mst.engine.kernels.rows import Features, PackedRow, PixelRow, clear_row, row_bytes

ENCODING = Fraction(5, 12)
"""The power that encodes light; its inverse decodes."""

FEATURES = 9
"""Numbers that the first layer takes of each pixel."""

_FLOAT_BYTES = 4
_PIECE = 8 * PIXELS
"""Pixels of a row that go through all layers together."""

_FEATURE_PLANES = -(-FEATURES // LANES)

FEATURE_CHANNELS = _FEATURE_PLANES * LANES
"""Channels that the weights of the first layer are filled up to."""


class Planes(NamedTuple):
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
        Vectors of a pixel in the hidden layers, and of its spectrum.
    first, second, third, last
        The weights of the layers.
    first_bias, second_bias, third_bias, last_bias
        What they add.
    start
        The matrix of the spectra to start from: `planes` vectors for each colour.
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

_LIGHT = 5
"""Numbers of a pixel that its spectrum is made from: its colours, its least light and its limit."""

_LIGHT_BYTES = _PIECE * _FLOAT_BYTES + VECTOR
"""Bytes from one of them to the next."""


class _PixelVector(NamedTuple):
    """A vector of pixels of a photo, and the places where its features and its light go."""

    photo: Planes
    pixels: int
    limits: int
    target: PackedRow
    light: int


@emitted
def _take_features(e: Emitter, colours: _PixelVector) -> None:
    """Write the features and the light of a vector of pixels; see `colour_features`."""
    photo, pixels, limits, target, light = colours
    builder = e.builder
    lanes = e.lanes_left(pixels, e.integer(0))
    darkest, offset, limit = (_limit(e, limits, name) for name in ("darkest", "offset", "limit"))
    channels = [e.load_some(e.along(photo.address, i, photo.channel), lanes) for i in range(3)]
    channels = [e.larger(channel, darkest) for channel in channels]
    total = builder.fadd(builder.fadd(channels[0], channels[1]), channels[2])
    of_total = builder.fdiv(e.constant(3), builder.fadd(total, offset))
    minus_one = e.constant(-1)
    features = [e.multiply_add(channel, of_total, minus_one) for channel in channels]
    for index in range(3):
        product = builder.fmul(channels[index], channels[index - 1])
        features.append(e.multiply_add(e.root(product), of_total, minus_one))
    for channel in channels:
        code = power(e, e.smaller(channel, e.constant(1)), ENCODING)
        features.append(e.multiply_add(code, e.constant(2), minus_one))
    for index, feature in enumerate(features):
        plane = e.along(target.address, index // LANES, target.plane)
        e.scatter(feature, e.at(plane, index % LANES * _FLOAT_BYTES), VECTOR)
    brightest = e.larger(e.larger(e.larger(channels[0], channels[1]), channels[2]), e.constant(1))
    least = e.multiply_add(total, _limit(e, limits, "slope"), _limit(e, limits, "least"))
    for index, value in enumerate([*channels, least, builder.fmul(limit, brightest)]):
        e.store(value, e.at(light, index * _LIGHT_BYTES))


@emitted
def _bound(
    e: Emitter, row: PackedRow, light: int, target: PixelRow, weights: SpectrumWeights
) -> None:
    """Write the spectrum of a pixel from its last layer, its light and its start.

    See `pixelwise.Start`.
    """
    limits = weights.limits
    builder = e.builder
    *colours, least, limit = (
        e.splat(e.load(e.at(light, index * _LIGHT_BYTES), FLOAT)) for index in range(_LIGHT)
    )
    most = builder.fmul(limit, _limit(e, limits, "most"))
    bend = builder.fsub(e.constant(0), _limit(e, limits, "bend"))
    black = _limit(e, limits, "black")
    with e.loop(row.planes) as loop:
        estimate = e.load(e.along(row.address, loop.index, row.plane))
        first: Value = e.constant(0)
        for index, colour in enumerate(colours):
            plane = builder.add(loop.index, builder.mul(row.planes, e.integer(index)))
            first = e.multiply_add(e.load(e.along(weights.start, plane, VECTOR)), colour, first)
        first = e.smaller(e.larger(first, least), most)
        share = builder.fdiv(first, limit)
        # limit x sigmoid(estimate + log(share / (1 - bend x share))), but without a logarithm.
        negative = exponential(e, builder.fsub(e.constant(0), estimate))
        others = e.multiply_add(bend, share, e.constant(1))
        result = builder.fdiv(first, e.multiply_add(negative, others, share))
        spectrum_of = e.variable(result)
        with e.when(weights.is_encoded):
            e.put(power(e, builder.fadd(result, black), ENCODING), spectrum_of)
        lanes = e.lanes_left(target.channels, loop.index)
        e.store_some(e.value(spectrum_of), e.along(target.address, loop.index, VECTOR), lanes)


@emitted
def _decode(e: Emitter, pixel: PixelRow, out: Planes, planes: int, limits: int) -> None:
    """Write the reflectance of a pixel, band by band."""
    builder = e.builder
    black = _limit(e, limits, "black")
    zero = e.constant(0)
    with e.loop(planes) as loop:
        lanes = e.lanes_left(pixel.channels, loop.index)
        code = e.load_some(e.along(pixel.address, loop.index, VECTOR), lanes)
        # Codes of all light that float32 holds; the least is zero, once black is taken off.
        light = power(e, e.limited(code, 1e-9, 1e15), 1 / ENCODING)
        result = e.larger(builder.fsub(light, black), zero)
        first = e.along(out.address, builder.mul(loop.index, e.integer(LANES)), out.channel)
        e.scatter(result, first, out.channel)


def _limit(e: Emitter, limits: Value, name: str) -> Value:
    return e.splat(e.load(e.at(limits, LIMITS.index(name) * _FLOAT_BYTES), FLOAT))


def scratch_bytes(weights: SpectrumWeights) -> int:
    """Scratch memory that `estimate_spectra` needs."""
    vectors = _FEATURE_PLANES + 2 * max(weights.hidden_planes, weights.planes)
    return row_bytes(_PIECE, vectors) + _LIGHT * _LIGHT_BYTES


@part
def _multiply_layer(source: PackedRow, layer: Layer, target: PackedRow, width: int) -> None:
    """One layer of *width* pixels; compiled once for all of them, which halves the wait for it."""
    place = Target(target.address, VECTOR, target.planes, 0, 0)
    multiply_row(source, POINT, layer, place, width)


@part
def _estimate(features: PackedRow, weights: SpectrumWeights, scratch: int, width: int) -> PackedRow:
    """The estimate of *width* pixels: all layers, of which two rows take turns."""
    plane = features.plane
    here = PackedRow(scratch, weights.hidden_planes, plane)
    there = PackedRow(
        scratch + max(weights.hidden_planes, weights.planes) * plane, here.planes, plane
    )
    last = PackedRow(there.address, weights.planes, plane)
    _multiply_layer(features, Layer(weights.first, weights.first_bias, 1), here, width)
    _multiply_layer(here, Layer(weights.second, weights.second_bias, 1), there, width)
    _multiply_layer(there, Layer(weights.third, weights.third_bias, 1), here, width)
    _multiply_layer(here, Layer(weights.last, weights.last_bias, 0), last, width)
    return last


@kernel
def estimate_spectra(photo: Planes, weights: SpectrumWeights, out: Features, scratch: int) -> None:
    """Compute the spectra *out* of all pixels of the *photo*."""
    plane = row_bytes(_PIECE, 1)
    features = PackedRow(scratch, _FEATURE_PLANES, plane)
    light = scratch + _FEATURE_PLANES * plane
    layers = light + _LIGHT * _LIGHT_BYTES
    for y in range(out.height):
        for start in range(0, out.width, _PIECE):
            width = min(_PIECE, out.width - start)
            clear_row(features, 0, width)
            for x in range(0, width, LANES):
                place = photo.address + y * photo.row + (start + x) * _FLOAT_BYTES
                vector = Planes(place, photo.channel, photo.row)
                target = PackedRow(features.address + x * VECTOR, features.planes, plane)
                place = light + x * _FLOAT_BYTES
                _take_features(_PixelVector(vector, width - x, weights.limits, target, place))
            last = _estimate(features, weights, layers, width)
            pixel = out.address + y * out.row + start * out.pixel
            for x in range(width):
                row = PackedRow(last.address + x * VECTOR, last.planes, plane)
                spectrum = PixelRow(pixel + x * out.pixel, out.pixel, out.channels)
                _bound(row, light + x * _FLOAT_BYTES, spectrum, weights)


@kernel
def decode_spectra(source: Features, limits: int, planes: int, out: Planes) -> None:
    """Compute the reflectances *out*, of whole *planes* of vectors, of encoded spectra."""
    for y in range(source.height):
        for x in range(source.width):
            address = source.address + y * source.row + x * source.pixel
            pixel = PixelRow(address, source.pixel, source.channels)
            place = out.address + y * out.row + x * _FLOAT_BYTES
            _decode(pixel, Planes(place, out.channel, out.row), planes, limits)


# Error bands

SIDES = 3
"""Spectra in the last layer of a network that knows error bands: its estimate, and two sides."""

DOUBTS = 6
"""Numbers of each band: its response in three colours, factor, doubt, error of the instrument."""

_BAND = _PIECE * _FLOAT_BYTES + VECTOR
"""Bytes from one band, or colour, of a piece of a row to the next."""


class Estimates(NamedTuple):
    """Estimated spectra (B, h, w): as `Planes`, their shape, and the address of `DOUBTS`."""

    address: int
    channel: int
    row: int
    bands: int
    height: int
    width: int
    doubts: int


class _SpectrumVector(NamedTuple):
    """A vector of spectra, of which so many pixels are *left*, and where two things about it go."""

    spectra: int
    left: int
    scratch: int
    out: int


@emitted
def _show(e: Emitter, estimates: Estimates, pixels: _SpectrumVector) -> None:
    """Write the three colours that a vector of spectra shows to its scratch memory."""
    sums = e.variables(3, e.constant(0))
    lanes = e.lanes_left(pixels.left, e.integer(0))
    with e.loop(estimates.bands) as loop:
        place = e.along(pixels.spectra, loop.index, estimates.channel)
        value = e.load_some(place, lanes)
        for colour, total in enumerate(sums):
            response = _doubt(e, estimates, loop.index, colour)
            e.put(e.multiply_add(value, response, e.value(total)), total)
    for colour, total in enumerate(sums):
        e.store(e.value(total), e.at(pixels.scratch, colour * _BAND))


@emitted
def _spread(e: Emitter, row: PackedRow, estimate: int, margins: int) -> None:
    """Write how far both sides of a pixel are from its *estimate*, by its *row* of the last layer.

    See `PixelwiseNetwork.quantiles`.
    """
    builder, one = e.builder, e.constant(1)
    side = builder.mul(row.planes, e.integer(LANES * _BAND))
    with e.loop(row.planes) as loop:
        spectrum = e.load(e.along(estimate, loop.index, VECTOR))
        of_below = e.along(row.address, builder.add(loop.index, row.planes), row.plane)
        of_above = builder.add(of_below, builder.mul(row.planes, row.plane))
        below, above = (
            builder.fadd(one, exponential(e, e.load(each))) for each in (of_below, of_above)
        )
        first = e.along(margins, loop.index, LANES * _BAND)
        e.scatter(builder.fdiv(spectrum, below), first, _BAND)
        rise = builder.fmul(spectrum, logarithm(e, above))
        e.scatter(rise, builder.add(first, side), _BAND)


@emitted
def _widen(
    e: Emitter, estimates: Estimates, pixels: _SpectrumVector, planes: int, channel: int
) -> None:
    """Write both sides of a vector of spectra from its margins, which are in scratch memory."""
    builder = e.builder
    lanes = e.lanes_left(pixels.left, e.integer(0))
    side = builder.mul(planes, e.integer(LANES * _BAND))
    upper = builder.add(pixels.out, builder.mul(estimates.bands, channel))
    with e.loop(estimates.bands) as loop:
        place = e.along(pixels.spectra, loop.index, estimates.channel)
        value = e.load_some(place, lanes)
        factor, doubt, error = (_doubt(e, estimates, loop.index, index) for index in (3, 4, 5))
        doubted = builder.fmul(doubt, value)
        doubted = builder.fmul(doubted, doubted)
        below = e.along(pixels.scratch, loop.index, _BAND)
        distances = []
        for margin in (below, builder.add(below, side)):
            distance = builder.fmul(factor, e.load(margin))
            square = e.multiply_add(distance, distance, doubted)
            distances.append(builder.fadd(e.root(square), error))
        lower = e.larger(builder.fsub(value, distances[0]), e.constant(0))
        e.store_some(lower, e.along(pixels.out, loop.index, channel), lanes)
        higher = builder.fadd(value, distances[1])
        e.store_some(higher, e.along(upper, loop.index, channel), lanes)


def _doubt(e: Emitter, estimates: Estimates, band: Value, index: int) -> Value:
    numbers = e.along(estimates.doubts, band, DOUBTS * _FLOAT_BYTES)
    return e.splat(e.load(e.at(numbers, index * _FLOAT_BYTES), FLOAT))


def sides_bytes(weights: SpectrumWeights) -> int:
    """Scratch memory that `write_sides` needs."""
    return scratch_bytes(weights) + weights.planes * (LANES * _BAND + VECTOR)


@kernel
def write_sides(estimates: Estimates, weights: SpectrumWeights, out: Planes, scratch: int) -> None:
    """Write the lower spectra of *estimates*, and then the upper ones, band by band."""
    plane = row_bytes(_PIECE, 1)
    planes = weights.planes // SIDES
    features = PackedRow(scratch, _FEATURE_PLANES, plane)
    light = scratch + _FEATURE_PLANES * plane
    estimate = light + _LIGHT * _LIGHT_BYTES
    margins = estimate + planes * VECTOR
    layers = margins + 2 * planes * LANES * _BAND
    for y in range(estimates.height):
        for start in range(0, estimates.width, _PIECE):
            width = min(_PIECE, estimates.width - start)
            clear_row(features, 0, width)
            first = start * _FLOAT_BYTES
            source = estimates.address + y * estimates.row + first
            target = out.address + y * out.row + first
            for x in range(0, width, LANES):
                shift = x * _FLOAT_BYTES
                # The margins, which come later, have the place of the colours.
                colours = margins + shift
                _show(estimates, _SpectrumVector(source + shift, width - x, colours, 0))
                row = PackedRow(features.address + x * VECTOR, features.planes, plane)
                vector = Planes(colours, _BAND, 0)
                _take_features(_PixelVector(vector, width - x, weights.limits, row, light + shift))
            last = _estimate(features, weights, layers, width)
            for x in range(width):
                row = PackedRow(last.address + x * VECTOR, planes, plane)
                spectrum = PixelRow(estimate, 0, planes * LANES)
                _bound(row, light + x * _FLOAT_BYTES, spectrum, weights)
                _spread(row, estimate, margins + x * _FLOAT_BYTES)
            for x in range(0, width, LANES):
                shift = x * _FLOAT_BYTES
                place = _SpectrumVector(source + shift, width - x, margins + shift, target + shift)
                _widen(estimates, place, planes, out.channel)
