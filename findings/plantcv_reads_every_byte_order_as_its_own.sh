#!/bin/bash
# One would guess: PlantCV, which reads ENVI cubes of plants, reads one with `byte order = 1` (big-endian, as workstations of old and
# AVIRIS write), or refuses it.
# What happens: the line is not looked at. The bytes are taken in the order of the processor, so reflectance of 0.33 becomes -491 and
# the largest of 0.995 becomes 8e35, without an error; integers of 16 bits look almost like an image. spectral and GDAL read both.
# Seen with plantcv 4.11.3, spectral 0.25:
#   byte order 0: spectral 0.33, plantcv 0.33
#   byte order 1: spectral 0.33, plantcv -491
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q plantcv==4.11.3 spectral==0.25 numpy==2.4.6
cat > "$work/try.py" <<'PY'
from pathlib import Path

import numpy as np
import spectral
from plantcv.plantcv import hyperspectral

bands = np.arange(200, dtype=np.float32).reshape(10, 4, 5) / 200
for order, kind in enumerate(("<f4", ">f4")):
    bands.astype(kind).tofile("cube.img")
    Path("cube.hdr").write_text(
        "ENVI\nsamples = 5\nlines = 4\nbands = 10\nheader offset = 0\nfile type = ENVI Standard\ndata type = 4\n"
        f"interleave = bsq\nbyte order = {order}\nwavelength units = Nanometers\n"
        f"wavelength = {{{', '.join(map(str, range(400, 700, 30)))}}}\n"
    )
    known = spectral.open_image("cube.hdr").load()[1, 1, 3]
    read = hyperspectral.read_data(str(Path("cube.img").absolute())).array_data[1, 1, 3]
    print(f"byte order {order}: spectral {known:.3g}, plantcv {read:.3g}")
PY
cd "$work"
venv/bin/python -W ignore try.py | tee seen
cat > expected <<'END'
byte order 0: spectral 0.33, plantcv 0.33
byte order 1: spectral 0.33, plantcv -491
END
diff expected seen
