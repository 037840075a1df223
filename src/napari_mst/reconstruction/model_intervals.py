"""Prediction intervals: lower and upper spectra that enclose nine in ten true spectra.

The bundled pixelwise network estimates the spectra between which 5 and 95 % of the materials of one
colour lie, which is what the colour of a pixel leaves open. On each side, the interval extends from
the spectrum of the cube by sqrt((f d)^2 + (u s)^2) + e, band by band:

- d, the network's distance for the colour of the spectrum, times the factor f of the model,
- s, the spectrum itself, times the doubt u about the photo: noise, JPEG, or an unknown camera,
- e, the error of the instrument that would verify the spectrum: see `instrument_error`. It gives
  the interval of a black pixel some width, too.

If exposure and tone curve of the photo are unknown, this interval concerns the *shape* of spectra,
after the best single gain for the photo. Its sides are then multiplied by the two factors between
which nine in ten true *brightnesses* lie.

Factors and doubts are calibrated on simulated scenes that no model has seen, and stored in the card
of the model and in the history of the cube. A cube and its history are therefore enough, even if
both come from a file.

Letters: B bands, H rows, W columns.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Doubles, Floats, Singles, doubles, singles
from napari_mst.base.errors import CubeError
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import illuminant, srgb_response
from napari_mst.engine.fast_paths import native
from napari_mst.models import MODELS, load_model
from napari_mst.models.cards import BRIGHTNESS, CAMERA, FACTOR, JPEG, NOISE, ModelCard
from napari_mst.models.loading import bundled_weights
from napari_mst.networks.forms import EstimateForm

if TYPE_CHECKING:
    from napari_mst.networks.pixelwise import PixelwiseNetwork

PIXELWISE = "pixelwise-srgb"
"""The model whose network estimates the distances."""

SIDE_NOTE = " spectra of the 90 % prediction interval"
"""Note that identifies a side of an interval, after "Lower" or "Upper"."""

STRAY = 0.002
"""Stray light and noise of an instrument, as a share of its strongest signal.

By judgement: data sheets of spectrometers and spectral cameras give 0.05 to 0.4 %. Scenes cannot
show this error, since simulated truths are exact.
"""

_HOLDS = {
    NOISE: "noise",
    JPEG: "noise and JPEG",
    CAMERA: "a usual camera's JPEG",
}
_REDDEST = 700.0  # nm, where the signal of the instrument is strongest


IntervalSides = tuple[Singles, Singles]
"""Values for the lower and the upper side of an interval."""


def side_writer(cube: SpectralCube) -> Callable[[Singles, Singles], None]:
    """Return a function that writes both sides (2, B, h, w) of spectra (B, h, w) of *cube*.

    Raises
    ------
    CubeError
        If the model of the cube has no calibrated interval.
    """
    _check(cube)
    if not native.is_ready():

        def write(spectra: Singles, sides: Singles) -> None:
            sides[:] = _around(spectra, cube)

        return write
    from napari_mst.engine.fast_paths.compiled_passes import CompiledSides

    wavelengths = _wavelengths()
    numbers = srgb_response(wavelengths), _numbers(cube.provenance.error_band, wavelengths).T
    estimate = EstimateForm.of(bundled_weights(PIXELWISE))
    compiled = CompiledSides(estimate, np.concatenate(numbers, axis=1)).write
    factors = brightness(cube.provenance.error_band)

    def scaled(spectra: Singles, sides: Singles) -> None:
        compiled(spectra, sides)
        for side, factor in zip(sides, factors, strict=True):
            side *= np.float32(factor)

    return compiled if all(factor == 1 for factor in factors) else scaled


def model_spectrum_band(cube: SpectralCube, row: int, column: int) -> IntervalSides | None:
    """Return the lower and upper spectrum (B,) of 90 % around one pixel of *cube*.

    None if the model has no calibrated interval. A call takes well under a millisecond, except the
    first one, which may import torch.
    """
    if not has_model_band(cube):
        return None
    spectrum = singles(cube.spectrum(row, column).values)
    lower, upper = _around(spectrum[:, None, None], cube)
    return lower[:, 0, 0], upper[:, 0, 0]


def has_model_band(cube: SpectralCube) -> bool:
    """True if the model of *cube* has a calibrated interval at the wavelengths of *cube*."""
    if not cube.provenance.error_band or not cube.has_wavelengths:
        return False
    return np.array_equal(cube.wavelengths, _wavelengths())


def interval_side(cube: SpectralCube) -> str:
    """Return the side of a cube from `prediction_intervals`, "lower" or "upper"; "" for others.

    Cubes read from files are recognised, too.
    """
    for note in cube.provenance.assumptions:
        side, mark, _ = note.partition(SIDE_NOTE)
        if mark:
            return side.lower()
    return ""


def margins(spectra: Floats) -> IntervalSides:
    """Return distances (B, H, W) of the network's lower and upper spectra from its estimate.

    The distances are for the colours of *spectra* (B, H, W).
    """
    import torch

    network = _network()
    response = torch.from_numpy(srgb_response(_wavelengths()).astype(np.float32))
    numbers = torch.from_numpy(np.ascontiguousarray(spectra, dtype=np.float32))
    with torch.inference_mode():
        shown = torch.einsum("bhw,bc->chw", numbers, response)
        lower, estimate, upper = network.quantiles(shown[None])
        below = (estimate - lower)[0].numpy()
        above = (upper - estimate)[0].numpy()
    return below, above


def photo_interval(card: ModelCard, doubt: str) -> dict[str, Any]:
    """Return the interval of a photo for its history: factors, doubts by band, and their scope.

    *doubt* is `cards.NOISE`, `cards.JPEG` or `cards.CAMERA`. The result is empty if *card* has no
    interval for it.
    """
    if doubt not in card.error_band:
        return {}
    band = {
        "factor": list(card.error_band[FACTOR]),
        "doubt": list(card.error_band[doubt]),
        "holds": _HOLDS[doubt],
    }
    factors = [factor for name in BRIGHTNESS for factor in card.error_band.get(name, ())]
    return {**band, "brightness": factors} if factors else band


def brightness(band: Mapping[str, Any]) -> tuple[float, float]:
    """Return the factors in a *band* of a history between which nine in ten brightnesses lie.

    They are 1 if exposure and tone curve were known. Raises `CubeError` if they are damaged.
    """
    try:
        darker, brighter = map(float, band.get("brightness", (1, 1)))
    except (TypeError, ValueError):
        darker = brighter = math.nan
    if not 0 < darker <= 1 <= brighter < math.inf:
        raise CubeError(
            "Expected two factors of the brightness in the history of the cube, got damaged text. "
            "Reconstruct the cube again."
        )
    return darker, brighter


def of_shape(cube: SpectralCube) -> SpectralCube:
    """Return *cube* with an interval for the shape of its spectra only, after the best gain."""
    past = cube.provenance
    band = {name: value for name, value in past.error_band.items() if name != "brightness"}
    return replace(cube, provenance=replace(past, error_band=band))


def half_widths(spectra: Floats, band: Mapping[str, Any], wavelengths: Doubles) -> IntervalSides:
    """Return distances (B, H, W) of both sides from *spectra*, by a *band* of a history.

    Raises
    ------
    CubeError
        If the record in the history is damaged.
    """
    factor, doubt, error = _numbers(band, wavelengths)[..., None, None].astype(np.float32)
    doubted = doubt * spectra
    below, above = margins(spectra)
    lower = np.hypot(factor * below, doubted) + error
    upper = np.hypot(factor * above, doubted) + error
    return lower, upper


def instrument_error(wavelengths: ArrayLike) -> Doubles:
    """Return the absolute error (B,) of a measured reflectance, due to the light of the instrument.

    The error is `STRAY` of the strongest signal, relative to the signal of white at each wavelength
    (nm). The signal is a lamp, CIE illuminant A, on a photon-counting detector. It is weak at
    400 nm, where the error is 0.047.
    """
    at = doubles(wavelengths)
    signal = illuminant("A", at) * at
    strongest = illuminant("A", _REDDEST) * _REDDEST
    return STRAY * strongest / signal


def _numbers(band: Mapping[str, Any], wavelengths: Doubles) -> Doubles:
    """Return factor, doubt and instrument error for each wavelength, (3, B)."""
    count = len(wavelengths)
    factor = _by_band(band.get("factor"), count)
    doubt = _by_band(band.get("doubt", [0.0]), count)
    return np.stack([factor, doubt, instrument_error(wavelengths)])


def _by_band(numbers: object, count: int) -> Singles:
    """Return *numbers* of a history, one for each of *count* bands or one for all, as (B,)."""
    try:
        values = np.array(numbers, dtype=np.float32)
    except (TypeError, ValueError):
        values = np.empty(0, dtype=np.float32)
    if values.shape not in ((1,), (count,)) or not (np.isfinite(values) & (values >= 0)).all():
        raise CubeError(
            f"Expected a prediction interval of 1 or {count} numbers in the history of the cube, "
            "got "
            "damaged text. Reconstruct the cube again."
        )
    return np.broadcast_to(values, count)


def _around(spectra: Floats, cube: SpectralCube) -> IntervalSides:
    """Return the interval around *spectra* (B, H, W) by the history of *cube*."""
    band = cube.provenance.error_band
    below, above = half_widths(spectra, band, cube.wavelengths)
    darker, brighter = brightness(band)
    lower = np.maximum(spectra - below, 0) * np.float32(darker)
    return lower, (spectra + above) * np.float32(brighter)


def reason_of(cube: SpectralCube) -> str:
    """Return the end of the note on an interval of *cube*, which names the photos it covers."""
    holds = cube.provenance.error_band.get("holds", "")
    return f", wide enough for {holds}" if holds else ""


def side_of(cube: SpectralCube, data: Singles, side: str, reason: str) -> SpectralCube:
    """Return *data* as a cube like *cube*, marked as a *side*, without a prediction interval."""
    past = cube.provenance
    note = f"{side}{SIDE_NOTE}{reason}; {past.calibration}."
    provenance = replace(past, error_band={}, assumptions=(*past.assumptions, note))
    return replace(cube, data=data, colour_error=None, provenance=provenance)


def _check(cube: SpectralCube) -> None:
    if has_model_band(cube):
        return
    if cube.provenance.error_band and cube.has_wavelengths:
        low, high = cube.wavelengths.min(), cube.wavelengths.max()
        raise CubeError(
            f"Expected all bands of {cube.provenance.model}, got {len(cube.wavelengths)} of "
            f"{low:g}-{high:g} nm. Take the prediction intervals before bands are cut away."
        )
    model = cube.provenance.model or "an unknown model"
    raise CubeError(
        f"Expected a cube of a model with a calibrated prediction interval, got one of {model}. "
        "Use another model."
    )


@functools.cache
def _network() -> "PixelwiseNetwork":
    """Return the network that estimates the distances."""
    return cast("PixelwiseNetwork", load_model(PIXELWISE).network)


def _wavelengths() -> Doubles:
    """Return the wavelengths of the network that estimates the distances."""
    return np.asarray(MODELS[PIXELWISE].wavelengths)
