"""Calibrate the intervals of `mstpp-photo`: `python -m lab.calibrate_photo WEIGHTS`.

Photos are those of pixel sets whose spectra and cameras no training photo has. For the shape, each
photo is scaled by its one best gain; then the doubt of each band is the least that lets the
interval hold `HELD` of the values. The brightness then widens it, by the two factors between which
a share of the gains lies: the least share that lets the whole interval hold `HELD` of the values,
too. Real scenes and cameras differ from simulated ones, hence more than nine in ten.

Letters: N photos, P pixels, B bands.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab.fit_photo import decoded_photos, estimate
from lab.ordinary_photos import draw_processing, photograph
from lab.pixel_sets import PixelSets
from napari_mst.models import load_model
from napari_mst.models.cards import BRIGHTNESS, CAMERA, FACTOR
from napari_mst.models.seal import write_weights
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.model_intervals import half_widths, instrument_error, margins

HELD = 0.955
LEVELS = np.arange(0.0, 1.0, 0.02)
PHOTOS = 512
PIXELS = 192
SEED = 31
DARK = 0.02
_MOST = 0.95  # a doubt of all of a spectrum would say nothing


def photo_interval(network: Any, photos: int = PHOTOS) -> dict[str, tuple[float, ...]]:
    """The prediction interval of a card for *network*."""
    random = torch.Generator().manual_seed(SEED)
    truth = PixelSets(random, held_out=True).draw(photos, PIXELS)
    processing = draw_processing(photos, random, held_out=True)
    pictures = decoded_photos(photograph(truth, processing, random=random))
    with torch.inference_mode():
        spectra = estimate(network, pictures).clamp_min(1e-3).numpy()
    true = truth.numpy()
    lit = np.all(true > DARK, axis=2)
    pairs = zip(true, spectra, lit, strict=True)
    gains = np.array([np.median(t[m] / s[m]) if m.any() else np.nan for t, s, m in pairs])
    is_known = np.isfinite(gains)
    shape = true / gains[:, None, None]
    counted = lit & is_known[:, None]
    needed = _needed_doubts(shape[counted].T, spectra[counted].T)
    doubts = np.quantile(needed, HELD, axis=1).clip(0, _MOST).round(3)
    band = {"factor": [1.0], "doubt": doubts.tolist()}
    found = spectra[counted].T[..., None].astype(np.float32)
    below, above = (side[..., 0] for side in half_widths(found, band, GRID))
    sides = (found[..., 0] - below).clip(0), found[..., 0] + above
    low, high = _brightness(gains[is_known], true[counted].T, sides)
    return {
        FACTOR: (1.0,) * len(GRID),
        CAMERA: tuple(doubts.tolist()),
        BRIGHTNESS[0]: (low,),
        BRIGHTNESS[1]: (high,),
    }


def _brightness(gains: Any, true: Any, sides: tuple[Any, Any]) -> tuple[float, float]:
    """The factors on the *sides* (B, n) of the shape with which they just hold *true* (B, n)."""
    low = high = 1.0
    for share in LEVELS:
        low, high = np.quantile(gains, ((1 - share) / 2, (1 + share) / 2)).round(3).tolist()
        low, high = min(low, 1.0), max(high, 1.0)
        if ((true >= low * sides[0]) & (true <= high * sides[1])).mean() >= HELD:
            break
    return low, high


def _needed_doubts(true: Any, spectra: Any) -> Any:
    """(B, n): the doubt with which the interval around *spectra* (B, n) just holds *true*."""
    below, above = (side[..., 0] for side in margins(spectra[..., None].astype(np.float32)))
    off = true - spectra
    beyond = np.abs(off) - instrument_error(GRID)[:, None]
    margin = np.where(off < 0, below, above)
    return np.sqrt(np.maximum(beyond.clip(0) ** 2 - margin**2, 0)) / spectra


def main() -> None:
    """Write the calibrated card into a weights file."""
    path = Path(sys.argv[1])
    model = load_model(path)
    band = photo_interval(model.network)
    print(band)
    write_weights(path, model.network.state_dict(), replace(model.card, error_band=band))


if __name__ == "__main__":
    main()
