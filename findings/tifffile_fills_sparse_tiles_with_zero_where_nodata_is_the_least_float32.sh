#!/bin/bash
# One would guess: tiles that GDAL leaves out of a float32 GeoTIFF (SPARSE_OK) come back from tifffile as the nodata of the file,
# as they do from GDAL, whatever that is.
# What happens: so it is for -9999. For the least float32, -3.4028234663852886e+38, which is a usual nodata, tifffile logs that
# it "is not castable to float32", takes 0 instead, and gives zeros for the missing tiles: data to whoever compares with nodata.
# Seen with tifffile 2026.3.3, numpy 2.4.6, rasterio 1.4.4 (GDAL 3.10.3):
#   nodata -9999.0: GDAL -9999.0, tifffile -9999.0
#   nodata -3.4028234663852886e+38: GDAL -3.4028234663852886e+38, tifffile 0.0
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input tifffile==2026.3.3 rasterio==1.4.4 numpy==2.4.6
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import numpy as np
import rasterio
import tifffile
from rasterio.windows import Window

print("tifffile", tifffile.__version__, "numpy", np.__version__, "GDAL", rasterio.__gdal_version__)
least = float(np.finfo("f4").min)
options = {"driver": "GTiff", "width": 64, "height": 48, "count": 1, "dtype": "float32"}
options |= {"tiled": True, "blockxsize": 16, "blockysize": 16, "SPARSE_OK": True}
seen = []
for nodata in (-9999.0, least):
    with rasterio.open("a.tif", "w", nodata=nodata, **options) as file:
        file.write(np.ones((1, 16, 16), "f4"), window=Window(0, 0, 16, 16))
    with rasterio.open("a.tif") as file:
        gdal = float(file.read(1)[40, 40])
    other = float(tifffile.imread("a.tif")[40, 40])
    print(f"nodata {nodata}: GDAL {gdal}, tifffile {other}")
    seen += [gdal, other]
sys.exit(seen != [-9999.0, -9999.0, least, 0.0])
PYTHON
