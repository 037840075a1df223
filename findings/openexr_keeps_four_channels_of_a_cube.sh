#!/bin/bash
# One would guess: OpenEXR's Python module, which takes pixels as arrays of rows x columns for a channel and rows x columns x 3 or 4 for
# RGB and RGBA, stores a cube of rows x columns x 31 whole, as its format can (spectral EXR does), or refuses it.
# What happens: the array is written as RGBA and comes back with four channels, without a word: red, green and blue are the first three
# bands, alpha is not the fourth, and 28 bands are lost.
# What helps: one entry of the dictionary for each band, as in spectral EXR. They come back sorted as text: 1000 nm before 900 nm.
# Seen with OpenEXR 3.5.3, numpy 2.4.6:
#   a cube of 31 bands: (4, 5, 31) written, (4, 5, 4) read; red, green, blue are bands 1 to 3: True; alpha is band 4: False
#   a channel a band: ['S0.1000,0nm', 'S0.1100,0nm', 'S0.900,0nm']
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q OpenEXR==3.5.3 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import numpy as np
import OpenEXR

header = {"type": OpenEXR.scanlineimage}
cube = np.arange(4 * 5 * 31, dtype=np.float32).reshape(4, 5, 31)
OpenEXR.File(header, {"cube": cube}).write("cube.exr")
read = OpenEXR.File("cube.exr").channels()["cube"].pixels
print(
    f"a cube of 31 bands: {cube.shape} written, {read.shape} read; "
    f"red, green, blue are bands 1 to 3: {np.array_equal(read[..., :3], cube[..., :3])}; "
    f"alpha is band 4: {np.array_equal(read[..., 3], cube[..., 3])}"
)
bands = {f"S0.{nm},0nm": cube[..., k] for k, nm in enumerate((900, 1000, 1100))}
OpenEXR.File(header, bands).write("bands.exr")
print("a channel a band:", list(OpenEXR.File("bands.exr").channels()))
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
a cube of 31 bands: (4, 5, 31) written, (4, 5, 4) read; red, green, blue are bands 1 to 3: True; alpha is band 4: False
a channel a band: ['S0.1000,0nm', 'S0.1100,0nm', 'S0.900,0nm']
END
diff expected seen
