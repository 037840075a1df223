"""Saving survives every interruption: faults at every step, kill -9, full disks and rivals."""

import os
import random
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.conftest import bad_input

from napari_mst.base import atomic_save
from napari_mst.base.errors import CubeFileError, SaveError
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import Lazy
from napari_mst.formats import check_target, numbers, read_cube, write_cube
from napari_mst.formats.envi import header, raster

SUFFIXES = (".hdr", ".tif", ".npz", ".mat", ".zarr")
EVERY_STEP = [
    *((suffix, 1) for suffix in (".hdr", ".tif", ".npz")),
    # A process of its own reads each MAT-file; Zarr has many steps, most of them of one kind.
    (".mat", 7),
    (".zarr", 4),
    pytest.param(".mat", 1, marks=pytest.mark.slow),
    pytest.param(".zarr", 1, marks=pytest.mark.slow),
]
"""Suffixes, each with the distance between the steps at which a save is interrupted."""


def cube_of(value: float, columns: int = 7) -> SpectralCube:
    return SpectralCube(
        np.full((3, 5, columns), value, np.float32), np.array([400.0, 500.0, 600.0])
    )


def values(path: Path) -> set[float]:
    return set(np.unique(read_cube(path).data).tolist())


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


class Killed(BaseException):
    """Nothing of the process runs after it."""


class Switch:
    """Lets *steps* calls that change the disk pass, and fails on the next.

    When it *is_dead*, it fails on all later ones, too.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, steps: int, fault: BaseException, *, is_dead: bool
    ) -> None:
        self.left, self.fault, self.is_dead = steps, fault, is_dead
        for owner, name in (
            (os, "replace"),
            (os, "fsync"),
            (os, "unlink"),
            (os, "rmdir"),
            (Path, "write_bytes"),
        ):
            monkeypatch.setattr(owner, name, self.guarded(getattr(owner, name)))

    def guarded(self, call: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kwargs: object) -> object:
            self.left -= 1
            if self.left == -1 or (self.is_dead and self.left < 0):
                raise self.fault
            return call(*args, **kwargs)

        return step


@pytest.mark.parametrize(("suffix", "distance"), EVERY_STEP)
@pytest.mark.parametrize("is_new", [False, True])
def test_crash_at_any_step_leaves_the_old_cube_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, distance: int, is_new: bool
) -> None:
    seen, steps = set(), 0
    is_over = False
    while not is_over:
        path = tmp_path / f"{steps}" / f"cube{suffix}"
        path.parent.mkdir()
        if not is_new:
            write_cube(path, cube_of(1, columns=9))
        with monkeypatch.context() as patch:
            switch = Switch(patch, steps, Killed(), is_dead=True)
            with suppress(Killed):
                write_cube(path, cube_of(2), overwrite=True)
            is_over = switch.left >= 0
        try:
            found = values(path)
        except CubeFileError:
            assert is_new, steps
            assert not any(target.exists() for target in header.targets(path))
            found = set()
        assert found in ([{1.0}, {2.0}] if not is_new else [set(), {2.0}]), steps
        seen |= found
        write_cube(path, cube_of(3), overwrite=True)
        assert values(path) == {3.0}
        assert (
            names(path.parent) == {target.name for target in header.targets(path)}
            if suffix == ".hdr"
            else {path.name}
        )
        steps += distance
    assert seen == ({1.0, 2.0} if not is_new else {2.0})
    assert steps > 5


def test_an_unfinished_temporary_is_never_taken_for_a_file(tmp_path: Path) -> None:
    for target in header.targets(tmp_path / "cube.hdr"):
        target.with_name(f".{target.name}.tmp").write_bytes(b"ENVI")
    with pytest.raises(CubeFileError, match="got none"):
        read_cube(tmp_path / "cube.hdr")
    assert not (tmp_path / "cube.hdr").exists()


@pytest.mark.parametrize(("suffix", "distance"), EVERY_STEP)
def test_fault_at_any_step_is_a_save_error_and_keeps_the_old_cube(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, distance: int
) -> None:
    path = write_cube(tmp_path / f"cube{suffix}", cube_of(1))
    before = names(tmp_path)
    faults = 0
    is_over = False
    while not is_over:
        with monkeypatch.context() as patch:
            switch = Switch(patch, faults, OSError(28, "No space left on device"), is_dead=False)
            try:
                write_cube(path, cube_of(2), overwrite=True)
                expected = 2.0
            except SaveError:
                expected = 1.0
        assert values(path) == {expected}, faults
        write_cube(path, cube_of(1), overwrite=True)
        assert names(tmp_path) == before
        is_over = switch.left >= 0
        faults += distance
    assert faults > 5


CHILD = """
import sys
import numpy as np
from napari_mst.cube import SpectralCube
from napari_mst.formats import write_cube
wavelengths = np.arange(400.0, 701, 10)
cubes = [SpectralCube(np.full((31, 40, 50), v, np.float32), wavelengths) for v in (1, 2)]
print("ready", flush=True)
while True:
    for cube in cubes:
        write_cube(sys.argv[1], cube, overwrite=True)
"""


def kill_while_saving(path: Path, times: int) -> None:
    generator = random.Random(2)
    write_cube(path, cube_of(1))
    for _ in range(times):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(generator.uniform(0.01, 0.3))
            child.kill()
        assert values(path) in ({1.0}, {2.0})


@bad_input("080-no-room")
def test_save_to_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix in SUFFIXES:
        path = write_cube(tmp_path / f"cube{suffix}", cube_of(1))
        before = contents(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(atomic_save, "free_bytes", lambda _: 12)
            with pytest.raises(SaveError, match=r"Expected \d+ bytes of free space .* got 12 free"):
                write_cube(path, cube_of(2), overwrite=True)
        assert contents(tmp_path) == before


@bad_input("080-fails-while-writing")
@pytest.mark.parametrize(("bands", "side", "limit"), [(3, 512, 2**19), (31, 64, 2**13)])
def test_save_beyond_the_file_size_limit(bands: int, side: int, limit: int, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of file sizes are a thing of POSIX")
    noise = np.random.default_rng(0).random((bands, side, side), dtype=np.float32)
    big = SpectralCube(noise, np.linspace(400, 700, bands))
    for suffix in SUFFIXES:
        path = write_cube(tmp_path / f"cube{suffix}", cube_of(1))
        before = contents(tmp_path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(SaveError, match=r"\d+ bytes needed, \d+ bytes free"):
                write_cube(path, big, overwrite=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert contents(tmp_path) == before


SMALL_DISK = """
import sys
from pathlib import Path
import numpy as np
from napari_mst.base.errors import SaveError
from napari_mst.base import atomic_save
from napari_mst.formats import read_cube, write_cube
from napari_mst.cube import SpectralCube
atomic_save.free_bytes = lambda _: 2**40  # so that the disk itself says that it is full
wavelengths = np.array([400.0, 500.0, 600.0])
small = SpectralCube(np.ones((3, 8, 8), np.float32), wavelengths)
large = SpectralCube(np.random.default_rng(0).random((3, 512, 512), dtype=np.float32), wavelengths)
for suffix in sys.argv[2:]:
    folder = Path(sys.argv[1])
    path = write_cube(folder / f"cube{suffix}", small)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    try:
        write_cube(path, large, overwrite=True)
    except SaveError:
        after = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        assert after == before, suffix
        assert (read_cube(path).data == 1).all()
        print(suffix)
"""


@bad_input("080-tmpfs")
def test_save_to_a_disk_of_two_megabytes(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=2m none {tmp_path}"
    has_unshare = shutil.which("unshare") is not None
    trial = ["unshare", "-rm", "sh", "-c", mount]
    if not has_unshare or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs may be mounted here")
    script = [sys.executable, "-c", SMALL_DISK, str(tmp_path), *SUFFIXES]
    command = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", *script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (list(SUFFIXES), 0), done.stderr[-2000:]


@bad_input("081-names")
def test_refuse_names(tmp_path: Path) -> None:
    (tmp_path / "folder.hdr").mkdir()
    (tmp_path / "file").touch()
    for name in ("none/cube.hdr", "x" * 300 + ".tif", "nul\0.hdr", "folder.hdr", "file/cube.tif"):
        for refuse in (check_target, lambda path: write_cube(path, cube_of(1))):
            with pytest.raises(SaveError, match=r"^Expected .*\.$") as caught:
                refuse(tmp_path / name)
            assert len(str(caught.value)) < 300
    assert names(tmp_path) == {"folder.hdr", "file"}


@bad_input("081-permission")
def test_refuse_a_folder_without_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def denied(path: Path, mode: str = "r", **kwargs: object) -> object:
        if "w" in mode:
            raise PermissionError(13, "Permission denied")
        return opened(path, mode, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(SaveError, match="Permission denied"):
        check_target(tmp_path / "cube.hdr")


@bad_input("082-exists")
def test_refuse_an_existing_target(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = write_cube(tmp_path / f"cube{suffix}", cube_of(1))
        for refuse in (check_target, lambda path: write_cube(path, cube_of(2))):
            with pytest.raises(SaveError, match="which exists"):
                refuse(path)
        assert values(path) == {1.0}
        assert check_target(path, overwrite=True) == path


@bad_input("083-mapped")
def test_save_behind_an_open_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_cube(tmp_path / "cube.hdr", cube_of(1))
    monkeypatch.setattr(numbers, "LAZY_BYTES", 0)
    layer = read_cube(path)
    assert isinstance(layer.data, Lazy)
    write_cube(path, layer, overwrite=True)
    assert values(path) == {1.0}
    write_cube(path, cube_of(2, columns=2), overwrite=True)
    assert set(np.unique(layer.data)) == {1.0}
    assert values(path) == {2.0}


@bad_input("085-rivals")
def test_save_twice_at_once(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "cube.hdr", cube_of(0, columns=1))
    rivals = [
        threading.Thread(
            target=lambda v=v: [
                write_cube(path, cube_of(v, v + 1), overwrite=True) for _ in range(8)
            ]
        )
        for v in (1, 2, 3)
    ]
    for rival in rivals:
        rival.start()
    seen = set()
    while any(rival.is_alive() for rival in rivals):
        with suppress(CubeFileError):  # "Expected it to stay as it is": rivals at every attempt
            cube = read_cube(path)
            assert "warnings" not in cube.metadata
            assert set(np.unique(cube.data)) == {cube.shape[2] - 1.0}
            seen.add(cube.shape[2])
    assert seen
    assert names(tmp_path) == {"cube.hdr", "cube.img"}


@bad_input("085-between")
def test_save_between_header_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_cube(tmp_path / "cube.hdr", replace(cube_of(1), metadata={"description": "1.0"}))
    rivals = [replace(cube_of(2), metadata={"description": "2.0"})]
    load = raster.load

    def late(*arguments: Any) -> Any:
        if rivals:
            write_cube(path, rivals.pop(), overwrite=True)
        return load(*arguments)

    monkeypatch.setattr(raster, "load", late)
    monkeypatch.setattr(numbers, "LAZY_BYTES", 0)
    cube = read_cube(path)
    assert not rivals
    assert cube.metadata["description"] == str(float(cube.data[0, 0, 0]))


@bad_input("085-lock")
def test_wait_for_a_rival_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_save, "LOCK_SECONDS", 0.1)
    path = tmp_path / "cube.hdr"
    with (
        atomic_save.keeping([path]),
        pytest.raises(SaveError, match="another run that is saving"),
    ):
        write_cube(path, cube_of(1))


@pytest.mark.parametrize(
    ("suffix", "kills"),
    [
        pytest.param(".hdr", 4, id="084-kill-pair"),
        pytest.param(".tif", 2, id="084-kill-file"),
        pytest.param(".zarr", 2, id="084-kill-folder"),
        *(
            pytest.param(suffix, 200 // len(SUFFIXES), marks=pytest.mark.slow)
            for suffix in SUFFIXES
        ),
    ],
)
def test_kills_never_mix_two_cubes(tmp_path: Path, suffix: str, kills: int) -> None:
    kill_while_saving(tmp_path / f"cube{suffix}", kills)


def test_failure_of_the_caller_leaves_nothing(tmp_path: Path) -> None:
    def cancel(fraction: float) -> None:
        if fraction > 0.5:
            raise KeyboardInterrupt

    for suffix in SUFFIXES:
        with pytest.raises(KeyboardInterrupt):
            write_cube(tmp_path / f"cube{suffix}", cube_of(1), progress=cancel)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_that_vanishes_during_a_save_is_not_made_again(
    tmp_path: Path, suffix: str
) -> None:
    folder = tmp_path / "stick"
    folder.mkdir()

    def unplug(fraction: float) -> None:
        if folder.exists():
            shutil.rmtree(folder)

    with pytest.raises(SaveError, match=r"Expected the folder of .* to stay"):
        write_cube(folder / f"cube{suffix}", cube_of(1), progress=unplug)
    assert not folder.exists()


@pytest.mark.skipif(os.name == "nt", reason="permissions of files are a thing of POSIX")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_overwritten_file_keeps_its_permissions_and_is_never_open_to_more_meanwhile(
    tmp_path: Path, suffix: str
) -> None:
    path = write_cube(tmp_path / f"cube{suffix}", cube_of(1))
    for entry in tmp_path.rglob("*"):
        entry.chmod(0o700 if entry.is_dir() else 0o600)
    seen: list[float] = []

    def look(fraction: float) -> None:
        temporaries = [entry for entry in tmp_path.iterdir() if entry.suffix == ".tmp"]
        seen.extend(stat.S_IMODE(entry.stat().st_mode) & 0o077 for entry in temporaries)

    write_cube(path, cube_of(2), overwrite=True, progress=look)
    assert seen
    assert set(seen) == {0}
    for entry in tmp_path.rglob("*"):
        assert stat.S_IMODE(entry.stat().st_mode) == (0o700 if entry.is_dir() else 0o600)
    assert values(path) == {2.0}


@pytest.mark.skipif(os.name == "nt", reason="permissions of files are a thing of POSIX")
def test_a_read_only_file_that_is_overwritten_stays_read_only(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "cube.npz", cube_of(1))
    path.chmod(0o444)
    write_cube(path, cube_of(2), overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert values(path) == {2.0}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("is_new", [False, True])
def test_a_symbolic_link_stays_one_and_what_it_leads_to_is_replaced(
    tmp_path: Path, suffix: str, is_new: bool
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    path = tmp_path / "here" / f"cube{suffix}"
    real = tmp_path / "there" / f"other{suffix}"
    link_to(real, path)
    if not is_new:
        write_cube(real, cube_of(1))
        with pytest.raises(SaveError, match="which exists"):
            write_cube(path, cube_of(2))
        assert values(path) == {1.0}
    check_target(path, overwrite=True)
    write_cube(path, cube_of(2, columns=8), overwrite=True)
    assert path.is_symlink()
    assert not real.is_symlink()
    assert values(path) == {2.0}
    assert values(real) == {2.0}
    assert all(
        name.startswith(("cube", "other")) for name in names(path.parent) | names(real.parent)
    )


def link_to(real: Path, path: Path) -> None:
    """Link the files of a cube at *path*, each to the file of its kind at *real*."""
    if path.suffix == ".hdr":
        path.with_suffix(".img").symlink_to(real.with_suffix(".img"))
    path.symlink_to(real, target_is_directory=path.suffix == ".zarr")


def test_a_link_in_a_circle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cube.npz"
    path.symlink_to(tmp_path / "other.npz")
    (tmp_path / "other.npz").symlink_to(path)
    with pytest.raises(SaveError, match="a link in a circle"):
        write_cube(path, cube_of(1), overwrite=True)


def test_a_crash_behind_a_symbolic_link_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    path, real = tmp_path / "here" / "cube.hdr", tmp_path / "there" / "cube.hdr"
    link_to(real, path)
    write_cube(path, cube_of(1), overwrite=True)
    for step in range(6, 14):
        with monkeypatch.context() as patch:
            Switch(patch, step, Killed(), is_dead=True)
            with suppress(Killed):
                write_cube(path, cube_of(2, columns=8), overwrite=True)
        assert values(path) in ({1.0}, {2.0})
        write_cube(path, cube_of(1), overwrite=True)
        assert names(real.parent) == {"cube.hdr", "cube.img"}
    assert path.is_symlink()
