"""Orders jobs from the form, without Qt: a reconstruction, or a look at the photo itself.

A look finds out how the photo was taken, and puts a `Finding` into the form. A grey patch shows
white and balance, a ColorChecker the colours, and all pixels together the light.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.base.errors import CameraError, ModelError, PhotoError
from napari_mst.calibration.chart import Chart, Corners, find_chart
from napari_mst.calibration.grey_scale import GreyScale, calibrate_greys
from napari_mst.calibration.white_patch import GreyPatch, PatchPlace, acquisition_from_patch
from napari_mst.cube.colour import linear_to_srgb, render_srgb
from napari_mst.cube.spectrum import Spectrum
from napari_mst.models.cards import PHOTOGRAPHED
from napari_mst.photo.cameras import BALANCED, CHART, ESTIMATED, OF_SENSOR, SRGB, Acquisition
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Request, SideJob
from napari_mst.plugin.reconstruct.form import (
    NO_DEVICES,
    NO_PHOTO,
    RENDERING,
    Finding,
    ReconstructionForm,
)
from napari_mst.plugin.reconstruct.photo_marks import Marks, photo_part
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.plugin.viewer.picks import SOURCE, picks_layer, references_on
from napari_mst.plugin.viewer.sharing import shared

if TYPE_CHECKING:
    from napari_mst.calibration.chart_calibration import Calibration

NO_WEIGHTS = "Choose the weights file of this model first."
NO_CAMERA = "Which camera took the photo? Choose it, or type a part of its name."
CLICK_PATCH = "Click a grey or white patch of the photo."
DRAG_FRAME = "Drag the corners of the frame onto the middles of the corner patches of the chart"
NO_CHART = "Lay the frame around a chart first."
SAMPLE = 100_000
"""Approximate number of pixels in the preview of a correction."""
MORE = "Another grey of a scale shows more of the curve: set how bright it is, and click it."
TICK_TO_CORRECT = "tick below to have the next run correct it."

References = Mapping[PatchPlace, Spectrum]
"""Spectra that are known at places of a photo."""
NONE: References = {}
Look = Callable[[Photo], Finding]
"""Looks at a photo, on the job's thread."""


def resolve(form: ReconstructionForm, viewer: ViewerModel) -> Request:
    """Order the reconstruction of the chosen photo. *form* and *viewer* are only read.

    Raises
    ------
    CameraError, PhotoError
        If something is missing, or does not fit.
    """
    photo = chosen_photo(form, viewer)
    if not form.is_ready:
        raise PhotoError(NO_DEVICES)
    request = request_of(form, photo_part(viewer, photo, form.part), references_in(form, viewer))
    if not (form.all_pages and form.has_pages):
        return request
    # This shows layers, and so needs Qt, which a script may lack.
    from napari_mst.plugin.session import request_of_pages

    return request_of_pages(request)


def references_in(form: ReconstructionForm, viewer: ViewerModel) -> References:
    """Return the known spectra at pixels of the chosen photo, from marked picks on its cube.

    A stack gets none: nothing says to which page the spectra belong.
    """
    points, layer = picks_layer(viewer), form.layer
    if points is None or layer is None or form.has_pages:
        return {}
    if points.metadata.get(SOURCE) != layer.name:
        return {}
    spots = references_on(points, layer).values()
    curves = ((spot, spot.spectrum) for spot in spots)
    return {(s.row, s.column): curve for s, curve in curves if isinstance(curve, Spectrum)}


def request_of(
    form: ReconstructionForm, source: LayerPhoto, references: References = NONE
) -> Request:
    """Return the order for the photo of *source*, or the photos, with the settings of *form*.

    Spectra that are *references* in the photo tell its light, where that is to be estimated.

    Raises
    ------
    CameraError, PhotoError
        If the camera, the light or the weights are missing, or unknown.
    """
    if not form.model:
        raise PhotoError(NO_WEIGHTS)
    acquisition = _acquisition(form) if form.needs_camera else None
    if acquisition is not None and acquisition.is_estimated:
        acquisition = replace(acquisition, references=references)
    by = RENDERING if form.is_rendered else form.options.calibrated_by
    options = replace(form.options, acquisition=acquisition, calibrated_by=by)
    corrections, greys = form.finding.corrections, form.finding.scale
    patches: Calibration | GreyScale | None = form.finding.calibration
    if greys is not None and form.model == PHOTOGRAPHED and form.is_whole:
        corrections = tuple(each for each in corrections if each is not greys)
        patches = greys
    request = Request(source, form.model, options, None, corrections, patches, extent=form.extent)
    if not form.is_onnx:
        return request
    takes_linear = {"linear": True, "srgb": False}.get(form.takes)
    return replace(request, wavelengths=form.wavelengths.strip(), takes_linear=takes_linear)


def photo_layer(form: ReconstructionForm, viewer: ViewerModel) -> Image:
    """Return the layer of the chosen photo. Raises `PhotoError` if it is not in the *viewer*."""
    layer = form.layer
    # A layer that was removed lives on until it is collected.
    if layer is None or layer not in viewer.layers:
        raise PhotoError(NO_PHOTO)
    return layer


def chosen_photo(form: ReconstructionForm, viewer: ViewerModel) -> LayerPhoto:
    """Freeze the whole chosen photo.

    Raises `PhotoError` if there is none, or the model does not fit it.
    """
    layer = photo_layer(form, viewer)
    if form.misfit:
        raise PhotoError(form.misfit)
    return LayerPhoto.of(layer, viewer.dims.point)


def _acquisition(form: ReconstructionForm) -> Acquisition:
    """Collect how the photo was taken.

    Raises
    ------
    CameraError
        If the camera or the illuminant is missing, or unknown.
    """
    if form.finding.acquisition is not None:
        return form.finding.acquisition
    camera = form.camera.strip()
    illuminant = form.illuminant.strip()
    if not camera:
        raise CameraError(NO_CAMERA)
    if not illuminant:
        raise CameraError("In which light was the photo taken? Choose the illuminant.")
    return Acquisition(camera, illuminant, form.white, _balance(form))


def light_order(form: ReconstructionForm, viewer: ViewerModel) -> Request:
    """Order the estimate of the light. Raises `PhotoError` if the photo cannot show it."""
    if not form.needs_camera:
        return _order(form, viewer, _srgb_light)
    camera = form.camera.strip()
    if not camera:
        raise PhotoError(NO_CAMERA)
    references = references_in(form, viewer)
    acquisition = Acquisition(camera, ESTIMATED, balance=_balance(form), references=references)
    return _order(form, viewer, partial(_light, acquisition))


def patch_order(
    form: ReconstructionForm, viewer: ViewerModel, clicked: tuple[float, float]
) -> Request:
    """Order the measurement of the grey patch that was *clicked*."""
    place = round(clicked[0]), round(clicked[1])
    if not form.needs_camera:
        patches = (*form.finding.greys, GreyPatch(place, form.grey / 100))
        return _order(form, viewer, partial(_srgb_patch, patches))
    measure = partial(
        acquisition_from_patch,
        patch=GreyPatch(place, form.grey / 100),
        camera=form.camera.strip(),
        # A light that is to be estimated has no name: the patch measures it.
        illuminant="" if form.illuminant == ESTIMATED else form.illuminant,
        start=_balance(form),
    )
    return _order(form, viewer, partial(_patch, measure))


def chart_order(form: ReconstructionForm, viewer: ViewerModel) -> Request:
    """Order the calibration by the chart in the frame. Raises `PhotoError` without a frame."""
    if form.corners is None:
        raise PhotoError(NO_CHART)
    return _order(form, viewer, partial(_calibrated, Chart(form.corners, form.chart)))


def search_order(form: ReconstructionForm, viewer: ViewerModel) -> Request:
    """Order a search for the chart; without one, the frame goes into the middle."""
    source, kind = chosen_photo(form, viewer), form.chart

    def find(*_: object) -> Corners | None:
        with suppress(PhotoError):
            return find_chart(source.read(), kind).corners
        return None

    def lay(viewer: ViewerModel, corners: Corners | None, _: Request) -> None:
        layer = source.layer()
        if layer is not None and layer is form.layer:
            shared(viewer, Marks, form).ask_for_frame(layer, corners)

    return _seen_in_form(form, source, find, lay)


def _seen_in_form(
    form: ReconstructionForm,
    source: LayerPhoto,
    make: Callable[..., object],
    show: Callable[..., None],
) -> Request:
    """Order a job whose result is seen in the form, which needs no closing sentence."""
    job = SideJob(make, show, is_of_photo=True, lines=lambda _: [""])
    return Request(source, form.model, job=job)


def _balance(form: ReconstructionForm) -> str:
    return BALANCED if form.is_balanced else OF_SENSOR


def _order(form: ReconstructionForm, viewer: ViewerModel, look: Look) -> Request:
    """Order a *look* at the photo. Raises `PhotoError` without a photo of the right kind."""
    encoding: Encoding | None = "linear" if form.needs_camera else None
    # The order reads the whole photo, whichever part of it will be reconstructed.
    source = chosen_photo(form, viewer)

    def found(request: Request, reports: Reports) -> Finding:
        photo = source.read(encoding)
        finding = replace(look(photo), layer=source.layer)
        if photo.encoding == "srgb":
            return replace(finding, sample=photo.reduced(SAMPLE))
        is_shown = finding.acquisition is not None
        return _seen_ahead(photo, finding, request.model, reports) if is_shown else finding

    return _seen_in_form(form, source, found, partial(_keep, form))


def _seen_ahead(photo: Photo, found: Finding, model: str, reports: Reports) -> Finding:
    """Add to the finding of a RAW *photo* the picture of a coarse cube that *model* makes of it."""
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    reports.say("Trying the colours on a small copy ...")
    for correction in found.corrections:
        photo = correction.corrected(photo)
    try:
        reconstructor = Reconstructor(
            load_model(model), acquisition=found.acquisition, denoise="off"
        )
        cube = reconstructor.preview(photo, reports)
    except ModelError:
        return found  # which a run will report
    picture = linear_to_srgb(render_srgb(cube.data, cube.wavelengths).clip(0, 1))
    return replace(found, sample=Photo.from_array(np.moveaxis(picture, 0, -1), encoding="srgb"))


def _keep(form: ReconstructionForm, _: ViewerModel, finding: Finding, __: Request) -> None:
    """Give the form the *finding*, unless its photo is gone."""
    if finding.layer() is None:
        return
    form.finding = finding
    form.corners = None


def _light(acquisition: Acquisition, photo: Photo) -> Finding:
    # Imports torch, which takes seconds: here it does so on the job's thread.
    from napari_mst.reconstruction.lighting import estimated

    estimate, notes = estimated(photo, acquisition)
    text = " ".join([*notes, "A run takes the mixture of these; press one to take it alone."])
    return Finding(text, light=estimate)


def _srgb_light(photo: Photo) -> Finding:
    from napari_mst.calibration.balancing import balance_for
    from napari_mst.calibration.light.estimating import estimate_light

    estimate = estimate_light(photo, SRGB)
    balance = balance_for(estimate)
    advice = TICK_TO_CORRECT if balance.is_far else "near enough: nothing has to be corrected."
    text = (
        f"Likely lights: {estimate}. White is {balance.degrees:.0f} degrees off that of D65, which "
        f"models for sRGB photos take for granted: {advice}"
    )
    return Finding(text, light=estimate, balance=balance)


def _srgb_patch(patches: tuple[GreyPatch, ...], photo: Photo) -> Finding:
    scale = calibrate_greys(photo, patches)
    sentences = [f"The next run is corrected by {scale}.", *scale.warnings, MORE]
    return Finding(" ".join(sentences), scale=scale, greys=patches)


def _patch(measure: Callable[[Photo], Acquisition], photo: Photo) -> Finding:
    acquisition = measure(photo)
    return Finding(f"The grey patch shows {_summary(acquisition)}.", acquisition)


def _calibrated(chart: Chart, photo: Photo) -> Finding:
    from napari_mst.calibration.chart_calibration import calibrate

    calibration = calibrate(photo, chart)
    means = calibration.means
    text = (
        f"The chart: colours {means.before:.0%} off before, {means.after:.0%} after, "
        f"{means.left_out:.0%} at patches that were left out. {calibration.doubt}"
    ).rstrip()
    acquisition = calibration.acquisition
    if acquisition is not None:
        text += f" It shows {_summary(acquisition)}."
    return Finding(text, acquisition, None, calibration, details=calibration.table())


def _summary(acquisition: Acquisition) -> str:
    """Name camera, light and white."""
    white = f"white {acquisition.white:.4g}, balance {acquisition.balance}"
    if acquisition.camera.startswith(CHART):
        return f"the camera in its light, {white}"
    return f"{acquisition.camera}, illuminant {acquisition.illuminant}, {white}"
