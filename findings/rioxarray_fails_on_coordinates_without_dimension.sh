#!/bin/bash
# One would guess: rioxarray opens a netCDF file whose x and y have units = "1", which CF gives numbers without a dimension
# (pixels that are counted, say). xarray does, and GDAL, through which rioxarray reads the file, does.
# What happens: rioxarray reads the attributes that GDAL hands on as text back into numbers, so the unit becomes the
# integer 1, in which it then looks for "since", as of times: TypeError. Without the attribute the file opens.
# Seen with rioxarray 0.19.0, rasterio 1.4.4 (GDAL 3.10.3), xarray 2026.9.0:
#   xarray: units '1', shape (3, 4, 5)
#   GDAL: shape (3, 4, 5)
#   rioxarray: TypeError argument of type 'int' is not iterable
#   rioxarray without units: shape (3, 4, 5)
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q rioxarray==0.19.0 rasterio==1.4.4 xarray==2026.9.0 h5py==3.16.0 h5netcdf==1.8.2 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import numpy as np
import rasterio
import rioxarray
import xarray


def save(path, units):
    coordinates = {
        "band": np.arange(3),
        "y": ("y", -np.arange(4.0), {"axis": "Y", **units}),
        "x": ("x", np.arange(5.0), {"axis": "X", **units}),
    }
    cube = np.zeros((3, 4, 5), np.float32)
    array = xarray.DataArray(cube, dims=("band", "y", "x"), coords=coordinates, name="cube")
    array.to_netcdf(path, engine="h5netcdf")


save("a.nc", {"units": "1"})
save("b.nc", {})
with xarray.open_dataarray("a.nc", engine="h5netcdf") as array:
    print(f"xarray: units {array.x.attrs['units']!r}, shape {array.shape}")
with rasterio.open("netcdf:a.nc:cube") as image:
    print("GDAL: shape", image.read().shape)
try:
    print("rioxarray: shape", rioxarray.open_rasterio("a.nc").shape)
except TypeError as error:
    print("rioxarray: TypeError", error)
print("rioxarray without units: shape", rioxarray.open_rasterio("b.nc").shape)
PY
cd "$work"
"$work/venv/bin/python" -W ignore try.py | tee said.txt
diff said.txt - <<'SAID'
xarray: units '1', shape (3, 4, 5)
GDAL: shape (3, 4, 5)
rioxarray: TypeError argument of type 'int' is not iterable
rioxarray without units: shape (3, 4, 5)
SAID
