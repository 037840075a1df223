"""Camera, light and white of the photos of a command, from its arguments."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.console import note, tell
from napari_mst.cli.options import pixel, rectangle
from napari_mst.errors import CameraError, PhotoError
from napari_mst.messages import shown
from napari_mst.photo.cameras import BALANCED, ESTIMATED, OF_SENSOR, Capture, matching_camera
from napari_mst.photo.chart import Chart
from napari_mst.photo.chart_finding import find_chart
from napari_mst.photo.chart_kinds import CHARTS
from napari_mst.photo.files import camera_named_in
from napari_mst.photo.flat_field import FlatField
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.photo.white import GreyPatch, Place, capture_from_frame, capture_from_patch

if TYPE_CHECKING:
    from napari_mst.adaptation.calibrating import Calibration


def add_camera_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what tells camera, light and white: names, numbers, patches and frames."""
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
        help="a light, as D65, 'Planck 3200 K' or '0.7 A + 0.3 F11', or a CSV file: nm, power; or "
        "estimate: RAW and --unbalanced photos tell it themselves (default: the one that a grey "
        "patch or a white frame shows; estimate with --unbalanced)",
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
    _add_patch_arguments(group)
    _add_chart_arguments(parser)


def _add_patch_arguments(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--white-patch",
        type=place,
        metavar="ROW,COLUMN",
        help="a grey or white patch, which tells white, balance and light; or a rectangle "
        "ROW0:ROW1,COL0:COL1",
    )
    group.add_argument(
        "--patch-photo",
        type=Path,
        metavar="FILE",
        help="another photo that shows the patch (also that of --balance), of the same light and "
        "exposure",
    )
    group.add_argument(
        "--patch-reflectance",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="reflectance of the patch or the white frame: 0.18 for a grey card (default: 1)",
    )
    group.add_argument(
        "--white-frame",
        type=Path,
        metavar="FILE",
        help="a photo of a white surface that fills it, by which each photo is divided",
    )
    group.add_argument(
        "--dark-frame",
        type=Path,
        metavar="FILE",
        help="a photo with the lens covered, which is subtracted from both first",
    )


def _add_chart_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "a ColorChecker in the photo", "calibrates sRGB photos, RAW and linear ones"
    )
    group.add_argument(
        "--chart",
        nargs=4,
        type=pixel,
        metavar="ROW,COLUMN",
        help="the middles of its corner patches, in their order around it; the report says how far "
        "each patch is off, and the cube is corrected by the patches",
    )
    group.add_argument(
        "--find-chart",
        action="store_true",
        help="look for the chart in the photo, instead of --chart (extra `charts`)",
    )
    group.add_argument(
        "--chart-kind",
        choices=CHARTS,
        default=next(iter(CHARTS)),
        help="which chart it is (default: classic)",
    )
    group.add_argument(
        "--chart-photo",
        type=Path,
        metavar="FILE",
        help="another photo that shows the chart, of the same camera, light and exposure",
    )


def place(text: str) -> Place:
    """A pixel from "120,80", or a rectangle from "100:140,60:100"."""
    return rectangle(text) if ":" in text else pixel(text)


def flat_field_of(arguments: argparse.Namespace) -> FlatField | None:
    """The frames of the arguments; None without a white one. Raises `PhotoError`."""
    if arguments.white_frame is None:
        if arguments.dark_frame is not None:
            raise PhotoError(
                "Expected --white-frame with --dark-frame, got none. "
                "Photograph a white surface, too."
            )
        return None
    dark = arguments.dark_frame
    return FlatField(_linear(arguments.white_frame), None if dark is None else _linear(dark))


def calibration_of(arguments: argparse.Namespace, photos: Sequence[Path]) -> "Calibration | None":
    """The calibration by the chart of the arguments, with its report; None without a chart.

    Raises
    ------
    CameraError
        If something else tells camera, light or white, too.
    PhotoError
        If the chart is none, or a photo cannot be read.
    """
    if arguments.chart is None and not arguments.find_chart:
        return None
    told = (
        *("camera", "illuminant", "white", "unbalanced", "white_patch", "white_frame"),
        "balance",
        *(("chart",) if arguments.find_chart else ()),
    )
    option = "--find-chart" if arguments.find_chart else "--chart"
    others = [name for name in told if getattr(arguments, name)]
    if others:
        raise CameraError(
            f"Expected {option} alone, got --{others[0].replace('_', '-')} as well. "
            "The chart tells camera, light and white."
        )
    if arguments.chart_photo is None and len(photos) != 1:
        raise PhotoError(
            f"Expected one photo with {option}, got {len(photos)}. "
            "Say with --chart-photo which one shows the chart."
        )
    # It imports torch, which a refused argument must not wait for.
    from napari_mst.adaptation.calibrating import calibrate

    encoding: Encoding | None = "linear" if arguments.linear else None
    photo = Photo.read(arguments.chart_photo or photos[0], encoding=encoding)
    calibration = calibrate(photo, _chart_in(photo, arguments))
    tell(calibration.table())
    return calibration


def _chart_in(photo: Photo, arguments: argparse.Namespace) -> Chart:
    if not arguments.find_chart:
        return Chart(tuple(arguments.chart), arguments.chart_kind)
    chart = find_chart(photo, arguments.chart_kind)
    corners = " ".join(f"{row:.0f},{column:.0f}" for row, column in chart.corners)
    note(f"found a chart with the corners {corners}")
    return chart


def capture_of(
    arguments: argparse.Namespace, photos: Sequence[Path], flat_field: FlatField | None
) -> Capture | None:
    """Camera, light and white; None if the user said nothing about them.

    Raises
    ------
    CameraError
        If one of them is missing, unknown, or the photos are of several cameras.
    PhotoError
        If the patch is none, or a photo cannot be read.
    """
    patch = arguments.white_patch
    if patch is None and flat_field is None:
        return _told_capture(arguments, photos)
    if arguments.white:
        raise CameraError(
            "Expected --white or a grey patch or frame, got both. Leave one of them out."
        )
    camera = arguments.camera or _camera_of(photos)
    if patch is not None:
        capture = _of_patch(arguments, camera, photos, flat_field)
    elif flat_field is not None:
        capture = _of_frame(arguments, camera, flat_field)
    note(
        f"the grey surface tells white {capture.white:.5g}, balance {capture.balance}, "
        f"illuminant {capture.illuminant}"
    )
    return capture


def _of_patch(
    arguments: argparse.Namespace,
    camera: str,
    photos: Sequence[Path],
    flat_field: FlatField | None,
) -> Capture:
    path = arguments.patch_photo
    if path is None:
        if len(photos) != 1:
            raise PhotoError(
                f"Expected one photo with --white-patch, got {len(photos)}. "
                "Say with --patch-photo which one shows the patch."
            )
        path = photos[0]
    photo = _linear(path)
    if flat_field is not None:
        photo = flat_field.corrected(photo)
    patch = GreyPatch(arguments.white_patch, arguments.patch_reflectance)
    start = OF_SENSOR if arguments.unbalanced else BALANCED
    light = arguments.illuminant
    if flat_field is not None and not light:
        light = _of_frame(arguments, camera, flat_field).illuminant
    return capture_from_patch(photo, patch, camera, light, start)


def _of_frame(arguments: argparse.Namespace, camera: str, flat_field: FlatField) -> Capture:
    return capture_from_frame(
        flat_field.white, arguments.patch_reflectance, camera, arguments.illuminant
    )


def _linear(path: Path) -> Photo:
    return Photo.read(path, encoding="linear")


def _told_capture(arguments: argparse.Namespace, photos: Sequence[Path]) -> Capture | None:
    """The capture that the user named, with the camera of the file; None if nothing was named."""
    camera = arguments.camera
    # Only the values of the sensor tell the light: where there are others, it has to be named.
    light = arguments.illuminant or (ESTIMATED if arguments.unbalanced else "")
    if light and not camera:
        camera = _camera_of(photos)
    if not camera and not arguments.illuminant:
        if arguments.white or arguments.unbalanced:
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
    balance = OF_SENSOR if arguments.unbalanced else BALANCED
    return Capture(camera, light, arguments.white, balance)


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
