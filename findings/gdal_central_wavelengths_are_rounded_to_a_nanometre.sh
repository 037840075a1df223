#!/bin/bash
# One would guess: CENTRAL_WAVELENGTH_UM and FWHM_UM, which GDAL gives for each band of any format, are the wavelengths of the file
# in micrometres: 500.2 nm with a width of 0.3 nm is 0.5002 and 0.0003. And GDAL's own copy of an ENVI file has its wavelengths.
# What happens: both are rounded to three decimals, so to a nanometre. Bands of a spectrometer 0.2 nm apart share their wavelength, and
# have no width at all. The exact numbers are only in the item "wavelength", whose unit depends on the file. A copy as ENVI has
# neither: the wavelengths are left as words in the names of the bands.
# Seen with rasterio 1.4.4 (GDAL 3.10.3):
#   500.2 Nanometers: wavelength 500.2, CENTRAL_WAVELENGTH_UM 0.500, FWHM_UM 0.000
#   500.4 Nanometers: wavelength 500.4, CENTRAL_WAVELENGTH_UM 0.500, FWHM_UM 0.000
#   500.6 Nanometers: wavelength 500.6, CENTRAL_WAVELENGTH_UM 0.501, FWHM_UM 0.000
#   wavelengths in the copy: False
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q rasterio==1.4.4 numpy==2.4.6
cat > "$work/try.py" <<'PY'
from pathlib import Path

import numpy as np
import rasterio
from rasterio.shutil import copy

np.ones((3, 2, 4), np.float32).tofile("spectra.img")
Path("spectra.hdr").write_text(
    "ENVI\nsamples = 4\nlines = 2\nbands = 3\nheader offset = 0\nfile type = ENVI Standard\ndata type = 4\n"
    "interleave = bsq\nbyte order = 0\nwavelength units = Nanometers\n"
    "wavelength = {500.2, 500.4, 500.6}\nfwhm = {0.3, 0.3, 0.3}\n"
)
with rasterio.open("spectra.img") as image:
    for band in image.indexes:
        common = image.tags(band, ns="IMAGERY")
        print(
            f"{image.descriptions[band - 1]}: wavelength {image.tags(band)['wavelength']}, "
            f"CENTRAL_WAVELENGTH_UM {common['CENTRAL_WAVELENGTH_UM']}, FWHM_UM {common['FWHM_UM']}"
        )
copy("spectra.img", "copy.img", driver="ENVI")
print("wavelengths in the copy:", "wavelength =" in Path("copy.hdr").read_text())
PY
cd "$work"
venv/bin/python -W ignore try.py | tee seen
cat > expected <<'END'
500.2 Nanometers: wavelength 500.2, CENTRAL_WAVELENGTH_UM 0.500, FWHM_UM 0.000
500.4 Nanometers: wavelength 500.4, CENTRAL_WAVELENGTH_UM 0.500, FWHM_UM 0.000
500.6 Nanometers: wavelength 500.6, CENTRAL_WAVELENGTH_UM 0.501, FWHM_UM 0.000
wavelengths in the copy: False
END
diff expected seen
