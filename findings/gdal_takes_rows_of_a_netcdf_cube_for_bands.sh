#!/bin/bash
# One would guess: GDAL finds the image in a netCDF cube by what CF says of its coordinates (axis = "X" and "Y",
# projection_x_coordinate and projection_y_coordinate), so that (y, x, wavelength), the order in which EMIT, PACE and many programs
# write, opens as rows x columns with one band a wavelength, as (wavelength, y, x) does.
# What happens: the last two dimensions are the image, whatever they are called: each row of the scene is a band, in which a pixel is
# a wavelength of a column. There is no error and no warning; only the coordinates of the corners are missing.
# Seen with rasterio 1.4.4 (GDAL 3.10.3), xarray 2026.9.0, a scene of 6 x 7 pixels, 31 wavelengths:
#   ('wavelength', 'y', 'x'): 31 bands of 6 x 7, pixels of 10.0
#   ('y', 'x', 'wavelength'): 6 bands of 7 x 31, pixels of 1.0
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q rasterio==1.4.4 xarray==2026.9.0 netCDF4==1.7.4 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import numpy as np
import rasterio
import xarray

scene = xarray.Dataset(
    {"reflectance": (("y", "x", "wavelength"), np.ones((6, 7, 31), np.float32))},
    coords={
        "y": ("y", 50.0 - 10 * np.arange(6), {"standard_name": "projection_y_coordinate", "units": "m", "axis": "Y"}),
        "x": ("x", 10.0 * np.arange(7), {"standard_name": "projection_x_coordinate", "units": "m", "axis": "X"}),
        "wavelength": ("wavelength", np.linspace(400, 700, 31), {"units": "nm"}),
    },
)
for order in (("wavelength", "y", "x"), ("y", "x", "wavelength")):
    scene.transpose(*order).to_netcdf("scene.nc", engine="netcdf4")
    with rasterio.open("scene.nc") as image:
        print(f"{order}: {image.count} bands of {image.height} x {image.width}, pixels of {image.transform.a}")
PY
cd "$work"
venv/bin/python -W ignore try.py | tee seen
cat > expected <<'END'
('wavelength', 'y', 'x'): 31 bands of 6 x 7, pixels of 10.0
('y', 'x', 'wavelength'): 6 bands of 7 x 31, pixels of 1.0
END
diff expected seen
