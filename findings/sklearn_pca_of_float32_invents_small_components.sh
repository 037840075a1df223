#!/bin/bash
# One would guess: PCA of scikit-learn finds in spectra of float32 the variances that it finds in the same numbers as float64, to
# some six digits of each; noise of 1e-4 is far above the 6e-8 of float32. With `whiten=True` every component has variance 1.
# What happens: for many pixels of few bands `svd_solver="auto"` takes the eigenvectors of X'X, in float32, with the mean subtracted
# after the products. What is smaller than about 1e-6 of the largest variance is rounding: the noise of three materials gets variances
# from 0 to 200 times the true one, its last component is divided by almost nothing, and nothing is said. `svd_solver="full"` is right.
# Seen with scikit-learn 1.9.1, numpy 2.4.6 (the digits depend on the processor, so only the size of the error is compared):
#   auto (covariance_eigh): noise within 2 x of the truth: False, whitened within 2 x of 1: False
#   full (full): noise within 2 x of the truth: True, whitened within 2 x of 1: True
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q scikit-learn==1.9.1 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import numpy as np
from sklearn.decomposition import PCA

random = np.random.default_rng(0)
materials, noise = random.random((3, 31)), 1e-4
pixels = random.random((100_000, 3)) @ materials + noise * random.standard_normal((100_000, 31))
for solver in ("auto", "full"):
    fit = PCA(svd_solver=solver, whiten=True).fit(pixels.astype(np.float32))
    whitened = fit.transform(pixels.astype(np.float32)).astype(np.float64).var(axis=0)
    found = [
        bool(np.all((0.5 < ratios) & (ratios < 2)))
        for ratios in (fit.explained_variance_[3:] / noise**2, whitened)
    ]
    print(
        f"{solver} ({fit._fit_svd_solver}): noise within 2 x of the truth: {found[0]}, "
        f"whitened within 2 x of 1: {found[1]}"
    )
PY
cd "$work"
venv/bin/python try.py | tee seen
cat > expected <<'END'
auto (covariance_eigh): noise within 2 x of the truth: False, whitened within 2 x of 1: False
full (full): noise within 2 x of the truth: True, whitened within 2 x of 1: True
END
diff expected seen
