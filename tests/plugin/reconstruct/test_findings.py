"""A photo tells its light, its white and its colours: by its pixels, a grey patch, a chart."""

import re
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtWidgets import QFormLayout
from tests.plugin.in_viewer import add_cube

from napari_mst.base.errors import PhotoError
from napari_mst.calibration.balancing import white_balance
from napari_mst.calibration.chart import CHARTS, Chart
from napari_mst.calibration.chart_calibration import calibrate
from napari_mst.calibration.grey_scale import calibrate_greys
from napari_mst.calibration.light.estimating import estimate_light
from napari_mst.calibration.white_patch import GreyPatch, acquisition_from_patch
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.colour import linear_to_srgb, srgb_response
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.models import MODELS
from napari_mst.models.cards import PHOTOGRAPHED, PUBLISHED, RENDERED
from napari_mst.photo.cameras import (
    CAMERA_RGB,
    ESTIMATED,
    GRID,
    OF_SENSOR,
    Acquisition,
    unbalanced_response,
)
from napari_mst.photo.photo import Photo
from napari_mst.photo.raw import Shot
from napari_mst.plugin.jobs.folder import Folder, folder_request
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Request, reconstruct_with_previews
from napari_mst.plugin.reconstruct import requests
from napari_mst.plugin.reconstruct.form import (
    NOTHING,
    RENDERING,
    DeviceEntry,
    Finding,
    ReconstructionForm,
)
from napari_mst.plugin.reconstruct.photo_marks import MARKS, Marks
from napari_mst.plugin.reconstruct.requests import (
    NO_CAMERA,
    NO_CHART,
    TICK_TO_CORRECT,
    chart_order,
    light_order,
    patch_order,
    request_of,
    resolve,
    search_order,
)
from napari_mst.plugin.reconstruct.sections import FindingRows
from napari_mst.plugin.spectra.layer_rows import region_layers
from napari_mst.plugin.spectra.marking import grey
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import FRAME, photo_layers
from napari_mst.plugin.viewer.layers import layer_of_role
from napari_mst.plugin.viewer.sharing import shared

CAMERA = "Nikon_D5100"
CORNERS = ((20.0, 20.0), (20.0, 80.0), (56.0, 80.0), (56.0, 20.0))
TOLD = replace(PUBLISHED, name="told", title="Told", file="told.st", rendering=CAMERA_RGB)
SRGB = replace(PUBLISHED, name="srgb", title="Photos", file="srgb.st")
CPU = DeviceEntry("cpu", "cpu", "the processor")


@pytest.fixture
def viewer() -> ViewerModel:
    return ViewerModel()


@pytest.fixture
def sensor_form(viewer: ViewerModel) -> ReconstructionForm:
    """A form with a photo of a sensor under A, whose white balance is not done."""
    form = form_with(viewer.add_image(sensor_values("A"), rgb=True))
    form.is_balanced = False
    return form


def chart_scene(response: Any) -> Any:
    """The colours (80, 100, 3) of a grey wall with a chart on it."""
    cube = np.full((31, 80, 100), 0.3)
    for spectrum, (row, column) in zip(
        CHARTS["classic"].reflectances, Chart(CORNERS).centres, strict=True
    ):
        top, left = round(row) - 6, round(column) - 6
        cube[:, top : top + 12, left : left + 12] = spectrum[:, None, None]
    return np.einsum("bhw,bc->hwc", cube, response).clip(0)


def sensor_values(light: str) -> Any:
    """The wall and its chart as 16-bit values of a sensor under *light*."""
    response = unbalanced_response(CAMERA, light)
    return np.rint(chart_scene(response / response.sum(axis=0).max()) * 60000).astype(np.uint16)


def codes_of_srgb() -> Any:
    """The wall and its chart as an 8-bit photo whose white balance is off."""
    colours = chart_scene(srgb_response(GRID)) * (1, 0.8, 0.5)
    return np.rint(linear_to_srgb(colours.clip(0, 1)) * 255).astype(np.uint8)


def form_with(layer: Image, card: Any = TOLD) -> ReconstructionForm:
    form = ReconstructionForm(cards={one.name: one for one in (TOLD, SRGB)}, card=card.name)
    form.devices = (CPU,)
    form.photo = weakref.ref(layer)
    form.camera = CAMERA if card is TOLD else ""
    return form


def next_run(form: ReconstructionForm, viewer: ViewerModel) -> Request:
    """What a press on "Run" would do."""
    return resolve(form, viewer)


def done(order: Request, viewer: ViewerModel) -> Any:
    """Do the job of *order* as the workspace does, and return what it found."""
    assert order.job is not None
    assert order.job.show is not None
    finding = order.job.make(order, Reports())
    order.job.show(viewer, finding, order)
    return finding


def test_grey_patch_tells_the_acquisition_of_the_next_run(
    viewer: ViewerModel, sensor_form: ReconstructionForm
) -> None:
    form = sensor_form
    form.grey = 30.0
    finding = done(patch_order(form, viewer, (5.2, 7.9)), viewer)
    photo = Photo.from_array(viewer.layers[0].data, encoding="linear")
    expected = acquisition_from_patch(photo, GreyPatch((5, 8), 0.3), CAMERA, start=OF_SENSOR)
    assert finding.acquisition == expected
    assert "illuminant A" in finding.text
    assert next_run(form, viewer).options.acquisition == expected
    # It goes with its photo.
    form.photo = weakref.ref(viewer.add_image(sensor_values("D65"), rgb=True))
    assert not form.finding


def test_chart_in_the_frame_corrects_the_photo_of_the_next_run_and_shows_its_patches(
    viewer: ViewerModel,
) -> None:
    layer = viewer.add_image(codes_of_srgb(), rgb=True, scale=(2, 2), translate=(10, 0))
    form = form_with(layer, SRGB)
    marks = shared(viewer, Marks, form)
    with pytest.raises(PhotoError, match=NO_CHART):
        chart_order(form, viewer)
    marks.ask_for_frame(layer)
    frame, squares = layer_of_role(viewer, FRAME), layer_of_role(viewer, MARKS)
    assert viewer.layers.selection.active is frame
    assert region_layers(viewer) == []
    for _ in range(2):
        # As the mouse moves a corner.
        frame._data_view.edit(0, np.array(CORNERS))
        frame.refresh()
        assert form.corners == CORNERS
        assert_allclose(squares.data, Chart(CORNERS).centres)
    finding = done(chart_order(form, viewer), viewer)
    assert finding.calibration is not None
    assert finding.calibration.means.after < 0.3 * finding.calibration.means.before
    assert (form.corners, layer_of_role(viewer, FRAME)) == (None, None)
    assert len(squares.data) == 24
    assert finding.details == finding.calibration.table()
    photo = Photo.from_array(layer.data)
    expected = calibrate(photo, Chart(CORNERS)).corrected(photo)
    assert_array_equal(next_run(form, viewer).read().pixels, expected.pixels)
    form.forget()
    assert list(viewer.layers) == [layer]


def test_a_frame_is_laid_around_the_chart_that_is_found_and_goes_with_its_photo_or_layer(
    viewer: ViewerModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(photo: Photo, kind: str) -> Chart:
        return Chart(CORNERS, kind)

    layer = viewer.add_image(codes_of_srgb(), rgb=True)
    form = form_with(layer, SRGB)
    monkeypatch.setattr(requests, "find_chart", find)
    for _ in range(2):
        done(search_order(form, viewer), viewer)
        assert form.corners == CORNERS
        viewer.layers.remove(layer_of_role(viewer, FRAME))
        assert list(viewer.layers) == [layer]
    # Where none is found, the frame comes all the same.
    monkeypatch.undo()
    done(search_order(form, viewer), viewer)
    assert form.corners != CORNERS
    assert layer_of_role(viewer, FRAME) is not None
    form.photo = weakref.ref(viewer.add_image(codes_of_srgb(), rgb=True))
    assert layer_of_role(viewer, FRAME) is layer_of_role(viewer, MARKS) is None


def test_light_of_an_srgb_photo_far_from_daylight_is_offered_to_be_corrected(
    viewer: ViewerModel,
) -> None:
    colours = chart_scene(srgb_response(GRID)) * (1, 0.6, 0.25)
    codes = np.rint(linear_to_srgb(colours.clip(0, 1)) * 255).astype(np.uint8)
    form = form_with(viewer.add_image(codes, rgb=True), SRGB)
    finding = done(light_order(form, viewer), viewer)
    assert finding.balance is not None
    assert finding.balance.is_far
    assert TICK_TO_CORRECT in finding.text
    plain = Photo.from_array(codes)
    assert (
        next_run(form, viewer).read().sha256 == plain.sha256
    )  # nothing is corrected unless it is ticked
    shared(viewer, Marks, form)
    form.correct_white(True)
    expected = white_balance(plain).corrected(plain)
    # Seen before the run, over the photo; it is no photo to run itself.
    photo, preview = viewer.layers
    assert_allclose(np.moveaxis(preview.data, -1, 0), expected.pixels, atol=1e-5)
    assert photo_layers(viewer) == [photo]
    assert_array_equal(next_run(form, viewer).read().pixels, expected.pixels)
    assert next_run(form, viewer).read().assumptions == expected.assumptions
    form.correct_white(False)
    assert list(viewer.layers) == [photo]
    assert next_run(form, viewer).read().sha256 == plain.sha256
    assert finding.light is not None
    form.take_light(finding.light.candidates[1].name)
    assert "chosen among the likely lights" in next_run(form, viewer).read().assumptions[-1]


def test_each_grey_patch_of_an_srgb_photo_adds_to_its_correction(viewer: ViewerModel) -> None:
    layer = viewer.add_image(codes_of_srgb(), rgb=True)
    form = form_with(layer, SRGB)
    photo = Photo.from_array(layer.data)
    patches = [GreyPatch((5, 8), 0.2), GreyPatch((20, 20), 0.05)]
    finding = done(patch_order(form, viewer, (5.2, 7.9)), viewer)
    assert finding.corrections == (calibrate_greys(photo, patches[:1]),)
    form.grey = 5.0
    finding = done(patch_order(form, viewer, (20.0, 20.0)), viewer)
    assert finding.corrections == (calibrate_greys(photo, patches),)
    assert finding.acquisition is None


def test_greys_correct_the_cube_of_the_whole_photo_that_shows_them_and_else_the_photo(
    viewer: ViewerModel, tmp_path: Path
) -> None:
    layer = viewer.add_image(codes_of_srgb(), rgb=True)
    form = ReconstructionForm(devices=(CPU,))
    form.photo = weakref.ref(layer)
    done(patch_order(form, viewer, (5.2, 7.9)), viewer)
    scale = form.finding.scale
    request = next_run(form, viewer)
    assert (request.model, request.corrections, request.patches) == (PHOTOGRAPHED, (), scale)
    cube = reconstruct_with_previews(request, Reports())
    assert cube.spectrum(5, 8).values == pytest.approx(0.2, rel=0.1)
    assert cube.provenance.calibration == "calibrated by 1 grey patch"
    folder: Any = Folder(tmp_path)
    of_folder = folder_request(request_of(form, folder))
    form.part = "visible"
    for corrected in (of_folder, next_run(form, viewer)):
        assert (corrected.model, corrected.patches) == (RENDERED, None)
        assert corrected.corrections == (scale,)


def test_the_colours_of_a_raw_photo_are_seen_before_its_run(viewer: ViewerModel) -> None:
    layer = viewer.add_image(sensor_values("A"), rgb=True)
    form = form_with(layer)
    form.cards = MODELS
    form.card = "mstpp-camera"
    form.camera = CAMERA
    form.is_balanced = False
    shared(viewer, Marks, form)
    form.grey = 30.0
    done(patch_order(form, viewer, (5.2, 7.9)), viewer)
    photo, preview = viewer.layers
    assert photo_layers(viewer) == [photo] == [layer]
    wall = preview.data[3:8, 4:12].mean((0, 1))
    # The wall reflects 30 %, and is the same grey in all channels.
    assert_allclose(wall, linear_to_srgb(np.array(0.3)), atol=0.04)
    form.forget()
    assert list(viewer.layers) == [layer]


def test_what_is_no_chart_is_refused_and_nothing_is_kept(viewer: ViewerModel) -> None:
    layer = viewer.add_image(np.full((80, 100, 3), 90, np.uint8), rgb=True)
    form = form_with(layer, SRGB)
    form.corners = CORNERS
    with pytest.raises(PhotoError, match="Expected a ColorChecker Classic"):
        done(chart_order(form, viewer), viewer)
    # The frame stays, to be dragged on.
    assert (form.finding, form.corners) == (NOTHING, CORNERS)
    # Drawing it again is no drag, though napari rounds it: the sentence of the refusal stays, too.
    marks = shared(viewer, Marks, form)
    marks.ask_for_frame(layer, ((16.1, 20.1), (16.1, 80.1), (64.1, 80.1), (64.1, 20.1)))
    dragged: list[object] = []
    form.events.corners.connect(dragged.append)
    marks.drop_click()
    assert dragged == []


def test_light_is_estimated_with_candidates_that_are_taken_by_their_buttons(
    viewer: ViewerModel, sensor_form: ReconstructionForm, qtbot: QtBot
) -> None:
    form, photo = sensor_form, viewer.layers[0]
    photo.scale, photo.translate = (2, 2), (10, 0)
    form.camera = ""
    with pytest.raises(PhotoError, match=re.escape(NO_CAMERA)):
        light_order(form, viewer)
    form.camera = CAMERA
    finding = done(light_order(form, viewer), viewer)
    assert finding.light is not None
    assert sum(one.probability for one in finding.light.candidates) <= 1 + 1e-9
    assert finding.acquisition is None
    form.finding = finding
    acquisition = Acquisition(CAMERA, ESTIMATED, balance=OF_SENSOR)
    assert next_run(form, viewer).options.acquisition == acquisition
    rows = FindingRows(form, viewer)
    qtbot.addWidget(rows)
    rows.draw()
    names = [candidate.name for candidate in finding.light.candidates]
    assert rows.lights.rowCount() == len(names)
    for row, name in enumerate(names):
        rows.lights.itemAt(row, QFormLayout.ItemRole.LabelRole).widget().click()
        assert form.illuminant == name
    for _ in range(2):
        rows.seen.click()
        _, layer = viewer.layers
        # What told the light lies on the photo.
        assert_array_equal(layer.data, finding.light.attention_map)
        edges = [layer.data_to_world(np.array(at) - 0.5) for at in ((0, 0), layer.data.shape)]
        assert_allclose(edges, [(9, -1), (169, 199)])
    assert layer not in photo_layers(viewer)


def test_spectra_that_are_marked_on_the_cube_of_the_photo_tell_its_light(
    viewer: ViewerModel, sensor_form: ReconstructionForm
) -> None:
    form, photo = sensor_form, viewer.layers[0]

    def acquisition_of(light: str) -> Acquisition:
        form.illuminant = light
        acquisition = next_run(form, viewer).options.acquisition
        assert acquisition is not None
        return acquisition

    assert acquisition_of(ESTIMATED).references == {}
    history = Provenance(source=photo.name)
    data = np.full((31, 80, 100), 0.3, np.float32)
    add_cube(viewer, SpectralCube(data, GRID, provenance=history))
    model = SpectraModel(viewer)
    model.attach()
    for place in ((5, 8), (70, 90)):
        assert picks.pin(viewer, (400, *place))
    tile = grey(30, GRID)
    model.references.mark(model.finish().entries[:1], tile)
    references = acquisition_of(ESTIMATED).references
    assert [*references] == [(5, 8)]
    assert_array_equal(np.asarray(references[5, 8].values), tile.values)  # type: ignore[union-attr]
    finding = done(light_order(form, viewer), viewer)
    seen = Photo.from_array(photo.data, encoding="linear")
    assert finding.light.illuminant == estimate_light(seen, CAMERA, references).illuminant
    assert "estimated from 1 reference spectrum in the photo" in finding.text
    # They say nothing of a light that is named, of pages, nor of another photo of the same size.
    assert acquisition_of("A") == Acquisition(CAMERA, "A", balance=OF_SENSOR)
    viewer.layers.remove(photo)
    pages = np.stack([photo.data, photo.data])
    for pixels, name in ((photo.data, "another"), (pages, photo.name)):
        layer = viewer.add_image(pixels, rgb=True, name=name)
        form.photo = weakref.ref(layer)
        assert (layer.name, acquisition_of(ESTIMATED).references) == (name, {})


def test_estimate_is_the_light_of_photos_that_show_it_unless_one_is_named(
    viewer: ViewerModel,
) -> None:
    plain = viewer.add_image(sensor_values("A"), rgb=True)
    raw = viewer.add_image(
        sensor_values("A"), rgb=True, metadata={METADATA_KEY: Shot(camera=CAMERA)}
    )
    form = form_with(plain)
    assert form.illuminant == ""
    form.photo = weakref.ref(raw)
    assert form.illuminant == ESTIMATED
    form.photo = weakref.ref(plain)
    assert form.illuminant == ""
    form.is_balanced = False
    assert form.illuminant == ESTIMATED
    form.illuminant = "D50"
    form.photo = weakref.ref(raw)
    assert form.illuminant == "D50"


def test_a_click_is_taken_once_and_asking_again_begins_anew(viewer: ViewerModel) -> None:
    layer = viewer.add_image(codes_of_srgb(), rgb=True, scale=(2, 2), translate=(10, 0))
    marks = shared(viewer, Marks, form_with(layer, SRGB))
    taken: list[Any] = []
    marks.ask_for_click(layer, taken.append)
    points = marks.ask_for_click(layer, taken.append)
    assert list(viewer.layers) == [layer, points]
    assert points.mode == "add"
    points.add((3, 4))
    assert taken == [(3.0, 4.0)]
    assert points.mode == "pan_zoom"
    points.add((5, 6))
    assert len(taken) == 1
    marks.clear()
    assert list(viewer.layers) == [layer]


def test_one_tick_takes_the_model_for_exact_colours(viewer: ViewerModel) -> None:
    layer = viewer.add_image(codes_of_srgb(), rgb=True)
    card = MODELS[RENDERED]
    cards = {name: replace(card, name=name) for name in (PHOTOGRAPHED, RENDERED)}
    form = ReconstructionForm(cards=cards, devices=(CPU,))
    form.photo = weakref.ref(layer)
    assert (form.card, form.exact_by) == (PHOTOGRAPHED, "")
    form.is_rendered = True
    assert form.card == RENDERED
    assert next_run(form, viewer).options.calibrated_by == RENDERING
    form.is_rendered = False
    assert form.card == PHOTOGRAPHED
    form.finding = Finding("Greys.", scale=calibrate_greys(layer.data, [GreyPatch((5, 8))]))
    form.part = "visible"
    assert (form.card, form.finding.text) == (RENDERED, "Greys.")
    form.forget()
    assert form.card == PHOTOGRAPHED
    floats = viewer.add_image((codes_of_srgb() / 255).astype(np.float32), rgb=True)
    form.photo = weakref.ref(floats)
    assert (form.card, form.exact_by) == (RENDERED, "float32 values")
