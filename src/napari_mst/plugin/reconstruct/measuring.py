"""Jobs that ask a photo itself how it was taken, and put the `Finding` into the form; without Qt.

A grey patch shows white and balance, a ColorChecker the colours, all pixels together the light.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.errors import PhotoError
from napari_mst.photo.cameras import BALANCED, CHART, ESTIMATED, OF_SENSOR, SRGB, Capture
from napari_mst.photo.chart import Chart
from napari_mst.photo.chart_finding import find_chart
from napari_mst.photo.flat_field import FlatField
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.photo.white import GreyPatch, Place, capture_from_frame, capture_from_patch
from napari_mst.plugin.jobs.request import Request, SideJob
from napari_mst.plugin.reconstruct.crop import drawn_place
from napari_mst.plugin.reconstruct.finding import Finding
from napari_mst.plugin.reconstruct.form import ReconstructionForm, check_linear, photo_layer
from napari_mst.plugin.viewer.marking import Places, add_marks, marks_layer, show_squares
from napari_mst.plugin.viewer.photos import LayerPhoto

NO_CAMERA = "Choose the camera of the photo first."
CLICK_PATCH = "Click a grey or white patch of the photo."
CLICK_CHART = "Click the middles of the four corner patches of the chart, in their order around it"
NO_FRAME = "Choose a white frame first: a photo of a white surface that fills it."
CHART_MARKS = "ColorChecker"
"""Name of the layer of the clicks on a chart, and of the squares of its patches."""
TICK_TO_CORRECT = "tick below to have the next run correct it."

Look = Callable[[Photo], Finding]
"""Looks at a photo, on the job's thread."""


def light_order(form: ReconstructionForm, viewer: ViewerModel) -> Request | str:
    """Order the estimate of the light, or say why it cannot be told."""
    layer = _layer(form, viewer)
    if isinstance(layer, str):
        return layer
    if not form.needs_camera:
        return _order(form, viewer, layer, _srgb_light)
    camera = form.camera.strip()
    if not camera:
        return NO_CAMERA
    balance = BALANCED if form.is_balanced else OF_SENSOR
    return _order(form, viewer, layer, partial(_light, camera, balance))


def patch_order(
    form: ReconstructionForm, viewer: ViewerModel, places: Places = ()
) -> Request | str:
    """Order the measurement of a grey patch: at a place, or in the rectangle that is drawn."""
    layer = _layer(form, viewer)
    if isinstance(layer, str):
        return layer
    try:
        place = _clicked(places) if places else drawn_place(viewer, layer)
    except PhotoError as error:
        return str(error)
    if place is None:
        return CLICK_PATCH
    if not form.needs_camera:
        return _order(form, viewer, layer, partial(_srgb_patch, place))
    start = BALANCED if form.is_balanced else OF_SENSOR
    measure = partial(
        capture_from_patch,
        patch=GreyPatch(place, form.grey / 100),
        camera=form.camera.strip(),
        illuminant=_named_light(form) or _light_of_frame(form),
        start=start,
    )
    return _order(form, viewer, layer, partial(_patch, measure))


def _clicked(places: Places) -> Place:
    """The pixel of the first of *places*."""
    row, column = places[0]
    return round(row), round(column)


def chart_order(form: ReconstructionForm, viewer: ViewerModel, corners: Places) -> Request | str:
    """Order the calibration by the chosen chart whose four corner patches are at *corners*."""
    layer = _layer(form, viewer)
    if isinstance(layer, str):
        return layer
    return _order(form, viewer, layer, partial(_chart, corners, form.chart))


def find_chart_order(form: ReconstructionForm, viewer: ViewerModel) -> Request | str:
    """Order the search for the chosen chart, and the calibration by it."""
    layer = _layer(form, viewer)
    if isinstance(layer, str):
        return layer
    return _order(form, viewer, layer, partial(_found_chart, form.chart))


def frames_order(form: ReconstructionForm, viewer: ViewerModel) -> Request | str:
    """Order that the photo is divided by its white frame, whose middle shows the light."""
    layer = _layer(form, viewer)
    if isinstance(layer, str):
        return layer
    if not form.white_frame:
        return NO_FRAME
    paths = [Path(name) for name in (form.white_frame, form.dark_frame) if name]
    tell = partial(
        capture_from_frame,
        reflectance=form.frame_reflectance / 100,
        camera=form.camera.strip(),
        illuminant=_named_light(form),
    )
    return _order(form, viewer, layer, partial(_frames, paths, tell))


def _light_of_frame(form: ReconstructionForm) -> str:
    """The light that a white frame showed; "" without one."""
    finding = form.finding
    if finding is None or finding.flat_field is None or finding.capture is None:
        return ""
    return finding.capture.illuminant


def _named_light(form: ReconstructionForm) -> str:
    """The light that the user has named; "" if it is to be told."""
    return "" if form.illuminant in ("", ESTIMATED) else form.illuminant


def _layer(form: ReconstructionForm, viewer: ViewerModel) -> Image | str:
    """The layer of the photo, or a sentence that says why nothing can be measured in it."""
    try:
        layer = photo_layer(form, viewer)
        if form.needs_camera:
            check_linear(form, layer)
    except PhotoError as error:
        return str(error)
    return layer


def _order(form: ReconstructionForm, viewer: ViewerModel, layer: Image, look: Look) -> Request:
    # The order reads the whole photo, whichever part of it will be reconstructed.
    source = LayerPhoto.of(layer, viewer.dims.point)
    encoding: Encoding | None = "linear" if form.needs_camera else None
    flat_field = form.finding.flat_field if form.finding is not None else None
    make = partial(_found, source, look, encoding, flat_field)
    return Request(source, form.model, job=SideJob(make, partial(_keep, form)))


def _found(
    source: LayerPhoto,
    look: Look,
    encoding: Encoding | None,
    flat_field: FlatField | None,
    *_: object,
) -> Finding:
    photo = source.read(encoding)
    # What is measured in a photo that was divided holds for that one, so it is divided again.
    found = look(photo if flat_field is None else flat_field.corrected(photo))
    return replace(found, layer=source.layer, flat_field=found.flat_field or flat_field)


def _keep(form: ReconstructionForm, viewer: ViewerModel, finding: Finding, _: Request) -> None:
    """Give the form the *finding*, and draw its squares; a photo that is gone has none."""
    layer = finding.layer()
    if layer is None:
        return
    form.finding = finding
    centres, side = finding.squares
    if len(centres):
        # A chart that nobody clicked has no layer of clicks.
        marks = marks_layer(viewer) or add_marks(viewer, layer, CHART_MARKS)
        show_squares(marks, centres, side)


def _light(camera: str, balance: str, photo: Photo) -> Finding:
    # Imports torch, which takes seconds: here it does so on the job's thread.
    from napari_mst.reconstruction.lighting import estimated

    estimate = estimated(photo, Capture(camera, ESTIMATED, balance=balance))
    text = f"Likely lights: {estimate}. A run takes their mixture; press one to take it alone."
    return Finding(text, light=estimate)


def _frames(
    paths: Sequence[Path],
    tell: Callable[[Photo], Capture],
    photo: Photo,
) -> Finding:
    flat_field = FlatField(*(Photo.read(path, encoding="linear") for path in paths))
    flat_field.check(photo)
    capture = tell(flat_field.white)
    text = f"The photo will be divided by the white frame, which tells {_told(capture)}."
    return Finding(text, capture, flat_field=flat_field)


def _srgb_light(photo: Photo) -> Finding:
    from napari_mst.light.estimate import estimate_light
    from napari_mst.light.white_balance import balance_for

    estimate = estimate_light(photo, SRGB)
    balance = balance_for(estimate)
    advice = TICK_TO_CORRECT if balance.is_far else "near enough: nothing has to be corrected."
    text = (
        f"Likely lights: {estimate}. White is {balance.degrees:.0f} degrees off that of D65, which "
        f"models for sRGB photos take for granted: {advice}"
    )
    return Finding(text, light=estimate, balance=balance)


def _srgb_patch(place: Place, photo: Photo) -> Finding:
    from napari_mst.light.white_balance import white_balance

    balance = white_balance(photo, place)
    text = f"The next run corrects the white balance: {balance}."
    return Finding(text, balance=balance, corrects_white=True)


def _patch(measure: Callable[[Photo], Capture], photo: Photo) -> Finding:
    capture = measure(photo)
    return Finding(f"The grey patch tells {_told(capture)}.", capture)


def _chart(corners: Places, kind: str, photo: Photo) -> Finding:
    first, second, third, fourth = corners
    return _calibrated(Chart((first, second, third, fourth), kind), photo)


def _found_chart(kind: str, photo: Photo) -> Finding:
    return _calibrated(find_chart(photo, kind), photo)


def _calibrated(chart: Chart, photo: Photo) -> Finding:
    from napari_mst.adaptation.calibrating import calibrate

    calibration = calibrate(photo, chart)
    means = calibration.means
    text = (
        f"The chart: colours {means.before:.0%} off before, {means.after:.0%} after, "
        f"{means.left_out:.0%} at patches that were left out. {calibration.doubt}"
    ).rstrip()
    capture = calibration.capture
    if capture is not None:
        text += f" It tells {_told(capture)}."
    return Finding(text, capture, None, calibration, details=calibration.table())


def _told(capture: Capture) -> str:
    white = f"white {capture.white:.4g}, balance {capture.balance}"
    if capture.camera.startswith(CHART):
        return f"the camera in its light, {white}"
    return f"{capture.camera}, illuminant {capture.illuminant}, {white}"
