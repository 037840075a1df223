#!/bin/bash
# One would guess: the order in which a cube lists its bands says nothing about its spectra: spectral resamples a cube of bands
# from red to blue to the numbers that it gives for the same bands from blue to red.
# What happens: BandResampler takes widths that are not given from the differences of the wavelengths, which are negative here,
# and looks for the bands that overlap from the first one on as if they rose. So no band overlaps another, and every number is
# NaN; a line for each band goes to a log that is not shown by default. It is enough that the bands of one of the two instruments
# fall; widths help where it is the target. (The continuum of falling wavelengths is no hull either: its docstring asks for
# rising ones, and nothing checks it.)
# Seen with spectral 0.25:
#   rising: 0.15; falling source: nan, with its widths: nan; falling target: nan, with its widths: 0.15
#   largest value over the continuum, rising: 1.0, falling: 1.4
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q spectral==0.25 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import logging

import numpy as np
import spectral
from spectral.algorithms.continuum import remove_continuum

logging.disable(logging.INFO)
wide, narrow = np.arange(400.0, 701, 10), np.arange(405.0, 700, 10)
ramp = np.linspace(0, 1, len(wide))


def fourth(source, target, values, *widths):
    found = spectral.BandResampler(list(source), list(target), *widths)(values)
    return f"{found[np.argsort(target)[4]]:.2g}"


ten = [10.0] * len(wide)
print(
    f"rising: {fourth(wide, narrow, ramp)};",
    f"falling source: {fourth(wide[::-1], narrow, ramp[::-1])}, with its widths: {fourth(wide[::-1], narrow, ramp[::-1], ten)};",
    f"falling target: {fourth(wide, narrow[::-1], ramp)}, with its widths: {fourth(wide, narrow[::-1], ramp, None, ten[1:])}",
)
at, spectrum = np.array([400.0, 450, 500, 600, 700]), np.array([0.5, 0.2, 0.6, 0.4, 0.7])
rising, falling = remove_continuum(spectrum, at), remove_continuum(spectrum[::-1].copy(), at[::-1].copy())
print(f"largest value over the continuum, rising: {rising.max():.1f}, falling: {falling.max():.1f}")
PY
cd "$work"
"$work/venv/bin/python" -W ignore try.py | tee said.txt
diff said.txt - <<'SAID'
rising: 0.15; falling source: nan, with its widths: nan; falling target: nan, with its widths: 0.15
largest value over the continuum, rising: 1.0, falling: 1.4
SAID
