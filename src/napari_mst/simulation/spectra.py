"""The measured spectra that ship with the package; origins and licences: `data/README.md`."""

from importlib import resources

import numpy as np
from numpy.typing import NDArray

Spectra = dict[str, NDArray[np.float32]]


def load_reflectances() -> tuple[NDArray[np.float64], Spectra]:
    """Wavelengths (nm) and measured reflectances (n, 31) by source."""
    path = resources.files("napari_mst").joinpath("data/reflectance31.npz")
    with path.open("rb") as stream, np.load(stream) as archive:
        # Sorted, since the order of the spectra decides what a seed draws.
        spectra = {key: archive[key] for key in sorted(archive) if key != "wavelength"}
        return archive["wavelength"], spectra


def measured_reflectances() -> NDArray[np.float64]:
    """All of these reflectances together, (n, 31)."""
    _, sources = load_reflectances()
    return np.concatenate(list(sources.values())).astype(np.float64)
