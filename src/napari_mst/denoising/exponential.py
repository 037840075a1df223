"""The exponential function, of operations that NumPy and compiled code do alike, bit for bit.

With x = n ln 2 + r and |r| <= ln(2) / 2, exp(x) is 2^n exp(r), and exp(r) is its Taylor polynomial.
Cody & Waite, Software Manual for the Elementary Functions (1980), chapter 6.
"""

from typing import Any

import numpy as np

LEAST = -700.0
"""The least argument. Below it results would be denormal, which is slow, and weigh nothing."""

_LOG2_E = 1.4426950408889634

# Both add up to ln 2. The product of n and the first has no rounding error.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10

# 1.5 x 2^52: a float64 that it is added to loses its fraction, and its lowest bits are then n.
_TO_WHOLE = 6755399441055744.0
_EXPONENT_BIT = 52


def exponential(x: Any) -> Any:
    """exp(x) of float64 numbers or an array, `LEAST` <= x <= 0, to 2e-16 of the result.

    There is no branch, so that a compiler takes several numbers at a time.
    """
    shifted = x * _LOG2_E + _TO_WHOLE
    n = shifted - _TO_WHOLE
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = r * (1 / 6227020800) + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 1 / 2
    p = p * r + 1
    p = p * r + 1
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << _EXPONENT_BIT)
    return np.int64(bits).view(np.float64)
