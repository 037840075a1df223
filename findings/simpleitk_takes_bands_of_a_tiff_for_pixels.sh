#!/bin/bash
# One would guess: SimpleITK opens a TIFF of 31 bands as a vector image of 31 components, as it opens its own, or refuses it, as it
# refuses bands that are stored one after the other.
# What happens: of a file of GDAL or tifffile whose bands are side by side and whose photometric is grey (SimpleITK writes RGB with 28
# extra samples) it makes an image of one component, without a word. Its pixels are the bands of the first pixels of each row.
# Seen with SimpleITK 2.5.7, tifffile 2026.3.3, numpy 2.4.6:
#   its own: 31 components, equal: True
#   grey, bands side by side: 1 component(s); its first four pixels are the first four bands of one pixel: True
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q SimpleITK==2.5.7 tifffile==2026.3.3 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import numpy as np
import SimpleITK as sitk
import tifffile

cube = np.random.default_rng(0).random((6, 7, 31), np.float32)
sitk.WriteImage(sitk.GetImageFromArray(cube, isVector=True), "own.tif")
image = sitk.ReadImage("own.tif")
print(
    f"its own: {image.GetNumberOfComponentsPerPixel()} components, "
    f"equal: {np.array_equal(sitk.GetArrayFromImage(image), cube)}"
)
tifffile.imwrite("grey.tif", cube, photometric="minisblack", planarconfig="contig")
image = sitk.ReadImage("grey.tif")
pixels = sitk.GetArrayFromImage(image)
print(
    f"grey, bands side by side: {image.GetNumberOfComponentsPerPixel()} component(s); its first four "
    f"pixels are the first four bands of one pixel: {np.array_equal(pixels[0, :4], cube[0, 0, :4])}"
)
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
its own: 31 components, equal: True
grey, bands side by side: 1 component(s); its first four pixels are the first four bands of one pixel: True
END
diff expected seen
