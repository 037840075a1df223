#!/bin/bash
# One would guess: a colour transform of LittleCMS between two matrix profiles (Display P3 to sRGB) is the more precise the
# more bits the pixels have, and HIGHRESPRECALC makes it precise enough for 16 bits.
# What happens: 8 bits take an exact path (within a code), but 16 bits are interpolated in a table of few nodes, which does
# not follow the steep curve of sRGB near black: colours are up to 3507 of 65535 off, as 8 bits would be 14 codes off.
# HIGHRESPRECALC hardly helps (2900). Only NOOPTIMIZE computes what floats give. Pillow's ImageCms has no 16-bit RGB, so
# who leaves it for the sake of depth meets this.
# Seen with imagecodecs 2026.3.6 (LittleCMS 2.18):
#   uint8: at most 0.71 of 255; uint16: 3507, HIGHRESPRECALC 2900, NOOPTIMIZE 0.5 of 65535
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input imagecodecs==2026.3.6 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import imagecodecs
import numpy as np
from imagecodecs import CMS

print("imagecodecs", imagecodecs.__version__, imagecodecs.cms_version())
p3 = imagecodecs.cms_profile("rgb", whitepoint=(0.3127, 0.3290), primaries=(0.68, 0.32, 0.265, 0.69, 0.15, 0.06), gamma=2.2)
srgb = imagecodecs.cms_profile("srgb")


def converted(pixels, flags=0):
    intent = CMS.INTENT.RELATIVE_COLORIMETRIC
    return imagecodecs.cms_transform(pixels, p3, srgb, colorspace="rgb", outcolorspace="rgb", intent=intent, flags=flags)


def worst(pixels, full, flags=0):
    exact = converted((pixels / full).astype(np.float32)).clip(0, 1) * full
    return float(np.abs(converted(pixels, flags) - exact).max())


deep = np.random.default_rng(0).integers(0, 65536, (300, 300, 3)).astype(np.uint16)
errors = {"uint8": worst((deep >> 8).astype(np.uint8), 255), "uint16": worst(deep, 65535)}
for name in ("HIGHRESPRECALC", "NOOPTIMIZE"):
    errors[f"uint16, {name}"] = worst(deep, 65535, CMS.FLAGS[name])
print({name: round(error, 2) for name, error in errors.items()})
is_seen = errors["uint8"] < 1 and errors["uint16"] > 3000 and errors["uint16, HIGHRESPRECALC"] > 2500
sys.exit(not (is_seen and errors["uint16, NOOPTIMIZE"] < 2))
PYTHON
