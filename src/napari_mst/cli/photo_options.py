"""Reads and corrects the photos of a command by the user's options, and loads their model."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.base.errors import PhotoError, shown
from napari_mst.base.progress import Progress
from napari_mst.batch.storage import url_of
from napari_mst.calibration.corrections import FlatField
from napari_mst.calibration.grey_scale import GreyScale
from napari_mst.cli.acquisition_answers import (
    AcquisitionAnswers,
    acquisition_of,
    balance_of,
    calibration_of,
    flat_field_of,
    light_from_spectra,
)
from napari_mst.cli.console import note
from napari_mst.cube import SpectralCube
from napari_mst.models.cards import PHOTOGRAPHED, model_for
from napari_mst.photo.cameras import Acquisition
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.photo.raw_header import is_raw_file
from napari_mst.reconstruction.options import RunOptions

if TYPE_CHECKING:
    from napari_mst.calibration.chart_calibration import Calibration
    from napari_mst.reconstruction.reconstructor import Reconstructor


@dataclass(frozen=True)
class PhotoOptions:
    """The encoding, camera and light of the photos of a command.

    Attributes
    ----------
    is_linear
        True if the user states that the photos hold linear light.
    acquisition
        Camera and light; None if the user named none.
    correction
        Chart or frames that correct the photos, if any.
    balance
        Grey patches that correct sRGB photos, or `ESTIMATED` to estimate the white of each photo;
        None for no correction.
    patches
        Chart or greys in the photo itself, which serve as reference spectra of its cube.
    """

    is_linear: bool
    acquisition: Acquisition | None
    correction: "Calibration | FlatField | None" = None
    balance: GreyScale | str | None = None
    patches: "Calibration | GreyScale | None" = None

    @classmethod
    def of(cls, taken: AcquisitionAnswers, photos: Sequence[Path]) -> "PhotoOptions":
        """Read the files named in *taken*; the *photos* may name their camera.

        Raises `CameraError`, or `PhotoError` for a missing photo or an unusable grey surface.
        """
        _check_there(photos)
        calibration = calibration_of(taken, photos)
        if calibration is not None:
            chart = calibration if taken.chart_photo is None else None
            return cls(taken.linear, calibration.acquisition, calibration, patches=chart)
        flat_field = flat_field_of(taken)
        acquisition = acquisition_of(taken, photos, flat_field)
        if taken.light_spectra is not None:
            acquisition = light_from_spectra(acquisition, taken.light_spectra, photos)
        return cls(taken.linear, acquisition, flat_field, balance_of(taken, photos))

    @property
    def encoding(self) -> Encoding | None:
        """Encoding of the photos; None if files state it."""
        return "linear" if self.is_linear or self.acquisition else None

    def model_of(self, path: Path, calibrated_by: str) -> str:
        """Return the default model for the photo at *path*: see `model_for`."""
        is_corrected = self.correction is not None or isinstance(self.balance, GreyScale)
        is_exact = is_corrected or self.encoding == "linear" or is_raw_file(path)
        return model_for("as told" if is_exact else calibrated_by or _exact_by(path))

    def with_greys_as_references(
        self, path: Path, model: str, calibrated_by: str
    ) -> "PhotoOptions":
        """Return the options for the single photo at *path*, which shows the greys itself.

        If its model estimates the tone curve, the greys correct the cube instead of the photo.
        """
        if not isinstance(self.balance, GreyScale):
            return self
        uncorrected = replace(self, balance=None, patches=self.balance)
        model = model or uncorrected.model_of(path, calibrated_by)
        return uncorrected if model == PHOTOGRAPHED else self

    def encoding_of(self, path: Path) -> Encoding:
        """Return the encoding that the photo at *path* will have."""
        if self.encoding == "linear" or is_raw_file(path):
            return "linear"
        try:
            # Floats, which only TIFFs have, may plainly be linear.
            return Photo.read(path).encoding if path.suffix.lower() in (".tif", ".tiff") else "srgb"
        except PhotoError:
            return "srgb"  # the run itself reports the error

    def read(self, path: Path) -> Photo:
        """Read and correct a photo.

        Raises `PhotoError` if a camera is named but the photo is plainly not linear.
        """
        photo = Photo.read(path, encoding=self.encoding)
        # With --linear, even an 8-bit photo counts as linear.
        if self.acquisition is not None and not self.is_linear:
            try:
                photo.check_linear()
            except PhotoError as error:
                raise PhotoError(f"{photo.name}: {error} (--linear)") from error
        if self.balance is not None:
            return self._balanced(photo)
        return photo if self.correction is None else self.correction.corrected(photo)

    def refined(self, cube: SpectralCube, photo: Photo, progress: Progress) -> SpectralCube:
        """Refine the *cube* of a whole *photo* by the patches in it, if there are any."""
        if self.patches is None or cube.provenance.region:
            return cube
        from napari_mst.references.refining import refine

        return refine(cube, photo, self.patches, progress)

    def sha256_of(self, path: Path, photo_sha256: str) -> str:
        """Return the sha256 of the corrected photo at *path*, from the sha256 of its file."""
        if self.balance is not None:
            # The correction depends on the photo itself.
            return self.read(path).sha256
        return self.correction.sha256_of(photo_sha256) if self.correction else photo_sha256

    def _balanced(self, photo: Photo) -> Photo:
        """Return *photo* corrected, or itself, with a note, if its light is close to D65."""
        # Imported late, so that --help and refused arguments need not wait for it.
        from napari_mst.calibration.balancing import white_balance

        if isinstance(self.balance, GreyScale):
            return self.balance.corrected(photo)
        white = white_balance(photo)
        if white.is_far:
            return white.corrected(photo)
        note = f"The white balance was left as it is: {white}."
        return replace(photo, assumptions=(*photo.assumptions, note))


@functools.cache
def _exact_by(path: Path) -> str:
    """Return the reason why the colours of the photo at *path* are exact, see `Photo.exact_by`."""
    if path.suffix.lower() not in (".png", ".tif", ".tiff", ".zarr"):
        return ""  # decoded to 8 bits
    try:
        return Photo.read(path).exact_by
    except PhotoError:
        return ""  # the run itself reports the error


def _check_there(photos: Sequence[Path]) -> None:
    """Raise `PhotoError` for a mistyped path before a model is loaded, which takes seconds."""
    for path in photos:
        try:
            if not url_of(path):  # URLs were checked by the listing that found them
                path.stat()
        except OSError as error:
            raise PhotoError(
                f"{shown(path.name)}: Expected an image file, got none ({error.strerror}). "
                "Check the path."
            ) from error


def load_reconstructor(model: str, options: RunOptions) -> "Reconstructor":
    """Return a reconstructor that is ready to run; prints its device."""
    # These import torch, for which --help and refused targets must not wait.
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    reconstructor = Reconstructor(load_model(model), **vars(options))
    note(f"running on {reconstructor.device.name}, {reconstructor.device.reason}")
    # With a cancellable progress, kernels compile on another thread, while this one gets Ctrl-C.
    reconstructor.warm_up(note, Progress(is_cancelled=lambda: False))
    return reconstructor
