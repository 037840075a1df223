"""The white balance of a linear photo, by its file, by its camera, or by a white surface in it."""

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import PhotoError
from napari_mst.photo.cameras import BALANCED, Capture
from napari_mst.photo.photo import Photo


def balancing_gains(photo: Photo, capture: Capture) -> NDArray[np.float64]:
    """(3,): factors of the channels of *photo* that balance it as *capture* says.

    "As stored" are the values of a RAW photo balanced by the white that its file stores, and those
    of any other photo themselves.

    Raises
    ------
    PhotoError
        If a RAW photo shall be balanced as stored, and its file does not tell how.
    """
    if photo.shot is None or capture.balance != BALANCED:
        return capture.gains
    gains = photo.shot.gains
    if gains is None:
        raise PhotoError(
            f"Expected the white balance of the camera in {photo.name[-60:]}, got none. "
            "Show a grey patch, or say that the photo is unbalanced."
        )
    return gains
