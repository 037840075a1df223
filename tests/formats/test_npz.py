"""NumPy archives against numpy itself: `np.load` reads ours, and we read those of `np.savez`."""

import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import CubeFileError
from napari_mst.formats import find_format, numbers, read_cube, write_cube

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
        assert "The unit of 'wl' is not given; nm was assumed." in cube.metadata["warnings"]


def test_the_shipped_scenes_of_cave_are_read(shared_data: Path) -> None:
    cube = read_cube(shared_data / "cave" / "beads.npz")
    assert (cube.shape, cube.unit) == ((31, 256, 256), "nm")
    assert cube.wavelengths.tolist() == list(range(400, 701, 10))


@settings(deadline=None, max_examples=40)
@given(
    data=arrays.arrays(
        st.sampled_from(["?", "i1", ">i2", "u4", "i8", "f2", "f4", ">f8"]),
        arrays.array_shapes(min_dims=3, max_dims=3, max_side=5),
    ),
    order=st.permutations(range(3)),
    text=st.text(max_size=8),
)
def test_any_type_shape_stride_and_text_survives(
    data: NDArray[np.generic], order: list[int], text: str
) -> None:
    cube = SpectralCube(
        data.transpose(order)[:, ::-1],
        np.arange(0.1, data.shape[order[0]]),
        metadata={"description": text, text: text},
    )
    with tempfile.TemporaryDirectory() as folder:
        again = read_cube(write_cube(Path(folder, "a.npz"), cube))
    assert np.array_equal(again.data, cube.data, equal_nan=data.dtype.kind == "f")
    assert again.metadata == cube.metadata


def test_a_large_archive_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", 4000)
    cube = read_cube(write_cube(tmp_path / "a.npz", CUBE))
    assert isinstance(cube.data, np.memmap)
    assert np.array_equal(cube.data, DATA)
    assert cube.provenance == CUBE.provenance


def test_numbers_that_another_program_changed_lose_our_record(tmp_path: Path) -> None:
    with np.load(write_cube(tmp_path / "a.npz", CUBE)) as saved:
        np.savez(tmp_path / "b.npz", **{**saved, "cube": saved["cube"] * 2})
    cube = read_cube(tmp_path / "b.npz")
    assert np.array_equal(cube.data, DATA * 2)
    assert cube.provenance == Provenance()
    assert cube.wavelengths.tolist() == WAVELENGTHS.tolist()


def refuse(path: Path, match: str, **options: object) -> None:
    with pytest.raises(CubeFileError, match=match) as caught:
        read_cube(path, **options)
    assert len(str(caught.value)) < 300


def refuse_several(folder: Path) -> None:
    path = folder / "a.npz"
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


def refuse_bombs(folder: Path) -> None:
    path = folder / "a.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("cube.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (31, 2**20, 2**9)}
        )
        file.write(b"\0" * 2**20)
    refuse(path, "at most .* declared")


def refuse_pickles(folder: Path) -> None:
    np.savez(folder / "a.npz", np.array([[[print]]], dtype=object))
    refuse(folder / "a.npz", "an array of numbers with three axes in a.npz, got none")


def refuse_damage(folder: Path) -> None:
    whole = write_cube(folder / "a.npz", CUBE).read_bytes()
    path = folder / "b.npz"
    for part in (0.0, 0.001, 0.3, 0.9, 0.999):
        path.write_bytes(whole[: int(len(whole) * part)])
        refuse(path, "b.npz")
    generator = np.random.default_rng(5)
    for _ in range(200):
        damaged = np.frombuffer(whole, "u1").copy()
        damaged[generator.integers(len(whole), size=2)] = generator.integers(256, size=2)
        path.write_bytes(damaged.tobytes())
        with suppress(CubeFileError):
            assert find_format(path) is None or np.array_equal(read_cube(path).data, DATA)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(refuse_several, id="046-npz"),
        pytest.param(refuse_bombs, id="045-npz"),
        pytest.param(refuse_pickles, id="063-npz"),
        pytest.param(refuse_damage, id="037-npz"),
    ],
)
def test_bad_input(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)


def test_an_axis_that_only_its_size_tells_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros((5, 6, 4)))
    assert (
        "The bands were taken to lie along the last axis, the shortest."
        in read_cube(tmp_path / "a.npz").metadata["warnings"]
    )
    assert len(read_cube(tmp_path / "a.npz", band_axis=-1).metadata["warnings"]) == 1
