"""The attention dock without a napari window: choosing, comparing, keeping, and maps."""

from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QPointF, Qt
from qtpy.QtWidgets import QFileDialog
from tests.plugin.attention.conftest import BUNDLED, make_map, make_record

from napari_mst.attention.files import read_attention
from napari_mst.attention.maps import Selection
from napari_mst.errors import AttentionError
from napari_mst.plugin import session
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.attention.layers import map_layers, map_of, show_map
from napari_mst.plugin.jobs.request import Recording, Request
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.viewer.layers import active_cube_layer
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.reconstruction.options import RunOptions


def recording(viewer: ViewerModel, seed: int = 0) -> Recording:
    photo = LayerPhoto.of(viewer.layers["photo"], viewer.dims.point)
    return Recording(make_record(seed), "photo", BUNDLED, "cpu", photo.reference())


@pytest.fixture
def dock(viewer: ViewerModel, qtbot: QtBot) -> AttentionDock:
    dock = AttentionDock(viewer)
    qtbot.addWidget(dock)
    dock.resize(560, 700)
    dock.show()
    return dock


@pytest.fixture
def full_dock(dock: AttentionDock, viewer: ViewerModel) -> AttentionDock:
    dock.workspace.keep(recording(viewer))
    return dock


def run_of(dock: AttentionDock) -> Recording:
    """The run that the dock is known to show."""
    recording = dock.exploration.recording
    assert recording is not None
    return recording


def click_head(dock: AttentionDock, block: str, head: int, qtbot: QtBot) -> None:
    point = dock.panel.schematic.cell(block, head).center().toPoint()
    qtbot.mouseClick(dock.panel.schematic, Qt.MouseButton.LeftButton, pos=point)


def done(dock: AttentionDock, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not dock.workspace.is_busy, timeout=120_000)


def test_weights_of_a_file_can_be_recorded(
    dock: AttentionDock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = str(tmp_path / "own.safetensors")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_, **__: (path, ""))
    box = dock.panel.box.models
    box.setCurrentIndex(box.count() - 1)
    box.activated.emit(box.count() - 1)
    assert (box.currentText(), box.currentData()) == ("own.safetensors", path)
    dock.refresh()
    assert box.currentData() == path


def test_an_empty_dock_says_what_to_do(dock: AttentionDock) -> None:
    assert "press Record" in dock.panel.text.text()
    assert not dock.panel.box.save_button.isEnabled()
    assert not any(button.isEnabled() for button in dock.panel.maps.buttons.values())


@pytest.mark.parametrize(("block", "head"), [("stages.0.encoder.0", 0), ("stages.1.bottleneck", 3)])
def test_a_click_on_the_schematic_shows_that_head(
    full_dock: AttentionDock, qtbot: QtBot, block: str, head: int
) -> None:
    click_head(full_dock, block, head, qtbot)
    matrices = run_of(full_dock).record[block]
    np.testing.assert_array_equal(
        full_dock.panel.matrices.chosen.picture.image.image, matrices.attention[head]
    )
    np.testing.assert_allclose(
        full_dock.panel.matrices.chosen.bars.opts["width"], matrices.entropy[head]
    )
    assert full_dock.panel.schematic.current == (block, head)
    assert f"head {head}" in full_dock.panel.matrices.chosen.title.text


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_every_head_of_every_block_can_be_clicked(
    dock: AttentionDock, qtbot: QtBot, stages: int
) -> None:
    dock.workspace.keep(Recording(make_record(stages=stages), "photo"))
    heads = [
        (block, head)
        for block, (_, heads) in dock.panel.schematic.blocks.items()
        for head in range(heads)
    ]
    assert len(heads) == 10 * stages
    for block, head in heads:
        click_head(dock, block, head, qtbot)
        assert dock.panel.schematic.current == (block, head)


@pytest.mark.parametrize("stages", [1, 3])
def test_the_u_shapes_of_all_stages_fill_the_width(dock: AttentionDock, stages: int) -> None:
    dock.workspace.keep(Recording(make_record(stages=stages), "photo"))
    first, last = (
        dock.panel.schematic.cell("stages.0.encoder.0", 0),
        dock.panel.schematic.cell(f"stages.{stages - 1}.decoder.1", 0),
    )
    assert 0 < first.left() < 20
    assert 0 < dock.panel.schematic.width() - last.right() < 20


def test_the_keyboard_chooses_blocks_and_heads(full_dock: AttentionDock, qtbot: QtBot) -> None:
    full_dock.exploration.choose("stages.0.encoder.0", 0)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Down):
        qtbot.keyClick(full_dock.panel.schematic, key)
    assert full_dock.panel.schematic.current == ("stages.0.bottleneck", 2)
    assert (
        full_dock.panel.schematic.accessibleDescription() == "stage 1, bottleneck 20, head 2 of 4"
    )
    qtbot.keyClick(full_dock.panel.schematic, Qt.Key.Key_Up)
    qtbot.keyClick(full_dock.panel.schematic, Qt.Key.Key_Left)
    assert full_dock.panel.schematic.current == ("stages.0.encoder.1", 0)


def test_a_click_on_a_cell_chooses_both_channels(full_dock: AttentionDock, qtbot: QtBot) -> None:
    plot = full_dock.panel.matrices.chosen
    qtbot.waitExposed(full_dock)
    scene = plot.picture.view.mapViewToScene(QPointF(3, 1))
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=plot.mapFromScene(scene))
    assert full_dock.exploration.selection == Selection("stages.0.encoder.0", 0, key=1, query=3)
    value = run_of(full_dock).record["stages.0.encoder.0"].attention[0, 1, 3]
    assert f"<b>{value:.4f}</b>" in full_dock.panel.matrices.values.text()
    assert "row sum 1.0000" in full_dock.panel.matrices.values.text()


def test_values_are_those_under_the_mouse(full_dock: AttentionDock) -> None:
    full_dock.panel.matrices.chosen.hovered.emit((4, 2))
    value = run_of(full_dock).record["stages.0.encoder.0"].attention[0, 4, 2]
    assert f"A<sub>4,2</sub> = <b>{value:.4f}</b>" in full_dock.panel.matrices.values.text()


def test_a_kept_head_is_compared_with_one_of_another_run(
    full_dock: AttentionDock, viewer: ViewerModel
) -> None:
    kept = run_of(full_dock).record["stages.0.encoder.1"].attention[1]
    full_dock.exploration.choose("stages.0.encoder.1", 1)
    full_dock.panel.matrices.compare_button.click()
    full_dock.workspace.keep(recording(viewer, seed=1))
    full_dock.exploration.choose("stages.2.bottleneck", 2)
    np.testing.assert_array_equal(full_dock.panel.matrices.compared.picture.image.image, kept)
    shown = full_dock.workspace.recordings[1].record["stages.2.bottleneck"].attention[2]
    np.testing.assert_array_equal(full_dock.panel.matrices.chosen.picture.image.image, shown)
    assert (
        full_dock.panel.matrices.chosen.picture.image.levels[1]
        == full_dock.panel.matrices.compared.picture.image.levels[1]
    )
    full_dock.panel.matrices.compare_button.click()
    assert full_dock.panel.matrices.compared.isHidden()


def test_matrices_and_maps_are_saved_and_opened_again(
    full_dock: AttentionDock, viewer: ViewerModel, tmp_path: Path
) -> None:
    photo = LayerPhoto.of(viewer.layers["photo"], viewer.dims.point)
    show_map(viewer, make_map("score", 2), "photo", photo.placement, is_new=False)
    full_dock.save(str(tmp_path / "a.npz"))
    full_dock.save(str(tmp_path / "a.tif"))
    assert len(read_attention(tmp_path / "a.npz")) == 15
    with np.load(tmp_path / "a.npz") as archive:
        np.testing.assert_array_equal(archive["maps/0"], make_map("score", 2).values)
    full_dock.open(str(tmp_path / "a.npz"))
    assert run_of(full_dock).name == "a.npz: photo"
    assert not full_dock.make_map("score")
    assert "no longer in the viewer" in full_dock.panel.text.text()


def test_a_map_that_is_not_there_is_not_saved(full_dock: AttentionDock, tmp_path: Path) -> None:
    with pytest.raises(AttentionError, match="Expected a map to save"):
        full_dock.save(str(tmp_path / "a.tif"))


def test_a_recorded_photo_is_mapped_and_taken_apart_step_by_step(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    assert dock.record()
    done(dock, qtbot)
    assert len(run_of(dock).record) == 5
    dock.exploration.choose("stages.0.encoder.1", 1)
    dock.exploration.choose_channels(3, 5)
    qtbot.mouseClick(dock.panel.maps.buttons["score"], Qt.MouseButton.LeftButton)
    done(dock, qtbot)
    (layer,) = map_layers(viewer)
    assert isinstance(layer, Image)
    assert layer.data.shape == (10, 15)
    logit = run_of(dock).record["stages.0.encoder.1"].logits[1, 3, 5]
    assert map_of(layer).total == pytest.approx(logit, abs=1e-5)
    assert dock.make_steps()
    done(dock, qtbot)
    shown = dock.panel.steps.plot.pictures["A"].image.image
    np.testing.assert_allclose(
        shown, run_of(dock).record["stages.0.encoder.1"].attention[1], atol=1e-6
    )
    assert "62 x 12 x 16" in dock.panel.steps.plot.titles["X"].text
    dock.exploration.choose_channels(7, 9)
    assert "i = 7" in dock.panel.steps.plot.titles["K"].text
    viewer.layers["photo"].data = np.zeros((20, 30, 3), np.uint8)
    assert dock.make_map("score")
    done(dock, qtbot)
    assert "changed since" in dock.panel.text.text()


def test_a_run_of_the_reconstruction_records_attention_that_outlives_its_layers(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    photo = LayerPhoto.of(viewer.layers["photo"], viewer.dims.point)
    assert session.workspace_of(viewer).run(Request(photo, BUNDLED, RunOptions("cpu")))
    done(dock, qtbot)
    cube = active_cube_layer(viewer)
    assert cube is not None
    assert len(run_of(dock).record) == 5
    assert not dock.make_map("sensitivity")
    assert "Pin a spectrum first" in dock.panel.text.text()
    spectra = SpectraDock(viewer)
    qtbot.addWidget(spectra)
    spectra.bench.pin(cube.data_to_world((15, 4, 6)))
    assert dock.make_map("sensitivity")
    done(dock, qtbot)
    (layer,) = map_layers(viewer)
    assert np.unravel_index(layer.data.argmax(), layer.data.shape) == (4, 6)
    del photo
    viewer.layers.clear()
    assert len(run_of(dock).record) == 5
    assert not dock.make_map("score")


def test_a_region_is_listed_and_mapped_where_it_lies(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    photo = viewer.layers["photo"]
    part = LayerPhoto.of(photo, viewer.dims.point, region=(4, 16, 6, 26))
    assert dock.workspace.run(Request(part, BUNDLED, RunOptions("cpu")))
    done(dock, qtbot)
    assert "photo [4:16, 6:26]" in dock.panel.box.runs.currentText()
    assert dock.make_map("score")
    done(dock, qtbot)
    (layer,) = map_layers(viewer)
    assert layer.name == "Score contribution: photo [4:16, 6:26]"
    assert layer.data.shape == (12, 20)
    np.testing.assert_allclose(layer.data_to_world((0, 0)), photo.data_to_world((4, 6)), atol=1e-9)
    np.testing.assert_allclose(
        layer.data_to_world((11, 19)), photo.data_to_world((15, 25)), atol=1e-9
    )


def test_the_run_of_an_ensemble_says_of_which_pass_it_is(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    photo = LayerPhoto.of(viewer.layers["photo"], viewer.dims.point)
    assert dock.workspace.run(Request(photo, BUNDLED, RunOptions("cpu", ensemble=True)))
    done(dock, qtbot)
    assert "photo, unflipped of 8" in dock.panel.box.runs.currentText()


def test_a_map_can_be_cancelled_and_adds_no_layer(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    dock.workspace.keep(recording(viewer))
    assert dock.make_map("attention")
    dock.panel.cancel_button.click()
    done(dock, qtbot)
    assert dock.panel.text.text() == "Cancelled."
    assert not map_layers(viewer)


def test_two_matrices_and_three_stages_fit_into_a_narrow_dock(
    full_dock: AttentionDock, qtbot: QtBot
) -> None:
    full_dock.resize(350, 800)
    full_dock.panel.matrices.compare_button.click()
    qtbot.waitUntil(full_dock.panel.matrices.compared.isVisible)
    assert full_dock.width() == 350
    assert full_dock.minimumSizeHint().width() <= 350
    for plot in (full_dock.panel.matrices.chosen, full_dock.panel.matrices.compared):
        assert plot.ci.boundingRect().width() <= plot.viewport().width() + 1


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_all_plots_take_on_the_theme(
    full_dock: AttentionDock, viewer: ViewerModel, theme: str
) -> None:
    viewer.theme = theme
    for plot in (
        full_dock.panel.matrices.chosen,
        full_dock.panel.matrices.compared,
        full_dock.panel.steps.plot,
    ):
        assert (plot.backgroundBrush().color().lightness() < 128) == (theme == "dark")


def test_a_map_and_steps_that_finish_while_the_dock_is_hidden_are_not_lost(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    assert dock.record()
    done(dock, qtbot)
    assert dock.make_map("attention")
    dock.hide()
    done(dock, qtbot)
    assert len(map_layers(viewer)) == 1
    dock.show()
    assert dock.make_steps()
    dock.hide()
    done(dock, qtbot)
    dock.show()
    assert dock.panel.steps.plot.pictures["A"].image.image is not None
