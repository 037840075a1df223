"""The job's thread: cancel, errors, and that nothing outlives it."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from napari.layers import Image
from pytestqt.qtbot import QtBot

from napari_mst import AttentionExplorer, Reconstructor, load_model
from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError, OutOfMemory, PhotoError
from napari_mst.photo.photo import Encoding, Photo, Rectangle
from napari_mst.plugin.jobs.request import Reports, Request
from napari_mst.plugin.jobs.worker import JobWorker, reconstruct
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.reconstruction.options import RunOptions
from napari_mst.watch import UNWATCHED


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


def failing(error: Exception, alive: list[Any]) -> Any:
    def job(_: Request, __: Reports) -> SpectralCube:
        tensor = Payload()
        alive.append(weakref.ref(tensor))
        raise error

    return job


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
    worker = JobWorker(failing(error, alive), Request(1, source, "model", RunOptions("cpu")))
    del source, error
    failures: list[Exception] = []
    worker.reports.failed.connect(failures.append)
    worker.errored.connect(
        lambda *_: alive.append("errored")
    )  # napari's own slot for it fails under PySide6
    worker.returned.connect(lambda *_: alive.append("returned"))
    with qtbot.waitSignals([worker.reports.failed, worker.finished]):
        worker.start()
    (failure,) = failures
    assert type(failure) is kind
    assert text in str(failure)
    gc.collect()
    (frames,) = alive
    assert (payload(), frames()) == (None, None)  # although worker and error are still there


def test_a_cancelled_job_ends_without_a_result(qtbot: QtBot) -> None:
    def job(_: Request, reports: Reports) -> SpectralCube:
        reports.watch.reach(0.5)
        while True:
            reports.watch.check()

    worker = JobWorker(job, Request(1, Source(), "model", RunOptions("cpu")))
    heard: list[str] = []
    worker.returned.connect(lambda _: heard.append("returned"))
    worker.reports.failed.connect(lambda _: heard.append("failed"))
    worker.reports.progressed.connect(lambda _: worker.quit())
    with qtbot.waitSignal(worker.finished):
        worker.start()
    assert heard == []


class Silence:
    previews: tuple[SpectralCube, ...] = ()

    watch = UNWATCHED

    def say(self, text: str) -> None: ...

    def preview(self, cube: SpectralCube) -> None:
        self.previews = (*self.previews, cube)

    def record(self, record: AttentionRecord) -> None:
        self.recorded = record


def test_the_dock_gives_the_numbers_of_the_api() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    source = LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0))
    reports = Silence()
    cube = reconstruct(Request(1, source, "mstpp-srgb", RunOptions("cpu")), reports)
    expected = Reconstructor(load_model("mstpp-srgb"), device="cpu").reconstruct(pixels)
    np.testing.assert_array_equal(cube.data, expected.data)
    assert cube.provenance.source_sha256 == expected.provenance.source_sha256
    assert (len(reports.recorded), reports.recorded.provenance) == (5, cube.provenance)


@pytest.mark.parametrize(("region", "ensemble"), [((2, 17, 3, 20), False), (None, True)])
def test_the_attention_of_a_region_and_of_an_ensemble_is_recorded(
    region: tuple[int, int, int, int] | None, ensemble: bool
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    source, reports = (
        LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0), region),
        Silence(),
    )
    reconstruct(
        Request(1, source, "mstpp-srgb", RunOptions("cpu", region=region, ensemble=ensemble)),
        reports,
    )
    expected = AttentionExplorer(
        Reconstructor(load_model("mstpp-srgb"), "cpu"), pixels, region=region
    ).record()
    for name in expected:
        np.testing.assert_array_equal(reports.recorded[name].logits, expected[name].logits)
    assert reports.recorded.provenance.region == expected.provenance.region
    assert reports.recorded.provenance.is_ensemble == ensemble


def test_progress_is_told_no_more_often_than_a_person_sees(qapp: object) -> None:
    worker = JobWorker(lambda request, reports: None, None)
    told: list[float] = []
    worker.reports.progressed.connect(told.append)
    for share in range(1000):
        worker.watch.reach(share / 1000)
    assert told[0] == 0
    assert len(told) < 20


@pytest.mark.parametrize(("smallest", "shapes"), [(19 * 27, [(31, 5, 7)]), (19 * 27 + 1, [])])
def test_a_preview_comes_first_where_the_exact_run_takes_long(
    monkeypatch: pytest.MonkeyPatch, smallest: int, shapes: list[tuple[int, ...]]
) -> None:
    monkeypatch.setattr("napari_mst.plugin.jobs.worker.PREVIEW_FROM", smallest)
    monkeypatch.setattr("napari_mst.reconstruction.preparing.PREVIEW_PIXELS", 35)
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    source, reports = LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0)), Silence()
    assert reconstruct(Request(1, source, "mstpp-srgb", RunOptions("cpu")), reports).shape == (
        31,
        19,
        27,
    )
    assert [cube.shape for cube in reports.previews] == shapes


def test_the_dock_gives_the_numbers_of_the_api_on_a_region() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (19, 27, 3), dtype=np.uint8)
    source = LayerPhoto.of(Image(pixels, rgb=True, name="photo"), (0, 0), (2, 12, 3, 20))
    options = RunOptions("cpu", region=source.region)
    cube = reconstruct(Request(1, source, "mstpp-srgb", options), Silence())
    expected = Reconstructor(load_model("mstpp-srgb"), device="cpu").reconstruct(
        pixels, region=(2, 12, 3, 20)
    )
    np.testing.assert_array_equal(cube.data, expected.data)
