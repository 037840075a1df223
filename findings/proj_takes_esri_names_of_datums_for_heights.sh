#!/bin/bash
# One would guess: `WGS_1984`, which stands behind `D_` and `GCS_` in every .prj of Esri and in headers of ENVI, is the system
# of latitudes and longitudes to PROJ, as `WGS 1984` and `GCS_WGS_1984` are; at worst it is an unknown name.
# What happens: it is a system of ellipsoidal heights (ESRI:115700), without an error; and so are NAD_1983, ETRS_1989 and
# GDA_1994. Whoever strips `D_` from a name and asks PROJ gets one axis instead of two. `is_geographic` tells.
# Seen with pyproj 3.7.2 (PROJ 9.5.1):
#   WGS 1984: Geographic 2D CRS, EPSG 4326
#   GCS_WGS_1984: Geographic 2D CRS, EPSG 4326
#   WGS_1984: Vertical CRS, ESRI 115700
#   NAD_1983: Vertical CRS, ESRI 115702
#   ETRS_1989: Vertical CRS, ESRI 115701
#   GDA_1994: Vertical CRS, ESRI 115715
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input pyproj==3.7.2
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import pyproj

print("pyproj", pyproj.__version__, "PROJ", pyproj.proj_version_str)
kinds = []
for name in ("WGS 1984", "GCS_WGS_1984", "WGS_1984", "NAD_1983", "ETRS_1989", "GDA_1994"):
    system = pyproj.CRS.from_user_input(name)
    print(f"{name}: {system.type_name}, {' '.join(system.to_authority())}")
    kinds.append(system.type_name)
sys.exit(kinds != ["Geographic 2D CRS"] * 2 + ["Vertical CRS"] * 4)
PYTHON
