"""From what a person names to the cubes of a run, and claims between runs."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from napari_mst.base.errors import PhotoError, SaveError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.batch.jobs import (
    BatchJob,
    check_names,
    claimed,
    find_photos,
    finished,
    folders_for,
    plan_jobs,
)
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import write_cube


def touched(folder: Path, *names: str) -> list[Path]:
    files = [folder / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return files


def found_in(
    *named: Path, output: Path = Path("nowhere"), report: Callable[[str], None] = print
) -> list[str]:
    return [photo.name for photo, _ in find_photos(named, output, report)]


def targets(named: list[Path], output: Path) -> list[str]:
    """Of the jobs, below *output*."""
    jobs = plan_jobs(find_photos(named, output, print), output, ".hdr", with_bands=False)
    return [job.target.relative_to(output).as_posix() for job in jobs]


def job_in(folder: Path) -> BatchJob:
    return BatchJob(folder / "a.png", folder / "out" / "a.hdr", "a.png")


def test_a_folder_gives_its_photos_in_order_and_tells_what_it_leaves_alone(tmp_path: Path) -> None:
    touched(
        tmp_path,
        "b.PNG",
        "a.jpg",
        "sub/c.tif",
        ".hidden.png",
        ".git/x.png",
        "notes.txt",
        "cube.zarr/0.png",
    )
    lines: list[str] = []
    assert found_in(tmp_path, report=lines.append) == ["a.jpg", "b.PNG", "c.tif"]
    assert len(lines) == 1
    assert lines[0].endswith("1 files that are no photos are left alone")


def test_a_folder_is_searched_but_for_the_output_and_cubes_of_ours(tmp_path: Path) -> None:
    touched(tmp_path, "a.png", "out/b.png")
    cube = SpectralCube(np.ones((2, 3, 4), np.float32), np.array([400.0, 500]))
    write_cube(
        tmp_path / "grey.tif", SpectralCube(np.ones((1, 3, 4), np.float32), np.array([400.0]))
    )
    write_cube(
        tmp_path / "ours.tif",
        SpectralCube(cube.data, cube.wavelengths, provenance=Provenance(model="tiny")),
    )
    assert found_in(tmp_path, output=tmp_path / "out") == ["a.png"]


def test_a_folder_without_photos_is_refused(tmp_path: Path) -> None:
    touched(tmp_path, "notes.txt")
    with pytest.raises(PhotoError, match=r"^Expected photos in the folder .* got none"):
        found_in(tmp_path)


def test_a_pattern_is_expanded_in_order(tmp_path: Path) -> None:
    touched(tmp_path, "b.png", "a.png", "c.jpg", "sub/d.png")
    assert found_in(tmp_path / "*.png") == ["a.png", "b.png"]
    assert found_in(tmp_path / "**" / "?.png") == ["a.png", "b.png", "d.png"]
    with pytest.raises(PhotoError, match=r"^Expected files like .*\*\.gif, got none"):
        found_in(tmp_path / "*.gif")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    touched(tmp_path, "a[1].png", "a1.png")
    assert found_in(tmp_path / "a[1].png") == ["a[1].png"]


def test_a_photo_that_is_named_twice_is_taken_once(tmp_path: Path) -> None:
    (photo,) = touched(tmp_path, "a.png")
    assert found_in(photo, tmp_path, tmp_path / "." / "*.png") == ["a.png"]


def test_photos_of_one_folder_become_cubes_of_one_folder(tmp_path: Path) -> None:
    photos = touched(tmp_path / "in", "a.png", "b.png")
    assert targets(photos, tmp_path / "out") == ["a.hdr", "b.hdr"]
    assert targets([tmp_path / "in"], tmp_path / "out") == ["a.hdr", "b.hdr"]


def test_subfolders_are_mirrored(tmp_path: Path) -> None:
    touched(tmp_path, "day/one/a.png", "day/two/a.png", "day/two/deep/a.png")
    expected = ["one/a.hdr", "two/a.hdr", "two/deep/a.hdr"]
    assert targets([tmp_path / "day"], tmp_path / "out") == expected
    assert (
        targets([tmp_path / "day" / "one", tmp_path / "day" / "two"], tmp_path / "out") == expected
    )
    assert targets([tmp_path / "day" / "*" / "a.png"], tmp_path / "out") == expected[:2]
    assert targets([tmp_path / "day" / "two"], tmp_path / "out") == ["a.hdr", "deep/a.hdr"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a.png", "a.jpg"), "got a.jpg and a.png for a.hdr"),
        (("sub/a.png", "sub/A.jpg"), "got A.jpg and a.png for a.hdr"),
        (("a.png", "a_lower.png"), "prediction interval a_lower.hdr"),
    ],
    ids=["087-one-folder", "087-case", "087-error-band"],
)
def test_bad_input(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    touched(tmp_path, *names)
    output = tmp_path / "out"
    with pytest.raises(SaveError, match=message):
        check_names(
            plan_jobs(find_photos([tmp_path], output, print), output, ".hdr", with_bands=True)
        )


def test_folders_are_made_and_go_again_if_they_stay_empty(tmp_path: Path) -> None:
    jobs = [
        BatchJob(tmp_path / "x.png", tmp_path / "out" / name / "x.hdr", "x.png")
        for name in ("one", "two/deep")
    ]
    with folders_for(jobs):
        assert all(job.target.parent.is_dir() for job in jobs)
        jobs[0].target.touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "one", "x.hdr"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    touched(tmp_path, "out")
    with pytest.raises(SaveError, match=r"^Expected to save to "), folders_for([job_in(tmp_path)]):
        pytest.fail("the folder of the output is a file")


def test_one_run_at_a_time_has_the_claim_and_nothing_stays_of_it(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    with (
        claimed(job, NO_PROGRESS, waits=False) as is_ours,
        claimed(job, NO_PROGRESS, waits=False) as is_theirs,
    ):
        assert (is_ours, is_theirs) == (True, False)
    with claimed(job, NO_PROGRESS, waits=False) as is_free:
        assert is_free
    assert not list(job.target.parent.iterdir())


CLAIMING = """
import sys
from pathlib import Path
from napari_mst.batch.jobs import claimed
from napari_mst.batch.jobs import BatchJob
from napari_mst.base.progress import NO_PROGRESS
job = BatchJob(Path("a.png"), Path(sys.argv[1]), "a.png")
with claimed(job, NO_PROGRESS, waits=False) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a thing of POSIX")
def test_a_run_waits_for_a_claim_until_it_is_cancelled_or_the_other_has_been_killed(
    tmp_path: Path,
) -> None:
    job = job_in(tmp_path)
    command = [sys.executable, "-c", CLAIMING, str(job.target)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        asked = iter((False, False, True))
        with claimed(job, Progress(is_cancelled=lambda: next(asked)), waits=True) as is_ours:
            assert not is_ours
        assert not list(asked)
        other.send_signal(signal.SIGKILL)
        with claimed(job, NO_PROGRESS, waits=True) as is_ours:
            assert is_ours
    assert not list(job.target.parent.iterdir())


def test_a_cube_stays_only_if_it_is_of_this_run_and_undamaged(tmp_path: Path) -> None:
    job = BatchJob(tmp_path / "a.png", tmp_path / "a.hdr", "a.png")
    job.photo.touch()
    ours = Provenance(model="tiny", source_sha256="0" * 64)
    write_cube(
        job.target,
        SpectralCube(np.ones((2, 3, 4), np.float32), np.array([400.0, 500]), provenance=ours),
    )
    assert finished(job, lambda _: ours) == {job.target}
    assert finished(job, lambda _: Provenance(model="other", source_sha256="0" * 64)) == set()
    # Its header and its seal stay whole: only one number is another one.
    numbers = np.fromfile(tmp_path / "a.img", np.float32)
    numbers[5] = 2
    numbers.tofile(tmp_path / "a.img")
    assert finished(job, lambda _: ours) == set()
    job.target.write_bytes(b"no cube")
    assert finished(job, lambda _: ours) == set()
