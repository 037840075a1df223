"""The photos of a command: their camera, light, white and chart as the user gave them."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.analysis.library import read_spectra
from napari_mst.base.errors import CameraError, PhotoError, SpectrumError, shown
from napari_mst.base.progress import Progress
from napari_mst.batch.storage import url_of
from napari_mst.calibration.chart import CHARTS, Chart, find_chart
from napari_mst.calibration.corrections import FlatField
from napari_mst.calibration.grey_scale import GreyScale, calibrate_greys
from napari_mst.calibration.white_patch import (
    GREY_CARD,
    GreyPatch,
    PatchPlace,
    acquisition_from_frame,
    acquisition_from_patch,
)
from napari_mst.cli.console import note, report
from napari_mst.cli.shared_options import PixelOption, pixel_of, placed
from napari_mst.cube import SpectralCube
from napari_mst.models.cards import model_for
from napari_mst.photo.cameras import BALANCED, ESTIMATED, OF_SENSOR, Acquisition, matching_camera
from napari_mst.photo.files import camera_named_in
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.photo.raw_header import is_raw_file
from napari_mst.reconstruction.options import RunOptions, rectangle

if TYPE_CHECKING:
    from napari_mst.calibration.chart_calibration import Calibration
    from napari_mst.reconstruction.reconstructor import Reconstructor


def place(text: str) -> PatchPlace:
    """A pixel from "120,80", or a rectangle from "100:140,60:100"."""
    return rectangle(text) if ":" in text else pixel_of(text)


def _where(text: str) -> PatchPlace | str:
    """The word "estimate", or the place of a grey patch."""
    return text if text == ESTIMATED else place(text)


@dataclass(frozen=True)
class AcquisitionAnswers:
    """The user's knowledge of how photos were taken: encoding, balance, camera, light and chart.

    Attributes
    ----------
    linear
        the photo holds linear light, not sRGB
    balance : estimate|ROW,COLUMN
        correct sRGB photos: the white balance by the light that each photo itself shows, if that
        is far from D65; or white balance and exposure by a grey patch in it (a pixel, or a
        rectangle ROW0:ROW1,COL0:COL1; see --patch-photo). Give it again for each grey of a scale,
        which shows the tone curve, too
    patch_reflectance : SHARE
        reflectance of the grey patch, one for each --balance (default: 0.2, a grey card); or of
        the white frame (default: 1)

    for mstpp-camera
    ----------------
    how the photo was taken; `napari-mst cameras` lists the names

    camera : NAME|FILE
        a camera, as Nikon_D5100, or a CSV file: nm, r, g, b (default: the one that the photo's
        file names)
    illuminant : NAME|FILE
        a light, as D65, 'Planck 3200 K' or '0.7 A + 0.3 F11', or a CSV file: nm, power; or
        estimate: RAW and --unbalanced photos show it themselves (default: the one that a grey
        patch or a white frame shows; estimate with --unbalanced)
    light_spectra : FILE
        measured spectra with rows and columns in the photo, which tell an estimated light better:
        a CSV as `napari-mst spectra` writes it
    white : VALUE
        stored value of a white surface (default: full scale)
    unbalanced
        the values come from the sensor without any white balance; a RAW photo is balanced as shot
        otherwise
    white_patch : ROW,COLUMN
        a grey or white patch, which shows white, balance and light; or a rectangle
        ROW0:ROW1,COL0:COL1
    patch_photo : FILE
        another photo that shows the patch (also that of --balance), of the same light and exposure
    white_frame : FILE
        a photo of a white surface that fills it, by which each photo is divided
    dark_frame : FILE
        a photo with the lens covered, which is subtracted from both first

    a ColorChecker in the photo
    ---------------------------
    calibrates sRGB photos, RAW and linear ones

    chart : ROW,COLUMN
        the middles of its corner patches, in their order around it; the report says how far each
        patch is off, and the cube is corrected by the patches
    find_chart
        look for the chart in the photo, instead of --chart (extra `charts`)
    chart_kind
        which chart it is
    chart_photo : FILE
        another photo that shows the chart, of the same camera, light and exposure
    """

    linear: bool = False
    balance: tuple[Annotated[PatchPlace | str, _where], ...] = ()
    patch_reflectance: tuple[float, ...] = ()
    camera: str = ""
    illuminant: str = ""
    light_spectra: Path | None = None
    white: float = 0.0
    unbalanced: bool = False
    white_patch: Annotated[PatchPlace, place] | None = None
    patch_photo: Path | None = None
    white_frame: Path | None = None
    dark_frame: Path | None = None
    chart: tuple[PixelOption, PixelOption, PixelOption, PixelOption] | None = None
    find_chart: bool = False
    chart_kind: Annotated[str, CHARTS] = next(iter(CHARTS))
    chart_photo: Path | None = None


UNANSWERED = AcquisitionAnswers()
"""The user knows nothing of it."""


def flat_field_of(taken: AcquisitionAnswers) -> FlatField | None:
    """The frames of *taken*; None without a white one. Raises `PhotoError`."""
    white, dark = taken.white_frame, taken.dark_frame
    if white is None:
        if dark is not None:
            raise PhotoError(
                "Expected --white-frame with --dark-frame, got none. "
                "Photograph a white surface, too."
            )
        return None
    frames = [Photo.read(path, encoding="linear") for path in (white, dark) if path is not None]
    return FlatField(*frames)


def calibration_of(taken: AcquisitionAnswers, photos: Sequence[Path]) -> "Calibration | None":
    """The calibration by the chart of *taken*, with its report; None without a chart.

    Raises
    ------
    CameraError
        If another option gives camera, light or white, too.
    PhotoError
        If the chart is none, or a photo cannot be read.
    """
    if taken.chart is None and not taken.find_chart:
        return None
    given = ["camera", "illuminant", "white", "unbalanced", "white_patch", "white_frame", "balance"]
    option = "--chart"
    if taken.find_chart:
        given.append("chart")
        option = "--find-chart"
    others = [name for name in given if getattr(taken, name)]
    if others:
        raise CameraError(
            f"Expected {option} alone, got --{others[0].replace('_', '-')} as well. "
            "The chart gives camera, light and white."
        )
    path = one_photo(taken.chart_photo, photos, option, "chart")
    # It imports torch, which a refused argument must not wait for.
    from napari_mst.calibration.chart_calibration import calibrate

    photo = Photo.read(path, encoding="linear" if taken.linear else None)
    if taken.chart is not None:
        chart = Chart(taken.chart, taken.chart_kind)
    else:
        chart = find_chart(photo, taken.chart_kind)
        corners = " ".join(f"{row:.0f},{column:.0f}" for row, column in chart.corners)
        note(f"found a chart with the corners {corners}")
    calibration = calibrate(photo, chart)
    report(calibration.table())
    return calibration


def one_photo(named: Path | None, photos: Sequence[Path], option: str, thing: str) -> Path:
    """The photo that shows the *thing* of an *option*: the *named* one, else the only one.

    Raises `PhotoError` if there are several.
    """
    if named is None and len(photos) != 1:
        raise PhotoError(
            f"Expected one photo with {option}, got {len(photos)}. "
            f"Say with --{thing}-photo which one shows the {thing}."
        )
    return named or photos[0]


def balance_of(taken: AcquisitionAnswers, photos: Sequence[Path]) -> GreyScale | str | None:
    """The greys by which sRGB photos are corrected, or the word "estimate"; None without either.

    Raises `PhotoError` if the greys are none, or do not have a reflectance each.
    """
    places = [place for place in taken.balance if not isinstance(place, str)]
    if len(places) < len(taken.balance):
        if len(taken.balance) > 1:
            raise PhotoError("Expected --balance estimate alone, got another. Leave one out.")
        return ESTIMATED
    if not places:
        return None
    reflectances = taken.patch_reflectance or (GREY_CARD,)
    if len(reflectances) != len(places):
        raise PhotoError(
            f"Expected a --patch-reflectance for each of {len(places)} grey patches, "
            f"got {len(reflectances)}. Give them in the order of --balance."
        )
    path = one_photo(taken.patch_photo, photos, "--balance ROW,COLUMN", "patch")
    scale = calibrate_greys(Photo.read(path), list(map(GreyPatch, places, reflectances)))
    note(f"{scale}")
    return scale


def acquisition_of(
    taken: AcquisitionAnswers, photos: Sequence[Path], flat_field: FlatField | None
) -> Acquisition | None:
    """Camera, light and white; None if the user said nothing about them.

    Raises
    ------
    CameraError
        If one of them is missing, unknown, or the photos are of several cameras.
    PhotoError
        If the patch is none, or a photo cannot be read.
    """
    patch = taken.white_patch
    if patch is None and flat_field is None:
        return _named_acquisition(taken, photos)
    if taken.white:
        raise CameraError(
            "Expected --white or a grey patch or frame, got both. Leave one of them out."
        )
    camera, light = taken.camera or _camera_of(photos), taken.illuminant
    told = next(iter(taken.patch_reflectance), None)
    if flat_field is not None and (patch is None or not light):
        acquisition = acquisition_from_frame(flat_field.white, told or 1.0, camera, light)
        light = acquisition.illuminant
    if patch is not None:
        path = one_photo(taken.patch_photo, photos, "--white-patch", "patch")
        photo = Photo.read(path, encoding="linear")
        if flat_field is not None:
            photo = flat_field.corrected(photo)
        start = OF_SENSOR if taken.unbalanced else BALANCED
        acquisition = acquisition_from_patch(
            photo, GreyPatch(patch, told or GREY_CARD), camera, light, start
        )
    note(
        f"the grey surface gives white {acquisition.white:.5g}, balance {acquisition.balance}, "
        f"illuminant {acquisition.illuminant}"
    )
    return acquisition


def _named_acquisition(taken: AcquisitionAnswers, photos: Sequence[Path]) -> Acquisition | None:
    """The acquisition that the user named, with the camera of the file; None if none was named."""
    camera = taken.camera
    # Only the values of the sensor show the light: where there are others, it has to be named.
    light = taken.illuminant or (ESTIMATED if taken.unbalanced else "")
    if light and not camera:
        camera = _camera_of(photos)
    if not camera and not taken.illuminant:
        if taken.white or taken.unbalanced:
            raise CameraError(
                "Expected --camera and --illuminant with --white or --unbalanced, got none. "
                "Add them."
            )
        return None
    if not (camera and light):
        missing = "--illuminant" if camera else "--camera"
        raise CameraError(
            f"Expected --camera and --illuminant, got no {missing}. "
            "`napari-mst cameras` lists the names; "
            "the light of a RAW or --unbalanced photo can be estimated: --illuminant estimate."
        )
    balance = OF_SENSOR if taken.unbalanced else BALANCED
    return Acquisition(camera, light, taken.white, balance)


def light_from_spectra(
    acquisition: Acquisition | None, file: Path, photos: Sequence[Path]
) -> Acquisition:
    """The *acquisition* with the references of a *file*, which tell the light of the only photo.

    Raises `CameraError`, `PhotoError` or `SpectrumError` if they cannot.
    """
    if acquisition is None or not acquisition.is_estimated:
        raise CameraError(
            "Expected --illuminant estimate with --light-spectra, got another. Add it."
        )
    if len(photos) != 1:
        raise PhotoError(f"Expected one photo with --light-spectra, got {len(photos)}. Name one.")
    pairs = placed(read_spectra(file, as_reflectance=True), file)
    references = dict(pairs)
    if len(references) < len(pairs):
        raise SpectrumError(
            f"Expected each spectrum of {shown(file.name)} at another pixel, got two at one. "
            "Leave one out."
        )
    return replace(acquisition, references=references)


def _camera_of(photos: Sequence[Path]) -> str:
    """The camera that all *photos* name in their files; "" if none of them names any.

    Raises
    ------
    CameraError
        If they name several, or one whose sensitivities nobody has measured.
    """
    named = {camera_named_in(photo) for photo in photos}
    titles = sorted({" ".join(camera).strip() for camera in named} - {""})
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


@dataclass(frozen=True)
class PhotoOptions:
    """The encoding, camera and light of the photos of a command.

    Attributes
    ----------
    is_linear
        The user says that the photos hold linear light.
    acquisition
        Camera and light; None if the user named none.
    correction
        The chart or the frames by which the photos are corrected, if there are any.
    balance
        The grey patches by which sRGB photos are corrected, or `ESTIMATED` where each photo shows
        its own white; None if they stay as they are.
    chart
        The calibration by a chart that the photo itself shows: its patches are reference spectra.
    """

    is_linear: bool
    acquisition: Acquisition | None
    correction: "Calibration | FlatField | None" = None
    balance: GreyScale | str | None = None
    chart: "Calibration | None" = None

    @classmethod
    def of(cls, taken: AcquisitionAnswers, photos: Sequence[Path]) -> "PhotoOptions":
        """Read what shows how *photos* were *taken*; they may name their camera.

        Raises `CameraError`, and `PhotoError` for a photo that is not there or that shows no grey
        surface where one is asked for.
        """
        _check_there(photos)
        calibration = calibration_of(taken, photos)
        if calibration is not None:
            chart = calibration if taken.chart_photo is None else None
            return cls(taken.linear, calibration.acquisition, calibration, chart=chart)
        flat_field = flat_field_of(taken)
        acquisition = acquisition_of(taken, photos, flat_field)
        if taken.light_spectra is not None:
            acquisition = light_from_spectra(acquisition, taken.light_spectra, photos)
        return cls(taken.linear, acquisition, flat_field, balance_of(taken, photos))

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of the photos; None where the file states it."""
        return "linear" if self.is_linear or self.acquisition else None

    def model_of(self, path: Path, calibrated_by: str) -> str:
        """The model for the photo at *path*, where none was named: see `model_for`."""
        is_corrected = self.correction is not None or isinstance(self.balance, GreyScale)
        is_exact = is_corrected or self.encoding == "linear" or is_raw_file(path)
        return model_for("as told" if is_exact else calibrated_by or _exact_by(path))

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
        if self.acquisition is not None and not self.is_linear:
            try:
                photo.check_linear()
            except PhotoError as error:
                raise PhotoError(f"{photo.name}: {error} (--linear)") from error
        if self.balance is not None:
            return self._balanced(photo)
        return photo if self.correction is None else self.correction.corrected(photo)

    def refined(self, cube: SpectralCube, photo: Photo, progress: Progress) -> SpectralCube:
        """The *cube* of *photo*, corrected by the patches of the chart if all of it shows one."""
        if self.chart is None or cube.provenance.region:
            return cube
        from napari_mst.references.refining import refine

        return refine(cube, photo, self.chart, progress)

    def sha256_of(self, path: Path, photo_sha256: str) -> str:
        """The sha256 that the photo at *path* is known by, from that of its file."""
        if self.balance is not None:
            # Only the photo itself says how it is balanced.
            return self.read(path).sha256
        return self.correction.sha256_of(photo_sha256) if self.correction else photo_sha256

    def _balanced(self, photo: Photo) -> Photo:
        """The *photo* corrected; as it is, with a note, where its own light is near D65."""
        # It imports torch, which --help and a refused argument must not wait for.
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
    """The evidence that the colours of the photo at *path* are exact, see `Photo.exact_by`."""
    if path.suffix.lower() not in (".png", ".tif", ".tiff", ".zarr"):
        return ""  # decoded to 8 bits
    try:
        return Photo.read(path).exact_by
    except PhotoError:
        return ""  # the run itself says what is wrong


def _check_there(photos: Sequence[Path]) -> None:
    """Refuse a mistyped path now, rather than after the seconds that a model takes to load."""
    for path in photos:
        try:
            if not url_of(path):  # of a URL, whoever found it knows
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
    # With a cancel, kernels are compiled on another thread. This thread receives Ctrl-C meanwhile.
    reconstructor.warm_up(note, Progress(is_cancelled=lambda: False))
    return reconstructor
