"""A job that does what a test tells it, and viewers for it, with and without a window."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager
from pytestqt.qtbot import QtBot

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.models.cards import PUBLISHED
from napari_mst.plugin import session
from napari_mst.plugin.jobs import composing
from napari_mst.plugin.jobs.job import Reports
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.reconstruct import dock as reconstruct_dock_module
from napari_mst.plugin.reconstruct import form
from napari_mst.plugin.reconstruct.dock import DeviceSurvey, ReconstructDock
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.viewer.layers import cube_layer
from napari_mst.reconstruction.options import RunOptions

WAVELENGTHS = np.arange(400.0, 701.0, 10.0)


def make_cube(rows: int = 20, columns: int = 30, is_preview: bool = False) -> SpectralCube:
    """Every value tells its band, row and column."""
    band, row, column = np.indices((31, rows, columns), dtype=np.float32)
    data = (band * 10_000 + row * 100 + column) / 310_000
    provenance = Provenance(model="fake", device="cpu (no GPU was found)", is_preview=is_preview)
    return SpectralCube(data, WAVELENGTHS, provenance=provenance)


@pytest.fixture(autouse=True)
def _nothing_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a test sets in a folder of its own, and away from the settings of a person."""
    monkeypatch.setattr("napari.settings._CFG_PATH", str(tmp_path / "settings" / "napari.yaml"))
    monkeypatch.setattr("napari.settings._PLUGIN_SETTINGS", {})


class GatedJob:
    """Waits at a gate until the test opens it or cancels.

    Then it delivers a cube, or raises the error that the test has set.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.gate = threading.Event()
        # The photo of a request is not kept: a test looks whether anybody else keeps it.
        self.options: list[RunOptions] = []
        self.encodings: list[str] = []
        self.error: Exception | None = None
        self.previews: list[SpectralCube] = []

    def __call__(self, request: Request, reports: Reports) -> SpectralCube:
        self.options.append(request.options)
        photo = request.read()
        self.encodings.append(photo.encoding)
        region = request.options.region
        rows, columns = (photo if region is None else photo.cropped(region)).shape
        reports.say("Running on cpu (no GPU was found).")
        reports.reach(0)
        for cube in self.previews:
            reports.preview(cube)
        self.begun.set()
        while not self.gate.wait(0.005):
            reports.reach(0.25)
        if self.error is not None:
            raise self.error
        quality = (
            np.full((rows, columns), 2, np.float32) if request.options.correct_colour else None
        )
        return replace(make_cube(rows, columns), quality=quality)


@dataclass(frozen=True)
class FakeDevice:
    """A device that is not there."""

    name: str
    reason: str
    precisions: tuple[str, ...] = ("float32",)


@pytest.fixture(autouse=True)
def _bands_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave cubes without pictures, so that a test knows all layers that there are."""
    monkeypatch.setattr(composing, "AS_PICTURES", False)


@pytest.fixture
def as_pictures(_bands_only: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let cubes open as pictures, as they do for a person."""
    monkeypatch.setattr(composing, "AS_PICTURES", True)


@pytest.fixture
def job() -> Iterator[GatedJob]:
    """A job that, whatever becomes of the test, does not wait for ever."""
    job = GatedJob()
    yield job
    job.gate.set()


@pytest.fixture
def viewer(job: GatedJob) -> ViewerModel:
    """A viewer without a window, whose photo is 20 x 30."""
    return with_photo(ViewerModel(), job)


def with_photo(viewer: ViewerModel, job: GatedJob) -> ViewerModel:
    """Add a photo, and let *job* do the work of this viewer."""
    session.workspace_of(viewer, job)
    viewer.add_image(np.full((20, 30, 3), 128, np.uint8), rgb=True, name="photo")
    return viewer


@pytest.fixture
def reconstruct_dock(
    viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> ReconstructDock:
    """The dock, ready, on a machine without a GPU; its default model has bundled weights."""
    cpu = FakeDevice("cpu", "no GPU was found", ("float32", "bfloat16", "float64"))
    bundled = replace(PUBLISHED, name="bundled", title="Bundled", file="bundled.safetensors")
    monkeypatch.setattr(reconstruct_dock_module, "survey", lambda: DeviceSurvey(lambda: [cpu]))
    models = {card.name: card for card in (bundled, PUBLISHED)}
    monkeypatch.setattr(form, "MODELS", models)
    dock = ReconstructDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    qtbot.waitUntil(lambda: dock.is_ready)
    return dock


@pytest.fixture
def cube_viewer() -> ViewerModel:
    """A viewer without a window that shows a cube of 20 x 30 pixels."""
    viewer = ViewerModel()
    data, arguments, _ = cube_layer(make_cube(), "cube")
    viewer.add_image(data, **arguments)
    return viewer


@pytest.fixture
def spectra_dock(cube_viewer: ViewerModel, qtbot: QtBot) -> SpectraDock:
    dock = SpectraDock(cube_viewer)
    qtbot.addWidget(dock)
    dock.show()
    return dock


@pytest.fixture
def told() -> Callable[[], list[str]]:
    """The messages that napari showed during the test."""
    before = len(notification_manager.records)
    return lambda: [record.message for record in notification_manager.records[before:]]
