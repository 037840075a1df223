#!/bin/bash
# One would guess: 31 bands that are written by `TiffWriter.write` one after the other come back from `imread` as 31 bands,
# as they do after one call with the whole stack.
# What happens: each call of `write` puts a description with the shape of this page into its first page, so that the file
# holds 31 series of one page; `imread` returns the first series, which is one band, and says nothing.
# GDAL, too, shows one band, and 31 subdatasets; Pillow counts 31 frames.
# `metadata=None` on writing, or `imread(path, key=slice(None))`, gives all bands.
# Seen with tifffile 2026.3.3, rasterio 1.4.4 (GDAL 3.10.3), Pillow 12.0.0:
#   page by page: imread (20, 30), all pages (31, 20, 30), GDAL 1 band and 31 subdatasets, Pillow 31 frames
#   without metadata: imread (31, 20, 30)
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
cube = np.random.default_rng(0).random((31, 20, 30), dtype=np.float32)
for name, options in (("a.tif", {}), ("b.tif", {"metadata": None})):
    with tifffile.TiffWriter(name) as file:
        for band in cube:
            file.write(band, **options)
with rasterio.open("a.tif") as file:
    gdal = file.count, len(file.subdatasets)
frames = Image.open("a.tif").n_frames
one, every = tifffile.imread("a.tif").shape, tifffile.imread("a.tif", key=slice(None)).shape
other = tifffile.imread("b.tif").shape
print(f"page by page: imread {one}, all pages {every}, GDAL {gdal[0]} band and {gdal[1]} subdatasets, Pillow {frames} frames")
print(f"without metadata: imread {other}")
expected = ((20, 30), (31, 20, 30), (1, 31), 31, (31, 20, 30))
sys.exit((one, every, gdal, frames, other) != expected)
PYTHON
