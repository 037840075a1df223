"""Simulated scenes of measured reflectances, and the photos that show them.

Here are the measured spectra that ship with the package; their origins and licences are in
`data/README.md`.
"""

import io
from importlib import resources
from typing import Any

import numpy as np
from PIL import Image

from napari_mst.arrays import Codes, Doubles, Singles

Spectra = dict[str, Singles]


def load_reflectances() -> tuple[Doubles, Spectra]:
    """Wavelengths (nm) and measured reflectances (n, 31) by source."""
    path = resources.files("napari_mst").joinpath("data/reflectance31.npz")
    with path.open("rb") as stream, np.load(stream) as archive:
        # Sorted, since the order of the spectra decides what a seed draws.
        spectra = {key: archive[key] for key in sorted(archive) if key != "wavelength"}
        return archive["wavelength"], spectra


def measured_reflectances() -> Doubles:
    """All of these reflectances together, (n, 31)."""
    _, sources = load_reflectances()
    return np.concatenate(list(sources.values())).astype(np.float64)


def jpeg(codes: Codes, **options: Any) -> Codes:
    """*codes* (3, H, W) after a JPEG file with these *options* of Pillow."""
    stream = io.BytesIO()
    Image.fromarray(np.moveaxis(codes, 0, -1)).save(stream, "jpeg", **options)
    return np.moveaxis(np.asarray(Image.open(stream)), -1, 0)
