"""A folder of photos from the window: the cubes of the command line, a report, and a cancel."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.plugin.conftest import Desk

from napari_mst.base.errors import Cancelled, ClusterError
from napari_mst.cli.main import main
from napari_mst.formats import read_cube
from napari_mst.plugin.jobs.folder import Folder, folder_request
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Request
from napari_mst.reconstruction.options import RunOptions

ANY_FOLDER: Any = Folder(Path())
SETTINGS = Request(ANY_FOLDER, "pixelwise-srgb", RunOptions("cpu"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two photos, one of them in a folder within, and a file that is damaged."""
    codes = np.random.default_rng(0).integers(0, 256, (2, 6, 8, 3), dtype=np.uint8)
    (tmp_path / "more").mkdir()
    for name, values in zip(("a.png", "more/b.png"), codes, strict=True):
        Image.fromarray(values).save(tmp_path / name)
    (tmp_path / "broken.png").write_bytes(b"no photo")
    return tmp_path


def made(
    folder: Path,
    settings: Request = SETTINGS,
    reports: Reports | None = None,
    scheduler: str = "",
) -> list[str]:
    source: Any = Folder(folder)
    request = folder_request(replace(settings, source=source), scheduler=scheduler)
    assert request.job is not None
    lines: list[str] = request.job.make(request, reports or Reports())
    return lines


def test_a_folder_gives_the_cubes_of_the_command_line_and_says_what_failed_and_why(
    folder: Path,
) -> None:
    said: list[str] = []
    shares: list[float] = []
    sentence, failure = made(folder, reports=Reports(shares.append, say=said.append))
    assert sentence == f"2 of 3 cubes are in {folder / 'cubes'}. 1 failed: see the details."
    assert failure.startswith("broken.png: this needs")
    assert said[-3:] == [
        "Photo 1 of 3: a.png",
        "Photo 2 of 3: broken.png",
        "Photo 3 of 3: more/b.png",
    ]
    assert shares == sorted(shares)
    arguments = [str(folder / "more" / "b.png"), "-o", str(folder / "b.hdr")]
    assert main(["reconstruct", *arguments, "--model", SETTINGS.model, "--device", "cpu"]) == 0
    ours, theirs = (read_cube(folder / name) for name in ("cubes/more/b.hdr", "b.hdr"))
    np.testing.assert_array_equal(ours.data, theirs.data)


def test_finished_cubes_of_the_same_settings_stay_and_others_are_not_overwritten(
    folder: Path,
) -> None:
    made(folder)
    cube = folder / "cubes" / "a.img"
    before = cube.stat().st_mtime_ns
    assert made(folder)[0].startswith("2 of 3")
    assert cube.stat().st_mtime_ns == before
    others = replace(SETTINGS, options=RunOptions("cpu", correct_colour=False))
    assert made(folder, others)[0].startswith("0 of 3")
    assert cube.stat().st_mtime_ns == before


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets close a moment after a cluster
def test_workers_of_a_scheduler_make_the_cubes_and_one_that_is_not_there_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    said: list[str] = []
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0"
    ) as workers:
        address = workers.scheduler_address
        sentence, failure = made(folder, reports=Reports(say=said.append), scheduler=address)
    assert sentence == f"2 of 3 cubes are in {folder / 'cubes'}. 1 failed: see the details."
    assert failure.startswith("broken.png: this needs")
    assert said[-1].startswith("3 of 3 photos done\nhttp://")
    ours = (folder / "cubes" / "more" / "b.img").read_bytes()
    shutil.rmtree(folder / "cubes")
    monkeypatch.setattr("napari_mst.batch.cluster.TIMEOUT", 1)
    with pytest.raises(ClusterError, match=f"at {address}"):
        made(folder, scheduler=address)
    assert not (folder / "cubes").exists()
    made(folder)
    assert (folder / "cubes" / "more" / "b.img").read_bytes() == ours


def test_a_cancel_keeps_the_cubes_that_are_done(folder: Path) -> None:
    said: list[str] = []
    reports = Reports(say=said.append, is_cancelled=lambda: "Photo 2 of 3: broken.png" in said)
    with pytest.raises(Cancelled):
        made(folder, reports=reports)
    assert [path.name for path in (folder / "cubes").iterdir()] == ["a.hdr", "a.img"]


def test_the_page_makes_a_folder_with_its_settings_and_says_how_that_went(
    desk: Desk, folder: Path
) -> None:
    desk.choose("card", "mst-plus-plus")
    desk.dock.run_folder(folder)
    assert "Choose the weights file" in desk.text
    cards = desk.form.cards
    desk.form.cards = {**cards, "pixelwise-srgb": cards["bundled"]}
    desk.form.card = "pixelwise-srgb"
    desk.dock.run_folder(folder)
    assert not desk.dock.folder_button.isEnabled()
    desk.qtbot.waitUntil(lambda: not desk.dock.workspace.is_busy, timeout=60_000)
    assert "2 of 3 cubes are in" in desk.text
    assert "broken.png: this needs" in desk.dock.details.text()
