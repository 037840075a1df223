#!/bin/bash
# One would guess: k-means with five clusters tells five materials apart whose spectra differ by a hundred times the noise.
# What happens: spectral.kmeans starts with centres evenly along the diagonal of the values' bounding box, from black to white.
# Materials of about one brightness (leaf and water, soil and paint) share the nearest of these centres; two centres get no
# pixel at all, keep their place, and nothing is said. The result is the same on every run, and more iterations change nothing.
# scikit-learn's k-means++ separates all five.
# Seen with spectral 0.24, scikit-learn 1.9.1:
#   spectral: 3 clusters with pixels; scikit-learn: 5
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input spectral==0.24 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import logging
import sys

import numpy as np
import sklearn
import spectral
from sklearn.cluster import KMeans

logging.getLogger("spectral").setLevel(logging.ERROR)
at = np.arange(400.0, 701, 10)
materials = np.stack(
    [
        0.04 + 0.06 * np.exp(-(((at - 550) / 35) ** 2)) + 0.4 / (1 + np.exp((705 - at) / 12)),  # leaf
        np.linspace(0.1, 0.35, 31),  # soil
        0.06 * np.exp(-(((at - 480) / 70) ** 2)),  # water
        0.05 + 0.6 / (1 + np.exp((590 - at) / 12)),  # paint
        np.full(31, 0.9),
    ]
)
rng = np.random.default_rng(0)
truth = rng.integers(0, 5, (64, 48))
image = materials[truth] + rng.normal(0, 0.005, (64, 48, 31))
labels, centres = spectral.kmeans(image, 5, 100)
judge = KMeans(5, random_state=0).fit_predict(image.reshape(-1, 31))
print("spectral", spectral.__version__, "scikit-learn", sklearn.__version__)
for name, found in (("spectral", labels), ("scikit-learn", judge.reshape(truth.shape))):
    print(f"{name}: {len(np.unique(found))} clusters with pixels;", "of each material:")
    print(" ", {material: np.unique(found[truth == material]).tolist() for material in range(5)})
pure = {(material, cluster) for material, cluster in zip(truth.ravel(), judge)}
sys.exit(not (len(np.unique(labels)) == 3 and len(pure) == 5))
PYTHON
