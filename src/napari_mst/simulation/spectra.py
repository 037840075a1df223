"""The measured spectra that ship with the package; origins and licences: `data/README.md`."""

from importlib import resources

import numpy as np
from numpy.typing import NDArray

Spectra = dict[str, NDArray[np.float32]]


def load_reflectances() -> tuple[NDArray[np.float64], Spectra]:
    """Wavelengths (nm) and measured reflectances (n, 31) by source."""
    return _load("reflectance31.npz")


def _load(name: str) -> tuple[NDArray[np.float64], Spectra]:
    path = resources.files("napari_mst").joinpath(f"data/{name}")
    with path.open("rb") as stream, np.load(stream) as archive:
        spectra = {key: archive[key] for key in sorted(archive) if key != "wavelength"}
        return archive["wavelength"], spectra
