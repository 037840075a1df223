"""An sRGB photo with other colours: each pixel's linear colour is taken to another one.

Letters: H rows, W columns, n pixels.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_to_srgb
from napari_mst.photo.photo import Photo

Recolour = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Takes linear colours (n, 3) to others."""

_ROWS = 64


def recoloured(photo: Photo, recolour: Recolour, note: str, sha256: str) -> Photo:
    """*photo* in float32 sRGB, 0-1, with the colours that *recolour* gives, and one more *note*."""
    pixels = np.empty((3, *photo.shape), dtype=np.float32)
    for top in range(0, photo.shape[0], _ROWS):
        bottom = min(top + _ROWS, photo.shape[0])
        linear = photo.rows(top, bottom, linear=True).astype(np.float64)
        right = recolour(linear.reshape(3, -1).T).clip(0, 1)
        pixels[:, top:bottom] = linear_to_srgb(right).T.reshape(linear.shape)
    if photo.valid is not None:
        pixels[:, ~photo.valid] = 0
    return replace(
        photo,
        pixels=pixels,
        full_scale=1.0,
        sha256=sha256,
        assumptions=(*photo.assumptions, note),
        is_corrected=True,
    )


def sha256_after(photo_sha256: str, what: str) -> str:
    """The sha256 of a photo to which *what* was done, from that of the photo itself."""
    return hashlib.sha256(f"{photo_sha256} {what}".encode()).hexdigest()
