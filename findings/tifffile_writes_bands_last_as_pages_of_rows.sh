#!/bin/bash
# One would guess: a cube of rows, columns, bands that `imwrite` saves in grey (`photometric="minisblack"`) is an image of these
# rows and columns to others, as it is with `photometric="rgb"`, or at least that saying `axes="YXC"` makes it one.
# What happens: each row becomes a page of columns x bands, and `axes` is only words in the description. GDAL shows one image of
# columns x bands, Pillow a frame for each row; nobody says anything. tifffile reads the cube as it was.
# `planarconfig="contig"` makes it an image of so many samples a pixel.
# Seen with tifffile 2026.3.3, rasterio 1.4.4 (GDAL 3.10.3), Pillow 12.0.0, a cube of 20 rows, 30 columns, 8 bands:
#   minisblack: GDAL 1 bands of (30, 8), Pillow 20 frames of (8, 30)
#   minisblack, axes YXC: GDAL 1 bands of (30, 8), Pillow 20 frames of (8, 30)
#   minisblack, contig: GDAL 8 bands of (20, 30), Pillow refuses it
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input tifffile==2026.3.3 rasterio==1.4.4 pillow==12.0.0
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import numpy as np
import rasterio
import tifffile
from PIL import Image

print("tifffile", tifffile.__version__, "GDAL", rasterio.__gdal_version__)
cube = np.arange(20 * 30 * 8, dtype="u2").reshape(20, 30, 8)
seen = []
for name, options in {
    "minisblack": {},
    "minisblack, axes YXC": {"metadata": {"axes": "YXC"}},
    "minisblack, contig": {"planarconfig": "contig"},
}.items():
    tifffile.imwrite("a.tif", cube, photometric="minisblack", **options)
    assert np.array_equal(tifffile.imread("a.tif"), cube)
    with rasterio.open("a.tif") as file:
        gdal = file.count, file.shape
    try:
        image = Image.open("a.tif")
        pillow = f"{image.n_frames} frames of {image.size}"
    except OSError:
        pillow = "refuses it"
    print(f"{name}: GDAL {gdal[0]} bands of {gdal[1]}, Pillow {pillow}")
    seen += [gdal, pillow]
rows = [(1, (30, 8)), "20 frames of (8, 30)"]
sys.exit(seen != [*rows, *rows, (8, (20, 30)), "refuses it"])
PYTHON
