"""Prediction intervals: lower and upper spectra between which nine in ten true ones lie.

The bundled pixelwise network knows between which spectra 5 and 95 % of the materials of one colour
lie: the colour of a pixel leaves so much open. The band of a cube is its own spectrum and, to each
side of it, sqrt((f d)^2 + (u s)^2) + e, band by band:

- d, the network's distance for the colour that the spectrum shows, times the factor f of the model,
- s, the spectrum itself, times the doubt u about the photo: noise, JPEG, or a camera of which
  nothing is known,
- e, the error of the instrument by which somebody would check it: see `instrument_error`. So the
  band of a black pixel has a width, too.

Where exposure and tone curve of the photo are unknown, that band is one of the *shape* of spectra,
after the one best gain of the photo. Lower and upper side are then multiplied by the two factors
between which nine in ten true *brightnesses* lie.

Factors and doubts are calibrated on simulated scenes that no model has seen, and kept in the card
of the model and in the history of the cube. So a cube and its history are enough, also when both
come from a file.

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
"""The model whose network knows the distances."""

SIDE_NOTE = " spectra of the 90 % prediction interval"
"""The note by which a cube of a band is known, after "Lower" or "Upper"."""

STRAY = 0.002
"""Stray light and noise of an instrument, as a share of its strongest signal.

By judgement: data sheets of spectrometers and spectral cameras give 0.05 to 0.4 %. No scene shows
it, since simulated truths are exact.
"""

_HOLDS = {
    NOISE: "noise",
    JPEG: "noise and JPEG",
    CAMERA: "a usual camera's JPEG",
}
_REDDEST = 700.0  # nm: the strongest signal of the instrument


IntervalSides = tuple[Singles, Singles]
"""Numbers for the lower and for the upper side of a band."""


def side_writer(cube: SpectralCube) -> Callable[[Singles, Singles], None]:
    """Writes both sides (2, B, h, w) of some spectra (B, h, w) of *cube*.

    Raises
    ------
    CubeError
        If the model of the cube has no calibrated band.
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
    """Lower and upper spectrum (B,) of 90 % around one pixel of *cube*.

    None if its model has no calibrated band. It takes well under a millisecond, except the first
    time, when torch may have to be imported.
    """
    if not has_model_band(cube):
        return None
    spectrum = singles(cube.spectrum(row, column).values)
    lower, upper = _around(spectrum[:, None, None], cube)
    return lower[:, 0, 0], upper[:, 0, 0]


def has_model_band(cube: SpectralCube) -> bool:
    """True if the model of *cube* has a calibrated band, at the wavelengths that *cube* has."""
    if not cube.provenance.error_band or not cube.has_wavelengths:
        return False
    return np.array_equal(cube.wavelengths, _wavelengths())


def interval_side(cube: SpectralCube) -> str:
    """The side of a cube of `prediction_intervals`: "lower", "upper", or "" for any other cube.

    A cube that was read from a file is known, too.
    """
    for note in cube.provenance.assumptions:
        side, mark, _ = note.partition(SIDE_NOTE)
        if mark:
            return side.lower()
    return ""


def margins(spectra: Floats) -> IntervalSides:
    """Distances (B, H, W) of the network's lower and upper spectra from its own estimate.

    They are those for the colours that *spectra* (B, H, W) show.
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
    """The interval of a photo for its history: factors and doubts by band, and what they hold.

    *doubt* is `cards.NOISE`, `cards.JPEG` or `cards.CAMERA`. It is empty if *card* has no band
    that holds it.
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
    """The factors between which nine in ten true brightnesses lie, as a *band* of a history says.

    They are 1 where exposure and tone curve were known. Raises `CubeError` if they are damaged.
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
    """*cube*, with the band of the shape of its spectra alone, after one gain of the photo."""
    past = cube.provenance
    band = {name: value for name, value in past.error_band.items() if name != "brightness"}
    return replace(cube, provenance=replace(past, error_band=band))


def half_widths(spectra: Floats, band: Mapping[str, Any], wavelengths: Doubles) -> IntervalSides:
    """Distances (B, H, W) of lower and upper spectra from *spectra*, for a *band* of a history.

    Raises
    ------
    CubeError
        If the band is damaged.
    """
    factor, doubt, error = _numbers(band, wavelengths)[..., None, None].astype(np.float32)
    doubted = doubt * spectra
    below, above = margins(spectra)
    lower = np.hypot(factor * below, doubted) + error
    upper = np.hypot(factor * above, doubted) + error
    return lower, upper


def instrument_error(wavelengths: ArrayLike) -> Doubles:
    """Absolute error (B,) of a measured reflectance, by the light that the instrument has.

    It is `STRAY` of the strongest signal, as a share of the signal of white at each wavelength
    (nm). The signal is that of a lamp, CIE illuminant A, on a detector that counts photons: there
    is little of it at 400 nm, where the error is 0.047.
    """
    at = doubles(wavelengths)
    signal = illuminant("A", at) * at
    strongest = illuminant("A", _REDDEST) * _REDDEST
    return STRAY * strongest / signal


def _numbers(band: Mapping[str, Any], wavelengths: Doubles) -> Doubles:
    """Factor, doubt and the error of an instrument for each wavelength, (3, B)."""
    count = len(wavelengths)
    factor = _by_band(band.get("factor"), count)
    doubt = _by_band(band.get("doubt", [0.0]), count)
    return np.stack([factor, doubt, instrument_error(wavelengths)])


def _by_band(numbers: object, count: int) -> Singles:
    """*numbers* (B,) of a history, which has one for each of *count* bands or one for all."""
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
    """The band around *spectra* (B, H, W), as the history of *cube* says."""
    band = cube.provenance.error_band
    below, above = half_widths(spectra, band, cube.wavelengths)
    darker, brighter = brightness(band)
    lower = np.maximum(spectra - below, 0) * np.float32(darker)
    return lower, (spectra + above) * np.float32(brighter)


def reason_of(cube: SpectralCube) -> str:
    """The end of the note on the band of the model of *cube*: which photos it holds."""
    holds = cube.provenance.error_band.get("holds", "")
    return f", wide enough for {holds}" if holds else ""


def side_of(cube: SpectralCube, data: Singles, side: str, reason: str) -> SpectralCube:
    """*data* as a cube like *cube* that says what it is, and states no prediction interval."""
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
    """The network that knows the distances."""
    return cast("PixelwiseNetwork", load_model(PIXELWISE).network)


def _wavelengths() -> Doubles:
    """The wavelengths of the network that estimates the distances."""
    return np.asarray(MODELS[PIXELWISE].wavelengths)
