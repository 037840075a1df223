#!/bin/bash
# One would guess: `map info` of an ENVI header gives the coordinates of one pixel, its reference pixel, and that pixel is
# there whatever the rotation is. (3, 2) at (500000, 5400000) therefore stays there with rotation=30.
# What happens: GDAL moves from the reference pixel to the first one as if the image were not turned, and turns about that. With
# rotation=30 and pixels of 2 m the reference pixel is off by 2.3 m; with 3000 x 2000 pixels between them it would be
# kilometres. Without rotation, or with the reference pixel (1, 1), all is right.
# Seen with GDAL 3.10.3 (rasterio 1.4.4):
#   reference pixel (1, 1), rotation 30: off by 0.00 m
#   reference pixel (3, 2), rotation 0: off by 0.00 m
#   reference pixel (3, 2), rotation 30: off by 2.31 m
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q rasterio==1.4.4 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import math

import rasterio

with open("a.img", "wb") as file:
    file.write(bytes(3 * 6 * 8))
for column, row, rotation in ((1, 1, 30), (3, 2, 0), (3, 2, 30)):
    with open("a.hdr", "w") as file:
        file.write(
            "ENVI\nsamples = 8\nlines = 6\nbands = 3\nheader offset = 0\nfile type = ENVI Standard\ndata type = 1\n"
            "interleave = bsq\nbyte order = 0\n"
            f"map info = {{UTM, {column}, {row}, 500000, 5400000, 2, 2, 33, North, WGS-84, rotation={rotation}}}\n"
        )
    with rasterio.open("a.img") as image:
        x, y = image.transform * (column - 1, row - 1)
    off = math.hypot(x - 500000, y - 5400000)
    print(f"reference pixel ({column}, {row}), rotation {rotation}: off by {off:.2f} m")
PY
cd "$work"
"$work/venv/bin/python" -W ignore try.py | tee said.txt
diff said.txt - <<'SAID'
reference pixel (1, 1), rotation 30: off by 0.00 m
reference pixel (3, 2), rotation 0: off by 0.00 m
reference pixel (3, 2), rotation 30: off by 2.31 m
SAID
