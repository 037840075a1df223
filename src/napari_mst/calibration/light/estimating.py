"""Estimates the light of a photo: the candidate lights, and their probabilities.

The estimate includes the attention of the vision transformer over the patches of the photo.
Letters: S cells on a side of the picture, K known lights; L blocks, h heads, T tokens (the class
token first), G patches on a side.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Brief, Doubles
from napari_mst.base.errors import CameraError, PhotoError
from napari_mst.calibration.light.seeing import (
    CellColours,
    KnownLights,
    LightPosterior,
    Sample,
    common_response,
    light_table,
    picture,
    posterior_of,
    sampled,
    to_common,
)
from napari_mst.calibration.light.transformer import EncodedPhotos, light_transformer
from napari_mst.calibration.white_patch import OFF_DAYLIGHT, angle_between, patch_values
from napari_mst.cube.spectrum import Spectrum
from napari_mst.photo.cameras import (
    DAYLIGHT,
    ESTIMATED,
    GRID,
    SRGB,
    light_power,
    sensor_white,
    unbalanced_response,
)
from napari_mst.photo.lights import FAMILIES, LARGEST, Family, mixture_name
from napari_mst.photo.photo import Photo, PhotoLike, as_photo

MODEL = "light-vit"
"""The bundled network that estimates the light."""

CANDIDATES = 3

NEAR = 2.0
"""Angle in degrees between two whites up to which one candidate represents both."""

FAR = 10.0
"""Smallest angle in degrees between the white of an sRGB photo and D65 that deserves a note.

Twice the uncertainty of the estimate (`LightEstimate.spread`) is added, since cameras balance most
photos well. Of 108 photos of real scenes in nine lights, 58 exceeded this angle, but none of the 12
in D65; correcting them more than halved the error (`lab/benchmarks/white_balance.py`).
"""

_SCATTER = 5.0  # typical error of shades of grey, in degrees
_LEAST_SHARE = 0.01  # of a light in the name of a mixture
_OFF = 0.02  # typical log error in the colour of a known reflectance
_FULL = 4  # known reflectances with independent errors; more have common errors
_HELD = 3.0  # weight that keeps a mixture close to the probabilities of lights
_WHOLE = 1e3  # weight that keeps the sum of a mixture at 1
_TINY = 1e-12


class LightCandidate(NamedTuple):
    """A candidate for the light of a photo, including lights with the same white.

    Attributes
    ----------
    name
        The most likely of these lights, named as for `Acquisition`.
    family
        The most likely kind of light: "Planck", "daylight", "fluorescent" or "LED".
    probability
        Joint probability of these lights, 0-1.
    power
        Their mean relative spectral power (31,) at 400, 410, ..., 700 nm.
    white
        (3,) sensor values of a white surface, with green 1.
    """

    name: str
    family: Family
    probability: float
    power: Doubles
    white: Doubles


@dataclass(frozen=True, eq=False, repr=False)
class LightEstimate(Brief):
    """The light of a photo, as estimated by a network.

    Attributes
    ----------
    camera
        The camera that took the photo.
    candidates
        The most likely lights, most likely first: three, or fewer if these are certain.
    illuminant
        The best overall estimate, a mixture, named as for `Acquisition`.
    spread
        Mean angle in degrees between the whites of the illuminant and of the candidates.
    attention
        (L, h, T, T); rows are queries and sum to 1; the first token is the class token.

    Notes
    -----
    ====================  ===============================================
    candidates            probabilities 0-1
    power                 (31,) relative power at 400, 410, ..., 700 nm
    white                 (3,) linear values of the sensor, green being 1
    spread, off_daylight  degrees
    attention             (blocks, heads, tokens, tokens) shares
    attention_map         (G, G) shares of G x G patches
    ====================  ===============================================

    Examples
    --------
    >>> photo = nm.Photo.from_array(np.full((64, 64, 3), (0.2, 0.4, 0.3)), encoding="linear")
    >>> estimate = nm.light.estimate(photo, "Nikon_D5100")
    >>> len(estimate.candidates), estimate.power.shape, estimate.white.shape
    (3, (31,), (3,))
    """

    camera: str
    candidates: tuple[LightCandidate, ...]
    illuminant: str
    spread: float
    attention: Doubles

    @property
    def attention_map(self) -> Doubles:
        """(G, G) contribution of each patch to the answer, through all blocks; see `rollout`.

        Together with the share of the class token, which belongs to no patch, the map sums to 1.
        """
        import torch

        from napari_mst.networks.attention.class_token import rollout

        patches = rollout([torch.from_numpy(block) for block in self.attention])[0, 1:].numpy()
        side = math.isqrt(patches.size)
        return patches.reshape(side, side)

    @property
    def power(self) -> Doubles:
        """Relative spectral power (31,) of the illuminant."""
        return light_power(self.illuminant)

    @property
    def white(self) -> Doubles:
        """(3,) sensor values of a white surface, with green 1."""
        return sensor_white(self.camera, self.illuminant)

    @property
    def off_daylight(self) -> float:
        """Angle in degrees between the white of the light and the D65 white."""
        return float(angle_between(self.white, sensor_white(self.camera, DAYLIGHT)))

    @property
    def is_far(self) -> bool:
        """True if the light is so far from D65 that an sRGB photo should be corrected for it."""
        # An estimate hardly ever errs by more than twice its spread.
        return self.off_daylight >= FAR + 2 * self.spread

    def __str__(self) -> str:
        """List the candidates and their probabilities in one line."""
        return ", ".join(f"{each.name} {each.probability:.0%}" for each in self.candidates)


def estimate_light(
    photo: PhotoLike, camera: str, references: Mapping[Any, Spectrum | float] | None = None
) -> LightEstimate:
    """Estimate the light in which *camera* took *photo*.

    Known reflectances narrow the estimate to lights, and mixtures of lights, that explain their
    colours.

    Parameters
    ----------
    photo
        Linear sensor values without white balance; or, with the camera "sRGB", an sRGB photo, for
        which the light is what the white balance has left uncorrected.
    camera
        Camera as for `Acquisition`.
    references
        Known reflectances by place in the photo, as for a `GreyPatch`: a `Spectrum`, or a share for
        a grey. Brightness does not matter.

    Raises
    ------
    PhotoError
        If the photo does not have three channels, if it is sRGB-encoded but the camera is not sRGB,
        or if it has only black and clipped pixels; if a known place is clipped, dark, uneven or
        outside; or if a spectrum does not cover 420-680 nm.
    CameraError
        If the camera is unknown.

    Notes
    -----
    ==========  =================================================================
    photo       linear values of the sensor, uint16 0-65535 or float 0-1; or sRGB
    references  reflectance, 0 to about 1; wavelengths in nm
    returns     probabilities 0-1, relative power at 400-700 nm
    ==========  =================================================================

    Examples
    --------
    >>> photo = nm.Photo.from_array(np.full((64, 64, 3), (0.2, 0.4, 0.3)), encoding="linear")
    >>> estimate = nm.light.estimate(photo, "Nikon_D5100")
    >>> shot = nm.Acquisition("Nikon_D5100", estimate.illuminant, balance="by the sensitivities")
    >>> len(estimate.candidates)
    3
    >>> nm.light.estimate(photo, "Nikon_D5100", {(20, 30): 0.18}).spread < estimate.spread
    True
    """
    photo = as_photo(photo)
    _check(photo, camera)
    sample = sampled(photo, light_transformer(MODEL).size)
    references = references or {}
    values = np.array([patch_values(photo, place) for place in references]).reshape(-1, 3)
    reflectances = np.array([*map(reflectance_of, references.values())]).reshape(-1, len(GRID))
    encoding, probabilities, shares = _likely(sample, camera, reflectances, values)
    table = light_table()
    illuminant = _named_mixture(table, shares)
    candidates = _candidates(camera, table, probabilities)
    white = sensor_white(camera, illuminant)
    weights = np.array([each.probability for each in candidates])
    angles = angle_between(np.stack([each.white for each in candidates]), white)
    spread = float(angles @ weights / weights.sum())
    # In double precision, rows sum to 1 to the last digits.
    maps = np.stack([block[0] for block in encoding.attentions]).astype(np.float64)
    attention = maps / maps.sum(-1, keepdims=True)
    return LightEstimate(camera, candidates, illuminant, spread, attention)


def reflectance_of(references: Spectrum | float) -> Doubles:
    """Return the reflectance (31,) of a reference; `PhotoError` if 420-680 nm are not covered."""
    if not isinstance(references, Spectrum):
        return np.full(len(GRID), float(references))
    is_known = np.isfinite(references.values)
    at = references.wavelengths[is_known]
    if not (at.size and at.min() <= GRID[2] and at.max() >= GRID[-3]):
        raise PhotoError(
            f"Expected a reference spectrum of {GRID[2]:g} to {GRID[-3]:g} nm, got less. "
            "Measure a wider range."
        )
    order = at.argsort()
    return np.interp(GRID, at[order], references.values[is_known][order])


def _likely(
    sample: Sample, camera: str, reflectances: Doubles, values: Doubles
) -> tuple[EncodedPhotos, Doubles, Doubles]:
    """Return the encoding of *sample*, the probabilities of known lights, and their mixture.

    *values* (n, 3) are sensor values of known *reflectances* (n, 31).
    """
    encoding, posterior = _answers(sample, camera)
    bright = _in_common_space(sample.bright[:, None, None], camera)[:, 0, 0]
    table = light_table()
    probabilities = _seconded(table, table.probabilities(posterior), bright)
    if not len(values):
        return encoding, probabilities, probabilities
    response = unbalanced_response(camera, "E")
    seen = np.einsum("nb,kb,bc->knc", reflectances, table.powers, response)
    return encoding, *_narrowed(probabilities, np.maximum(seen, _TINY) / values)


def warning_of(photo: Photo) -> str:
    """Return a warning if the light of an sRGB photo seems to be far from D65, else "".

    Models for sRGB photos assume D65. Linear and corrected photos never get the warning.
    """
    if photo.encoding != "srgb" or photo.is_corrected or len(photo.pixels) != 3:
        return ""
    try:
        estimate = estimate_light(photo, SRGB)
    except PhotoError:
        return ""
    if not estimate.is_far:
        return ""
    return (
        f"{OFF_DAYLIGHT} that is {estimate.off_daylight:.0f} degrees off that of "
        f"D65 ({estimate.candidates[0].name}), which this model takes for granted. "
        "Correct its white balance for better spectra (--balance estimate, or Colours off? in the "
        "window)."
    )


def _check(photo: Photo, camera: str) -> None:
    if len(photo.pixels) != 3:
        raise PhotoError(
            f"Expected a photo of 3 channels to estimate its light, got {len(photo.pixels)}. "
            "Name the illuminant."
        )
    if camera == ESTIMATED:
        raise CameraError(f"Expected the name of a camera, got {camera!r}. Choose one.")
    if photo.encoding != "linear" and camera != SRGB:
        raise PhotoError(
            f"Expected linear values of {camera[-40:]} to estimate the light, got sRGB-encoded "
            "ones. Say that the photo is linear, if it is, or name the camera sRGB."
        )


def _in_common_space(values: Doubles, camera: str) -> Doubles:
    """Convert sensor values (3, S, S) of a *camera* to the space common to all cameras."""
    balanced = values / sensor_white(camera, "E")[:, None, None]
    return np.einsum("chw,cd->dhw", balanced, to_common(camera))


def _answers(sample: Sample, camera: str) -> tuple[EncodedPhotos, LightPosterior]:
    """Return the answers of the network for a photo and its mirror images."""
    is_known = sample.is_known.reshape(1, -1)
    means, brightest = (
        CellColours(_in_common_space(each, camera).astype(np.float32).reshape(1, 3, -1), is_known)
        for each in (sample.means, sample.brightest)
    )
    channels, mean_colour = picture(means, brightest)
    channels = channels.reshape(*channels.shape[:2], *sample.is_known.shape)
    views = [channels, channels[..., ::-1], channels[..., ::-1, :], channels.swapaxes(-1, -2)]
    encoding = light_transformer(MODEL).seen(np.concatenate(views))
    return encoding, posterior_of(encoding.outputs, mean_colour)


def _seconded(table: KnownLights, probabilities: Doubles, bright: Doubles) -> Doubles:
    """Weight the *probabilities* (K,) by how well *bright* parts match the colour of each light.

    This second opinion helps because the network sees means, in which small highlights are lost.
    Its distribution is Cauchy, since it errs far if the brightest object has a strong colour.
    """
    whites = table.powers @ common_response().astype(np.float64)
    weighted = probabilities / (1 + (angle_between(whites, bright) / _SCATTER) ** 2)
    return weighted / weighted.sum()


def _narrowed(probabilities: Doubles, ratios: Doubles) -> tuple[Doubles, Doubles]:
    """Update *probabilities* (K,) of lights by the *ratios* (K, n, 3) of shown to true colours.

    Mixtures explain colours that no single light explains. Also returns the shares (K,) of a
    mixture, by non-negative least squares that stay close to the probabilities.
    """
    logs = np.log(ratios)
    squares = np.square(logs - logs.mean(axis=2, keepdims=True)).sum(axis=(1, 2))
    doubt = _OFF * math.sqrt(max(ratios.shape[1] / _FULL, 1))
    likely = np.log(probabilities + _TINY) - squares / (2 * doubt**2)
    alone = np.exp(likely - likely.max())
    alone /= alone.sum()
    # A mixture that explains the colours has equal ratios in red, green and blue.
    off = (ratios[..., ::2] - ratios[..., 1:2]).reshape(len(alone), -1).T
    off /= doubt * np.tensordot(alone, ratios, 1).mean()
    sums, held = np.full((1, len(alone)), _WHOLE), _HELD * np.eye(len(alone))
    wanted = np.concatenate([np.zeros(len(off)), [_WHOLE], _HELD * alone])
    from scipy.optimize import nnls  # imported late: the docks import this module

    shares, _ = nnls(np.concatenate([off, sums, held]), wanted)
    return alone, shares / shares.sum()


def _candidates(
    camera: str, table: KnownLights, probabilities: Doubles
) -> tuple[LightCandidate, ...]:
    """Return the lights around which most of the probability lies, one after the other."""
    response = unbalanced_response(camera, "E")
    whites = table.powers @ response
    directions = whites / np.linalg.norm(whites, axis=1, keepdims=True)
    is_near = directions @ directions.T >= np.cos(np.deg2rad(NEAR))
    left = probabilities.copy()
    candidates: list[LightCandidate] = []
    while len(candidates) < CANDIDATES and left.sum() > _LEAST_SHARE:
        around = is_near[int((is_near @ left).argmax())]
        candidates.append(_candidate(table, left * around, response))
        left[around] = 0
    return tuple(candidates)


def _candidate(table: KnownLights, weights: Doubles, response: Doubles) -> LightCandidate:
    """Return the mean of the lights with these *weights* (K,) as a candidate."""
    family = max(FAMILIES, key=lambda name: weights[table.families == name].sum())
    likeliest = int((weights * (table.families == family)).argmax())
    power = weights @ table.powers / weights.sum()
    white = power @ response
    name = table.names[likeliest]
    return LightCandidate(name, family, float(weights.sum()), power, white / white[1])


def _named_mixture(table: KnownLights, probabilities: Doubles) -> str:
    """Return the name of the mixture of the most likely lights."""
    order = probabilities.argsort()[::-1][:LARGEST]
    shares = probabilities[order] / probabilities[order].sum()
    named = {
        table.names[place]: float(share)
        for place, share in zip(order, shares, strict=True)
        if share >= _LEAST_SHARE
    }
    return next(iter(named)) if len(named) == 1 else mixture_name(named)
