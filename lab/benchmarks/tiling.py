"""The cost of tiles in accuracy: the usual tiles of a photo, put together again, against the exact result.

Each tile goes through the whole network by itself, as programs for large images do it; where tiles
overlap, the result is their mean with weights that fall off linearly towards the border of each
tile. H rows, W columns, B bands.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from napari_mst.cube.metrics import spectral_angles
from napari_mst.engine.run import run
from napari_mst.models import load_model
from napari_mst.photo.photo import Photo

Array = NDArray[np.float32]

PHOTO = Path(__file__).parents[2] / "sample_data" / "coffee.jpg"
TILES = [(256, 0), (256, 16), (256, 32), (128, 0), (128, 16), (128, 32)]
"""Side of the tiles and the pixels by which they overlap."""


def print_errors(device: torch.device) -> None:
    """The table of all kinds of tiles, with the bundled model."""
    model = load_model("mstpp-srgb")
    photo = Photo.read(PHOTO)
    pixels = photo.rows(linear=model.card.is_linear)
    network = model.network.to(device)

    def reconstruct(part: Array) -> Array:
        return run(network, lambda start, stop: part[:, start:stop], *part.shape[1:], device)

    exact = reconstruct(pixels)
    scale = np.abs(exact).max()
    print(
        f"\n{PHOTO.name}, {pixels.shape[1]}x{pixels.shape[2]}, tiles against the exact result of {model.card.name}"
    )
    print(
        f"  {'tile':>5} {'overlap':>8} {'max error':>10} {'mean error':>11} {'SAM max':>8} {'SAM mean':>9}"
    )
    for side, overlap in TILES:
        tiled = blended(reconstruct, pixels, side, overlap)
        error, angles = np.abs(tiled - exact) / scale, spectral_angles(tiled, exact)
        print(
            f"  {side:5} {overlap:8} {error.max():10.2%} {error.mean():11.3%} "
            f"{np.nanmax(angles):8.2f} {np.nanmean(angles):9.3f}",
            flush=True,
        )


def blended(reconstruct, pixels: Array, side: int, overlap: int) -> Array:
    """The tiles of *pixels*, (3, H, W), reconstructed one by one and blended -> (B, H, W)."""
    _, height, width = pixels.shape
    total, weights = np.zeros(1), np.zeros((height, width))
    for top in starts(height, side, overlap):
        for left in starts(width, side, overlap):
            tile = (slice(None), slice(top, top + side), slice(left, left + side))
            bands = reconstruct(pixels[tile])
            weight = np.outer(ramp(bands.shape[1], overlap), ramp(bands.shape[2], overlap))
            if total.ndim == 1:
                total = np.zeros((len(bands), height, width))
            total[tile] += bands * weight
            weights[tile[1:]] += weight
    return total / weights


def starts(length: int, side: int, overlap: int) -> list[int]:
    """The first pixels of the tiles of one axis; the last tile ends with the image."""
    last = max(length - side, 0)
    return [*range(0, last, side - overlap), last]


def ramp(length: int, overlap: int) -> NDArray[np.float64]:
    """Weights of one axis of a tile: 1, and less within *overlap* pixels of either end."""
    distance = np.arange(length) + 1
    return np.minimum(np.minimum(distance, distance[::-1]) / (overlap + 1), 1)
