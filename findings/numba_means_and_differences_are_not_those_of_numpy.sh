#!/bin/bash
# One would guess: a function of NumPy calls gives the same numbers, but for the last digits, with numba's njit and without.
# What happens: (1) mean and sum of float32 are added one by one in float32, where NumPy adds in pairs: the mean of a grey image of
# 20 megapixels is 5 % off, and from 2**24 ones on the sum stays where it is. (2) Scalars of 8 bits become 64: where NumPy gives a
# difference of two uint8 pixels modulo 256, numba gives it modulo 2**64, and their sum is 300, not 44. Neither is said.
# Seen with numba 0.68.1, numpy 2.4.6:
#   mean of 20,000,000 x 0.1 in float32: NumPy 0.1000, numba 0.1049
#   sum of 20,000,000 ones in float32: NumPy 20000000, numba 16777216
#   uint8 200 + 100: NumPy 44, numba 300
#   uint8 100 - 200: NumPy 156, numba 18446744073709551516
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q numba==0.68.1 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import warnings

import numba
import numpy as np

warnings.simplefilter("ignore")  # NumPy says that 44 has overflowed


@numba.njit
def mean(values):
    return values.mean()


@numba.njit
def total(values):
    return values.sum()


@numba.njit
def added(pixels):
    return pixels[0] + pixels[1]


@numba.njit
def subtracted(pixels):
    return pixels[0] - pixels[1]


grey, ones = np.full(20_000_000, 0.1, np.float32), np.ones(20_000_000, np.float32)
print(f"mean of 20,000,000 x 0.1 in float32: NumPy {mean.py_func(grey):.4f}, numba {mean(grey):.4f}")
print(f"sum of 20,000,000 ones in float32: NumPy {total.py_func(ones):.0f}, numba {total(ones):.0f}")
pixels = np.array([200, 100], np.uint8)
print(f"uint8 200 + 100: NumPy {added.py_func(pixels)}, numba {added(pixels)}")
pixels = pixels[::-1].copy()
print(f"uint8 100 - 200: NumPy {subtracted.py_func(pixels)}, numba {subtracted(pixels)}")
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
mean of 20,000,000 x 0.1 in float32: NumPy 0.1000, numba 0.1049
sum of 20,000,000 ones in float32: NumPy 20000000, numba 16777216
uint8 200 + 100: NumPy 44, numba 300
uint8 100 - 200: NumPy 156, numba 18446744073709551516
END
diff expected seen
