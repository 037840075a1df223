"""Options and reconstructor of the commands that read photos."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.console import note
from napari_mst.errors import CameraError, PhotoError
from napari_mst.messages import shown
from napari_mst.photo.cameras import BALANCED, OF_SENSOR, Capture, matching_camera
from napari_mst.photo.files import camera_named_in
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.photo.raw_header import is_raw_file
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
        help="a camera, as Nikon_D5100, or a CSV file: nm, r, g, b (default: the one that the "
        "photo's file names)",
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
        help="the values come from the sensor without any white balance; a RAW photo is balanced "
        "as shot otherwise",
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
    def from_arguments(
        cls, arguments: argparse.Namespace, photos: Sequence[Path]
    ) -> "PhotoOptions":
        """Check and collect what `add_photo_arguments` added; *photos* may name their camera.

        Raises `CameraError`.
        """
        return cls(arguments.linear, _capture(arguments, photos))

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of the photos; None where the file tells."""
        return "linear" if self.is_linear or self.capture else None

    def encoding_of(self, path: Path) -> Encoding:
        """The encoding that the photo at *path* will have."""
        return "linear" if self.encoding == "linear" or is_raw_file(path) else "srgb"

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


def _capture(arguments: argparse.Namespace, photos: Sequence[Path]) -> Capture | None:
    """Camera and light; None if the user named neither."""
    camera = arguments.camera
    if arguments.illuminant and not camera:
        camera = _camera_of(photos)
    has_camera = bool(camera)
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
    return Capture(camera, arguments.illuminant, arguments.white, balance)


def _camera_of(photos: Sequence[Path]) -> str:
    """The camera that all *photos* name in their files; "" if none of them names any.

    Raises
    ------
    CameraError
        If they name several, or one whose sensitivities nobody has measured.
    """
    named = {camera_named_in(photo) for photo in photos}
    titles = sorted({" ".join(one).strip() for one in named} - {""})
    if not titles:
        return ""
    if len(named) > 1:
        listed = shown(", ".join(titles), 80)
        raise CameraError(
            f"Expected photos of one camera without --camera, got {len(named)}: {listed}. "
            "Run them apart."
        )
    camera = matching_camera(*named.pop())
    if not camera:
        raise CameraError(
            f"Expected a camera with measured sensitivities, got {shown(titles[0])}. "
            "Name a similar one or a CSV file with --camera."
        )
    note(f"the photo was taken by {camera}, as its file says")
    return camera
