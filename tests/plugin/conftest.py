"""A job that does what a test tells it, and viewers for it, with and without a window."""

import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import napari
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from napari.settings import get_settings
from napari.utils.notifications import notification_manager
from npe2 import PluginManager
from pytestqt.qtbot import QtBot
from tests.plugin.in_viewer import add_cube

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.engine.device import DeviceChoice
from napari_mst.models.cards import PUBLISHED
from napari_mst.plugin import session
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Request
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.reconstruct import dock as reconstruct_dock_module
from napari_mst.plugin.reconstruct import form
from napari_mst.plugin.reconstruct.dock import ReconstructDock, survey_of
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.reconstruction.options import RunOptions

Told = Callable[[], list[str]]
WAVELENGTHS = np.arange(400.0, 701.0, 10.0)


def make_cube(rows: int = 20, columns: int = 30, is_preview: bool = False) -> SpectralCube:
    """Every value tells its band, row and column."""
    band, row, column = np.indices((31, rows, columns), dtype=np.float32)
    data = (band * 10_000 + row * 100 + column) / 310_000
    provenance = Provenance(model="fake", device="cpu (no GPU was found)", is_preview=is_preview)
    return SpectralCube(data, WAVELENGTHS, provenance=provenance)


@pytest.fixture(scope="session", autouse=True)
def _imports_stay_frozen() -> Iterator[None]:
    """Keep what is imported away from the garbage collector, which each list of devices undoes.

    A look at the objects of all libraries takes half a second, and windows ask for several.
    """
    kept = vars(gc) | {"freeze": int, "unfreeze": int}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconstruct_dock_module, "gc", SimpleNamespace(**kept))
        yield


@pytest.fixture(autouse=True)
def _nothing_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a test sets in a folder of its own, and away from the settings of a person."""
    monkeypatch.setattr("napari.settings._CFG_PATH", str(tmp_path / "settings" / "napari.yaml"))
    monkeypatch.setattr("napari.settings._PLUGIN_SETTINGS", {})
    monkeypatch.setattr("napari.settings.NapariSettings.save", lambda *_, **__: None)
    monkeypatch.setattr(get_settings().plugins, "extension2reader", {})


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
        return replace(make_cube(rows, columns), colour_error=quality)


@pytest.fixture(autouse=True)
def _bands_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave cubes without pictures, so that a test knows all layers that there are."""
    if "as_pictures" not in request.fixturenames:
        monkeypatch.setattr(Composer, "look_at", lambda *_: None)
        monkeypatch.setattr(Composer, "is_first_due", lambda *_: False)


@pytest.fixture
def as_pictures() -> None:
    """Let cubes open as pictures, as they do for a person."""


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
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer whose only device is known at once."""
    cpu = DeviceChoice("cpu", "no GPU was found")
    monkeypatch.setattr(reconstruct_dock_module, "survey", lambda: survey_of(lambda: [cpu]))


@pytest.fixture
def window(
    make_napari_viewer: Callable[..., napari.Viewer], job: GatedJob, devices: None
) -> napari.Viewer:
    return with_photo(make_napari_viewer(show=True, strict_qt="raise"), job)


@pytest.fixture(scope="session")
def manifests() -> None:
    """The plugins that are installed, known to npe2, as after napari's window has opened."""
    PluginManager.instance().discover()


class Desk:
    """The reconstruction dock, its viewer and its job, and what napari told the user."""

    def __init__(self, dock: ReconstructDock, job: GatedJob, told: Told, qtbot: QtBot) -> None:
        self.dock, self.job, self.told, self.qtbot = dock, job, told, qtbot
        self.viewer: ViewerModel = dock.viewer
        self.form, self.widgets = dock.form, dock.rows.widgets

    @property
    def names(self) -> list[str]:
        return [layer.name for layer in self.viewer.layers]

    @property
    def photo(self) -> Image:
        return self.viewer.layers["photo"]

    @property
    def text(self) -> str:
        return str(self.dock.text.text())

    def choose(self, field: str, value: object) -> None:
        """Choose *value* in the list of the row of *field*."""
        self.widgets[field].setCurrentIndex(self.widgets[field].findData(value))

    def begin(self, layers: int = 1) -> None:
        """Run until the job has begun, and there are so many *layers*."""
        assert self.dock.run()
        self.qtbot.waitUntil(self.job.begun.is_set)
        self.waits_for(layers)

    def waits_for(self, layers: int) -> None:
        self.qtbot.waitUntil(lambda: len(self.viewer.layers) == layers)

    def finish(self) -> None:
        self.job.gate.set()
        self.qtbot.waitUntil(lambda: not self.dock.workspace.is_busy)

    def run(self) -> None:
        """Run from beginning to end."""
        self.job.gate.set()
        assert self.dock.run()
        self.finish()

    def refuses(self, reason: str) -> bool:
        """True if nothing starts, for this *reason*."""
        return not self.dock.run() and reason in self.text


@pytest.fixture
def desk(
    viewer: ViewerModel,
    devices: None,
    job: GatedJob,
    told: Told,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    """The dock, ready, on a machine without a GPU; its default model has bundled weights."""
    bundled = replace(PUBLISHED, name="bundled", title="Bundled", file="bundled.safetensors")
    models = {card.name: card for card in (bundled, PUBLISHED)}
    monkeypatch.setattr(form, "MODELS", models)
    dock = ReconstructDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    qtbot.waitUntil(lambda: dock.form.is_ready)
    return Desk(dock, job, told, qtbot)


@pytest.fixture
def cube_viewer() -> ViewerModel:
    """A viewer without a window that shows a cube of 20 x 30 pixels."""
    viewer = ViewerModel()
    add_cube(viewer, make_cube())
    return viewer


@pytest.fixture
def spectra_dock(cube_viewer: ViewerModel, qtbot: QtBot) -> SpectraDock:
    dock = SpectraDock(cube_viewer)
    qtbot.addWidget(dock)
    dock.show()
    return dock


@pytest.fixture
def told() -> Told:
    """The messages that napari showed during the test."""
    before = len(notification_manager.records)
    return lambda: [record.message for record in notification_manager.records[before:]]
