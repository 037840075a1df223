#!/bin/bash
# One would guess: `HyTools.get_pixels(lines, columns)` gives an array of pixels x bands, as it says, whatever the interleave of the
# ENVI file is; get_line, get_band, get_chunk and the iterators do hide it.
# What happens: of a BSQ file, the most usual kind, the array comes as bands x pixels. The first "pixel" then is the first band of
# all pixels; nothing is said, and where somebody asks for as many pixels as there are bands, even the shape is right.
# Seen with hy-tools 1.6.0:
#   bsq (10, 2) bands x pixels
#   bil (2, 10) pixels x bands
#   bip (2, 10) pixels x bands
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q hy-tools==1.6.0 numpy==2.4.6
cat > "$work/try.py" <<'PY'
from pathlib import Path

import hytools
import numpy as np

bands = np.arange(200, dtype=np.float32).reshape(10, 4, 5)
for interleave, axes in (("bsq", (0, 1, 2)), ("bil", (1, 0, 2)), ("bip", (1, 2, 0))):
    np.ascontiguousarray(bands.transpose(axes)).tofile(interleave)
    Path(interleave + ".hdr").write_text(
        "ENVI\nsamples = 5\nlines = 4\nbands = 10\nheader offset = 0\nfile type = ENVI Standard\ndata type = 4\n"
        f"interleave = {interleave}\nbyte order = 0\nwavelength units = Nanometers\n"
        f"wavelength = {{{', '.join(map(str, range(400, 700, 30)))}}}\n"
    )
    image = hytools.HyTools()
    image.read_file(interleave, "envi")
    pixels = image.get_pixels([1, 2], [1, 3])
    truth = bands[:, [1, 2], [1, 3]]
    kind = "bands x pixels" if np.array_equal(pixels, truth) else ""
    print(interleave, pixels.shape, kind or "pixels x bands" * np.array_equal(pixels, truth.T))
PY
cd "$work"
venv/bin/python -W ignore try.py 2>/dev/null | tee seen
cat > expected <<'END'
bsq (10, 2) bands x pixels
bil (2, 10) pixels x bands
bip (2, 10) pixels x bands
END
diff expected seen
