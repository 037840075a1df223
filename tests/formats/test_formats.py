"""The table of formats: what is registered is tested, whatever its kind."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from napari_mst import formats
from napari_mst.base.arrays import Array
from napari_mst.base.errors import CubeFileError, OutOfMemory, SaveError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.lazy import Lazy
from napari_mst.formats import (
    FORMATS,
    Format,
    check_target,
    find_format,
    is_own_cube,
    numbers,
    read_cube,
    write_cube,
)

WARNING = "The file was odd."
CUBE = SpectralCube(
    np.random.default_rng(0).random((31, 9, 7), dtype=np.float32),
    np.linspace(400, 700, 31),
    provenance=Provenance(
        "mstpp-srgb", "0" * 64, source="photo.jpg", assumptions=("It was sRGB.",)
    ),
    metadata={"description": "d", "warnings": (WARNING,)},
)

over_formats = pytest.mark.parametrize(
    "form", [form for form in FORMATS if form.suffixes], ids=lambda form: form.name
)


@over_formats
def test_a_cube_survives_every_suffix(tmp_path: Path, form: Format) -> None:
    for suffix in form.suffixes:
        folder = tmp_path / suffix
        folder.mkdir()
        told: list[float] = []
        path = write_cube(folder / f"a{suffix.upper()}", CUBE, progress=told.append)
        assert find_format(path) is form
        cube = read_cube(path)
        assert np.array_equal(cube.data, CUBE.data)
        assert np.array_equal(cube.wavelengths, CUBE.wavelengths)
        assert (cube.provenance, cube.unit) == (CUBE.provenance, CUBE.unit)
        assert cube.data.dtype == np.float32
        assert "warnings" not in cube.metadata
        assert told == sorted(told)
        assert told[-1] == 1.0
        assert {entry.name for entry in folder.iterdir()} == {
            target.name for target in form.targets(path)
        }


any_cube = given(
    data=arrays.arrays(
        st.sampled_from(["?", "i1", "u1", ">i2", "u2", "i4", ">u4", "i8", "f2", "f4", ">f8"]),
        arrays.array_shapes(min_dims=3, max_dims=3, max_side=5),
    ),
    order=st.permutations(range(3)),
    step=st.sampled_from([1, -1, 2]),
    text=st.text(max_size=8),
)


def check_survival(suffix: str, data: Array, order: list[int], step: int, text: str) -> None:
    data = data.transpose(order)[:, ::step]
    if suffix == ".hdr" and data.dtype == np.int64:
        data = data.astype(np.int32)  # ENVI has no code for most numbers of 64 bits
    # A header of ENVI has keys of its own: see test_envi.py.
    fields = {"description": text} | ({} if suffix == ".hdr" else {text: text})
    cube = SpectralCube(data, np.arange(0.1, len(data)), metadata=fields)
    with tempfile.TemporaryDirectory() as folder:
        again = read_cube(write_cube(Path(folder, f"a{suffix}"), cube))
    assert np.array_equal(again.data, cube.data, equal_nan=data.dtype.kind == "f")
    assert np.array_equal(again.wavelengths, cube.wavelengths)
    assert suffix == ".hdr" or again.metadata == cube.metadata


@pytest.mark.parametrize("suffix", [".hdr", ".tif", ".npz", ".zarr"])
@settings(deadline=None, max_examples=25)
@any_cube
def test_any_type_shape_stride_and_text_survives(
    suffix: str, data: Array, order: list[int], step: int, text: str
) -> None:
    check_survival(suffix, data, order, step, text)


@pytest.mark.parametrize("count", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_any_type_shape_stride_and_text_survives_in_a_mat_file(count: int) -> None:
    """A process of its own reads each of them."""

    @settings(deadline=None, max_examples=count)
    @any_cube
    def check(data: Array, order: list[int], step: int, text: str) -> None:
        check_survival(".mat", data, order, step, text)

    check()


@over_formats
def test_damaged_numbers_are_found_by_their_checksum(tmp_path: Path, form: Format) -> None:
    path = write_cube(tmp_path / f"a{form.suffixes[0]}", CUBE)
    numbers_of_a_band = CUBE.data[2].T if form.name == "matlab" else CUBE.data[2]
    part = np.ascontiguousarray(numbers_of_a_band).tobytes()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    (file,) = [file for file in files if part in file.read_bytes()]
    file.write_bytes(file.read_bytes().replace(part, part[:-1] + bytes([part[-1] ^ 1])))
    with pytest.raises(CubeFileError, match=r"checksum|CRC-32|a complete Zarr file"):
        read_cube(path)
    # Members of a zip file and chunks of Zarr have a checksum of their own.
    if form.name not in ("npz", "zarr"):
        assert read_cube(path, verify=False).shape == CUBE.shape


@over_formats
def test_a_large_cube_is_mapped_or_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Format
) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", 1000)
    cube = read_cube(write_cube(tmp_path / f"a{form.suffixes[0]}", CUBE))
    assert isinstance(cube.data, Lazy)
    assert np.array_equal(np.asarray(cube.data), CUBE.data)
    assert cube.provenance == CUBE.provenance


@over_formats
def test_bands_that_come_together_are_had_once_for_a_save(tmp_path: Path, form: Format) -> None:
    counts = np.zeros(CUBE.shape[1:], int)
    shares = list[float]()

    def read(*ranges: range) -> Array:
        part = tuple(slice(at.start, at.stop, at.step) for at in ranges)
        counts[part[1:]] += 1
        return CUBE.data[part]

    together = Lazy("a", CUBE.shape, CUBE.data.dtype, read, (CUBE.shape[0], 1, 1))
    path = tmp_path / f"a{form.suffixes[0]}"
    cube = replace(CUBE, data=together)
    np.testing.assert_array_equal(
        read_cube(write_cube(path, cube, progress=shares.append)).data, CUBE.data
    )
    assert counts.max() == 1
    assert shares == sorted(shares)
    assert shares[-1] == 1


@over_formats
def test_a_target_is_checked_before_any_work(tmp_path: Path, form: Format) -> None:
    path = tmp_path / f"a{form.suffixes[0]}"
    assert check_target(path) == path
    assert list(tmp_path.iterdir()) == []
    write_cube(path, CUBE)
    with pytest.raises(SaveError, match="which exists"):
        check_target(path)


@pytest.mark.parametrize("name", ["a", "a.jpg", ".hdr", "a.hdr.txt"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(SaveError, match=r"ending in .*\.tif.*\.hdr"):
        write_cube(tmp_path / name, CUBE)


@pytest.mark.parametrize(
    "name", ["none.hdr", "none.tif", "none.img", "none", "none.jpg", "folder.hdr", "no/ne.hdr"]
)
def test_what_is_not_there_is_one_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.hdr").mkdir()
    assert find_format(tmp_path / name) is None
    with pytest.raises(CubeFileError, match=r"^Expected .*\.$"):
        read_cube(tmp_path / name)


@pytest.mark.skipif("sys.platform == 'win32'", reason="Windows has no such files")
@pytest.mark.usefixtures("ends_soon")
def test_a_pipe_beside_or_in_a_cube_is_never_read(tmp_path: Path) -> None:
    (tmp_path / "a.img").write_bytes(bytes(8))
    os.mkfifo(tmp_path / "a.hdr")
    for number in range(4):
        os.mkfifo(tmp_path / f"band_{number}.png")
    for path in (tmp_path / "a.img", tmp_path):
        assert find_format(path) is None


def test_the_table_costs_no_heavy_import() -> None:
    code = (
        "import sys, napari_mst.formats; "
        "libraries = 'torch napari tifffile rasterio h5py scipy spectral zarr'.split(); "
        "print(set(libraries) & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


def compressed_npz(folder: Path) -> Path:
    np.savez_compressed(folder / "a.npz", cube=CUBE.data)
    return folder / "a.npz"


def compressed_tiff(folder: Path) -> Path:
    tifffile.imwrite(folder / "a.tif", CUBE.data, photometric="minisblack", compression="zlib")
    return folder / "a.tif"


def zarr(folder: Path) -> Path:
    return write_cube(folder / "a.zarr", CUBE)


def bands(folder: Path) -> Path:
    for index in range(5):
        plane = (CUBE.data[index] * 65535).astype(np.uint16)
        (folder / f"a{index}.png").write_bytes(imagecodecs.png_encode(plane))
    return folder


over_compressed = pytest.mark.parametrize("make", [compressed_npz, compressed_tiff, zarr, bands])


@over_compressed
def test_numbers_that_do_not_fit_into_the_free_memory_are_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    read_cube(path)
    monkeypatch.setattr("napari_mst.base.memory.free_host_memory", lambda: 50)
    with pytest.raises(
        OutOfMemory, match=r"Expected \d+ bytes of free memory for .*, got 50\."
    ) as caught:
        read_cube(path)
    assert len(str(caught.value)) < 300


def test_a_lack_of_memory_is_never_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise MemoryError

    for make, owner, name in (
        (compressed_tiff, tifffile.TiffPageSeries, "asarray"),
        (bands, imagecodecs, "png_decode"),
        (zarr, imagecodecs, "zstd_decode"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        path = make(folder)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(OutOfMemory, match="Expected memory for"):
                read_cube(path)


def test_a_file_that_the_system_has_no_memory_to_map_is_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_cube(tmp_path / "a.hdr", CUBE)

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(np, "fromfile", fail)
    with pytest.raises(OutOfMemory, match="Expected memory for"):
        read_cube(path)


@over_formats
def test_a_cube_of_ours_is_known_without_its_numbers_where_others_open_it_too(
    tmp_path: Path, form: Format
) -> None:
    path = write_cube(tmp_path / f"a{form.suffixes[0]}", CUBE)
    assert is_own_cube(path) == (form.name in ("imagej", "tiff", "npz", "zarr"))


def test_what_others_saved_is_no_cube_of_ours(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", cube=CUBE.data)
    tifffile.imwrite(tmp_path / "a.tif", CUBE.data, photometric="minisblack")
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "zarr.json").write_text("{")
    (tmp_path / "torn.npz").write_bytes(b"PK\3\4")
    for name in ("a.npz", "a.tif", "a.zarr", "torn.npz", "missing.tif"):
        assert not is_own_cube(tmp_path / name)


@over_formats
def test_whatever_a_reader_raises_about_a_file_is_one_error(
    tmp_path: Path, form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> SpectralCube:
        raise KeyError("a field of ours")

    path = write_cube(tmp_path / f"a{form.suffixes[0]}", CUBE)
    monkeypatch.setattr(formats, "_reader", lambda _: replace(form, read=read))
    with pytest.raises(CubeFileError, match=f"a complete {form.title} file in a.*field of ours"):
        read_cube(path)


@pytest.mark.parametrize("names", [("a.hdr", "a.npz"), ("a.mat", "a.hdr")])
def test_a_cube_beside_a_header_of_its_stem_is_warned_of(
    names: tuple[str, str], tmp_path: Path
) -> None:
    cube = SpectralCube(np.ones((2, 3, 4), np.float32), np.array([500.0, 600.0]))
    write_cube(tmp_path / names[0], cube)
    with pytest.warns(UserWarning, match="have one name: GDAL and hylite may read"):
        write_cube(tmp_path / names[1], cube)
    write_cube(tmp_path / "b.npz", cube)
