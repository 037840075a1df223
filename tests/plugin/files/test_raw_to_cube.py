"""A RAW photo gives one cube, whether it is dragged into napari, named in a shell or in Python."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from npe2 import PluginManager
from pytestqt.qtbot import QtBot
from tests.plugin.in_viewer import cube_in
from tests.raw_photos import Camera, write_dng

import napari_mst
from napari_mst.cli.main import main
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.photo.cameras import ESTIMATED, unbalanced_response
from napari_mst.plugin.reconstruct.dock import ReconstructDock

pytest.importorskip("rawpy")

MODEL = "mstpp-camera"
CAMERA = "Nikon_D5100"


@pytest.fixture(autouse=True)
def _plugin() -> None:
    # napari does this when its window opens.
    PluginManager.instance().discover()


@pytest.fixture
def dng(tmp_path: Path) -> Path:
    """A portrait of coloured squares under lamp A, of which one is saturated."""
    red, green, blue = unbalanced_response(CAMERA, "A").sum(axis=0)
    squares = np.random.default_rng(7).random((5, 7, 3)) * 0.8
    squares[0, 0] = 2
    image = squares.repeat(8, axis=0).repeat(8, axis=1) * (red, green, blue) / max(red, green, blue)
    camera = Camera(neutral=(float(red), float(green), float(blue)), orientation=6)
    return write_dng(tmp_path / "photo.dng", image.clip(0, 1), camera)


def cube_of_the_window(dng: Path, qtbot: QtBot) -> SpectralCube:
    """The cube that one drag, the choice of the model and a press on Run give."""
    viewer = ViewerModel()
    viewer.open([dng], plugin="napari-mst")
    dock = ReconstructDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    qtbot.waitUntil(lambda: dock.is_ready, timeout=60_000)
    dock.rows.widgets["card"].show_value(MODEL)
    assert (dock.form.camera, dock.form.illuminant) == (CAMERA, ESTIMATED)
    cubes: list[SpectralCube] = []
    dock.workspace.cube_ready.connect(lambda cube, _: cubes.append(cube))
    dock.run_button.click()
    qtbot.waitUntil(lambda: bool(cubes), timeout=120_000)
    assert cube_in(viewer.layers["photo (MST++)"]).provenance == cubes[0].provenance
    return cubes[0]


def cube_of_the_shell(dng: Path) -> SpectralCube:
    target = dng.with_suffix(".hdr")
    light = ("--illuminant", ESTIMATED)
    assert main(["reconstruct", str(dng), "-o", str(target), "--model", MODEL, *light]) == 0
    return napari_mst.read_cube(target)


def cube_of_python(dng: Path) -> SpectralCube:
    capture = napari_mst.Capture(CAMERA, ESTIMATED)
    model = napari_mst.load_model(MODEL)
    return napari_mst.Reconstructor(model, capture=capture).reconstruct(dng)


def alike(provenance: Provenance) -> str:
    """The history, but for what knows a layer by its name and pixels, and a file by its bytes."""
    return replace(provenance, source="", source_sha256="").to_json()


def test_window_shell_and_python_make_one_cube_of_a_raw_photo_bit_for_bit(
    dng: Path, qtbot: QtBot
) -> None:
    window, shell, python = (
        cube_of_the_window(dng, qtbot),
        cube_of_the_shell(dng),
        cube_of_python(dng),
    )
    assert window.data.dtype == shell.data.dtype == python.data.dtype == np.float32
    assert window.shape == (31, 56, 40)
    assert window.data.tobytes() == shell.data.tobytes() == python.data.tobytes()
    assert alike(window.provenance) == alike(shell.provenance) == alike(python.provenance)
    assert window.provenance.is_light_estimated
    assert "saturation of the sensor" in " ".join(window.provenance.assumptions)
