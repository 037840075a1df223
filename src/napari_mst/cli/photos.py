"""Options and reconstructor of the commands that read photos."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.captures import Taken, calibration_of, capture_of, flat_field_of
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
    from napari_mst.light.white_balance import WhiteBalance
    from napari_mst.reconstruction.reconstructor import Reconstructor


@dataclass(frozen=True)
class Balancing:
    """Corrects the white balance of sRGB photos.

    Attributes
    ----------
    measured
        The white of a grey patch, for all photos; None where each photo tells its own.
    """

    measured: "WhiteBalance | None" = None

    def balanced(self, photo: Photo) -> Photo:
        """The *photo* corrected; as it is, with a note, where its own light is near D65.

        Raises
        ------
        PhotoError
            If the photo is not in sRGB, or tells nothing.
        """
        # It imports torch, which --help and a refused argument must not wait for.
        from napari_mst.light.white_balance import white_balance

        white = self.measured or white_balance(photo)
        if white.is_far:
            return white.corrected(photo)
        note = f"The white balance was left as it is: {white}."
        return replace(photo, assumptions=(*photo.assumptions, note))


def _balancing_of(taken: Taken, photos: Sequence[Path]) -> Balancing | None:
    """The white balance that the user asks for; None if there is none.

    Raises
    ------
    PhotoError
        If the patch is none, or nobody says which of several photos shows it.
    """
    where = taken.balance
    if where is None:
        return None
    if isinstance(where, str):
        return Balancing()
    from napari_mst.light.white_balance import white_balance

    path = taken.patch_photo
    if path is None and len(photos) != 1:
        raise PhotoError(
            f"Expected one photo with --balance ROW,COLUMN, got {len(photos)}. "
            "Say with --patch-photo which one shows the patch, or let each photo tell its light: "
            "--balance estimate."
        )
    return Balancing(white_balance(Photo.read(path or photos[0]), where))


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
    def of(cls, taken: Taken, photos: Sequence[Path]) -> "PhotoOptions":
        """Read what shows how *photos* were *taken*; they may name their camera.

        Raises `CameraError`, and `PhotoError` for a photo that is not there or that shows no grey
        surface where one is asked for.
        """
        _check_there(photos)
        calibration = calibration_of(taken, photos)
        if calibration is not None:
            shows_chart = taken.chart_photo is None
            return cls(
                taken.linear,
                calibration.capture,
                calibration=calibration,
                shows_chart=shows_chart,
            )
        flat_field = flat_field_of(taken)
        capture = capture_of(taken, photos, flat_field)
        return cls(taken.linear, capture, flat_field, _balancing_of(taken, photos))

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

    reconstructor = Reconstructor(load_model(model), **vars(options))
    note(f"running on {reconstructor.device.name}, {reconstructor.device.reason}")
    # With a cancel, kernels are compiled on another thread. This thread hears Ctrl-C meanwhile.
    reconstructor.prepare(note, Watch(is_cancelled=lambda: False))
    return reconstructor
