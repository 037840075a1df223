"""Light as sRGB values, and back: IEC 61966-2-1, as in `colour.linear_to_srgb`."""

from fractions import Fraction
from typing import NamedTuple

from napari_mst.engine.kernels.emitter import Emitter, emitted
from napari_mst.engine.kernels.powers import power
from napari_mst.engine.kernels.processor import LANES, kernel

_FLOAT_BYTES = 4
_LEAST_POWER = 1e-6  # far below where the curve of sRGB becomes a straight line


class Light(NamedTuple):
    """Numbers side by side: the addresses of the first that is read and written, and how many."""

    source: int
    target: int
    numbers: int


@emitted
def _encode(e: Emitter, light: Light) -> None:
    """Write a vector of light, 0 to 1, in sRGB codes, 0 to 255; see `colour.linear_to_srgb`."""
    lanes = e.lanes_left(light.numbers, e.integer(0))
    value = e.limited(e.load_some(light.source, lanes), 0, 1)
    curve = power(e, e.larger(value, e.constant(_LEAST_POWER)), Fraction(5, 12))
    curve = e.multiply_add(curve, e.constant(1.055 * 255), e.constant(-0.055 * 255))
    straight = e.builder.fmul(value, e.constant(12.92 * 255))
    is_dark = e.builder.fcmp_ordered("<=", value, e.constant(0.0031308))
    e.store_some(e.builder.select(is_dark, straight, curve), light.target, lanes)


@kernel
def encode_light(light: Light) -> None:
    """Compute the sRGB codes, 0 to 255, of linear *light*."""
    for start in range(0, light.numbers, LANES):
        shift = start * _FLOAT_BYTES
        _encode(Light(light.source + shift, light.target + shift, light.numbers - start))


@emitted
def _decode(e: Emitter, light: Light) -> None:
    """Write a vector of light whose sRGB values, 0 to 1, are given; see `colour.srgb_to_linear`."""
    lanes = e.lanes_left(light.numbers, e.integer(0))
    value = e.load_some(light.source, lanes)
    base = e.builder.fdiv(e.builder.fadd(value, e.constant(0.055)), e.constant(1.055))
    curve = power(e, e.larger(base, e.constant(_LEAST_POWER)), Fraction(12, 5))
    straight = e.builder.fdiv(value, e.constant(12.92))
    is_dark = e.builder.fcmp_ordered("<=", value, e.constant(0.04045))
    e.store_some(e.builder.select(is_dark, straight, curve), light.target, lanes)


@kernel
def decode_light(light: Light) -> None:
    """Compute linear light from sRGB values, 0 to 1."""
    for start in range(0, light.numbers, LANES):
        shift = start * _FLOAT_BYTES
        _decode(Light(light.source + shift, light.target + shift, light.numbers - start))
