#!/bin/bash
# One would guess: beside c.hdr and c.img, an ENVI cube, a file c.npz changes nothing, and nobody takes it for ENVI.
# What happens: hylite, asked for c.hdr, takes the bytes of the archive c.npz for the pixels, without a word: the header
# says float32, so other reflectances come out. GDAL, asked for c.npz, opens it with its ENVI driver, as c.hdr lies beside it,
# and gives the bytes of the archive as pixels, too. The same with c.mat. spectral reads c.img.
# Seen with hylite 1.41, GDAL 3.10.3 (rasterio 1.4.4), spectral 0.25:
#   hylite c.hdr: True alone, False beside c.npz
#   GDAL c.npz: driver ENVI, equal False
#   spectral c.hdr beside c.npz: True
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q hylite==1.41 rasterio==1.4.4 spectral==0.25 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import logging
import warnings

import numpy as np
import rasterio
import spectral
from hylite import io

warnings.simplefilter("ignore")
logging.disable()
cube = np.random.default_rng(0).random((5, 6, 8), dtype=np.float32)
cube.tofile("c.img")
with open("c.hdr", "w") as file:
    file.write(
        "ENVI\nsamples = 8\nlines = 6\nbands = 5\nheader offset = 0\nfile type = ENVI Standard\ndata type = 4\n"
        "interleave = bsq\nbyte order = 0\nwavelength = {400, 450, 500, 550, 600}\nwavelength units = Nanometers\n"
    )


def hylite_is_right():
    return np.array_equal(np.asarray(io.load("c.hdr").data).transpose(2, 1, 0), cube)


alone = hylite_is_right()
np.savez("c.npz", cube=cube)
print(f"hylite c.hdr: {alone} alone, {hylite_is_right()} beside c.npz")
with rasterio.open("c.npz") as image:
    print(f"GDAL c.npz: driver {image.driver}, equal {np.array_equal(image.read(), cube)}")
image = spectral.open_image("c.hdr")
print("spectral c.hdr beside c.npz:", np.array_equal(np.moveaxis(np.asarray(image.load()), 2, 0), cube))
PY
cd "$work"
"$work/venv/bin/python" try.py 2>/dev/null | tee said.txt
diff said.txt - <<'SAID'
hylite c.hdr: True alone, False beside c.npz
GDAL c.npz: driver ENVI, equal False
spectral c.hdr beside c.npz: True
SAID
