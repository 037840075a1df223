"""NumPy archives against numpy itself: `np.load` reads ours, and we read those of `np.savez`."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from tests.formats.conftest import bad_input, refuse

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import read_cube, write_cube

DATA = np.arange(31 * 12 * 9, dtype=np.float32).reshape(31, 12, 9)
WAVELENGTHS = np.linspace(400.0, 700.123456789, 31)
CUBE = SpectralCube(
    DATA, WAVELENGTHS, provenance=Provenance("m"), metadata={"description": "caf\xe9 {x}\n"}
)


def test_numpy_reads_the_cube_and_its_wavelengths(tmp_path: Path) -> None:
    with np.load(write_cube(tmp_path / "a.npz", CUBE), allow_pickle=False) as judge:
        assert np.array_equal(judge["cube"], DATA)
        assert np.array_equal(judge["wavelengths"], WAVELENGTHS)
        assert '"model": "m"' in str(judge["napari_mst"])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_saves_is_read_in_every_type(
    tmp_path: Path, save: Callable[..., None], order: Literal["C", "F"]
) -> None:
    for dtype in ("?", "i1", ">u2", "i4", ">i8", "f2", "f4", ">f8", "c8"):
        expected = DATA.astype(dtype, order=order)
        save(tmp_path / "a.npz", data=np.moveaxis(expected, 0, 2), wl=WAVELENGTHS)
        cube = read_cube(tmp_path / "a.npz")
        assert np.array_equal(cube.data, np.abs(expected) if dtype == "c8" else expected)
        assert cube.data.dtype.isnative
        assert cube.wavelengths.tolist() == WAVELENGTHS.tolist()
        assert (
            "The unit of the wavelengths is not given; nm was assumed." in cube.metadata["warnings"]
        )


@bad_input("046-npz")
def test_refuse_several(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, left=DATA, right=DATA[:, :5] + 1)
    refuse(
        path,
        r"one array of three axes in a.npz, got left 31x12x9, right 31x5x9. Say which: variable=",
    )
    refuse(path, "named 'middle'", variable="middle")
    assert np.array_equal(read_cube(path, variable="right", band_axis=0).data, DATA[:, :5] + 1)
    np.savez(path, flat=DATA[0])
    refuse(path, "three axes in a.npz, got flat 12x9")
    np.savez(path, square=DATA[:9, :9])
    refuse(path, "band_axis=0 or -1")


@bad_input("045-npz")
def test_refuse_bombs(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("cube.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (31, 2**20, 2**9)}
        )
        file.write(b"\0" * 2**20)
    refuse(path, "at most .* declared")


@bad_input("063-npz")
def test_refuse_pickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", np.array([[[print]]], dtype=object))
    refuse(tmp_path / "a.npz", "an array of numbers with three axes in a.npz, got none")


@bad_input("037-npz")
def test_refuse_damage(tmp_path: Path) -> None:
    whole = write_cube(tmp_path / "a.npz", CUBE).read_bytes()
    path = tmp_path / "b.npz"
    for part in (0.0, 0.001, 0.3, 0.9, 0.999):
        path.write_bytes(whole[: int(len(whole) * part)])
        refuse(path, "b.npz")
