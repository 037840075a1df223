#!/bin/bash
# One would guess: the same numbers, written by zarr-python with its defaults as Zarr 2 and as Zarr 3, are the same in
# xarray.
# What happens: zarr-python gives each array of Zarr 2 the fill value 0 (for chunks that are not there), and xarray takes
# the fill value of Zarr 2 for CF's `_FillValue`. So every sound zero becomes NaN, and integers become floats. In Zarr 3,
# where the fill value is 0 as well, xarray reads only an attribute `_FillValue`, and zeros stay zeros.
# Dark pixels and masks of 0 and 1 are hit. `fill_value=None` on writing avoids it; `mask_and_scale=False` on reading.
# Seen with zarr 3.1.6, xarray 2026.9.0:
#   Zarr 2: fill value 0, float32 [nan, 1.0, 2.0]
#   Zarr 3: fill value 0, int16 [0.0, 1.0, 2.0]
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input zarr==3.1.6 xarray==2026.9.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import xarray
import zarr

print("zarr", zarr.__version__, "xarray", xarray.__version__)
seen = {}
for version in (2, 3):
    group = zarr.open_group(f"{version}.zarr", mode="w", zarr_format=version)
    names = {"dimension_names": ["x"]} if version == 3 else {}
    array = group.create_array("mask", shape=(3,), dtype="int16", **names)
    array[:] = [0, 1, 2]
    if version == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    read = xarray.open_zarr(f"{version}.zarr", consolidated=False)["mask"]
    print(f"Zarr {version}: fill value {array.fill_value}, {read.dtype}", [float(each) for each in read])
    seen[version] = bool(read.isnull()[0])
sys.exit(seen != {2: True, 3: False})
PYTHON
