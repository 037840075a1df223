"""Maps of a cube: the table, and the bar that makes them."""

import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels
from napari.utils.colormaps import DirectLabelColormap
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog
from tests.plugin.conftest import Told, make_cube
from tests.plugin.in_viewer import add_cube, cube_in

from napari_mst.analysis.label_table import label_table
from napari_mst.analysis.map_kind import Map
from napari_mst.analysis.maps import MAPS, formula, span
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube, colour
from napari_mst.cube.lazy import Lazy
from napari_mst.cube.metrics import spectral_angles
from napari_mst.formats import read_cube
from napari_mst.plugin.spectra.model_dock import MapsDock
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import is_made
from napari_mst.plugin.viewer.layers import (
    COMPOSITE_KEY,
    active_cube_layer,
    cube_of,
    selection_kept,
)
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.workspace_dock import sample_path

Make = Callable[[str], Any]
NUMBERS = {kind.title: number for number, kind in enumerate(MAPS.values())}


NAMES = {
    "Principal components": "PC 1 (",
    "Formula or index": "r",
    "Range of wavelengths": "mean of 475-625 nm",
    "Abundances": "pick 1",
    "Minimum noise fraction": "MNF 1 (",
    "Endmembers and abundances": "pixel ",
}


@pytest.fixture
def maps_dock(cube_viewer: ViewerModel, qtbot: QtBot) -> MapsDock:
    dock = MapsDock(cube_viewer)
    qtbot.addWidget(dock)
    dock.show()
    return dock


@pytest.fixture
def chart(cube_viewer: ViewerModel) -> Image:
    """The chart, thinned, on a place of its own, with a photo of it."""
    cube_viewer.layers.clear()
    full = read_cube(sample_path("chart.tif"))
    cube = SpectralCube(np.ascontiguousarray(full.data[:, ::3, ::3]), full.wavelengths)
    linear = np.clip(colour.render_srgb(cube.data, cube.wavelengths), 0, 1)
    photo = np.round(255 * np.moveaxis(colour.linear_to_srgb(linear), 0, -1)).astype(np.uint8)
    placed = cube_viewer.add_image(photo, rgb=True, name="photo", scale=(2, 2), translate=(5, 7))
    return add_cube(cube_viewer, cube, "chart", Placement.of(placed))


@pytest.fixture
def make(maps_dock: MapsDock, qtbot: QtBot) -> Make:
    """A press of Run, and the layer that it adds."""

    def made(title: str) -> Any:
        qtbot.waitUntil(lambda: not maps_dock.model.is_drawing, timeout=30_000)
        before = set(maps_dock.viewer.layers)
        maps_dock.kinds.setCurrentIndex(NUMBERS[title])
        QTest.mouseClick(maps_dock.run_button, Qt.MouseButton.LeftButton)
        qtbot.waitUntil(lambda: not maps_dock.maps.is_busy, timeout=30_000)
        return [layer for layer in maps_dock.viewer.layers if layer not in before][-1]

    return made


@pytest.mark.parametrize("title", [kind.title for kind in MAPS.values()])
def test_every_map_is_a_layer_on_the_place_of_its_cube(
    maps_dock: MapsDock, chart: Image, title: str, make: Make
) -> None:
    for row, column in ((5, 5), (15, 26)):
        maps_dock.model.pin(chart.data_to_world((0, row, column)))
    cube = SpectralCube(chart.data + np.float32(0.1), make_cube().wavelengths)
    truth = add_cube(maps_dock.viewer, cube, "truth", Placement.of(chart))
    maps_dock.viewer.layers.selection.active = chart
    maps_dock.model.reference = truth
    layer = make(title)
    named = NAMES.get(title, title)
    assert layer.name.startswith(named)  # napari cuts long names in the middle
    assert layer.name.endswith(": chart")
    assert layer.visible
    assert_array_equal(layer.scale[-2:], (2, 2))
    assert_array_equal(layer.translate[-2:], (5, 7))
    assert cube_of(layer) is not None or is_made(layer)
    assert (
        layer.data.shape[-3 if getattr(layer, "rgb", False) else -2 :][:2] == chart.data.shape[1:]
    )
    assert maps_dock.viewer.layers.selection == {layer}
    assert cube_of(layer) is not None or active_cube_layer(maps_dock.viewer) is chart


def test_a_new_map_lies_above_those_before_it_below_the_picks_and_hides_them(
    maps_dock: MapsDock, chart: Image, make: Make
) -> None:
    viewer, made = maps_dock.viewer, list[Image]()
    maps_dock.model.pin(chart.data_to_world((0, 5, 5)))
    for title in ("Formula or index", "Anomalies (RX)", "Formula or index"):
        viewer.layers.selection.active = chart
        made.append(make(title))
    assert [layer.visible for layer in made] == [False, False, True]
    order = [viewer.layers.index(one) for one in (chart, *made, picks.picks_layer(viewer))]
    assert order == sorted(order)


def test_a_made_cube_is_seen_but_maps_are_made_of_it_only_when_it_is_chosen(
    maps_dock: MapsDock, chart: Image, make: Make
) -> None:
    viewer, maps = maps_dock.viewer, maps_dock.maps
    made = make("Denoised")
    name = made.name
    assert viewer.layers.selection.active is made
    assert maps.source is chart
    assert maps_dock.source.currentText() == "chart"
    # The picture of the made cube comes a moment later, and is selected until it is in its place.
    with selection_kept(viewer):
        viewer.add_image(made.data[0], metadata={COMPOSITE_KEY: weakref.ref(made)})
    assert maps.source is chart
    assert make("Anomalies (RX)").name == "Anomalies (RX): chart"
    maps_dock.source.setCurrentIndex(maps_dock.source.findText(name))
    assert maps.source is made
    viewer.layers.selection.active = chart
    assert maps.source is chart
    # A line has no cube, and must not make the topmost cube the source.
    viewer.layers.selection.active = viewer.add_shapes(name="line")
    assert maps.source is chart
    viewer.layers.selection.active = made
    assert maps_dock.source.currentText() == name


def test_maps_of_a_reference_are_listed_where_there_is_one(
    maps_dock: MapsDock, chart: Image, qtbot: QtBot
) -> None:
    rows = [NUMBERS[kind.title] for kind in MAPS.values() if kind.needs == "reference"]

    def are_listed() -> set[bool]:
        return {not maps_dock.kinds.view().isRowHidden(row) for row in rows}

    qtbot.waitUntil(lambda: are_listed() == {False})
    maps_dock.model.reference = chart
    qtbot.waitUntil(lambda: are_listed() == {True})
    maps_dock.kinds.setCurrentIndex(rows[0])
    assert "is the reference itself" in maps_dock.maps.lacks


def test_the_photo_of_a_cube_differs_little_and_is_refused_for_a_cube_of_no_reflectance(
    maps_dock: MapsDock, chart: Image, make: Make, qtbot: QtBot
) -> None:
    assert np.nanmax(make("Difference from the photo").data) < 1
    qtbot.waitUntil(maps_dock.least_text.isVisible)
    assert (
        maps_dock.least_text.text() == "Number regions of the selected map of at least (CIEDE2000):"
    )
    maps_dock.viewer.layers.selection.active = chart
    cube = make("Transformed spectra")
    maps_dock.kinds.setCurrentIndex(NUMBERS["Difference from the photo"])
    assert not maps_dock.maps.lacks
    maps_dock.maps.source = cube
    for part in ("a cube of reflectance", "continuum removed"):
        assert part in maps_dock.maps.lacks


def test_classes_have_the_colours_and_names_of_the_picks_and_keep_to_the_threshold(
    maps_dock: MapsDock, chart: Image, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    threads, plain = list[threading.Thread](), DirectLabelColormap.map

    def watched(*of: Any) -> Any:
        threads.append(threading.current_thread())
        return plain(*of)

    monkeypatch.setattr(DirectLabelColormap, "map", watched)
    pixels = ((5, 5), (15, 26))
    for pixel in pixels:
        maps_dock.model.pin(chart.data_to_world((0, *pixel)))
    maps_dock.kinds.setCurrentIndex(0)
    maps_dock.number.setValue(3.0)
    layer: Labels = make("Spectral angle classes")
    assert threads[0] is not threading.main_thread()  # compiling takes seconds
    assert maps_dock.number.suffix() == "\N{DEGREE SIGN}"
    for number, (row, column) in enumerate(pixels, 1):
        truth = spectral_angles(
            chart.data, chart.data[:, row, column][:, None, None] + 0 * chart.data, dark=-np.inf
        )
        assert_array_equal(layer.data == number, truth <= 3.0)
        assert_allclose(layer.get_color(number), picks.COLOURS[number - 1], atol=1e-2)
        assert layer.features["name"][number] == f"pick {number}"


def test_dragging_a_band_of_a_formula_makes_its_map_anew_in_the_same_layer(
    maps_dock: MapsDock, chart: Image, qtbot: QtBot, make: Make
) -> None:
    layer = make("Formula or index")
    count, before = len(maps_dock.viewer.layers), layer.data.copy()
    line = maps_dock.plot.handles[0]
    line.setValue(450)
    line.sigDragged.emit(line)
    line.setValue(430)
    line.sigDragged.emit(line)
    qtbot.waitUntil(lambda: not maps_dock.maps.is_busy, timeout=30_000)
    assert len(maps_dock.viewer.layers) == count
    assert layer.name == "r430 / r520: chart"
    assert maps_dock.text.currentText() == "r430 / r520"
    assert not np.array_equal(layer.data, before)
    assert_array_equal(layer.data, formula(cube_in(chart), "r430 / r520").data)


def test_indices_that_the_bands_allow_are_listed_and_a_formula_is_typed(
    maps_dock: MapsDock, chart: Image, qtbot: QtBot
) -> None:
    maps_dock.kinds.setCurrentIndex(NUMBERS["Formula or index"])
    names = {maps_dock.text.itemText(row) for row in range(maps_dock.text.count())}
    assert names >= {"GLI", "ARI", "PRI"}
    assert not names & {"NDVI", "NDWI"}
    maps_dock.text.setCurrentText("vari")
    assert "R at 660 nm" in maps_dock.about.text()
    assert [marker.name for marker in maps_dock.maps.markers] == ["A", "B", "C"]
    maps_dock.text.setCurrentText("r500 /")
    assert not maps_dock.run_button.isEnabled()
    assert "This needs a formula" in maps_dock.about.text()
    QTest.keyClicks(maps_dock.text, "2 * r600")
    QTest.keyClick(maps_dock.text, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not maps_dock.maps.is_busy, timeout=30_000)
    layer = maps_dock.viewer.layers[-1]
    assert_array_equal(layer.data, formula(cube_in(chart), "r500 /2 * r600").data)
    before = list(maps_dock.viewer.layers)
    maps_dock.run_button.click()
    qtbot.waitUntil(lambda: not maps_dock.maps.is_busy, timeout=30_000)
    assert list(maps_dock.viewer.layers) == before  # the same map is not made twice


def test_a_range_is_dragged_as_a_whole_and_by_its_ends_and_its_mean_follows_from_the_first(
    maps_dock: MapsDock, chart: Image, qtbot: QtBot
) -> None:
    maps_dock.kinds.setCurrentIndex(NUMBERS["Range of wavelengths"])
    ends = maps_dock.plot.span
    assert (ends.isVisible(), ends.getRegion()) == (True, (475, 625))
    before = set(maps_dock.viewer.layers)
    ends.setRegion((450, 900))  # stays on the cube
    ends.setRegion((450, 600))
    ends.lines[1].setValue(550)
    qtbot.waitUntil(lambda: not maps_dock.maps.is_busy, timeout=30_000)
    made = [layer for layer in maps_dock.viewer.layers if layer not in before]
    titles = [f"{what} of 450-550 nm: chart" for what in ("centre", "area", "mean")]
    assert [layer.name for layer in made] == titles
    assert [layer.visible for layer in made] == [False, False, True]
    for layer, plane in zip(reversed(made), span(cube_in(chart), "450-550").data, strict=True):
        assert_array_equal(layer.data, plane)
        assert layer.contrast_limits[1] <= plane.max()
    maps_dock.text.setCurrentText("500")
    assert not ends.isVisible()
    assert "This needs two wavelengths within 400-700 nm" in maps_dock.about.text()


def test_the_slider_numbers_the_regions_of_the_selected_map_as_labels_that_have_spectra(
    maps_dock: MapsDock, chart: Image, qtbot: QtBot, make: Make
) -> None:
    image, state = make("Formula or index"), maps_dock.maps
    for share in (0.3, 0.7):
        least = float(np.quantile(image.data, share))
        maps_dock.least.setValue(least)
        qtbot.waitUntil(lambda: not state.is_busy, timeout=30_000)
        (layer,) = [each for each in maps_dock.viewer.layers if isinstance(each, Labels)]
        assert_array_equal(layer.data > 0, image.data >= maps_dock.least.value())
        assert maps_dock.viewer.layers.selection.active is image
    qtbot.waitUntil(lambda: not maps_dock.model.is_drawing, timeout=30_000)
    names = [entry.first.name for entry in maps_dock.model.entries]
    assert names[0] == f"{layer.name} 1"
    maps_dock.viewer.layers.selection.active = chart
    qtbot.waitUntil(lambda: not maps_dock.least.isVisible())


def test_labels_are_measured_into_the_features_of_their_layer_and_a_table(
    maps_dock: MapsDock,
    chart: Image,
    qtbot: QtBot,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    assert not maps_dock.measure.isVisible()
    layer, path = make("k-means clusters"), tmp_path / "labels.csv"
    model = maps_dock.model
    layer.features = layer.features.assign(mine=range(7))
    qtbot.waitUntil(maps_dock.measure.isVisible)
    for answer in ("", str(path)):  # Cancel, and a file
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, to=answer: (to, ""))
        model.say("")
        maps_dock.measure.click()
        qtbot.waitUntil(lambda: "6 labels measured" in model.snapshot.hint, timeout=30_000)
        assert path.exists() == bool(answer)
    expected = label_table(cube_in(chart), layer.data)
    measured = layer.features.set_index("index").loc[1:]
    for name in ("label", "row", "pixels", "mean 550 nm", "sd 400 nm", "GLI", "JM to 2"):
        assert_array_equal(measured[name], expected[name])
    assert measured["mine"].tolist() == [1, 2, 3, 4, 5, 6]
    assert pd.read_csv(path)["name"].tolist() == [f"cluster {number}" for number in range(1, 7)]
    # They have curves like other regions, but are not classified by.
    names = [entry.first.name for entry in maps_dock.model.entries]
    assert names == measured["name"].tolist()
    maps_dock.kinds.setCurrentIndex(NUMBERS["Abundances"])
    assert maps_dock.maps.lacks


@pytest.mark.parametrize(
    "title", ["Spectral angle classes", "Difference from the photo", "RMSE to the reference"]
)
def test_what_a_map_lacks_is_said_in_the_dock_and_whole(
    maps_dock: MapsDock, told: Told, title: str
) -> None:
    assert maps_dock.problem.isHidden()
    maps_dock.kinds.setCurrentIndex(NUMBERS[title])
    maps_dock.run()
    assert len(maps_dock.viewer.layers) == 1
    assert maps_dock.problem.text() == maps_dock.maps.lacks
    assert maps_dock.problem.isVisible()
    assert maps_dock.problem.height() >= maps_dock.problem.heightForWidth(maps_dock.problem.width())
    assert not maps_dock.run_button.isEnabled()
    assert "first" in maps_dock.run_button.toolTip().lower()
    assert maps_dock.run_button.toolTip() in maps_dock.about.text()
    maps_dock.viewer.layers.clear()
    maps_dock.run()
    assert maps_dock.problem.text().startswith("There is no cube to make a map of.")
    assert told() == []


def endless(cube: SpectralCube, *, progress: Progress) -> Map:
    """A map that is never done."""
    while True:
        progress.reach(0.5)


def test_a_map_of_an_opened_photo_says_that_the_cube_is_computed_and_is_cancelled(
    maps_dock: MapsDock, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    cube = make_cube()
    lazy = Lazy("a", cube.shape, np.float32, lambda *_: cube.data)
    lazy.coarse = cube.data
    maps_dock.viewer.layers.clear()
    add_cube(maps_dock.viewer, replace(cube, data=lazy), "opened")
    with monkeypatch.context() as patch:
        patch.setitem(MAPS, "anomalies", replace(MAPS["anomalies"], make=endless))
        maps_dock.kinds.setCurrentIndex(NUMBERS["Anomalies (RX)"])
        assert "is computed for this map" not in maps_dock.about.text()
        maps_dock.run_button.click()
        qtbot.waitUntil(lambda: maps_dock.bar.value() == 500)
        assert "is computed for this map" in maps_dock.about.text()
        assert maps_dock.run_button.text() == "Cancel"
        maps_dock.run_button.click()
        qtbot.waitUntil(lambda: not maps_dock.maps.is_busy)
    assert len(maps_dock.viewer.layers) == 1
    assert isinstance(make("Formula or index"), Image)


def test_a_map_lies_on_the_cube_that_it_is_of_though_another_was_selected_meanwhile(
    maps_dock: MapsDock, chart: Image, qtbot: QtBot
) -> None:
    other = add_cube(maps_dock.viewer, make_cube(), "other")
    maps_dock.viewer.layers.selection.active = chart
    maps_dock.kinds.setCurrentIndex(NUMBERS["Formula or index"])
    maps_dock.run()
    maps_dock.viewer.layers.selection.active = other
    qtbot.waitUntil(lambda: not maps_dock.maps.is_busy, timeout=30_000)
    assert [layer.name for layer in maps_dock.viewer.layers] == [
        "photo",
        "chart",
        "other",
        "r620 / r520: chart",
    ]
    assert maps_dock.viewer.layers.selection.active is other


def test_planes_are_added_one_by_one_so_that_the_window_moves_between_them(
    maps_dock: MapsDock, qtbot: QtBot
) -> None:
    maps, layers = maps_dock.model.maps, maps_dock.viewer.layers
    maps.choose("components")
    maps.run()
    seen: list[int] = []
    layers.events.inserted.connect(lambda _: QTimer.singleShot(0, lambda: seen.append(len(layers))))
    before = len(layers)
    qtbot.waitUntil(lambda: len(seen) == 3)
    assert seen == [before + 1, before + 2, before + 3]


def test_the_note_of_a_map_stands_with_its_sentence_while_that_map_of_that_cube_is_chosen(
    maps_dock: MapsDock, chart: Image, make: Make, qtbot: QtBot
) -> None:
    note = "HySime finds"
    make("Minimum noise fraction")
    qtbot.waitUntil(lambda: note in maps_dock.about.text())
    other = add_cube(maps_dock.viewer, make_cube(), "other")
    maps_dock.viewer.layers.selection.active = other
    qtbot.waitUntil(lambda: note not in maps_dock.about.text())
    maps_dock.viewer.layers.selection.active = chart
    qtbot.waitUntil(lambda: note in maps_dock.about.text())
    maps_dock.kinds.setCurrentIndex(NUMBERS["Formula or index"])
    assert note not in maps_dock.about.text()
