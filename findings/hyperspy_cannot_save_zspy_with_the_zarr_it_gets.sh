#!/bin/bash
# One would guess: `pip install hyperspy zarr`, and a signal saves as .zspy, HyperSpy's format on Zarr, which its guide
# recommends for large data.
# What happens: pip installs zarr 3, whose stores have other names than the one that RosettaSciIO asks for (it was written
# for zarr 2, and asks for no version of it): AttributeError, and nothing is saved. The same signal saves as .hspy.
# Seen with hyperspy 2.5.0, zarr 3.1.6:
#   .hspy: saved, (4, 5, 6)
#   .zspy: AttributeError module 'zarr.storage' has no attribute 'NestedDirectoryStore'
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q hyperspy==2.5.0 zarr==3.1.6
cat > "$work/try.py" <<'PY'
import hyperspy.api as hs
import numpy as np

signal = hs.signals.Signal1D(np.zeros((4, 5, 6), np.float32))
signal.save("a.hspy")
print(".hspy: saved,", hs.load("a.hspy").data.shape)
try:
    signal.save("a.zspy")
    print(".zspy: saved,", hs.load("a.zspy").data.shape)
except AttributeError as error:
    print(".zspy: AttributeError", error)
PY
cd "$work"
"$work/venv/bin/python" -W ignore try.py 2>/dev/null | tee said.txt
diff said.txt - <<'SAID'
.hspy: saved, (4, 5, 6)
.zspy: AttributeError module 'zarr.storage' has no attribute 'NestedDirectoryStore'
SAID
