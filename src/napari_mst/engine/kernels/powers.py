"""Exponentials and powers of vectors, to about one rounding of float32; light as sRGB, and back.

Both are sums of the usual series, on arguments so small that a few terms are enough. A vector of
NaN stays NaN. sRGB is that of IEC 61966-2-1, as in `colour.linear_to_srgb`.
"""

import math
from fractions import Fraction

import numpy as np
from llvmlite import ir

from napari_mst.engine.kernels.emitter import FLOATS, Emitter, Value, emitted
from napari_mst.engine.kernels.processor import LANES, kernel

_FLOAT_BYTES = 4
_LEAST_POWER = 1e-6  # far below where the curve of sRGB becomes a straight line
_INTS = ir.VectorType(ir.IntType(32), LANES)

# 0.3466 ** 8 / 8! is 5e-9, which float32 does not see.
_EXPONENTIAL = [1 / math.factorial(power) for power in range(8)]
"""The series of e^x, for |x| below ln(2) / 2."""

# |s| is below 0.172 there, and s ** 10 / 11 is 2e-9.
_LOGARITHM = [2 / math.log(2) / power for power in range(1, 11, 2)]
"""The series of log2(m) / s in s squared, s being (m - 1) / (m + 1), for m around 1."""

_MANTISSA_BITS = 23
_ONE = 0x3F800000  # 1.0 as bits
_ROOT_HALF = 0x3F3504F3  # the root of 1/2 as bits: mantissas are from there to its double
_LARGEST = 87.0  # e to this, and to less than its negative, is within float32

# ln(2) in two parts, so that n ln(2) is exact enough for every n; the first has 9 bits of zeros.
_LN2_HIGH = float(np.float32(0.693359375))
_LN2_LOW = math.log(2) - _LN2_HIGH


def exponential(e: Emitter, value: Value) -> Value:
    """e^*value*, which stays within the range of float32."""
    builder = e.builder
    value = e.limited(value, -_LARGEST, _LARGEST)
    whole = _rounded(e, builder.fmul(value, e.constant(1 / math.log(2))))
    rest = e.multiply_add(whole, e.constant(-_LN2_HIGH), value)
    rest = e.multiply_add(whole, e.constant(-_LN2_LOW), rest)
    return builder.fmul(_series(e, _EXPONENTIAL, rest), _power_of_2(e, whole))


def power(e: Emitter, value: Value, exponent: Fraction) -> Value:
    """*value*, which is positive, to the power of *exponent*."""
    builder = e.builder
    shifted, mantissa = _parts(e, value)
    # The whole part of exponent x log2(value) is split off exactly, so that nothing of the small
    # rest is lost: numerator x shifted is a whole number that float32 holds.
    times = builder.mul(shifted, _ints(exponent.numerator))
    product = builder.sitofp(times, FLOATS)
    whole = _rounded(e, builder.fmul(product, e.constant(1 / exponent.denominator)))
    rest = e.multiply_add(whole, e.constant(-exponent.denominator), product)
    rest = builder.fmul(rest, e.constant(1 / exponent.denominator))
    rest = e.multiply_add(_log2(e, mantissa), e.constant(float(exponent)), rest)
    more = _rounded(e, rest)
    small = builder.fmul(builder.fsub(rest, more), e.constant(math.log(2)))
    result = builder.fmul(
        _series(e, _EXPONENTIAL, small), _power_of_2(e, builder.fadd(whole, more))
    )
    is_number = builder.fcmp_ordered("ord", value, value)
    return builder.select(is_number, result, value)


def logarithm(e: Emitter, value: Value) -> Value:
    """The natural logarithm of *value*, which is positive."""
    shifted, mantissa = _parts(e, value)
    log2 = e.builder.fadd(e.builder.sitofp(shifted, FLOATS), _log2(e, mantissa))
    return e.builder.fmul(log2, e.constant(math.log(2)))


def _parts(e: Emitter, value: Value) -> tuple[Value, Value]:
    """A whole number n and a mantissa around 1: *value* is 2^n times the mantissa."""
    builder = e.builder
    bits = builder.bitcast(value, _INTS)
    shifted = builder.ashr(builder.sub(bits, _ints(_ROOT_HALF)), _ints(_MANTISSA_BITS))
    moved = builder.shl(shifted, _ints(_MANTISSA_BITS))
    return shifted, builder.bitcast(builder.sub(bits, moved), FLOATS)


def _log2(e: Emitter, mantissa: Value) -> Value:
    """The logarithm of base 2 of a *mantissa* around 1, as that of (1 + s) / (1 - s)."""
    builder, one = e.builder, e.constant(1)
    s = builder.fdiv(builder.fsub(mantissa, one), builder.fadd(mantissa, one))
    return builder.fmul(_series(e, _LOGARITHM, builder.fmul(s, s)), s)


def _series(e: Emitter, coefficients: list[float], x: Value) -> Value:
    total = e.constant(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = e.multiply_add(total, x, e.constant(coefficient))
    return total


def _rounded(e: Emitter, value: Value) -> Value:
    return e.call(f"llvm.rint.v{LANES}f32", FLOATS, value)


def _power_of_2(e: Emitter, whole: Value) -> Value:
    """2 to a *whole* number, by its bits."""
    builder = e.builder
    bits = builder.shl(builder.fptosi(whole, _INTS), _ints(_MANTISSA_BITS))
    return builder.bitcast(builder.add(bits, _ints(_ONE)), FLOATS)


def _ints(value: int) -> Value:
    return ir.Constant(_INTS, [value] * LANES)


@emitted
def _encode(e: Emitter, source: int, target: int, numbers: int) -> None:
    """Write a vector of light, 0 to 1, in sRGB codes, 0 to 255; see `colour.linear_to_srgb`."""
    lanes = e.lanes_left(numbers, e.integer(0))
    value = e.limited(e.load_some(source, lanes), 0, 1)
    curve = power(e, e.larger(value, e.constant(_LEAST_POWER)), Fraction(5, 12))
    curve = e.multiply_add(curve, e.constant(1.055 * 255), e.constant(-0.055 * 255))
    straight = e.builder.fmul(value, e.constant(12.92 * 255))
    is_dark = e.builder.fcmp_ordered("<=", value, e.constant(0.0031308))
    e.store_some(e.builder.select(is_dark, straight, curve), target, lanes)


@kernel
def encode_light(source: int, target: int, numbers: int) -> None:
    """Compute the sRGB codes, 0 to 255, of *numbers* of linear light that lie side by side."""
    for start in range(0, numbers, LANES):
        shift = start * _FLOAT_BYTES
        _encode(source + shift, target + shift, numbers - start)


@emitted
def _decode(e: Emitter, source: int, target: int, numbers: int) -> None:
    """Write a vector of light whose sRGB values, 0 to 1, are given; see `colour.srgb_to_linear`."""
    lanes = e.lanes_left(numbers, e.integer(0))
    value = e.load_some(source, lanes)
    base = e.builder.fdiv(e.builder.fadd(value, e.constant(0.055)), e.constant(1.055))
    curve = power(e, e.larger(base, e.constant(_LEAST_POWER)), Fraction(12, 5))
    straight = e.builder.fdiv(value, e.constant(12.92))
    is_dark = e.builder.fcmp_ordered("<=", value, e.constant(0.04045))
    e.store_some(e.builder.select(is_dark, straight, curve), target, lanes)


@kernel
def decode_light(source: int, target: int, numbers: int) -> None:
    """Compute linear light from *numbers* of sRGB, 0 to 1, that lie side by side."""
    for start in range(0, numbers, LANES):
        shift = start * _FLOAT_BYTES
        _decode(source + shift, target + shift, numbers - start)
