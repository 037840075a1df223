"""An ONNX file of a stranger, opened from the window: what it does not say is asked for."""

import weakref
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from numpy.testing import assert_array_equal
from tests.plugin.conftest import Desk

from napari_mst import Reconstructor, load_model
from napari_mst.base.errors import CubeError, ModelError
from napari_mst.cube import SpectralCube
from napari_mst.models.cards import FileCard
from napari_mst.plugin.jobs.task import run_now
from napari_mst.plugin.jobs.workspace import Workspace
from napari_mst.plugin.reconstruct.form import DeviceEntry, ReconstructionForm
from napari_mst.plugin.reconstruct.requests import resolve

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
from tests.models.test_onnx import CARD, u_shape

PHOTO = np.random.default_rng(0).integers(0, 256, (22, 30, 3), dtype=np.uint8)


def reconstructed(path: Path, wavelengths: str = "", takes: str = "") -> SpectralCube:
    """The cube of the photo, by the form with what a person says of the file *path*."""
    viewer = ViewerModel()
    form = ReconstructionForm(card="mst-plus-plus")
    form.devices = (DeviceEntry("cpu", "cpu", "the processor"),)
    form.choose("device", "cpu")
    form.photo = weakref.ref(viewer.add_image(PHOTO, rgb=True))
    form.weights = str(path)
    form.wavelengths, form.takes = wavelengths, takes
    cubes: list[SpectralCube] = []
    workspace = Workspace(run_now)
    workspace.cube_ready.connect(lambda cube, _: cubes.append(cube))
    workspace.run(resolve(form, viewer))
    return cubes[-1]


@pytest.mark.parametrize(
    ("takes", "typed"), [("srgb", "400-800"), ("linear", "400, 500, 600, 700, 800"), ("srgb", "")]
)
def test_a_file_without_a_card_runs_with_what_a_person_says(
    tmp_path: Path, takes: str, typed: str
) -> None:
    path = tmp_path / "u.onnx"
    path.write_bytes(u_shape(None))
    cube = reconstructed(path, typed, takes)
    card: FileCard = {"is_linear": takes == "linear"}
    if typed:
        card["wavelengths"] = CARD.wavelengths
    model = load_model(path, **card)
    expected = Reconstructor(model, "cpu").reconstruct(PHOTO)
    assert_array_equal(cube.data, expected.data)
    assert_array_equal(cube.wavelengths, expected.wavelengths)
    assert cube.has_wavelengths == bool(typed)


def test_a_file_without_a_card_is_refused_until_it_is_said_what_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "u.onnx"
    path.write_bytes(u_shape(None))
    for typed in ("", "400-800"):
        with pytest.raises(ModelError, match=r"card in u\.onnx, got none\..* its 5 bands"):
            reconstructed(path, typed)
    with pytest.raises(CubeError, match="Expected 5 wavelengths, got 2"):
        reconstructed(path, "400, 500", "srgb")
    path.write_bytes(u_shape(CARD))
    assert_array_equal(reconstructed(path).wavelengths, CARD.wavelengths)


def test_the_rows_are_there_for_onnx_files_and_forget_what_was_said_of_another(desk: Desk) -> None:
    rows = [desk.widgets[field] for field in ("wavelengths", "takes")]
    desk.choose("card", "mst-plus-plus")
    for name, is_asked in (("a.pth", False), ("a.onnx", True)):
        desk.widgets["weights"].setEditText(name)
        assert [row.isVisible() for row in rows] == [is_asked] * 2
    rows[0].setText("400-700")
    desk.choose("takes", "linear")
    assert (desk.form.wavelengths, desk.form.takes) == ("400-700", "linear")
    desk.widgets["weights"].setEditText("b.onnx")
    assert (desk.form.wavelengths, desk.form.takes, rows[0].text()) == ("", "", "")
