"""The shot that a RAW file holds: its camera, its exposure, and the white that the camera chose."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.messages import shown


@dataclass(frozen=True)
class Shot:
    """The circumstances of a RAW photo, as its file tells them.

    Numbers are 0 and texts are empty where the file does not tell.

    Attributes
    ----------
    make, model
        The camera, in the words of its maker.
    camera
        Its name among the cameras with measured sensitivities; "" if it is none of them.
    neutral
        What the sensor gives for a white surface by the camera's own white balance ("as shot"):
        red, green, blue, green being 1; None where the file does not tell.
    iso, exposure_time, aperture, focal_length
        Sensitivity, seconds, f-number, millimetres.
    lens, taken
        The name of the lens; the camera's date and time, as ISO 8601.
    demosaicing
        The method that made three colours of the one that each pixel of the sensor sees.
    is_flat
        True once the photo was divided by a white frame, which balances it.
    """

    make: str = ""
    model: str = ""
    camera: str = ""
    neutral: tuple[float, float, float] | None = None
    iso: float = 0.0
    exposure_time: float = 0.0
    aperture: float = 0.0
    focal_length: float = 0.0
    lens: str = ""
    taken: str = ""
    demosaicing: str = ""
    is_flat: bool = False

    @property
    def gains(self) -> NDArray[np.float64] | None:
        """(3,): factors of the channels that balance the photo as shot; None if unknown."""
        return None if self.neutral is None else 1 / np.array(self.neutral)

    @property
    def title(self) -> str:
        """The camera for a person, with its brand once."""
        brand = next(iter(self.make.split()), "")
        names_itself = self.model.lower().startswith(brand.lower())
        name = self.model if names_itself else f"{brand} {self.model}"
        return shown(name.strip(), 40) or "an unnamed camera"

    @property
    def settings(self) -> str:
        """Exposure time, aperture, sensitivity and focal length for a person."""
        parts = []
        if self.exposure_time:
            parts.append(_seconds(self.exposure_time))
        if self.aperture:
            parts.append(f"f/{self.aperture:g}")
        if self.iso:
            parts.append(f"ISO {self.iso:g}")
        if self.focal_length:
            parts.append(f"{self.focal_length:g} mm")
        return ", ".join(parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the history of a cube."""
        exposure = f" ({self.settings})" if self.settings else ""
        return (
            f"A RAW photo of {self.title}{exposure}: black level and saturation were applied, "
            f"demosaicing: {self.demosaicing}. Vignetting and colour fringes of the lens were "
            "left as they are.",
            self._white_note(),
            self._camera_note(),
        )

    def _white_note(self) -> str:
        if self.neutral is None:
            return "The file does not tell the white balance of its camera."
        red, green, blue = self.neutral
        return f"White as shot, in values of the sensor: {red:.4g}, {green:g}, {blue:.4g}."

    def _camera_note(self) -> str:
        if self.camera:
            return f"The sensitivities of its camera are known as {self.camera}."
        return (
            f"The sensitivities of {self.title} are not among the measured ones: name a similar "
            "camera or a CSV file, or calibrate with a chart."
        )


def _seconds(time: float) -> str:
    return f"1/{round(1 / time)} s" if time < 0.3 else f"{time:g} s"
