#!/bin/bash
# One would guess: where pillow-heif opens a HEIC photo of 10 bits with all of them (convert_hdr_to_8bit=False), as uint16,
# the white of the photo is 65535, as that of a PNG of 10 significant bits is, and 8 bits get the same colours.
# What happens: the numbers are shifted to the left only, so white is 65472 (of 12 bits 65520). Divided by 65535 white is
# 0.99904, and a test for clipped pixels (== 65535) finds none at all. The same photo converted to 8 bits has white 255.
# Seen with pillow-heif 1.8.1: 16 bits 65472, 8 bits 255
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input pillow-heif==1.8.1 pillow==13.0.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import pillow_heif

white = np.full((32, 32, 3), 65535, np.uint16)
pillow_heif.from_bytes("RGB;16", (32, 32), white.tobytes()).save("white.heic", quality=-1)
deep = pillow_heif.open_heif("white.heic", convert_hdr_to_8bit=False)
plain = pillow_heif.open_heif("white.heic", convert_hdr_to_8bit=True)
got = deep.info["bit_depth"], int(np.asarray(deep).max()), int(np.asarray(plain).max())
print("pillow-heif", pillow_heif.__version__, "bits, white of 16 and of 8 bits:", got)
sys.exit(got != (10, 65472, 255))
PYTHON
