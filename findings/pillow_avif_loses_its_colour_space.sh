#!/bin/bash
# One would guess: Pillow says in `Image.info` what an AVIF file states about its colours, as it gives the ICC profile of any
# file and the gamma and primaries of a PNG; and a copy of the file by Pillow has the same colours.
# What happens: AVIF states them mostly without a profile, by numbers (the "nclx" kind of its box "colr": 12 is Display P3).
# Pillow's `info` is empty then, and its copy is tagged as 1 (BT.709, so sRGB): the colours get duller, without a word.
# pillow-heif does give such numbers of HEIC, as info["nclx_profile"], but reads no AVIF any more.
# Seen with Pillow 13.0.0: primaries in the file 12; info: {}; in its copy 1
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input pillow==13.0.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys
from pathlib import Path

import PIL
from PIL import Image


def primaries(path):
    """The number of the primaries in the box "colr" of kind "nclx" (ISO/IEC 14496-12, ITU-T H.273)."""
    box = Path(path).read_bytes().partition(b"colrnclx")[2]
    return int.from_bytes(box[:2], "big")


Image.new("RGB", (16, 16), (200, 40, 40)).save("plain.avif")
plain = Path("plain.avif").read_bytes()
at = plain.index(b"colrnclx") + 8
Path("p3.avif").write_bytes(plain[:at] + (12).to_bytes(2, "big") + plain[at + 2 :])
with Image.open("p3.avif") as image:
    info = dict(image.info)
    image.save("copy.avif")
print("Pillow", PIL.__version__, "in the file", primaries("p3.avif"), "info", info, "in its copy", primaries("copy.avif"))
sys.exit((primaries("p3.avif"), info, primaries("copy.avif")) != (12, {}, 1))
PYTHON
