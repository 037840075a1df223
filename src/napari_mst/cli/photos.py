"""Options and reconstructor of the commands that read photos."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.balance import Balancing, add_balance_argument, balancing_of
from napari_mst.cli.captures import (
    add_camera_arguments,
    calibration_of,
    capture_of,
    flat_field_of,
)
from napari_mst.cli.console import note
from napari_mst.cube import SpectralCube
from napari_mst.errors import PhotoError
from napari_mst.messages import shown
from napari_mst.photo.cameras import Capture
from napari_mst.photo.flat_field import FlatField
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.photo.raw_header import is_raw_file
from napari_mst.reconstruction.options import RunOptions
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.adaptation.calibrating import Calibration
    from napari_mst.reconstruction.reconstructor import Reconstructor


def add_photo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how a photo was taken: `--linear`, and camera and light."""
    parser.add_argument(
        "--linear", action="store_true", help="the photo holds linear light, not sRGB"
    )
    add_balance_argument(parser)
    add_camera_arguments(parser)


@dataclass(frozen=True)
class PhotoOptions:
    """The encoding, camera and light of the photos of a command.

    Attributes
    ----------
    is_linear
        The user says that the photos hold linear light.
    capture
        Camera and light; None if the user named none.
    flat_field
        The frames by which the photos are divided, if there are any.
    balancing
        The white balance of sRGB photos that is corrected; None if they stay as they are.
    calibration
        What a chart tells of the photos.
    shows_chart
        The photo itself shows the chart, so that its patches are known spectra.
    """

    is_linear: bool
    capture: Capture | None
    flat_field: FlatField | None = None
    balancing: Balancing | None = None
    calibration: "Calibration | None" = None
    shows_chart: bool = False

    @classmethod
    def from_arguments(
        cls, arguments: argparse.Namespace, photos: Sequence[Path]
    ) -> "PhotoOptions":
        """Check and collect what `add_photo_arguments` added; *photos* may name their camera.

        Raises `CameraError`, and `PhotoError` for a photo that is not there or that shows no grey
        surface where one is asked for.
        """
        _check_there(photos)
        calibration = calibration_of(arguments, photos)
        if calibration is not None:
            shows_chart = arguments.chart_photo is None
            return cls(
                arguments.linear,
                calibration.capture,
                calibration=calibration,
                shows_chart=shows_chart,
            )
        flat_field = flat_field_of(arguments)
        capture = capture_of(arguments, photos, flat_field)
        return cls(arguments.linear, capture, flat_field, balancing_of(arguments, photos))

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
        if self.calibration is not None:
            return self.calibration.corrected(photo)
        if self.balancing is not None:
            return self.balancing.balanced(photo)
        return photo if self.flat_field is None else self.flat_field.corrected(photo)

    def adapted(self, cube: SpectralCube, photo: Photo, watch: Watch) -> SpectralCube:
        """The *cube* of *photo*, corrected by the patches of the chart if all of it shows one."""
        if self.calibration is None or not self.shows_chart or cube.provenance.region:
            return cube
        return self.calibration.adapted(cube, photo, watch=watch)

    def sha256_of(self, path: Path, photo_sha256: str) -> str:
        """The sha256 that the photo at *path* is known by, from that of its file."""
        if self.balancing is not None:
            # Only the photo itself says how it is balanced.
            return self.read(path).sha256
        if self.calibration is not None:
            return self.calibration.sha256_of(photo_sha256)
        return self.flat_field.sha256_of(photo_sha256) if self.flat_field else photo_sha256


def _check_there(photos: Sequence[Path]) -> None:
    """Refuse a mistyped path now, rather than after the seconds that a model takes to load."""
    for path in photos:
        try:
            path.stat()
        except OSError as error:
            raise PhotoError(
                f"{shown(path.name)}: Expected an image file, got none ({error.strerror}). "
                "Check the path."
            ) from error


def load_reconstructor(model: str, options: RunOptions) -> "Reconstructor":
    """A reconstructor that is ready to run; tells which device it runs on."""
    # These import torch, which --help and a refused target must not wait for.
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    reconstructor = Reconstructor(load_model(model), **options.for_reconstructor)
    note(f"running on {reconstructor.device.name}, {reconstructor.device.reason}")
    # With a cancel, kernels are compiled on another thread. This thread hears Ctrl-C meanwhile.
    reconstructor.prepare(note, Watch(is_cancelled=lambda: False))
    return reconstructor
