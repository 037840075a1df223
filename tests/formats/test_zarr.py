"""OME-Zarr against zarr itself: what we write it reads, what it writes we read."""

import importlib
import json
import shutil
import threading
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numcodecs
import numpy as np
import pytest
import zarr as judge
from numpy.testing import assert_allclose, assert_array_equal
from tests.formats.conftest import bad_input, refuse

from napari_mst.base import atomic_save
from napari_mst.base.errors import CubeFileError, OutOfMemory, SaveError
from napari_mst.base.progress import Progress
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.lazy import Lazy
from napari_mst.formats import check_target, find_format, numbers, read_cube, write_cube
from napari_mst.formats.cube_record import CHANGED
from napari_mst.formats.zarr import reading, writing

DATA = np.arange(31 * 600 * 9, dtype=np.float32).reshape(31, 600, 9)
WAVELENGTHS = np.linspace(400.0, 700.0, 31)
CUBE = SpectralCube(
    DATA, WAVELENGTHS, provenance=Provenance("m"), metadata={"description": "caf\xe9 {x}\n"}
)
SMALL = SpectralCube(DATA[:3, :5], WAVELENGTHS[:3])


def test_zarr_reads_an_ome_image_with_a_wavelength_axis(tmp_path: Path) -> None:
    group = judge.open_group(str(write_cube(tmp_path / "a.zarr", CUBE)), mode="r")
    ome: Any = group.attrs["ome"]
    (image,) = ome["multiscales"]
    assert ome["version"] == "0.5"
    assert [axis["name"] for axis in image["axes"]] == ["wavelength", "y", "x"]
    assert image["axes"][0] == {"name": "wavelength", "type": "wavelength", "unit": "nanometer"}
    (dataset,) = image["datasets"]
    array: Any = group[dataset["path"]]
    assert np.array_equal(array[...], DATA)
    assert array.metadata.dimension_names == ("wavelength", "y", "x")
    assert array.metadata.zarr_format == 3


def test_a_large_image_has_smaller_levels_that_napari_shows_as_one_layer(tmp_path: Path) -> None:
    data = np.random.default_rng(1).random((2, 2101, 1030), np.float32)
    path = write_cube(tmp_path / "a.zarr", SpectralCube(data, WAVELENGTHS[:2]))
    group = judge.open_group(str(path), mode="r")
    levels: list[Any] = [array[...] for _, array in sorted(group.arrays())]
    assert [level.shape for level in levels] == [(2, 2101, 1030), (2, 1051, 515), (2, 526, 258)]
    assert_array_equal(levels[0], data)
    for before, level in pairwise(levels):
        even = before[:, : before.shape[1] // 2 * 2, : before.shape[2] // 2 * 2]
        means = even.reshape(2, even.shape[1] // 2, 2, -1, 2).mean((2, 4))
        assert_allclose(level[:, : means.shape[1], : means.shape[2]], means, rtol=1e-6)
        assert_allclose(level[:, -1, 0], before[:, -1, :2].mean(1), rtol=1e-6)
    ome: Any = group.attrs["ome"]
    (image,) = ome["multiscales"]
    places = [level["coordinateTransformations"] for level in image["datasets"]]
    assert [scale["scale"] for scale, _ in places] == [[10, n, n] for n in (1, 2, 4)]
    assert [to["translation"] for _, to in places] == [[400, n, n] for n in (0, 0.5, 1.5)]
    readers: Any = importlib.import_module("napari_builtins.io")
    ((layer,),) = readers.napari_get_reader(str(path))(str(path))
    assert [level.shape for level in layer] == [level.shape for level in levels]


def test_a_copy_without_our_seal_has_wavelengths_by_its_axis(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.zarr", CUBE)
    array: Any = judge.open_array(str(path / "0"))
    array.attrs.clear()
    copy = read_cube(path)
    assert copy.metadata["warnings"] == (CHANGED,)
    assert_allclose(copy.wavelengths, CUBE.wavelengths)


def test_a_large_cube_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_cube(tmp_path / "a.zarr", CUBE)
    monkeypatch.setattr(numbers, "LAZY_BYTES", 1000)
    cube = read_cube(path)
    data: Any = cube.data
    assert isinstance(data, Lazy)
    assert np.array_equal(np.asarray(cube.data[7, 510:515]), DATA[7, 510:515])
    assert np.array_equal(cube.spectrum(520, 4), DATA[:, 520, 4])
    assert (cube.provenance, cube.metadata) == (CUBE.provenance, CUBE.metadata)
    assert read_cube(path, verify=True).shape == DATA.shape
    write_cube(path, cube, overwrite=True)
    assert np.array_equal(np.asarray(cube.data), DATA)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_foreign_images_and_arrays_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zarr_format: Literal[2, 3]
) -> None:
    judge.create_array(str(tmp_path / "array.zarr"), data=DATA[:, :40], zarr_format=zarr_format)
    assert np.array_equal(read_cube(tmp_path / "array.zarr", band_axis=0).data, DATA[:, :40])
    axes = [{"name": "t", "type": "time"}, {"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space"} for name in "zyx"]
    ome: dict[str, Any] = {"multiscales": [{"axes": axes, "datasets": [{"path": "s0"}]}]}
    ome["omero"] = {"channels": [{"label": f"band {i} (4{i:02d} nm)"} for i in range(31)]}
    group = judge.create_group(str(tmp_path / "ome.zarr"), zarr_format=zarr_format)
    group.attrs.update(ome if zarr_format == 2 else {"ome": ome})
    group.create_array("s0", data=DATA[np.newaxis, :, np.newaxis])
    cube = read_cube(tmp_path / "ome.zarr")
    assert np.array_equal(np.asarray(cube.data), DATA)
    assert cube.wavelengths.tolist() == list(range(400, 431))
    monkeypatch.setattr(numbers, "LAZY_BYTES", 1000)
    for name, axis in (("array.zarr", 0), ("ome.zarr", None)):
        cube = read_cube(tmp_path / name, band_axis=axis)
        data: Any = cube.data
        assert isinstance(data, Lazy)
        assert np.array_equal(cube.spectrum(20, 4), DATA[:, 20, 4])


def test_no_folder_but_a_cube_is_ever_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    path.mkdir()
    (path / "thesis.txt").touch()
    with pytest.raises(SaveError, match="a cube to replace, got the folder"):
        write_cube(path, SMALL, overwrite=True)
    assert [entry.name for entry in path.iterdir()] == ["thesis.txt"]
    (tmp_path / "b.zarr").touch()
    with pytest.raises(SaveError, match="got the file"):
        write_cube(tmp_path / "b.zarr", SMALL, overwrite=True)


@bad_input("037-zarr")
def test_refuse_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zarr"
    for damage, match in (
        (lambda: (path / "0" / "c" / "2" / "0" / "0").unlink(), "3 chunks in a.zarr, got 2"),
        (
            lambda: (path / "0" / "c" / "2" / "0" / "0").write_bytes(b"(\xb5/\xfd"),
            "a complete Zarr file",
        ),
        (lambda: (path / "0" / "zarr.json").write_text("{}"), "a complete Zarr file"),
        (lambda: (path / "zarr.json").write_text("{"), "a complete Zarr file"),
        (lambda: (path / "0" / "zarr.json").unlink(), "a complete Zarr file"),
    ):
        write_cube(path, SMALL, overwrite=True)
        damage()
        refuse(path, match)
        shutil.rmtree(path)
    refuse(path, "Expected a.zarr to be readable, got: No such")
    write_cube(path, SMALL)
    monkeypatch.setattr(reading, "version", lambda _: "2.18.0")
    refuse(path, r'Run: pip install "napari-mst\[zarr\]"')
    with pytest.raises(SaveError, match="Run: pip install"):
        write_cube(tmp_path / "b.zarr", SMALL)
    with pytest.raises(SaveError, match="Run: pip install"):  # before a cube is computed
        check_target(tmp_path / "b.zarr")


@bad_input("041-zarr")
def test_refuse_bombs(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.zarr", SMALL)
    text = json.loads((path / "0" / "zarr.json").read_text())
    text["shape"] = text["chunk_grid"]["configuration"]["chunk_shape"] = [2**20, 2**20, 2**20]
    (path / "0" / "zarr.json").write_text(json.dumps(text))
    with pytest.raises(OutOfMemory, match=r"bytes of free memory for a chunk of a.zarr, got \d+"):
        read_cube(path)


@bad_input("046-zarr")
def test_choose_among_several(tmp_path: Path) -> None:
    group = judge.create_group(str(tmp_path / "a.zarr"))
    group.create_array("left", data=DATA)
    group.create_array("right", data=DATA + 1)
    form = find_format(tmp_path / "a.zarr")
    assert form is not None
    assert form.name == "zarr"
    refuse(tmp_path / "a.zarr", "Say which: variable='name'")
    assert np.array_equal(
        read_cube(tmp_path / "a.zarr", variable="right", band_axis=0).data, DATA + 1
    )


@pytest.mark.parametrize("layout", ["v2", "v2 nested", "v3", "v3 flat", "sharded"])
def test_absent_chunks_of_other_programs_are_counted_and_told(tmp_path: Path, layout: str) -> None:
    """Nothing tells a chunk that was left out as all fill value from one that was lost."""
    options: dict[str, Any] = {
        "zarr_format": 2 if "v2" in layout else 3,
        "chunks": (1, 20, 9),
        "fill_value": 7,
    }
    if layout == "sharded":
        options |= {"chunks": (1, 5, 3), "shards": (1, 20, 9)}
    if layout in ("v2 nested", "v3 flat"):
        name = "v2" if layout == "v2 nested" else "default"
        options["chunk_key_encoding"] = {"name": name, "separator": "/" if name == "v2" else "."}
    data = DATA[:4, :50] + 10
    path = tmp_path / "a.zarr"
    array = judge.create_array(str(path), shape=data.shape, dtype=data.dtype, **options)
    array[:3] = data[:3]
    array.attrs["1.0.2"] = "a text"
    (path / ".1.0.0.part").write_text("of no chunk")
    cube = read_cube(path, band_axis=0)
    (warning,) = [text for text in cube.metadata["warnings"] if "chunks" in text]
    assert warning.startswith(
        "3 of 12 chunks are not in the folder; their numbers were taken to be 7.0, the fill"
    )
    assert (cube.data[3] == 7).all()
    array[3] = data[3]
    assert not any("chunks" in text for text in read_cube(path, band_axis=0).metadata["warnings"])


def test_a_huge_array_without_a_chunk_opens_at_once(tmp_path: Path) -> None:
    judge.create_array(
        str(tmp_path / "a.zarr"), shape=(31, 10**6, 10**6), dtype="f4", chunks=(1, 8, 8)
    )
    (warning, *_) = read_cube(tmp_path / "a.zarr").metadata["warnings"]
    assert "484375000000 of 484375000000 chunks" in warning


CODECS: dict[str, dict[str, Any]] = {
    "v2 none": {"zarr_format": 2, "compressors": None},
    "v2 default": {"zarr_format": 2},
    "v2 blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc("zstd", shuffle=2)},
    "v2 zlib": {"zarr_format": 2, "compressors": numcodecs.Zlib(), "order": "F"},
    "v2 filters": {
        "zarr_format": 2,
        "compressors": None,
        "filters": [numcodecs.Delta("f4"), numcodecs.Zlib()],
    },
    "v3 none": {"compressors": None},
    "v3 blosc": {"compressors": judge.codecs.BloscCodec()},
    "v3 gzip": {"compressors": [judge.codecs.GzipCodec(), judge.codecs.Crc32cCodec()]},
    "v3 zstd": {"compressors": judge.codecs.ZstdCodec(checksum=True)},
    "v3 transposed": {"filters": [judge.codecs.TransposeCodec(order=(2, 0, 1))]},
    "v3 shards": {"chunks": (1, 5, 3), "shards": (1, 20, 9)},
    "v3 shards gzip": {
        "chunks": (1, 5, 3),
        "shards": (1, 20, 9),
        "compressors": judge.codecs.GzipCodec(),
    },
}


@pytest.mark.parametrize("options", CODECS.values(), ids=CODECS)
def test_every_usual_codec_is_read_exactly(tmp_path: Path, options: dict[str, Any]) -> None:
    data = DATA[:5, :40]
    judge.create_array(str(tmp_path / "a.zarr"), data=data, **options)
    assert np.array_equal(read_cube(tmp_path / "a.zarr", band_axis=0).data, data)


BOMBS: dict[str, Any] = {
    "blosc": numcodecs.Blosc(),
    "bz2": numcodecs.BZ2(),
    "gzip": numcodecs.GZip(),
    "lz4": numcodecs.LZ4(),
    "lzma": numcodecs.LZMA(),
    "zlib": numcodecs.Zlib(),
    "zstd": numcodecs.Zstd(),
}


def test_bands_that_are_computed_together_are_never_in_memory_as_a_row_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "STRIP_BYTES", 2**20)
    data = np.random.default_rng(0).random((31, 200, 1030), np.float32)
    computed = list[tuple[int, int]]()

    def read(bands: range, rows: range, columns: range) -> Any:
        computed.append((rows.start, columns.start))
        return data[:, rows.start : rows.stop, columns.start : columns.stop].copy()

    cube = SpectralCube(Lazy("a", data.shape, np.float32, read, (31, 64, 64)), WAVELENGTHS)
    tracemalloc.start()
    try:
        path = write_cube(tmp_path / "a.zarr", cube)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < data.nbytes // 4
    assert len(set(computed)) == len(computed) == 17
    assert_array_equal(read_cube(path).data, data)


def test_as_many_chunks_are_written_at_a_time_as_there_are_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "threads_of_cpu", lambda: 3)
    before = judge.config.get("async.concurrency")
    seen = set[int]()
    progress = Progress(lambda _: seen.add(judge.config.get("async.concurrency")))
    write_cube(tmp_path / "a.zarr", SMALL, progress=progress)
    assert 3 in seen
    assert judge.config.get("async.concurrency") == before


@pytest.mark.parametrize("codec", BOMBS.values(), ids=BOMBS)
def test_a_chunk_that_decompresses_to_far_more_than_its_numbers_is_refused_within_little_memory(
    tmp_path: Path, codec: Any
) -> None:
    data = DATA[:5, :40]
    path = tmp_path / "a.zarr"
    judge.create_array(str(path), data=data, zarr_format=2, compressors=codec)
    assert np.array_equal(read_cube(path, band_axis=0).data, data)
    (path / "0.0.0").write_bytes(bytes(codec.encode(bytes(2**26))))
    tracemalloc.start()
    try:
        refuse(path, "Expected", band_axis=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**24  # of which lzma takes a half for its dictionary


@bad_input("037-zarr-shard")
def test_lose_parts_of_a_shard(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    judge.create_array(str(path), data=DATA[:4, :50], chunks=(1, 5, 3), shards=(1, 50, 9))
    shard = path / "c" / "2" / "0" / "0"
    whole = shard.read_bytes()
    shard.write_bytes(b"")
    assert (
        "1 of 4 chunks are not in the folder"
        in read_cube(path, band_axis=0).metadata["warnings"][0]
    )
    for part in (whole[:-1], whole[: len(whole) // 2], whole[1:]):
        shard.write_bytes(part)
        refuse(path, "Expected", band_axis=0)


@bad_input("083-zarr")
def test_save_another_over_an_open_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer keeps its numbers or gives none; never those of the other cube, and never both."""
    monkeypatch.setattr(numbers, "LAZY_BYTES", 1000)
    path = write_cube(tmp_path / "a.zarr", CUBE)
    layer = read_cube(path).data
    write_cube(path, CUBE, overwrite=True)
    assert np.array_equal(np.asarray(layer[3]), DATA[3])
    write_cube(path, replace(CUBE, data=DATA + 1), overwrite=True)
    with pytest.raises(CubeFileError, match="another one saved over it"):
        np.asarray(layer[4])
    assert np.array_equal(np.asarray(read_cube(path).data[3]), DATA[3] + 1)
    shutil.rmtree(path)
    with pytest.raises(CubeFileError, match="saved over it"):
        np.asarray(layer[4])


@bad_input("083-zarr-foreign")
def test_write_a_foreign_array_anew_under_an_open_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata stay the same to the last byte, and hold no checksum."""
    monkeypatch.setattr(numbers, "LAZY_BYTES", 1000)
    path = tmp_path / "a.zarr"
    judge.create_array(str(path), data=DATA, chunks=(1, *DATA.shape[1:]))
    layer = read_cube(path, band_axis=0).data
    assert np.array_equal(np.asarray(layer[3]), DATA[3])
    before = (path / "zarr.json").read_bytes()
    judge.create_array(str(path), data=DATA + 1, chunks=(1, *DATA.shape[1:]), overwrite=True)
    assert (path / "zarr.json").read_bytes() == before
    with pytest.raises(CubeFileError, match="another one saved over it"):
        np.asarray(layer[4])


@bad_input("037-zarr-open")
def test_damage_a_chunk_under_an_open_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", 1000)
    path = write_cube(tmp_path / "a.zarr", CUBE)
    layer = read_cube(path).data
    (path / "0" / "c" / "3" / "0" / "0").write_bytes(b"(\xb5/\xfd")
    with pytest.raises(CubeFileError, match="Expected a complete Zarr file"):
        np.asarray(layer[3])
    assert np.array_equal(np.asarray(layer[4]), DATA[4])


def told(value: int) -> SpectralCube:
    """A cube all of whose parts say which one it is."""
    wavelengths = 400 + value + np.arange(3.0)
    return SpectralCube(
        np.full((3, 5, 6), value, np.float32), wavelengths, metadata={"description": f"{value}"}
    )


def parts(cube: SpectralCube) -> set[int]:
    """Which cubes the parts of *cube* say that they are of."""
    values = set(np.unique(cube.data).astype(int).tolist())
    return values | {int(cube.wavelengths[0]) - 400, int(cube.metadata["description"])}


@bad_input("085-zarr-between")
def test_save_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often that happens: the last attempt makes saves wait."""
    monkeypatch.setattr(atomic_save, "LOCK_SECONDS", 0.05)
    path = write_cube(tmp_path / "a.zarr", told(0))
    opened = judge.open
    saved = [0]

    def late(*arguments: Any, **options: Any) -> Any:
        root = opened(*arguments, **options)
        write_cube(path, told(saved[-1] + 1), overwrite=True)
        saved.append(saved[-1] + 1)
        return root

    def late_and_refused(*arguments: Any, **options: Any) -> Any:
        with suppress(SaveError):
            return late(*arguments, **options)
        return opened(*arguments, **options)

    monkeypatch.setattr(judge, "open", late_and_refused)
    assert parts(read_cube(path)) == {saved[-1]}
    assert len(saved) > 2


@pytest.mark.parametrize(
    "reads",
    [pytest.param(40, id="085-zarr-rival"), pytest.param(5000, marks=pytest.mark.slow)],
)
def test_no_read_during_saves_mixes_two_cubes_or_fails(tmp_path: Path, reads: int) -> None:
    path = write_cube(tmp_path / "a.zarr", told(0))
    is_over = threading.Event()

    def save() -> None:
        value = 0
        while not is_over.is_set():
            value = (value + 1) % 250
            write_cube(path, told(value), overwrite=True)

    rival = threading.Thread(target=save)
    rival.start()
    try:
        for _ in range(reads):
            assert len(parts(read_cube(path))) == 1
    finally:
        is_over.set()
        rival.join()
