#!/bin/bash
# One would guess: torch.nn.functional.normalize gives zeros for a vector of zeros in every type, for its eps is there to avoid the
# division by zero. An attention over normalised queries and keys can then meet a black part of a photo.
# What happens: in float16, whose least number is 6e-8, the eps of 1e-12 is itself 0, and the result is NaN, as that of cosine_similarity is
# with its eps of 1e-8; bfloat16 and float32 give zeros.
# Seen with torch 2.13.0 on a CPU:
#   float16: normalize nan, cosine_similarity nan
#   bfloat16: normalize 0.0, cosine_similarity 0.0
#   float32: normalize 0.0, cosine_similarity 0.0
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import torch
from torch.nn import functional

for kind in ("float16", "bfloat16", "float32"):
    black = torch.zeros(31, dtype=getattr(torch, kind))
    print(
        f"{kind}: normalize {functional.normalize(black, dim=0)[0].item()}, "
        f"cosine_similarity {functional.cosine_similarity(black, black, dim=0).item()}"
    )
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
float16: normalize nan, cosine_similarity nan
bfloat16: normalize 0.0, cosine_similarity 0.0
float32: normalize 0.0, cosine_similarity 0.0
END
diff expected seen
