"""The job's thread: cancel, errors, and that nothing outlives it."""

import gc
import threading
import warnings
import weakref
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from napari.layers import Image
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QThreadPool

from napari_mst import Reconstructor, load_model
from napari_mst.attention.record import AttentionRecord
from napari_mst.base.errors import NapariMstError, OutOfMemory, PhotoError
from napari_mst.cube import SpectralCube
from napari_mst.photo.photo import Rectangle
from napari_mst.plugin.jobs import worker
from napari_mst.plugin.jobs.task import Cancel, Latest, Reports, Task, ignore
from napari_mst.plugin.jobs.worker import JobWorker, start
from napari_mst.plugin.jobs.workspace import Request, reconstruct_with_previews
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.reconstruction import denoising, preparing
from napari_mst.reconstruction.options import RunOptions

PIXELS = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)


class Payload:
    """Stands for a large array."""


def source(region: Rectangle | None = None) -> LayerPhoto:
    """A photo of 19 x 27 pixels."""
    return replace(LayerPhoto.of(Image(PIXELS, rgb=True, name="photo"), (0, 0)), region=region)


def failing(error: Exception, alive: list[Any], _: Payload, __: Reports) -> None:
    tensor = Payload()
    alive.append(weakref.ref(tensor))
    raise error


def test_napari_lists_a_job_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[object] = []

    def create(function: object, *_: object, **__: object) -> Mock:
        listed.append(function)
        return Mock()

    monkeypatch.setattr(worker, "create_worker", create)
    start(Task(ignore))
    assert [f"Executing {each}" for each in listed] == ["Executing a computation of napari-mst"]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (PhotoError("Expected a photo."), PhotoError, "Expected a photo."),
        (MemoryError(), OutOfMemory, "Expected enough memory"),
        (RuntimeError("reflect padding"), NapariMstError, "RuntimeError: reflect padding"),
    ],
    ids=["ours", "memory", "any"],
)
def test_every_error_leaves_the_thread_as_ours_without_frames(
    qtbot: QtBot, error: Exception, kind: type[NapariMstError], text: str
) -> None:
    given = Payload()
    alive: list[Any] = []
    payload = weakref.ref(given)
    failures: list[Exception] = []
    job = Task(partial(failing, error, alive, given), alive.append, failures.append)
    worker = JobWorker(ignore, job)
    worker.errored.connect(
        lambda *_: alive.append("errored")
    )  # napari's own slot for it fails under PySide6
    del given, error, job
    with qtbot.waitSignal(worker.finished):
        worker.start()
    (failure,) = failures
    assert type(failure) is kind
    assert text in str(failure)
    gc.collect()
    (frames,) = alive
    assert (payload(), frames()) == (None, None)  # although worker and error are still there


def test_a_warning_of_a_job_is_logged(qtbot: QtBot, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []
    start(
        Task(
            run=lambda _: warnings.warn("a dim photo", UserWarning, stacklevel=1),
            on_end=lambda: ended.append("end"),
        )
    )
    qtbot.waitUntil(lambda: bool(ended))
    assert [record.message for record in caplog.records] == ["a dim photo"]


def test_what_a_library_keeps_for_a_thread_outlives_a_job(qtbot: QtBot) -> None:
    of_thread = threading.local()

    def run(_: Reports) -> weakref.ref[Payload]:
        of_thread.kept = Payload()
        return weakref.ref(of_thread.kept)

    kept: list[weakref.ref[Payload]] = []
    start(Task(run, kept.append))
    qtbot.waitUntil(lambda: bool(kept))
    QThreadPool.globalInstance().waitForDone()
    assert kept[0]() is not None


@pytest.mark.parametrize("is_listed", [True, False])
def test_nobody_hears_of_a_cancelled_job_except_of_its_end(qtbot: QtBot, is_listed: bool) -> None:
    heard: list[str] = []
    cancels: list[Cancel] = []

    def run(reports: Reports) -> None:
        reports.reach(0.5)
        while not reports.is_cancelled or not reports.is_cancelled():
            pass
        reports.say("late")

    def on_progress(_: float) -> None:
        heard.append("progress")
        cancels[0]()

    job = Task(
        run=run,
        on_done=lambda _: heard.append("done"),
        on_failed=lambda _: heard.append("failed"),
        on_end=lambda: heard.append("end"),
        on_progress=on_progress,
        on_said=heard.append,
    )
    cancels.append(start(job, is_listed=is_listed))
    qtbot.waitUntil(lambda: "end" in heard)
    assert heard == ["progress", "end"]


def test_only_the_latest_job_is_heard(qtbot: QtBot) -> None:
    heard: list[str] = []
    latest, gate = Latest(start), threading.Event()

    def wait(_: Reports) -> str:
        gate.wait(10)
        return "older"

    latest.run(Task(wait, heard.append, on_end=lambda: heard.append("end of older")))
    latest.run(Task(lambda _: "newer", heard.append, on_end=lambda: heard.append("end")))
    assert latest.is_busy
    gate.set()
    qtbot.waitUntil(lambda: not latest.is_busy)
    QThreadPool.globalInstance().waitForDone()
    qtbot.wait(10)
    assert heard == ["newer", "end"]


def test_listeners_of_a_job_are_let_go_of_at_its_end(qtbot: QtBot) -> None:
    payload = Payload()
    kept = weakref.ref(payload)
    ended: list[object] = []
    job = Task(
        partial(lambda _, __: None, payload),
        partial(ignore, payload),
        on_end=lambda: ended.append(1),
    )
    worker = JobWorker(ignore, job)
    del payload, job
    worker.start()
    qtbot.waitUntil(lambda: bool(ended))
    QThreadPool.globalInstance().waitForDone()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(
    ("region", "ensemble"), [(None, False), ((2, 12, 3, 20), False), (None, True)]
)
def test_the_dock_gives_the_cube_of_the_api_and_records_its_attention(
    region: Rectangle | None, ensemble: bool
) -> None:
    records: list[AttentionRecord] = []
    options = RunOptions("cpu", region=region, ensemble=ensemble)
    request = Request(source(region), "mstpp-srgb", options)
    cube = reconstruct_with_previews(request, Reports(record=records.append))
    api = Reconstructor(load_model("mstpp-srgb"), "cpu", ensemble=ensemble)
    expected = api.reconstruct(PIXELS, region=region)
    np.testing.assert_array_equal(cube.data, expected.data)
    assert cube.provenance.source_sha256 == expected.provenance.source_sha256
    (record,) = records
    assert (len(record), record.provenance) == (5, cube.provenance)


def test_progress_is_reported_no_more_often_than_a_person_sees(qapp: object) -> None:
    shares: list[float] = []
    reports = JobWorker(ignore, Task(ignore, on_progress=shares.append)).reports
    for share in range(1000):
        reports.reach(share / 1000)
    assert shares[0] == 0
    assert len(shares) < 20


@pytest.mark.parametrize(("smallest", "shapes"), [(19 * 27, [(31, 5, 7)]), (19 * 27 + 1, [])])
def test_a_preview_comes_first_where_the_exact_run_takes_long(
    monkeypatch: pytest.MonkeyPatch, smallest: int, shapes: list[tuple[int, ...]]
) -> None:
    monkeypatch.setattr("napari_mst.plugin.jobs.workspace.PREVIEW_FROM", smallest)
    monkeypatch.setattr("napari_mst.reconstruction.preparing.PREVIEW_PIXELS", 35)
    request = Request(source(), "mstpp-srgb", RunOptions("cpu"))
    previews: list[SpectralCube] = []
    assert reconstruct_with_previews(request, Reports(preview=previews.append)).shape == (
        31,
        19,
        27,
    )
    assert [cube.shape for cube in previews] == shapes


def test_a_photo_is_prepared_once_for_its_plan_its_preview_and_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("napari_mst.plugin.jobs.workspace.PREVIEW_FROM", 1)
    prepare, decide = Mock(wraps=preparing.prepared_job), Mock(wraps=denoising.decided)
    monkeypatch.setattr("napari_mst.reconstruction.pipeline.prepared_job", prepare)
    monkeypatch.setattr("napari_mst.reconstruction.pipeline.decided", decide)
    reconstruct_with_previews(Request(source(), "pixelwise-srgb", RunOptions("cpu")), Reports())
    assert prepare.call_count == 1
    assert [call.args[0].is_preview for call in decide.call_args_list] == [False, True]
