#!/bin/bash
# One would guess: an ENVI cube that rioxarray opens, whose bands are then sorted by their wavelength and saved as GeoTIFF, has
# each name at its band. And a GeoTIFF with a wavelength for each band opens with those wavelengths.
# What happens: the names stay in the old order (they are one attribute, long_name, which sorting does not touch), so the
# band with the pixels of 700 nm is called 400 Nanometers, without a word. Of the wavelengths of a GeoTIFF, all bands get the
# first one, as an attribute of the array, since only the items of the first band are read.
# Seen with rioxarray 0.19.0, rasterio 1.4.4 (GDAL 3.10.3):
#   first band after sorting: pixels of 700 nm, called 400 Nanometers
#   GeoTIFF: wavelength 400, coordinates ['band', 'spatial_ref', 'x', 'y']
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q rioxarray==0.19.0 rasterio==1.4.4 xarray==2026.9.0 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import numpy as np
import rasterio
import rioxarray

wavelengths = [400, 500, 600, 700]
cube = np.array(wavelengths, np.float32)[:, None, None] * np.ones((4, 5, 6), np.float32)
cube.tofile("a.img")
with open("a.hdr", "w") as file:
    file.write(
        "ENVI\nsamples = 6\nlines = 5\nbands = 4\nheader offset = 0\nfile type = ENVI Standard\ndata type = 4\n"
        "interleave = bsq\nbyte order = 0\nwavelength units = Nanometers\nwavelength = {400, 500, 600, 700}\n"
    )
array = rioxarray.open_rasterio("a.img").sortby("wavelength", ascending=False)
array.rio.to_raster("sorted.tif")
with rasterio.open("sorted.tif") as image:
    name = image.descriptions[0]
    print(f"first band after sorting: pixels of {image.read(1)[0, 0]:g} nm, called {name}")
profile = {"driver": "GTiff", "count": 4, "height": 5, "width": 6, "dtype": "float32"}
with rasterio.open("b.tif", "w", **profile) as image:
    image.write(cube)
    for band, at in enumerate(wavelengths, 1):
        image.update_tags(band, wavelength=at, wavelength_units="Nanometers")
array = rioxarray.open_rasterio("b.tif")
print(f"GeoTIFF: wavelength {array.attrs['wavelength']}, coordinates {sorted(map(str, array.coords))}")
PY
cd "$work"
"$work/venv/bin/python" -W ignore try.py | tee said.txt
diff said.txt - <<'SAID'
first band after sorting: pixels of 700 nm, called 400 Nanometers
GeoTIFF: wavelength 400, coordinates ['band', 'spatial_ref', 'x', 'y']
SAID
