"""Error bands: lower and upper spectra between which nine in ten true ones lie.

The bundled pixelwise network knows between which spectra 5 and 95 % of the materials of one colour
lie. The band of a cube is its own spectrum and, to each side of it, the network's distance for the
colour that the spectrum shows, times the factor of its model. The factor is calibrated on simulated
scenes that no model has seen. So a cube and its history are enough, also those of a file.

Letters: B bands, H rows, W columns.
"""

import functools
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from napari_mst.colour import srgb_response
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeError
from napari_mst.models import load_model
from napari_mst.networks.pixelwise import PixelwiseNetwork

PIXELWISE = "pixelwise-srgb"
"""The model whose network knows the distances."""

SIDE_NOTE = " spectra of the 90 % error band"
"""The note by which a cube of a band is known, after "Lower" or "Upper"."""

_PIXELS = 1 << 16  # that are computed at a time


class Sides(NamedTuple):
    """Numbers for the lower and for the upper side of a band."""

    lower: NDArray[np.float32]
    upper: NDArray[np.float32]


def model_error_bands(cube: SpectralCube) -> tuple[SpectralCube, SpectralCube]:
    """Lower and upper cube of 90 % around *cube*.

    Each is as large as *cube*: float32, NaN where it is NaN, never negative.

    Raises
    ------
    CubeError
        If the model of the cube has no calibrated band.
    """
    _check(cube)
    lower = np.empty(cube.shape, dtype=np.float32)
    upper = np.empty(cube.shape, dtype=np.float32)
    _, height, width = cube.shape
    rows = max(1, _PIXELS // width)
    for start in range(0, height, rows):
        part = np.s_[:, start : start + rows]
        lower[part], upper[part] = _around(np.asarray(cube.data[part]), cube)
    return _side(cube, lower, "Lower"), _side(cube, upper, "Upper")


def model_spectrum_band(cube: SpectralCube, row: int, column: int) -> Sides | None:
    """Lower and upper spectrum (B,) of 90 % around one pixel of *cube*.

    None if its model has no calibrated band. It takes well under a millisecond, but for the first
    time, when torch may have to be imported.
    """
    if not has_model_band(cube):
        return None
    spectrum = np.asarray(cube.spectrum(row, column), dtype=np.float32)
    lower, upper = _around(spectrum[:, None, None], cube)
    return Sides(lower[:, 0, 0], upper[:, 0, 0])


def has_model_band(cube: SpectralCube) -> bool:
    """True if the model of *cube* has a calibrated band, at the wavelengths that *cube* has."""
    if cube.provenance.error_factor <= 0 or not cube.has_wavelengths:
        return False
    _, wavelengths = _network()
    return np.array_equal(cube.wavelengths, wavelengths)


def band_side(cube: SpectralCube) -> str:
    """The side of a cube of `model_error_bands`: "lower", "upper", or "" for any other cube.

    A cube that was read from a file is known, too.
    """
    for note in cube.provenance.assumptions:
        side, found, _ = note.partition(SIDE_NOTE)
        if found:
            return side.lower()
    return ""


def margins(spectra: NDArray[np.floating]) -> Sides:
    """Distances (B, H, W) of the network's lower and upper spectra from its own estimate.

    They are those for the colours that *spectra* (B, H, W) show.
    """
    network, wavelengths = _network()
    response = torch.from_numpy(srgb_response(wavelengths).astype(np.float32))
    numbers = torch.from_numpy(np.ascontiguousarray(spectra, dtype=np.float32))
    with torch.inference_mode():
        shown = torch.einsum("bhw,bc->chw", numbers, response)
        lower, estimate, upper = network.quantiles(shown[None])
        below = (estimate - lower)[0].numpy()
        above = (upper - estimate)[0].numpy()
    return Sides(below, above)


def _around(spectra: NDArray[np.floating], cube: SpectralCube) -> Sides:
    """The band around *spectra* (B, H, W), with the factor of *cube*."""
    below, above = margins(spectra)
    factor = np.float32(cube.provenance.error_factor)
    lower = np.maximum(spectra - factor * below, 0)
    return Sides(lower, spectra + factor * above)


def _side(cube: SpectralCube, data: NDArray[np.float32], side: str) -> SpectralCube:
    """*data* as a cube like *cube* that says what it is, and has no band of its own."""
    past = cube.provenance
    note = f"{side}{SIDE_NOTE}, {past.error_factor:g} x the distances of {PIXELWISE}."
    provenance = replace(past, error_factor=0.0, assumptions=(*past.assumptions, note))
    return replace(cube, data=data, quality=None, provenance=provenance)


def _check(cube: SpectralCube) -> None:
    if not has_model_band(cube):
        model = cube.provenance.model or "an unknown model"
        raise CubeError(
            "Expected a cube of a model with a calibrated error band, "
            f"got one of {model}. Use another model."
        )


@functools.cache
def _network() -> tuple[PixelwiseNetwork, NDArray[np.float64]]:
    """The network that knows the distances, and its wavelengths."""
    model = load_model(PIXELWISE)
    network = cast("PixelwiseNetwork", model.network)
    return network, np.asarray(model.card.wavelengths)
