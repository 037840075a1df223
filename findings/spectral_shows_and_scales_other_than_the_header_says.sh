#!/bin/bash
# One would guess: spectral shows the default bands of an ENVI header ({4, 2, 1}, which count from 1), and a cube that it has
# loaded and saved with its metadata loads as the same numbers.
# What happens: get_rgb takes the numbers of default bands as if they counted from 0, so it shows the bands 5, 3 and 2. And
# load() applies `reflectance scale factor`, while save_image writes the scaled numbers with the factor, so that they
# are divided again when the copy is loaded: 0.8506 becomes 0.00008506. Both without a word.
# Seen with spectral 0.25:
#   bands shown for {4, 2, 1}: [5, 3, 2]
#   loaded 0.85, loaded again after saving 8.5e-05
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q spectral==0.25 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import numpy as np
import spectral
from spectral.io import envi

cube = np.random.default_rng(0).random((6, 8, 5)).astype(np.float32)
envi.save_image("a.hdr", cube, metadata={"default bands": [4, 2, 1]}, interleave="bsq")
shown = np.asarray(spectral.get_rgb(spectral.open_image("a.hdr")))
likeness = [[np.corrcoef(shown[..., channel].ravel(), cube[..., band].ravel())[0, 1] for band in range(5)] for channel in range(3)]
print("bands shown for {4, 2, 1}:", [int(np.argmax(each)) + 1 for each in likeness])
stored = np.full((6, 8, 5), 8500, np.int16)
envi.save_image("b.hdr", stored, metadata={"reflectance scale factor": 10000})
image = spectral.open_image("b.hdr")
once = image.load()
envi.save_image("c.hdr", once, metadata=image.metadata)
again = spectral.open_image("c.hdr").load()
print(f"loaded {float(once[0, 0, 0]):.2g}, loaded again after saving {float(again[0, 0, 0]):.2g}")
PY
cd "$work"
"$work/venv/bin/python" -W ignore try.py | tee said.txt
diff said.txt - <<'SAID'
bands shown for {4, 2, 1}: [5, 3, 2]
loaded 0.85, loaded again after saving 8.5e-05
SAID
