"""The workspace, with a job that is no job: the test speaks for it."""

from typing import Any

import numpy as np
import pytest
from napari.layers import Image

from napari_mst.attention.record import AttentionRecord
from napari_mst.base.errors import PhotoError
from napari_mst.cube import SpectralCube
from napari_mst.plugin.jobs.task import Cancel, Task
from napari_mst.plugin.jobs.workspace import (
    MOST_RECORDINGS,
    JobState,
    Recording,
    Request,
    Workspace,
)
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.reconstruction.options import RunOptions

CUBE = SpectralCube(np.ones((2, 1, 1)), np.array([400.0, 500.0]))


PHOTO = LayerPhoto.of(Image(np.zeros((1, 1, 3), np.uint8), rgb=True, name="photo"), (0, 0))
REQUEST = Request(PHOTO, "model", RunOptions("cpu"))


class Bench:
    """A workspace, the jobs it starts, how often it cancels, and the hands of its clock."""

    def __init__(self) -> None:
        self.jobs: list[Task] = []
        self.cancels = 0
        self.now = 0.0
        self.workspace = Workspace(self.start, clock=lambda: self.now)
        self.states: list[JobState] = []
        self.cubes: list[tuple[Any, ...]] = []
        self.errors: list[Exception] = []
        self.workspace.state_changed.connect(self.states.append)
        self.workspace.cube_ready.connect(lambda *result: self.cubes.append(result))
        self.workspace.failed.connect(lambda error: self.errors.append(error))

    def start(self, job: Task) -> Cancel:
        self.jobs.append(job)
        return self.cancel

    def cancel(self) -> None:
        self.cancels += 1

    def run(self) -> Task:
        self.workspace.run(REQUEST)
        return self.jobs[-1]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_second_run_while_one_is_on_its_way_does_nothing(bench: Bench) -> None:
    assert bench.workspace.run(REQUEST)
    assert not bench.workspace.run(REQUEST)
    assert len(bench.jobs) == 1


def test_a_cube_is_handed_on_with_its_source(bench: Bench) -> None:
    job = bench.run()
    job.on_done(CUBE)
    assert [(cube, source.name) for cube, source in bench.cubes] == [(CUBE, "photo")]
    assert not bench.workspace.is_busy


def test_the_end_of_an_older_job_ends_no_newer_one(bench: Bench) -> None:
    old = bench.run()
    old.on_done(CUBE)
    bench.run()
    old.on_end()
    assert bench.workspace.is_busy


def test_a_cancelled_job_blocks_until_it_has_ended(bench: Bench) -> None:
    job = bench.run()
    bench.workspace.cancel()
    bench.workspace.cancel()
    assert (bench.cancels, bench.cubes, bench.workspace.state.phase) == (1, [], "cancelling")
    assert not bench.workspace.run(REQUEST)
    job.on_end()
    assert bench.workspace.state == JobState(text="Cancelled.")


def test_time_left_is_that_of_the_mean_pace_since_the_first_report(bench: Bench) -> None:
    job = bench.run()
    bench.now = 20.0  # reading the photo, loading the model
    job.on_progress(0.0)
    bench.now = 23.0
    job.on_progress(0.01)
    assert bench.states[-1].seconds_left is None
    job.on_progress(0.25)
    assert bench.states[-1].seconds_left == pytest.approx(9.0)


def test_time_left_of_a_run_that_starts_again_is_that_of_the_second_run(bench: Bench) -> None:
    job = bench.run()
    for bench.now, share in [(0.0, 0.0), (10.0, 0.5), (12.0, 0.1), (14.0, 0.2)]:
        job.on_progress(share)
    assert bench.states[-1].seconds_left == pytest.approx(16.0)


def test_after_an_error_the_next_run_starts(bench: Bench) -> None:
    bench.run().on_failed(PhotoError("no photo"))
    assert [str(error) for error in bench.errors] == ["no photo"]
    assert bench.workspace.run(REQUEST)


def test_only_the_last_recorded_runs_are_kept(bench: Bench) -> None:
    runs = [
        Recording(AttentionRecord(), f"photo {number}") for number in range(MOST_RECORDINGS + 3)
    ]
    for run in runs:
        bench.workspace.keep(run)
    assert bench.workspace.recordings == runs[3:]
