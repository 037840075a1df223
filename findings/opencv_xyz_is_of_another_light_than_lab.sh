#!/bin/bash
# One would guess: cvtColor of OpenCV takes the same RGB, sRGB with its curve, for COLOR_RGB2XYZ as for COLOR_RGB2Lab, so that Lab computed
# from its XYZ is its Lab; and float32 is converted to the precision of float32.
# What happens: RGB2Lab undoes the curve of sRGB, RGB2XYZ does not: the XYZ of a mid grey have Y = 0.5 where its Lab means 0.214, so
# L* from XYZ is 76 instead of 53. (8 bits do the same.) And Lab of float32 is interpolated in a table: of random colours
# it is up to 0.6 off in a* or b* and comes back 1.3 codes of 8 bits away. RGB2Luv is exact to 0.02 codes.
# Seen with opencv-python-headless 4.11.0.86, scikit-image 0.26.0:
#   grey 0.5: Y 0.500 of OpenCV, 0.214 of scikit-image; L* 53.4 of OpenCV, 53.4 of scikit-image
#   Lab of random colours off by more than 0.5: True
#   there and back off by more than a code of 8 bits: True
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q opencv-python-headless==4.11.0.86 scikit-image==0.26.0 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import cv2
import numpy as np
from skimage import color

grey = np.full((1, 1, 3), 0.5, np.float32)
heights = [image[0, 0, 1] for image in (cv2.cvtColor(grey, cv2.COLOR_RGB2XYZ), color.rgb2xyz(grey))]
lights = [image[0, 0, 0] for image in (cv2.cvtColor(grey, cv2.COLOR_RGB2Lab), color.rgb2lab(grey))]
print(
    f"grey 0.5: Y {heights[0]:.3f} of OpenCV, {heights[1]:.3f} of scikit-image; "
    f"L* {lights[0]:.1f} of OpenCV, {lights[1]:.1f} of scikit-image"
)
colours = np.random.default_rng(0).random((300, 300, 3)).astype(np.float32)
lab = cv2.cvtColor(colours, cv2.COLOR_RGB2Lab)
print("Lab of random colours off by more than 0.5:", bool(abs(lab - color.rgb2lab(colours)).max() > 0.5))
back = cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)
print("there and back off by more than a code of 8 bits:", bool(abs(back - colours).max() > 1 / 255))
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
grey 0.5: Y 0.500 of OpenCV, 0.214 of scikit-image; L* 53.4 of OpenCV, 53.4 of scikit-image
Lab of random colours off by more than 0.5: True
there and back off by more than a code of 8 bits: True
END
diff expected seen
