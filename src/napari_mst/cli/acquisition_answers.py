"""The user's statements about the acquisition of photos: camera, light, white and chart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.analysis.library import read_spectra
from napari_mst.base.errors import CameraError, PhotoError, SpectrumError, shown
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
from napari_mst.photo.cameras import BALANCED, ESTIMATED, OF_SENSOR, Acquisition, matching_camera
from napari_mst.photo.files import camera_named_in
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.options import rectangle

if TYPE_CHECKING:
    from napari_mst.calibration.chart_calibration import Calibration


def place(text: str) -> PatchPlace:
    """Parse a pixel such as "120,80", or a rectangle such as "100:140,60:100"."""
    return rectangle(text) if ":" in text else pixel_of(text)


def _where(text: str) -> PatchPlace | str:
    """Parse the word "estimate", or the place of a grey patch."""
    return text if text == ESTIMATED else place(text)


@dataclass(frozen=True)
class AcquisitionAnswers:
    """The user's answers on how photos were taken: encoding, balance, camera, light and chart.

    Attributes
    ----------
    linear
        the photo holds linear light, not sRGB
    balance : estimate|ROW,COLUMN
        correct sRGB photos: their white balance by the light estimated from each photo, if that is
        far from D65; or white balance and exposure by a grey patch in the photo (a pixel, or a
        rectangle ROW0:ROW1,COL0:COL1; see --patch-photo). Repeat it for each grey of a scale, which
        gives the tone curve, too. With mstpp-photo, greys in the photo itself correct its cube
    patch_reflectance : SHARE
        reflectance of the grey patch, one for each --balance (default: 0.2, a grey card); or of
        the white frame (default: 1)

    for mstpp-camera
    ----------------
    how the photo was taken; `napari-mst cameras` lists the names

    camera : NAME|FILE
        a camera, such as Nikon_D5100, or a CSV file: nm, r, g, b (default: the camera named in the
        photo's file)
    illuminant : NAME|FILE
        a light, such as D65, 'Planck 3200 K' or '0.7 A + 0.3 F11', or a CSV file: nm, power; or
        estimate, for RAW and --unbalanced photos (default: the light found by a grey patch or a
        white frame; estimate with --unbalanced)
    light_spectra : FILE
        measured spectra with rows and columns in the photo, which improve an estimated light: a CSV
        file as written by `napari-mst spectra`
    white : VALUE
        stored value of a white surface (default: full scale)
    unbalanced
        the values come from the sensor without any white balance; otherwise, a RAW photo is
        balanced as shot
    white_patch : ROW,COLUMN
        a grey or white patch, which gives white, balance and light; or a rectangle
        ROW0:ROW1,COL0:COL1
    patch_photo : FILE
        another photo that shows the patch (also that of --balance), of the same light and exposure
    white_frame : FILE
        a photo filled by a white surface, by which each photo is divided
    dark_frame : FILE
        a photo with the lens covered, which is subtracted from both first

    a ColorChecker in the photo
    ---------------------------
    calibrates sRGB photos, RAW and linear ones

    chart : ROW,COLUMN
        centres of the corner patches, in order around the chart; the report lists the error of
        each patch, and the cube is corrected by the patches
    find_chart
        find the chart in the photo, instead of --chart (extra `charts`)
    chart_kind
        kind of chart
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
"""No answers."""


def flat_field_of(taken: AcquisitionAnswers) -> FlatField | None:
    """Read the frames of *taken*; None without a white frame. Raises `PhotoError`."""
    white, dark = taken.white_frame, taken.dark_frame
    if white is None:
        if dark is not None:
            raise PhotoError(
                "Expected --white-frame with --dark-frame, got none. "
                "Photograph a white surface, too."
            )
        return None
    return FlatField(white, dark)


def calibration_of(taken: AcquisitionAnswers, photos: Sequence[Path]) -> "Calibration | None":
    """Calibrate by the chart of *taken*, and print the report; None without a chart.

    Raises
    ------
    CameraError
        If another option gives camera, light or white as well.
    PhotoError
        If there is no such chart, or a photo cannot be read.
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
    # Imported late, so that refused arguments need not wait for it.
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
    """Return the photo that shows the *thing* of an *option*: the *named* one, or the only photo.

    Raises `PhotoError` if none is named and there are several.
    """
    if named is None and len(photos) != 1:
        raise PhotoError(
            f"Expected one photo with {option}, got {len(photos)}. "
            f"Say with --{thing}-photo which one shows the {thing}."
        )
    return named or photos[0]


def balance_of(taken: AcquisitionAnswers, photos: Sequence[Path]) -> GreyScale | str | None:
    """Return the greys that correct sRGB photos, or the word "estimate"; None without either.

    Raises `PhotoError` if greys are unusable, or do not have one reflectance each.
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
    """Return camera, light and white; None if the user did not state any.

    Raises
    ------
    CameraError
        If one of them is missing or unknown, or if the photos come from several cameras.
    PhotoError
        If the patch is unusable, or a photo cannot be read.
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
    """Return the named acquisition, with the camera of the file; None if nothing was named."""
    camera = taken.camera
    # Only sensor values reveal the light; for other values it must be named.
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
        missing, advice = "--camera", "a JPEG takes no light: name a grey in it, by --balance."
        if camera:
            missing = "--illuminant"
            advice = "a RAW or --unbalanced photo shows its light: --illuminant estimate."
        raise CameraError(
            f"Expected --camera and --illuminant, got no {missing}. "
            f"`napari-mst cameras` lists the names; {advice}"
        )
    balance = OF_SENSOR if taken.unbalanced else BALANCED
    return Acquisition(camera, light, taken.white, balance)


def light_from_spectra(
    acquisition: Acquisition | None, file: Path, photos: Sequence[Path]
) -> Acquisition:
    """Add the spectra of a *file* to *acquisition*, to estimate the light of the only photo.

    Raises `CameraError`, `PhotoError` or `SpectrumError` if they do not fit.
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
    """Return the camera named in the files of all *photos*; "" if no file names a camera.

    Raises
    ------
    CameraError
        If the files name several cameras, or one without measured sensitivities.
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
