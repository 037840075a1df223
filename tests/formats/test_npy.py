"""Plain NumPy arrays are cubes with the wavelengths that the caller gives."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from napari_mst.base.errors import CubeFileError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import numbers, read_cube, write_cube
from napari_mst.formats.cube_record import OWN

CUBE = np.random.default_rng(0).random((5, 9, 7), dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.save(tmp_path / "cube.npy", np.moveaxis(CUBE, 0, -1))
    return tmp_path / "cube.npy"


@pytest.mark.parametrize("given", [slice(400, 440), [400, 410, 420, 430, 440]])
def test_an_array_has_the_wavelengths_that_are_given(path: Path, given: Any) -> None:
    cube = read_cube(path, wavelengths=given)
    assert_array_equal(cube.data, CUBE)
    assert_array_equal(cube.wavelengths, [400, 410, 420, 430, 440])
    assert cube.unit == "nm"


def test_without_wavelengths_the_bands_are_numbered_and_it_is_said(path: Path) -> None:
    cube = read_cube(path)
    assert not cube.has_wavelengths
    assert cube.metadata["warnings"] == (
        "The bands were taken to lie along the last axis, the shortest.",
        "The file gives no wavelengths; bands are numbered.",
    )


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 4)), np.zeros((3, 4, 5), "U3"), np.zeros((3, 0, 5)), np.array([{}])],
    ids=["two axes", "text", "empty", "objects"],
)
def test_other_arrays_are_refused(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "other.npy", array, allow_pickle=True)
    with pytest.raises(CubeFileError, match=r"^Expected .* in other.npy, got"):
        read_cube(tmp_path / "other.npy")


def test_damaged_files_are_refused(path: Path) -> None:
    whole = path.read_bytes()
    for stop in range(6, len(whole), 17):
        path.write_bytes(whole[:stop])
        with pytest.raises(CubeFileError, match="a complete NPY file"):
            read_cube(path)


def test_an_array_of_a_trillion_numbers_that_is_not_there_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(9, 7, 5), ", b"(9, 7, 5000000000000), ")[: len(whole)])
    with pytest.raises(CubeFileError, match="a complete NPY file"):
        read_cube(path)


def test_numpy_loads_what_we_write_and_a_copy_has_lost_our_record(tmp_path: Path) -> None:
    cube = SpectralCube(CUBE, np.arange(400.0, 441, 10), provenance=Provenance("m"))
    path = write_cube(tmp_path / "a.npy", cube)
    numbers = np.load(path)
    assert_array_equal(numbers, CUBE)
    again = read_cube(path)
    assert (again.provenance, again.wavelengths.tolist()) == (
        cube.provenance,
        [400, 410, 420, 430, 440],
    )
    np.save(tmp_path / "b.npy", numbers * 2)
    assert not read_cube(tmp_path / "b.npy", band_axis=0).has_wavelengths


@pytest.mark.parametrize(
    "record", ['"{}", "seal"', '{{"{}": 1, "seal": 5}}', '{{"{}": {{}}, "seal": "x"}}']
)
def test_a_damaged_record_is_refused(record: str, path: Path) -> None:
    np.save(path, CUBE)
    with path.open("ab") as file:
        np.save(file, np.array(record.format(OWN)))
    with pytest.raises(CubeFileError, match=r"^Expected .* in .*\.npy, got"):
        read_cube(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps no time of the last change")
def test_an_open_file_that_is_written_over_is_refused_though_its_time_is_set_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", 0)
    cube, before = read_cube(path, band_axis=0), path.stat()
    path.chmod(0o600)
    assert np.asarray(cube.data[0]).shape == cube.shape[1:]
    time.sleep(0.02)  # a tick of the file system's clock
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\1\2\3\4")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CubeFileError, match="a file that was written to since"):
        np.asarray(cube.data[-1])
