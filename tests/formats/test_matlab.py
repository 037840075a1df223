"""MAT-files against scipy and h5py, laid out as the NTIRE, ARAD and ICVL cubes are."""

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.io import loadmat, savemat
from tests.formats.conftest import bad_input, refuse

from napari_mst.base.arrays import Array
from napari_mst.base.errors import CubeFileError, OutOfMemory
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import find_format, numbers, read_cube, write_cube
from napari_mst.formats.cube_record import CHANGED
from napari_mst.formats.matlab import mat_files
from napari_mst.formats.matlab.stored import CLASSES

DATA = np.arange(31 * 12 * 40, dtype=np.float32).reshape(31, 12, 40)
WAVELENGTHS = np.linspace(400.0, 700.123456789, 31)
CUBE = SpectralCube(
    DATA, WAVELENGTHS, provenance=Provenance("m"), metadata={"description": "caf\xe9 {x}\n"}
)


def write_hdf5(path: Path, **variables: Array) -> Path:
    """As MATLAB 7.3 and hdf5storage do: column-major, behind a block for the header."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in variables.items():
            stored = file.create_dataset(name, data=values.T, chunks=True, compression="gzip")
            stored.attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")
    return path


def test_scipy_reads_a_cube_below_two_gigabytes(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.mat", CUBE)
    judge = loadmat(path)
    assert_array_equal(judge["cube"], DATA.transpose(1, 2, 0))
    assert judge["cube"].dtype == np.float32
    assert_array_equal(judge["bands"], WAVELENGTHS[:, None])
    assert read_cube(path).metadata == CUBE.metadata
    # MATLAB, too, saves the variables that it has loaded, ours among them.
    savemat(tmp_path / "b.mat", {name: judge[name] for name in judge if name[0] != "_"})
    changed = read_cube(tmp_path / "b.mat")
    assert changed.provenance == Provenance()
    assert CHANGED in changed.metadata["warnings"]


@pytest.fixture
def only_73(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cubes of any size are saved as those above 2 GB."""
    monkeypatch.setattr(mat_files, "VERSION_5_BYTES", 0)


@pytest.mark.usefixtures("only_73")
def test_a_larger_file_lies_as_the_published_toolbox_writes_it(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.mat", CUBE)
    with h5py.File(path) as judge:
        assert judge.userblock_size == 512
        # The published loader: np.transpose(np.array(mat["cube"]), [0, 2, 1]).
        assert np.array_equal(np.transpose(judge["cube"], [0, 2, 1]), DATA)
        assert judge["cube"].attrs["MATLAB_class"] == b"single"
        assert judge["bands"][:, 0].tolist() == WAVELENGTHS.tolist()
    head = path.read_bytes()[:128]
    assert head.startswith(b"MATLAB 7.3 MAT-file")
    assert head[124:] == b"\0\2IM"


@bad_input("043-published")
def test_read_published_cubes(tmp_path: Path) -> None:
    nominal = np.arange(400.0, 701, 10)[np.newaxis]
    as_matlab = DATA.transpose(1, 2, 0).astype(np.float64)
    arad = write_hdf5(
        tmp_path / "ARAD_1K_0001.mat", cube=as_matlab, bands=nominal, norm_factor=np.ones((1, 1))
    )
    icvl = write_hdf5(tmp_path / "icvl.mat", rad=as_matlab, bands=nominal, rgb=as_matlab[..., :3])
    bare = write_hdf5(tmp_path / "bare.mat", cube=as_matlab)
    savemat(tmp_path / "v5.mat", {"cube": as_matlab, "bands": nominal}, do_compression=True)
    savemat(tmp_path / "v4.mat", {"cube": as_matlab[..., 0]}, format="4")
    cases: tuple[tuple[Path, dict[str, Any]], ...] = (
        (arad, {}),
        (icvl, {"variable": "rad"}),
        (bare, {}),
        (tmp_path / "v5.mat", {}),
    )
    for path, options in cases:
        cube = read_cube(path, **options)
        assert np.array_equal(cube.data, DATA)
        assert cube.data.flags.c_contiguous
        assert cube.wavelengths.tolist() == (
            nominal[0].tolist() if path != bare else list(range(31))
        )
    refuse(tmp_path / "v4.mat", "v4.mat")


@bad_input("043-classes")
@pytest.mark.slow
def test_read_every_class(tmp_path: Path) -> None:
    for dtype in ("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"):
        savemat(tmp_path / "a.mat", {"x": DATA.astype(dtype), "wl": np.arange(31) / 100 + 0.4})
        write_cube(
            tmp_path / "b.mat", SpectralCube(DATA.astype(dtype), WAVELENGTHS), overwrite=True
        )
        for name in ("a.mat", "b.mat"):
            cube = read_cube(tmp_path / name)
            assert np.array_equal(cube.data, DATA.astype(dtype))
            assert cube.data.dtype == (dtype if dtype != "?" else "u1")
    assert read_cube(tmp_path / "a.mat").unit == "Unknown"


@bad_input("044-damaged")
@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_refuse_damage(tmp_path: Path) -> None:
    savemat(tmp_path / "v5.mat", {"cube": DATA[:5, :6]}, do_compression=True)
    write_cube(tmp_path / "v7.mat", SpectralCube(DATA[:5, :6], WAVELENGTHS[:5]))
    path = tmp_path / "cut.mat"
    for name in ("v5.mat", "v7.mat"):
        whole = np.frombuffer((tmp_path / name).read_bytes(), "u1")
        for part in (0.0, 0.1, 0.5, 0.9):
            path.write_bytes(whole[: int(len(whole) * part)].tobytes())
            refuse(path, "cut.mat")


@bad_input("045-bomb")
@pytest.mark.usefixtures("apart")
def test_refuse_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = np.zeros((31, 450, 500))
    savemat(tmp_path / "v5.mat", {"cube": bomb}, do_compression=True)
    write_hdf5(tmp_path / "v7.mat", cube=bomb.T)
    with h5py.File(tmp_path / "holes.mat", "w") as file:
        file.create_dataset("cube", (31, 2**20, 2**20), "f8", chunks=(1, 512, 512))
    refuse(
        tmp_path / "holes.mat",
        "at most 67108864 bytes of numbers in holes.mat, got 272678883688448 declared",
    )
    monkeypatch.setattr(mat_files, "free_host_memory", lambda: 40 * 2**20)
    for name in ("v5.mat", "v7.mat"):
        with pytest.raises(OutOfMemory, match="Expected memory for"):
            read_cube(tmp_path / name)


@bad_input("046-several")
def test_choose_among_several(tmp_path: Path) -> None:
    savemat(tmp_path / "v5.mat", {"left": DATA.transpose(1, 2, 0), "right": DATA, "name": "x"})
    write_hdf5(tmp_path / "v7.mat", left=DATA.transpose(1, 2, 0), right=DATA)
    for name in ("v5.mat", "v7.mat"):
        refuse(tmp_path / name, "got left 12x40x31, right 31x12x40. Say which: variable='name'")
        refuse(tmp_path / name, "named 'middle'", variable="middle")
        assert np.array_equal(read_cube(tmp_path / name, variable="left", band_axis=-1).data, DATA)
        assert np.array_equal(read_cube(tmp_path / name, variable="right", band_axis=0).data, DATA)


@bad_input("044-elsewhere")
def test_refuse_numbers_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(range(192)))
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["d"] = np.full((3, 8, 8), 99, "u1")
    layout = h5py.VirtualLayout((3, 8, 8), "u1")
    layout[:] = h5py.VirtualSource("secret.h5", "d", (3, 8, 8))
    gone = h5py.VirtualLayout((3, 8, 8), "u1")
    gone[:] = h5py.VirtualSource("gone.h5", "d", (3, 8, 8))
    places: tuple[Callable[[Any], Any], ...] = (
        lambda file: file.create_dataset(
            "cube", (3, 8, 8), "u1", external=[("secret.bin", 0, 192)]
        ),
        lambda file: file.create_virtual_dataset("cube", layout),
        lambda file: file.create_virtual_dataset("cube", gone, fillvalue=0),
        lambda file: file.create_group("group").__setitem__(
            "cube", h5py.ExternalLink("secret.h5", "d")
        ),
    )
    for place in places:
        with h5py.File(tmp_path / "a.mat", "w") as file:
            place(file)
        refuse(
            tmp_path / "a.mat",
            "'(group/)?cube' that lies in another file. Copy its numbers into one file",
        )


@bad_input("044-chunks")
def test_tell_of_chunks_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        stored = file.create_dataset("cube", (3, 16, 16), "f4", chunks=(1, 16, 16), fillvalue=7)
        stored[0] = 1
    cube = read_cube(path, band_axis=0)
    assert np.unique(cube.data[1:]).tolist() == [7]
    assert cube.metadata["warnings"][0] == (
        "Of the 3 chunks of '/cube' 2 are not in the file; "
        "the numbers there are its fill value, 7.0."
    )
    for chunks in (None, (1, 16, 16)):
        with h5py.File(path, "w") as file:
            file.create_dataset("cube", (3, 16, 16), "f4", chunks=chunks)
        refuse(path, "numbers in a.mat, got '/cube' that was never written")


@bad_input("044-index")
@pytest.mark.usefixtures("apart")
def test_refuse_a_damaged_index_of_chunks(tmp_path: Path) -> None:
    """Change a key of the B-tree, which is a chunk's offset, and an address (HDF5, III.A.1)."""
    path = tmp_path / "a.mat"
    for compression in (None, "gzip"):
        with h5py.File(path, "w") as file:
            options = {"chunks": (1, 16, 16), "compression": compression}
            stored = file.create_dataset(
                "cube", data=DATA[:3, :, :16].repeat(2, axis=1)[:, :16], **options
            )
            first, second = (stored.id.get_chunk_info(index) for index in (0, 1))
        whole = path.read_bytes()
        assert np.array_equal(
            read_cube(path, band_axis=0).data[1], DATA[1, :8, :16].repeat(2, axis=0)
        )
        key = np.array([2, 0, 0, 0], "<u8").tobytes()
        assert whole.count(key) == 1
        for damaged in (
            whole.replace(key, np.array([5, 0, 0, 0], "<u8").tobytes()),
            whole.replace(
                second.byte_offset.to_bytes(8, "little"), first.byte_offset.to_bytes(8, "little")
            ),
        ):
            path.write_bytes(damaged)
            refuse(path, "an index of 3 chunks in a.mat, got a damaged one")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS sets no limits of memory")
@pytest.mark.parametrize("is_outside", [True, False])
def test_the_reader_tells_a_small_machine_from_a_file_that_asks_too_much(
    tmp_path: Path, is_outside: bool
) -> None:
    pytest.importorskip("resource", reason="limits of memory are a thing of POSIX")
    write_hdf5(tmp_path / "a.mat", cube=np.zeros((31, 600, 600)).T)
    limit = (
        "resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + 2**26,) * 2)"
    )
    code = f"""
import json, resource, psutil, h5py, pathlib
from unittest.mock import patch
from napari_mst.base.sandbox import answers, limit_memory
{limit if is_outside else ""}
room = lambda room: limit_memory({"room" if is_outside else "2**26"})
with patch("napari_mst.base.sandbox.limit_memory", room):
    path = pathlib.Path({str(tmp_path / "a.mat")!r})
    function = "napari_mst.formats.matlab.mat_files:answer"
    print(json.dumps(next(answers(function, path, [[None, None, 0], 2**32, 2**32]))[0]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    told = json.loads(done.stdout)
    assert (told["kind"] == "OutOfMemory") == is_outside
    assert (
        is_outside
        or "at most 4294967296 bytes of numbers in a.mat, got more declared" in told["error"]
    )


def test_what_is_no_mat_file_is_not_ours(tmp_path: Path) -> None:
    for content in (b"", b"MATLAB 5.0 MAT-file", b"<html>".ljust(200)):
        (tmp_path / "a.mat").write_bytes(content)
        assert find_format(tmp_path / "a.mat") is None
        refuse(tmp_path / "a.mat", "a.mat")


def test_a_version_5_file_whose_checksum_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {"cube": np.arange(60.0).reshape(3, 4, 5)}, do_compression=True)
    intact = read_cube(path, band_axis=-1).data
    assert intact.shape == (5, 3, 4)
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    with pytest.raises(CubeFileError, match="a complete MAT-file"):
        read_cube(path, band_axis=-1)


def test_the_checksum_of_version_5_is_compared_even_where_scipy_does_not(tmp_path: Path) -> None:
    """scipy stops at the last number, and reads a changed one if the element ends there."""
    path = tmp_path / "a.mat"
    savemat(path, {"cube": np.arange(60.0).reshape(3, 4, 5)})
    raw = path.read_bytes()
    element = bytearray(zlib.compress(raw[128:], 0)[:-4])
    element[-1] ^= 1
    path.write_bytes(raw[:128] + struct.pack("<II", 15, len(element)) + element)
    assert loadmat(path)["cube"][-1, -1, -1] != 59
    refuse(path, "a compressed element that ends early", band_axis=-1)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(("strip", "shape"), [(64, (3, 5, 7)), (2**24, (3, 5, 7)), (64, (1, 1, 1))])
def test_scipy_and_h5py_read_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, strip: int, shape: tuple[int, ...]
) -> None:
    """In blocks of some rows, and of whole bands."""
    monkeypatch.setattr(numbers, "STRIP_BYTES", strip)
    data = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    path = write_cube(tmp_path / "a.mat", SpectralCube(data, np.arange(1.0, 1 + shape[0])))
    savemat(tmp_path / "b.mat", {"cube": data.transpose(1, 2, 0)})
    ours, theirs = (loadmat(file)["cube"] for file in (path, tmp_path / "b.mat"))
    assert ours.dtype == theirs.dtype
    assert_array_equal(ours, theirs)
    with h5py.File(path) as file:  # its axes are MATLAB's in reverse
        assert_array_equal(file["cube"], data.transpose(0, 2, 1))
