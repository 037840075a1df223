"""Estimates, before the run, the light of a photo whose illuminant is unknown.

Letters: B bands, P pixels.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from napari_mst.base.arrays import Doubles, Singles
from napari_mst.base.errors import CameraError, PhotoError
from napari_mst.calibration.corrections import balancing_gains
from napari_mst.calibration.light.estimating import (
    LightEstimate,
    estimate_light,
    reflectance_of,
    warning_of,
)
from napari_mst.calibration.white_patch import patch_values
from napari_mst.cube.colour import SRGB_D65
from napari_mst.models import Model
from napari_mst.models.cards import PHOTOGRAPHED
from napari_mst.photo.cameras import OF_SENSOR, Acquisition, unbalanced_response
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.setup import Setup, copied

if TYPE_CHECKING:
    from napari_mst.networks.camera import CameraNetwork

_COVERED = 0.9
_SQUARES = 8  # along each side of the mosaic on which candidates are compared
_SIDE = 8
_BRIGHT = 0.995  # quantile of brightness expected near full scale
_BLACK = 1e-4
# Logarithm of green over the geometric mean of red and blue. Even unbalanced, white has at most
# 0.47 under all known lights from 2326 K on, except sodium.
_LAMPS_CAST = 0.5
# In stops. Of the CAVE scenes with white at full scale, the darkest is 1.1 below.
_UNDER = 2.5
_DARK = 0.02  # reflectance below which candidates are not compared


def lighting_of(setup: Setup, photo: Photo) -> tuple[Setup, tuple[float, ...], tuple[str, ...]]:
    """Return *setup* for *photo*, with its light estimated if necessary; the doubt, and sentences.

    The doubt (B,) is the possible error of the spectra due to the light, as a share: nine in ten
    spectra under the candidate lights lie within it. It is empty if the light was named.

    Raises
    ------
    CameraError
        If the light must be estimated, but the photo is white-balanced.
    PhotoError
        As `estimate_light`.
    """
    acquisition = setup.options.acquisition
    if acquisition is None:
        card = setup.model.card
        is_srgb = card.rendering == SRGB_D65 or card.name == PHOTOGRAPHED
        warnings: tuple[str, ...] = ()
        if is_srgb:
            warnings = (warning_of(photo), _exposure_warning(photo), _cast_warning(photo))
        return setup, (), tuple(filter(None, warnings))
    if not acquisition.is_estimated:
        return setup, (), ()
    estimate, notes = estimated(photo, acquisition)
    acquisition = replace(acquisition, illuminant=estimate.illuminant)
    doubt = _doubt(setup.model, photo, acquisition, estimate)
    return setup.with_acquisition(acquisition), doubt, notes


def _exposure_warning(photo: Photo) -> str:
    """Return a warning if the brightest parts of *photo* are far below full scale, else ""."""
    light = photo.sampled(_SQUARES, _SIDE).rows(linear=True).max(axis=0)
    stops = -np.log2(max(float(np.quantile(light, _BRIGHT)), _BLACK))
    if stops < _UNDER:
        return ""
    return (
        f"The photo seems to be under-exposed by {stops:.0f} stops: its spectra are too dark, and "
        "each stop changes their shape by 2 to 3 %. Expose so that white is just below full scale."
    )


def _cast_warning(photo: Photo) -> str:
    """Return a warning if the brightest parts of *photo* are green or magenta as under no lamp."""
    light = photo.sampled(_SQUARES, _SIDE).rows(linear=True).reshape(3, -1)
    red, green, blue = np.quantile(light, _BRIGHT, axis=1).clip(_BLACK)
    cast = float(np.log(green / np.sqrt(red * blue)))
    if abs(cast) < _LAMPS_CAST:
        return ""
    colour = "green" if cast > 0 else "magenta"
    return (
        f"The brightest parts of the photo are {colour} as in the light of no lamp: it may be an "
        "unbalanced raw photo, or a filtered one. Name a grey patch, or balance it first."
    )


def estimated(photo: Photo, acquisition: Acquisition) -> tuple[LightEstimate, tuple[str, ...]]:
    """Estimate the light of *photo* for *acquisition*; also return sentences about the estimate.

    References of *acquisition* at clipped, dark or uneven places are left out, with a sentence.
    Raises the errors of `lighting_of`.
    """
    if not _is_of_sensor(photo, acquisition):
        raise CameraError(
            "Expected the values of the sensor to estimate the illuminant, got a white-balanced "
            "photo, which hides it. Name the illuminant, or say that the photo is unbalanced."
        )
    references, left_out = dict(acquisition.references), list[str]()
    for place, surface in acquisition.references.items():
        try:
            patch_values(photo, place)
            reflectance_of(surface)
        except PhotoError as error:
            del references[place]
            where = "row {}, column {}".format(*place[:2])
            left_out.append(f"The reference spectrum at {where} does not tell the light: {error}")
    estimate = estimate_light(photo, acquisition.camera, references)
    spectra = (
        f"{len(references)} reference spectr{'um' if len(references) == 1 else 'a'} in "
        if references
        else ""
    )
    note = f"The illuminant was estimated from {spectra}the photo: {estimate}."
    return estimate, (note, *left_out)


def _is_of_sensor(photo: Photo, acquisition: Acquisition) -> bool:
    """True if the values of *photo* are not white-balanced yet."""
    if photo.shot is not None:
        return not photo.shot.is_flat
    return acquisition.balance == OF_SENSOR


def _doubt(
    model: Model, photo: Photo, acquisition: Acquisition, estimate: LightEstimate
) -> tuple[float, ...]:
    """Return the doubt of `lighting_of`, measured on squares of pixels from all over the photo."""
    if not model.card.needs_camera:
        return ()
    network = cast("CameraNetwork", getattr(model.network, "pixelwise", model.network))
    white = acquisition.white
    scale = np.float32(photo.full_scale / white if white else 1)
    linear = scale * photo.sampled(_SQUARES, _SIDE).rows(linear=True).reshape(3, -1, 1)
    is_raw = acquisition.balance == OF_SENSOR
    gains = None if is_raw else balancing_gains(photo, acquisition)

    def spectra(power: Doubles) -> Singles:
        response = unbalanced_response(estimate.camera, "E") * power[:, None]
        return _spectra(network, linear, response, gains)

    mean = spectra(estimate.power)
    is_counted = mean.mean(axis=0) > _DARK
    off = []
    for candidate in estimate.candidates:
        other = spectra(candidate.power)
        off.append((np.abs(other - mean) / np.maximum(mean, _DARK))[:, is_counted])
    shares = np.repeat([each.probability for each in estimate.candidates], is_counted.sum())
    if not shares.sum() > 0:  # all pixels are dark
        return (0.0,) * len(mean)
    doubt = np.quantile(
        np.concatenate(off, axis=1), _COVERED, axis=1, weights=shares, method="inverted_cdf"
    )
    return tuple(doubt.round(4).tolist())


def _spectra(
    network: "CameraNetwork",
    linear: Singles,
    response: Doubles,
    gains: Doubles | None,
) -> Singles:
    """Return spectra (B, P, 1) of sensor values (3, P, 1) under a *response*, pixel by pixel.

    *gains* (3,) balance the values; by default they follow from the light.
    """
    import torch

    response = response / response[:, 1].sum()
    white = response.sum(axis=0)
    gains = 1 / white if gains is None else gains
    seeing = copied(network)
    seeing.set_response(torch.from_numpy(response / white))
    balanced = torch.from_numpy((linear * gains[:, None, None]).astype(np.float32))
    with torch.inference_mode():
        return seeing(balanced[None])[0].numpy()
