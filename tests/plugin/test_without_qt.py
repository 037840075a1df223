"""All that the docks do is done by a script, in an interpreter that cannot import Qt.

Each script is a function of this module, which another interpreter imports and calls.
"""

import subprocess
import sys
import weakref
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from tests.plugin.attention.made_up import make_map, make_record

from napari_mst.attention.record_views import Selection
from napari_mst.base.errors import AttentionError, CameraError, OutOfMemory, PhotoError, plain
from napari_mst.engine.device import DeviceChoice
from napari_mst.photo.cameras import OF_SENSOR, Acquisition
from napari_mst.plugin.attention.attention_layers import map_layers
from napari_mst.plugin.attention.attention_model import (
    NO_RUN,
    PHOTO_IS_GONE,
    AttentionModel,
    map_order,
    recording_order,
    steps_order,
)
from napari_mst.plugin.jobs.task import Cancel, Task, ignore
from napari_mst.plugin.jobs.workspace import JobState, Request, Workspace
from napari_mst.plugin.reconstruct.form import (
    NO_DEVICES,
    NO_PHOTO,
    ReconstructionForm,
    device_entries,
    status,
)
from napari_mst.plugin.reconstruct.photo_marks import draw, shapes_layer
from napari_mst.plugin.reconstruct.requests import NO_WEIGHTS, resolve

ROOT = Path(__file__).parents[2]
BLOCKED = ("qtpy", "PyQt6", "PySide6", "pyqtgraph", "superqt", "magicgui.backends._qtpy")
"""magicgui and vispy are not among them: napari's own layers import them, without Qt."""
SCRIPT = """
import importlib, sys
blocked = dict.fromkeys(sys.argv[1].split(","))
sys.modules.update(blocked)

def run(name):
    module, _, script = name.rpartition(".")
    getattr(importlib.import_module("tests.plugin." + module), script)()

for name in sys.argv[2:]:
    run(name)
assert not any(map(sys.modules.get, blocked))
"""
BLOCK = "stages.0.encoder.0"


class Starts:
    """Starts no job, but keeps all; a test calls their listeners."""

    def __init__(self) -> None:
        self.jobs: list[Task] = []

    def __call__(self, job: Task) -> Cancel:
        self.jobs.append(job)
        return ignore

    @property
    def requests(self) -> list[Request]:
        return [job.run.args[-1] for job in self.jobs]  # type: ignore[attr-defined]


def with_photo(dtype: type = np.uint8) -> ViewerModel:
    viewer = ViewerModel()
    viewer.add_image(np.full((20, 30, 3), 90, dtype), rgb=True, name="photo")
    return viewer


def filled(viewer: ViewerModel) -> ReconstructionForm:
    """The form with the photo of *viewer* and two devices."""
    form = ReconstructionForm()
    form.photo = weakref.ref(viewer.layers["photo"])
    cuda = DeviceChoice("cuda:0", "for a test")
    cpu = DeviceChoice("cpu", "for a test")
    form.devices = device_entries([cuda, cpu])
    return form


def refusal(form: ReconstructionForm, viewer: ViewerModel) -> str:
    """The sentence that says why nothing can run."""
    with pytest.raises((CameraError, PhotoError)) as refused:
        resolve(form, viewer)
    return plain(refused.value)


def reconstruct_a_part() -> None:
    """Choose the part and the memory, run, run out of memory, and run on the CPU."""
    viewer = with_photo()
    form = filled(viewer)
    starts = Starts()
    workspace = Workspace(starts)
    heard: list[str] = []
    form.events.options.connect(lambda options: heard.append(options.device))
    draw(viewer, viewer.layers["photo"])
    shapes = shapes_layer(viewer)
    assert shapes is not None
    shapes.add_rectangles([[3.6, 6.6], [3.6, 40], [12.4, 40], [12.4, 6.6]])
    form.part = "drawn"
    form.choose("device", "cuda:0")
    form.choose("memory", 1_500_000_000)
    assert workspace.run(resolve(form, viewer))
    request = starts.requests[0]
    assert (request.model, request.options.device) == ("mstpp-photo", "cuda:0")
    assert request.options.memory == 1_500_000_000
    assert request.options.region == (4, 13, 7, 30)
    starts.jobs[0].on_failed(OutOfMemory("Expected more memory."))
    assert status(form, workspace.state) == "This needs more memory."
    form.choose("device", "cpu")
    assert list(dict.fromkeys(heard)) == ["cuda:0", "cpu"]
    assert workspace.run(resolve(form, viewer))
    assert starts.requests[1].options.device == "cpu"
    viewer.layers.clear()
    assert refusal(form, viewer) == NO_PHOTO
    form.photo = None
    assert status(form, JobState(text="Done.")) == NO_PHOTO


def say_why_nothing_can_run() -> None:
    """Every refusal of the form is a sentence, and changes nothing."""
    viewer = with_photo()
    form = ReconstructionForm()
    assert refusal(form, viewer) == NO_PHOTO
    form.photo = filled(viewer).photo
    assert refusal(form, viewer) == NO_DEVICES
    form.devices = filled(viewer).devices
    form.card = "mst-plus-plus"
    assert refusal(form, viewer) == NO_WEIGHTS
    form.card = "mstpp-srgb"
    form.part = "drawn"
    assert "This needs a rectangle" in refusal(form, viewer)
    form.part = "whole"
    order = resolve(form, viewer)
    assert order.options.region is None
    with pytest.raises(FrozenInstanceError):
        order.options.device = "cpu"  # type: ignore[misc]


def tell_the_camera() -> None:
    """A model that needs the camera is told it, and refuses eight bits."""
    viewer = with_photo()
    form = filled(viewer)
    form.card = "mstpp-camera"
    assert form.asks_if_linear
    assert refusal(form, viewer) == form.misfit
    assert "This photo has 8 bits" in form.misfit
    form.is_linear = True
    assert "Which camera" in refusal(form, viewer)
    form.camera = "nikon d5100"
    assert "In which light" in refusal(form, viewer)
    form.illuminant = "A"
    form.white = 200.0
    form.is_balanced = False
    acquisition = resolve(form, viewer).options.acquisition
    assert acquisition == Acquisition("Nikon_D5100", "A", 200.0, OF_SENSOR)


def explore_a_run() -> None:
    """Record, choose head and channels, compare, map, and take a head apart."""
    viewer = with_photo()
    starts = Starts()
    workspace = Workspace(starts)
    model = AttentionModel()
    with pytest.raises(AttentionError, match=NO_RUN):
        map_order(viewer, model, "score")
    with pytest.raises(AttentionError, match=NO_RUN):
        steps_order(viewer, model)
    order = recording_order(viewer, model, filled(viewer))
    assert workspace.run(order)
    workspace.recorded.connect(model.choose_run)
    starts.jobs[0].on_record(make_record())
    starts.jobs[0].on_end()
    model.choose("stages.0.encoder.1", 1)
    model.choose_channels(3, None)
    model.compare(True)
    model.choose(BLOCK, 0)
    assert model.selection == Selection(BLOCK, 0, 3, None)
    assert model.compared is not None
    assert model.compared[1:] == ("stages.0.encoder.1", 1)
    model.click(2, 1)
    assert (model.key, model.query) == (2, 1)
    model.click(2, 1)
    assert model.selection == Selection(BLOCK, 0)
    for _ in range(2):
        assert workspace.run(map_order(viewer, model, "score"))
        show_made(starts.jobs[-1], starts.requests[-1], viewer)
        assert len(map_layers(viewer)) == 1
    assert workspace.run(steps_order(viewer, model))
    viewer.layers.remove("photo")
    with pytest.raises(AttentionError, match=PHOTO_IS_GONE):
        map_order(viewer, model, "score")


def show_made(job: Task, request: Request, viewer: ViewerModel) -> None:
    """Let the job of *request* show a map, as the session of a window does."""
    assert request.job is not None
    assert request.job.show is not None
    made = make_map("score", 2)
    job.on_done(made)
    request.job.show(viewer, made, request)


@pytest.mark.parametrize(
    "script",
    [
        reconstruct_a_part,
        say_why_nothing_can_run,
        tell_the_camera,
        explore_a_run,
    ],
)
def test_a_script_does_what_the_docks_do(script: Any) -> None:
    script()


def test_none_of_it_needs_qt() -> None:
    """One interpreter for all scripts: to import napari takes seconds."""
    scripts = [
        "spectra.reference_scene.mark_refine_suggest_and_undo",
        f"test_without_qt.{reconstruct_a_part.__name__}",
        f"test_without_qt.{explore_a_run.__name__}",
    ]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ",".join(BLOCKED), *scripts],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
