"""The options of a reconstruction: one list for the dock, the command line and the API."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from napari_mst.photo.cameras import Capture
from napari_mst.photo.photo import Rectangle

Denoise = Literal["auto", "off"] | float
"""The choice of denoising a photo before the network: if it is noisy, never, or with this h.

h is in units of the noise that the photo has.
"""

OF_PHOTO = ("region", "ensemble")
"""Options that may differ from photo to photo; a `Reconstructor` is made with the others."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a reconstruction, apart from the model.

    `reconstruction.setup` checks that the two fit together.

    Attributes
    ----------
    device
        "auto", "cuda", "cuda:1", "mps" or "cpu".
    memory, device_memory
        Bytes of this computer's memory and of a GPU's own, at most; None for most of what is free.
    precision
        "float32", "float64", or "bfloat16" or "float16", which are not exact.
    denoise
        "auto" denoises photos that are noisy, "off" none, and a number every photo, with that h in
        units of its noise.
    correct_colour
        Whether spectra whose colour is not the photo's are moved.
    capture
        The camera and the illuminant of a linear photo, for models that need them; the illuminant
        may be left to the photo (`cameras.ESTIMATED`).
    calibrated_by
        What tells that photos show colours exactly, in a few words; "" if nothing does. Error bands
        are then narrower, and say so.
    region
        The part of the photo that the cube covers; None for all of it.
    ensemble
        Whether the cube is the mean over eight flips and transposes of the photo.
    """

    device: str = "auto"
    memory: int | None = None
    device_memory: int | None = None
    precision: str = "float32"
    denoise: Denoise = "auto"
    correct_colour: bool = True
    capture: Capture | None = None
    calibrated_by: str = ""
    region: Rectangle | None = None
    ensemble: bool = False

    @property
    def for_reconstructor(self) -> dict[str, Any]:
        """The keyword arguments of `Reconstructor`."""
        names = [field.name for field in fields(self) if field.name not in OF_PHOTO]
        return {name: getattr(self, name) for name in names}

    @property
    def for_photo(self) -> dict[str, Any]:
        """The keyword arguments of `Reconstructor.reconstruct`, beside the photo."""
        return {name: getattr(self, name) for name in OF_PHOTO}


DEFAULTS = RunOptions()
"""The options of somebody who has not chosen anything."""
