"""Options and reconstructor of the commands that read photos."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.console import note
from napari_mst.errors import CameraError, PhotoError
from napari_mst.photo.cameras import BALANCED, OF_SENSOR, Capture
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.reconstruction.options import RunOptions

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor


def add_photo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how a photo was taken: `--linear`, and camera and light."""
    parser.add_argument(
        "--linear", action="store_true", help="the photo holds linear light, not sRGB"
    )
    group = parser.add_argument_group(
        "for mstpp-camera", "how the photo was taken; `napari-mst cameras` lists the names"
    )
    group.add_argument(
        "--camera",
        default="",
        metavar="NAME|FILE",
        help="a camera, as Nikon_D5100, or a CSV file: nm, r, g, b",
    )
    group.add_argument(
        "--illuminant",
        default="",
        metavar="NAME|FILE",
        help="a light, as D65, or a CSV file: nm, power",
    )
    group.add_argument(
        "--white",
        type=float,
        default=0.0,
        metavar="VALUE",
        help="stored value of a white surface (default: full scale)",
    )
    group.add_argument(
        "--unbalanced",
        action="store_true",
        help="the values come from the sensor without any white balance",
    )


@dataclass(frozen=True)
class PhotoOptions:
    """The encoding, camera and light of the photos of a command.

    Attributes
    ----------
    is_linear
        The user says that the photos hold linear light.
    capture
        Camera and light; None if the user named none.
    """

    is_linear: bool
    capture: Capture | None

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "PhotoOptions":
        """Check and collect what `add_photo_arguments` added. Raises `CameraError`."""
        return cls(arguments.linear, _capture(arguments))

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of the photos; None where the file tells."""
        return "linear" if self.is_linear or self.capture else None

    def read(self, path: Path) -> Photo:
        """Read a photo.

        Raises `PhotoError` where a camera is named and the photo is plainly not linear.
        """
        photo = Photo.read(path, encoding=self.encoding)
        # With --linear the user has said that even an 8-bit photo is linear.
        if self.capture is not None and not self.is_linear:
            try:
                photo.check_linear()
            except PhotoError as error:
                raise PhotoError(f"{photo.name}: {error} (--linear)") from error
        return photo


def load_reconstructor(model: str, options: RunOptions) -> "Reconstructor":
    """A reconstructor that is ready to run; tells which device it runs on."""
    # These import torch, which --help and a refused target must not wait for.
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    reconstructor = Reconstructor(load_model(model), **options.for_reconstructor)
    note(f"running on {reconstructor.device.name}, {reconstructor.device.reason}")
    # With a cancel, kernels are compiled on another thread. This thread hears Ctrl-C meanwhile.
    reconstructor.prepare(note, is_cancelled=lambda: False)
    return reconstructor


def _capture(arguments: argparse.Namespace) -> Capture | None:
    """Camera and light; None if the user named neither."""
    has_camera = bool(arguments.camera)
    has_light = bool(arguments.illuminant)
    if not has_camera and not has_light:
        if arguments.white or arguments.unbalanced:
            raise CameraError(
                "Expected --camera and --illuminant with --white or --unbalanced, got none. "
                "Add them."
            )
        return None
    if not (has_camera and has_light):
        missing = "--illuminant" if has_camera else "--camera"
        raise CameraError(
            f"Expected --camera and --illuminant, got no {missing}. "
            "`napari-mst cameras` lists the names."
        )
    balance = OF_SENSOR if arguments.unbalanced else BALANCED
    return Capture(arguments.camera, arguments.illuminant, arguments.white, balance)
