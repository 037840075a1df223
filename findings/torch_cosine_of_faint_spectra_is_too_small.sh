#!/bin/bash
# One would guess: the cosine of the angle between two spectra does not depend on their unit: torch.nn.functional.cosine_similarity of
# a spectrum with itself is 1 as radiance in W, mW or uW.
# What happens: each norm is raised to eps = 1e-8, not only where it is 0. Faint spectra (31 bands of 1e-9, say radiances of a night
# image in W cm-2 sr-1 nm-1) look unlike themselves: .31, an angle of 72 degrees. Smaller values of eps are taken and help.
# Seen with torch 2.13.0: the cosine of 31 equal bands with themselves
#   bands of 1e-06: 1.00
#   bands of 1e-09: 0.31
#   bands of 1e-10: 0.00
#   bands of 1e-10, eps=1e-30: 1.00
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import torch
from torch.nn.functional import cosine_similarity

for size in (1e-6, 1e-9, 1e-10):
    faint = torch.full((31,), size)
    print(f"bands of {size:.0e}: {cosine_similarity(faint, faint, dim=0).item():.2f}")
print(f"bands of 1e-10, eps=1e-30: {cosine_similarity(faint, faint, dim=0, eps=1e-30).item():.2f}")
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
bands of 1e-06: 1.00
bands of 1e-09: 0.31
bands of 1e-10: 0.00
bands of 1e-10, eps=1e-30: 1.00
END
diff expected seen
