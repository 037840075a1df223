#!/bin/bash
# One would guess: reflectance that is packed as int16 with scale_factor 0.0001 and has valid_range = 0.0, 1.0 in the type of
# the factor is read whole, for the NetCDF Users Guide says that a range of the type of scale_factor, wider than that of
# the numbers, is about the unpacked ones.
# What happens: netCDF4-python compares the range with the packed numbers, as soon as 0.0 and 1.0 can be cast to int16. So
# everything above 0.0001 is masked. xarray never looks at the range: it keeps even the numbers that are not valid.
# The same range as int16 (0, 10000) is understood by netCDF4; xarray ignores it.
# Seen with netCDF4 1.7.5, xarray 2026.9.0:
#   netCDF4, range 0.0 to 1.0: [0, 0.0001, --, --]; xarray [0.0, 0.0001, 0.3, 1.2]
#   netCDF4, range 0 to 10000: [0, 0.0001, 0.3, --]; xarray [0.0, 0.0001, 0.3, 1.2]
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input "netCDF4==1.7.5.*" xarray==2026.9.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import netCDF4
import numpy as np
import xarray

print("netCDF4", netCDF4.__version__, "xarray", xarray.__version__)
masks = []
for span in (np.array([0.0, 1.0]), np.array([0, 10000], np.int16)):
    with netCDF4.Dataset("a.nc", "w") as file:
        file.createDimension("x", 4)
        stored = file.createVariable("reflectance", "i2", ("x",))
        stored.set_auto_maskandscale(False)
        stored.scale_factor, stored.valid_range = 1e-4, span
        stored[:] = [0, 1, 3000, 12000]
    with netCDF4.Dataset("a.nc") as file:
        read = file["reflectance"][:]
    with xarray.open_dataset("a.nc") as data:
        whole = [round(float(each), 4) for each in data["reflectance"]]
    texts = ", ".join("--" if hidden else f"{value:.4g}" for value, hidden in zip(read.data, np.ma.getmaskarray(read)))
    print(f"netCDF4, range {span[0]} to {span[1]}: [{texts}]; xarray {whole}")
    masks.append(np.ma.getmaskarray(read).tolist())
sys.exit(masks != [[False, False, True, True], [False, False, False, True]])
PYTHON
