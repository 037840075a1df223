"""The job's thread: cancel, errors, and that nothing outlives it."""

import gc
import threading
import weakref
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from napari.layers import Image
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QThreadPool

from napari_mst import AttentionExplorer, Reconstructor, load_model
from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError, OutOfMemory, PhotoError
from napari_mst.photo.photo import Encoding, Photo, Rectangle
from napari_mst.plugin.jobs.job import Cancel, Job, Latest, Reports, ignore
from napari_mst.plugin.jobs.request import Request, reconstruct
from napari_mst.plugin.jobs.worker import JobWorker, start
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.reconstruction import denoising, preparing
from napari_mst.reconstruction.options import RunOptions


class Payload:
    """Stands for a large array."""


class Source:
    name = "photo"
    region: Rectangle | None = None

    def __init__(self) -> None:
        self.payload = Payload()

    def read(self, encoding: Encoding | None = None) -> Photo:
        return Photo.from_array(np.zeros((1, 1, 3), np.uint8), encoding=encoding)

    def reference(self) -> None:
        """Finds nothing again."""


def failing(error: Exception, alive: list[Any], _: Source, __: Reports) -> None:
    tensor = Payload()
    alive.append(weakref.ref(tensor))
    raise error


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
    source = Source()
    alive: list[Any] = []
    payload = weakref.ref(source.payload)
    failures: list[Exception] = []
    job = Job(partial(failing, error, alive, source), alive.append, failures.append)
    worker = JobWorker(ignore, job)
    worker.errored.connect(
        lambda *_: alive.append("errored")
    )  # napari's own slot for it fails under PySide6
    del source, error, job
    with qtbot.waitSignal(worker.finished):
        worker.start()
    (failure,) = failures
    assert type(failure) is kind
    assert text in str(failure)
    gc.collect()
    (frames,) = alive
    assert (payload(), frames()) == (None, None)  # although worker and error are still there


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

    job = Job(
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

    latest.run(Job(wait, heard.append, on_end=lambda: heard.append("end of older")))
    latest.run(Job(lambda _: "newer", heard.append, on_end=lambda: heard.append("end")))
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
    job = Job(
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


def test_the_dock_gives_the_numbers_of_the_api() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    source = LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0))
    records: list[AttentionRecord] = []
    request = Request(source, "mstpp-srgb", RunOptions("cpu"))
    cube = reconstruct(request, Reports(record=records.append))
    expected = Reconstructor(load_model("mstpp-srgb"), device="cpu").reconstruct(pixels)
    np.testing.assert_array_equal(cube.data, expected.data)
    assert cube.provenance.source_sha256 == expected.provenance.source_sha256
    (record,) = records
    assert (len(record), record.provenance) == (5, cube.provenance)


@pytest.mark.parametrize(("region", "ensemble"), [((2, 17, 3, 20), False), (None, True)])
def test_the_attention_of_a_region_and_of_an_ensemble_is_recorded(
    region: tuple[int, int, int, int] | None, ensemble: bool
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    source = LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0), region)
    options = RunOptions("cpu", region=region, ensemble=ensemble)
    records: list[AttentionRecord] = []
    reconstruct(Request(source, "mstpp-srgb", options), Reports(record=records.append))
    (record,) = records
    expected = AttentionExplorer(
        Reconstructor(load_model("mstpp-srgb"), "cpu"), pixels, region=region
    ).record()
    for name in expected:
        np.testing.assert_array_equal(record[name].logits, expected[name].logits)
    assert record.provenance.region == expected.provenance.region
    assert record.provenance.is_ensemble == ensemble


def test_progress_is_reported_no_more_often_than_a_person_sees(qapp: object) -> None:
    shares: list[float] = []
    reports = JobWorker(ignore, Job(ignore, on_progress=shares.append)).reports
    for share in range(1000):
        reports.reach(share / 1000)
    assert shares[0] == 0
    assert len(shares) < 20


@pytest.mark.parametrize(("smallest", "shapes"), [(19 * 27, [(31, 5, 7)]), (19 * 27 + 1, [])])
def test_a_preview_comes_first_where_the_exact_run_takes_long(
    monkeypatch: pytest.MonkeyPatch, smallest: int, shapes: list[tuple[int, ...]]
) -> None:
    monkeypatch.setattr("napari_mst.plugin.jobs.request.PREVIEW_FROM", smallest)
    monkeypatch.setattr("napari_mst.reconstruction.preparing.PREVIEW_PIXELS", 35)
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    request = Request(
        LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0)),
        "mstpp-srgb",
        RunOptions("cpu"),
    )
    previews: list[SpectralCube] = []
    assert reconstruct(request, Reports(preview=previews.append)).shape == (31, 19, 27)
    assert [cube.shape for cube in previews] == shapes


def test_a_photo_is_prepared_once_for_its_plan_its_preview_and_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("napari_mst.plugin.jobs.request.PREVIEW_FROM", 1)
    prepare, decide = Mock(wraps=preparing.prepare), Mock(wraps=denoising.decided)
    monkeypatch.setattr("napari_mst.reconstruction.pipeline.prepare", prepare)
    monkeypatch.setattr("napari_mst.reconstruction.pipeline.decided", decide)
    source = LayerPhoto.of(Image(np.zeros((19, 27, 3), np.uint8), rgb=True, name="photo"), (0, 0))
    reconstruct(Request(source, "pixelwise-srgb", RunOptions("cpu")), Reports())
    assert prepare.call_count == 1
    assert [call.args[0].is_preview for call in decide.call_args_list] == [False, True]


def test_the_dock_gives_the_numbers_of_the_api_on_a_region() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    source = LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0), (2, 12, 3, 20))
    options = RunOptions("cpu", region=source.region)
    cube = reconstruct(Request(source, "mstpp-srgb", options), Reports())
    expected = Reconstructor(load_model("mstpp-srgb"), device="cpu").reconstruct(
        pixels, region=(2, 12, 3, 20)
    )
    np.testing.assert_array_equal(cube.data, expected.data)
