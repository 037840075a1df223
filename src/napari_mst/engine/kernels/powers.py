"""Exponentials and powers, to about one rounding of float32; light as sRGB, and back.

Both are sums of the usual series, on arguments so small that a few terms are enough. They have no
branches, so that LLVM makes vector instructions of loops that call them. NaN stays NaN. sRGB
follows IEC 61966-2-1, as in `colour.linear_to_srgb`.
"""

import math

import numpy as np

from napari_mst.engine.kernels.caching import inlined, kernel
from napari_mst.engine.kernels.emitter import LLVMNumber, floats, fused

ZERO, ONE = np.float32(0), np.float32(1)

# 0.3466 ** 8 / 8! is 5e-9, which float32 does not see.
_EXPONENTIAL = tuple(np.float32(1 / math.factorial(power)) for power in reversed(range(8)))
"""The series of e^x, for |x| below ln(2) / 2; the highest power comes first."""

# |s| is below 0.172 there, and s ** 10 / 11 is 2e-9.
_LOGARITHM = tuple(np.float32(2 / math.log(2) / power) for power in (9, 7, 5, 3, 1))
"""The series of log2(m) / s in s squared, s being (m - 1) / (m + 1), for m around 1."""

_MANTISSA_BITS = 23
_ONE_BITS = 0x3F800000  # 1.0
_ROOT_HALF_BITS = 0x3F3504F3  # the root of 1/2: mantissas are from there to its double
_LARGEST = np.float32(87)  # e to this, and to less than its negative, is within float32

# Numbers below 2^22 that are added to it are rounded to whole ones, which are its last bits.
_ROUNDING = np.float32(1.5 * 2**_MANTISSA_BITS)
_ROUNDING_BITS = int(_ROUNDING.view(np.int32))

# ln(2) in two parts, so that n ln(2) is exact enough for every n; the first has 9 bits of zeros.
_LN2 = np.float32(math.log(2))
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(math.log(2) - 0.693359375)
_PER_LN2 = np.float32(1 / math.log(2))


@inlined
def larger(value: LLVMNumber, least: LLVMNumber) -> LLVMNumber:
    """*value*, or *least* where that is larger; NaN stays NaN."""
    return least if value < least else value


@inlined
def smaller(value: LLVMNumber, most: LLVMNumber) -> LLVMNumber:
    """*value*, or *most* where that is smaller; NaN stays NaN."""
    return most if value > most else value


@inlined
def exponential(value: LLVMNumber) -> LLVMNumber:
    """e^*value*, which stays within the range of float32."""
    value = smaller(larger(value, -_LARGEST), _LARGEST)
    shifted = fused(value, _PER_LN2, _ROUNDING)
    whole = shifted - _ROUNDING
    rest = fused(whole, -_LN2_LOW, fused(whole, -_LN2_HIGH, value))
    return _series(_EXPONENTIAL, rest) * _power_of_2(shifted)


@inlined
def power(value: LLVMNumber, numerator: int, denominator: int) -> LLVMNumber:
    """*value*, which is positive, to the power of a fraction."""
    whole_log2, mantissa_log2 = _log2(value)
    parts = np.float32(denominator)
    # The whole part of the exponent is split off exactly, so that nothing of the small rest is
    # lost: numerator x whole_log2 is a whole number that float32 holds.
    product = whole_log2 * np.float32(numerator)
    whole = _rounded(product / parts)
    rest = fused(whole, -parts, product) / parts
    rest = fused(mantissa_log2, np.float32(numerator) / parts, rest)
    more = _rounded(rest)
    result = _series(_EXPONENTIAL, (rest - more) * _LN2) * _power_of_2(whole + more + _ROUNDING)
    return result if value == value else value


@inlined
def logarithm(value: LLVMNumber) -> LLVMNumber:
    """The natural logarithm of *value*, which is positive."""
    whole, rest = _log2(value)
    return (whole + rest) * _LN2


@inlined
def _log2(value: LLVMNumber) -> tuple[LLVMNumber, LLVMNumber]:
    """A whole number n, and log2(m) of a mantissa m around 1: *value* is 2^n m."""
    bits = np.float32(value).view(np.int32)
    whole = np.int32(bits - _ROOT_HALF_BITS) >> _MANTISSA_BITS
    mantissa = np.int32(bits - (whole << _MANTISSA_BITS)).view(np.float32)
    s = (mantissa - ONE) / (mantissa + ONE)
    return np.float32(whole), _series(_LOGARITHM, s * s) * s


@inlined
def _series(coefficients: tuple[LLVMNumber, ...], x: LLVMNumber) -> LLVMNumber:
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = fused(total, x, coefficient)
    return total


@inlined
def _rounded(value: LLVMNumber) -> LLVMNumber:
    return value + _ROUNDING - _ROUNDING


@inlined
def _power_of_2(shifted: LLVMNumber) -> LLVMNumber:
    """2 to a whole number, to which `_ROUNDING` was added, by its bits."""
    whole = np.float32(shifted).view(np.int32) - _ROUNDING_BITS
    return np.int32((whole << _MANTISSA_BITS) + _ONE_BITS).view(np.float32)


@kernel
def encode_light(source: int, target: int, numbers: int) -> None:
    """Compute the sRGB codes, 0 to 255, of *numbers* of linear light that lie side by side."""
    light, codes = floats(source, numbers), floats(target, numbers)
    for place in range(numbers):
        value = smaller(larger(light[place], ZERO), ONE)
        # The straight line takes over far above this.
        curve = power(larger(value, np.float32(1e-6)), 5, 12)
        curve = fused(curve, np.float32(1.055 * 255), np.float32(-0.055 * 255))
        straight = value * np.float32(12.92 * 255)
        codes[place] = straight if value <= np.float32(0.0031308) else curve


@kernel
def decode_light(source: int, target: int, numbers: int) -> None:
    """Compute linear light from *numbers* of sRGB, 0 to 1, that lie side by side."""
    codes, light = floats(source, numbers), floats(target, numbers)
    for place in range(numbers):
        value = codes[place]
        base = (value + np.float32(0.055)) / np.float32(1.055)
        curve = power(larger(base, np.float32(1e-6)), 12, 5)
        straight = value / np.float32(12.92)
        light[place] = straight if value <= np.float32(0.04045) else curve
