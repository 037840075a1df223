#!/bin/bash
# One would guess: libvips, which opens a TIFF whose bands are stored one after the other (planar configuration 2, GDAL's
# INTERLEAVE=BAND), has the pixels of the file: it refuses such files where they are tiled, and reads them right as RGB.
# What happens: of a file in strips whose photometric is grey, as any of more than four bands is, the first row of each strip is
# right and the other rows hold numbers of other bands, without a word. One row a strip is read right: large images of GDAL
# look well, small ones and those of tifffile (one strip a band) do not.
# Seen with pyvips 3.2.0 (libvips 8.18.7), rasterio 1.4.4, numpy 2.4.6; 300 rows, the share of rows whose pixels are those of the file:
#   31 bands, band interleaved, 20 rows a strip: 0.05
#   31 bands, band interleaved, 1 row a strip: 1.00
#   31 bands, pixel interleaved, 20 rows a strip: 1.00
#   RGB, band interleaved, 20 rows a strip: 1.00
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pyvips==3.2.0 pyvips-binary==8.18.7 rasterio==1.4.4 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import warnings

import numpy as np
import pyvips
import rasterio

warnings.simplefilter("ignore")  # no georeference


def share(path, bands, interleave, rows):
    cube = (1000 * np.arange(bands) + np.arange(300 * 200).reshape(300, 200, 1) % 997).astype(np.uint16)
    kind = {"photometric": "RGB"} if bands == 3 else {}
    size = {"width": 200, "height": 300, "count": bands, "dtype": "uint16"}
    layout = {"interleave": interleave, "blockysize": rows}
    with rasterio.open(path, "w", driver="GTiff", **size, **layout, **kind) as file:
        file.write(cube.transpose(2, 0, 1))
    with rasterio.open(path) as file:
        assert np.array_equal(file.read().transpose(1, 2, 0), cube)
    same = pyvips.Image.new_from_file(path).numpy() == cube
    return f"{same.all(axis=(1, 2)).mean():.2f}"


print("31 bands, band interleaved, 20 rows a strip:", share("a.tif", 31, "band", 20))
print("31 bands, band interleaved, 1 row a strip:", share("b.tif", 31, "band", 1))
print("31 bands, pixel interleaved, 20 rows a strip:", share("c.tif", 31, "pixel", 20))
print("RGB, band interleaved, 20 rows a strip:", share("d.tif", 3, "band", 20))
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
31 bands, band interleaved, 20 rows a strip: 0.05
31 bands, band interleaved, 1 row a strip: 1.00
31 bands, pixel interleaved, 20 rows a strip: 1.00
RGB, band interleaved, 20 rows a strip: 1.00
END
diff expected seen
