"""Options and reconstructor of the commands that read photos."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.captures import (
    CaptureAnswers,
    calibration_of,
    capture_of,
    flat_field_of,
    one_photo,
)
from napari_mst.cli.console import note
from napari_mst.cube import SpectralCube
from napari_mst.errors import PhotoError, shown
from napari_mst.photo.cameras import Capture
from napari_mst.photo.corrections import FlatField
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.photo.raw_header import is_raw_file
from napari_mst.reconstruction.options import RunOptions
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.adaptation.calibrating import Calibration
    from napari_mst.light.white_balance import WhiteBalance
    from napari_mst.reconstruction.reconstructor import Reconstructor


@dataclass(frozen=True)
class PhotoOptions:
    """The encoding, camera and light of the photos of a command.

    Attributes
    ----------
    is_linear
        The user says that the photos hold linear light.
    capture
        Camera and light; None if the user named none.
    correction
        The chart or the frames by which the photos are corrected, if there are any.
    balance
        The white of a grey patch, by which sRGB photos are balanced, or `ESTIMATED` where each
        photo shows its own; None if they stay as they are.
    chart
        The calibration by a chart that the photo itself shows: its patches are known spectra.
    """

    is_linear: bool
    capture: Capture | None
    correction: "Calibration | FlatField | None" = None
    balance: "WhiteBalance | str | None" = None
    chart: "Calibration | None" = None

    @classmethod
    def of(cls, taken: CaptureAnswers, photos: Sequence[Path]) -> "PhotoOptions":
        """Read what shows how *photos* were *taken*; they may name their camera.

        Raises `CameraError`, and `PhotoError` for a photo that is not there or that shows no grey
        surface where one is asked for.
        """
        _check_there(photos)
        calibration = calibration_of(taken, photos)
        if calibration is not None:
            chart = calibration if taken.chart_photo is None else None
            return cls(taken.linear, calibration.capture, calibration, chart=chart)
        flat_field = flat_field_of(taken)
        capture = capture_of(taken, photos, flat_field)
        balance: WhiteBalance | str | None = None
        if isinstance(taken.balance, str):
            balance = taken.balance
        elif taken.balance is not None:
            from napari_mst.light.white_balance import white_balance

            path = one_photo(taken.patch_photo, photos, "--balance ROW,COLUMN", "patch")
            balance = white_balance(Photo.read(path), taken.balance)
        return cls(taken.linear, capture, flat_field, balance)

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of the photos; None where the file states it."""
        return "linear" if self.is_linear or self.capture else None

    def encoding_of(self, path: Path) -> Encoding:
        """The encoding that the photo at *path* will have."""
        if self.encoding == "linear" or is_raw_file(path):
            return "linear"
        try:
            # Floats, which only TIFFs have, may be plainly light.
            return Photo.read(path).encoding if path.suffix.lower() in (".tif", ".tiff") else "srgb"
        except PhotoError:
            return "srgb"  # the run itself says what is wrong

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
        if self.balance is not None:
            return self._balanced(photo)
        return photo if self.correction is None else self.correction.corrected(photo)

    def adapted(self, cube: SpectralCube, photo: Photo, watch: Watch) -> SpectralCube:
        """The *cube* of *photo*, corrected by the patches of the chart if all of it shows one."""
        if self.chart is None or cube.provenance.region:
            return cube
        return self.chart.adapted(cube, photo, watch=watch)

    def sha256_of(self, path: Path, photo_sha256: str) -> str:
        """The sha256 that the photo at *path* is known by, from that of its file."""
        if self.balance is not None:
            # Only the photo itself says how it is balanced.
            return self.read(path).sha256
        return self.correction.sha256_of(photo_sha256) if self.correction else photo_sha256

    def _balanced(self, photo: Photo) -> Photo:
        """The *photo* corrected; as it is, with a note, where its own light is near D65."""
        # It imports torch, which --help and a refused argument must not wait for.
        from napari_mst.light.white_balance import WhiteBalance, white_balance

        balance = self.balance
        white = balance if isinstance(balance, WhiteBalance) else white_balance(photo)
        if white.is_far:
            return white.corrected(photo)
        note = f"The white balance was left as it is: {white}."
        return replace(photo, assumptions=(*photo.assumptions, note))


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
    """A reconstructor that is ready to run; prints the device that it runs on."""
    # These import torch, which --help and a refused target must not wait for.
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    reconstructor = Reconstructor(load_model(model), **vars(options))
    note(f"running on {reconstructor.device.name}, {reconstructor.device.reason}")
    # With a cancel, kernels are compiled on another thread. This thread hears Ctrl-C meanwhile.
    reconstructor.prepare(note, Watch(is_cancelled=lambda: False))
    return reconstructor
