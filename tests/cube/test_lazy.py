"""Lazy numbers: they give what an array gives, and say so when their file is no longer the same."""

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from napari_mst.base.arrays import Array
from napari_mst.base.errors import CubeFileError, OutOfMemory
from napari_mst.cube import SpectralCube, lazy
from napari_mst.cube.lazy import Lazy, cached
from napari_mst.formats import lazy_files
from napari_mst.formats.lazy_files import in_file

SHAPE = (5, 7, 6)
NUMBERS = np.arange(210, dtype=">i2").reshape(SHAPE)


def stored(path: Path, axes: tuple[int, ...] = (0, 1, 2)) -> Lazy:
    """NUMBERS in a file at *path*, their axes in another order, behind three bytes."""
    path.write_bytes(b"abc" + np.ascontiguousarray(NUMBERS.transpose(axes)).tobytes())
    sides = tuple(SHAPE[at] for at in axes)
    mapped = np.memmap(path, ">i2", "r", 3, sides)
    numbers: Lazy = in_file(mapped.transpose([axes.index(at) for at in range(3)]))
    return numbers


@st.composite
def keys(draw: st.DrawFn) -> tuple[Any, ...]:
    def item(size: int) -> Any:
        indices = st.integers(-size, size - 1)
        return draw(st.one_of(st.slices(size), indices))

    key = [item(size) for size in SHAPE]
    at = draw(st.integers(0, 3))
    if at < 3 and draw(st.booleans()):
        key[at] = draw(st.lists(st.integers(0, SHAPE[at] - 1), max_size=4))
    return tuple(key[:at] if at else key)


@pytest.fixture(scope="module")
def in_three_orders(tmp_path_factory: pytest.TempPathFactory) -> list[Lazy]:
    folder = tmp_path_factory.mktemp("lazy")
    orders = [(0, 1, 2), (1, 0, 2), (1, 2, 0)]
    return [stored(folder / f"{at}.img", axes) for at, axes in enumerate(orders)]


@pytest.mark.parametrize("skipped", [0, 2**15], ids=["run by run", "as one"])
@settings(deadline=None)
@given(key=keys())
def test_an_index_gives_what_it_gives_of_an_array(
    in_three_orders: list[Lazy], skipped: int, key: tuple[Any, ...]
) -> None:
    doubled = NUMBERS * 2.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_files, "SKIPPED_BYTES", skipped)
        for numbers in in_three_orders:
            assert_array_equal(numbers[key], NUMBERS[key])
            twice = numbers.mapped(lambda part, bands: part * 2.0, np.float64)
            assert_array_equal(twice[key], doubled[key])
            tiled = cached(numbers, (2, 3, 4))
            for _ in range(2):
                assert_array_equal(tiled[key], NUMBERS[key])


def test_parts_and_single_pixels_are_those_of_an_array(in_three_orders: list[Lazy]) -> None:
    rows, columns = np.array([6, 0, 3]), np.array([1, 5, 1])
    cut = (slice(1, 4), slice(2, None, 2), slice(None))
    for numbers in in_three_orders:
        assert_array_equal(numbers[:, rows, columns], NUMBERS[:, rows, columns])
        part = numbers.part(*cut)
        assert part.shape == NUMBERS[cut].shape
        assert_array_equal(part[..., ::2], NUMBERS[cut][..., ::2])
        turned = np.moveaxis(numbers, 0, -1)  # type: ignore[type-var]
        assert_array_equal(turned, np.moveaxis(NUMBERS, 0, -1))
        assert copy.deepcopy(numbers) is numbers
        assert_array_equal(pickle.loads(pickle.dumps(numbers)), NUMBERS)
    with pytest.raises(IndexError):
        in_three_orders[0][5]


def test_of_scattered_pixels_not_the_box_around_them_is_read() -> None:
    def read(bands: range, rows: range, columns: range) -> Array:
        assert len(rows) == len(columns) == 1
        return NUMBERS[np.ix_(bands, rows, columns)]

    numbers = Lazy("a", SHAPE, NUMBERS.dtype, read)
    assert numbers[:, [6, 0], [1, 5]].tolist() == NUMBERS[:, [6, 0], [1, 5]].tolist()


def test_a_crop_a_range_of_wavelengths_and_an_array_of_xarray_read_nothing() -> None:
    pytest.importorskip("xarray")

    def read(*_: range) -> Array:
        raise AssertionError

    cube = SpectralCube(Lazy("a", SHAPE, "f4", read), np.arange(400, 450, 10.0))
    part = cube.crop(rows=(1, 3), columns=(2, 6)).sel(wavelength=slice(410, 430))
    assert part.to_xarray()[:, 1].shape == (3, 4)


def test_all_numbers_are_refused_where_memory_is_too_little(
    in_three_orders: list[Lazy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_mst.base.memory.free_host_memory", lambda: 419)
    with pytest.raises(OutOfMemory, match=r"420 bytes of free memory for 0\.img"):
        np.asarray(in_three_orders[0])
    assert in_three_orders[0][0, 0, 1] == 1


@pytest.mark.parametrize(
    ("room", "rows_read"),
    [(80, [0, 0, 0, 1, 1, 1, 0, 0, 0]), (lazy.KEPT_BYTES, [0, 1])],
)
def test_a_tile_is_read_once_while_there_is_room(
    room: int, rows_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes = []

    def read(*ranges: range) -> Array:
        boxes.append(ranges)
        return NUMBERS[tuple(slice(at.start, at.stop) for at in ranges)]

    # 80 bytes are room for four tiles of ten numbers; a row has three.
    monkeypatch.setattr(lazy, "KEPT_BYTES", room)
    tiled = cached(Lazy("b", SHAPE, "i2", read), (5, 1, 2))
    for row in (0, 0, 1, 0):
        assert_array_equal(tiled[:, row], NUMBERS[:, row])
    assert [rows.start for _, rows, _ in boxes] == rows_read


def test_looking_at_bands_keeps_a_few_and_strips_of_all_bands_keep_their_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boxes = []

    def read(*ranges: range) -> Array:
        boxes.append(ranges)
        return NUMBERS[tuple(slice(at.start, at.stop) for at in ranges)]

    _, height, width = SHAPE
    monkeypatch.setattr(lazy, "KEPT_BYTES", 2 * 2 * height * width)
    tiled = cached(Lazy("b", SHAPE, "i2", read), (1, height, width))
    for band in range(5):
        assert_array_equal(tiled[band], NUMBERS[band])
    assert len(tiled.tiles) == 2
    boxes.clear()
    for row in range(height):
        assert_array_equal(tiled[:, row], NUMBERS[:, row])
    assert sum(len(bands) for bands, _, _ in boxes) == 3


@pytest.mark.parametrize("change", ["cut off", "written to"])
def test_a_file_that_changes_is_refused(tmp_path: Path, change: str) -> None:
    numbers = stored(tmp_path / "a.img")
    if change == "cut off":
        os.truncate(tmp_path / "a.img", 100)
    else:
        with (tmp_path / "a.img").open("r+b") as file:
            file.write(b"changed")
    with pytest.raises(CubeFileError, match=r"Expected the numbers that were opened in a\.img"):
        numbers[0]


def test_a_file_that_a_save_replaces_stays_as_it_was(tmp_path: Path) -> None:
    numbers = stored(tmp_path / "a.img")
    (tmp_path / "b.img").write_bytes(bytes(423))
    (tmp_path / "b.img").replace(tmp_path / "a.img")
    assert_array_equal(numbers, NUMBERS)


def test_a_viewer_is_given_coarse_numbers_until_the_tiles_are_there() -> None:
    whole = np.arange(5 * 40 * 30, dtype=np.float32).reshape(5, 40, 30)
    source = Lazy("a", whole.shape, np.float32, lambda *at: whole[tuple(map(as_slice, at))])
    numbers = cached(source, (5, 16, 16), 4)
    coarse = whole[:, ::8, ::6].copy()
    levels = lazy.levels_of(numbers, coarse)
    assert [level.shape for level in levels] == [(5, 40, 30), (5, 20, 15), (5, 10, 8), (5, 5, 5)]
    missing = list[Any]()
    levels[0].on_missing = missing.extend
    part = levels[0][:, 8:40, 0:30][3, :, :]
    assert_array_equal(part, whole[3, ::8, ::6].repeat(8, 0).repeat(6, 1)[8:40])
    assert missing == [(0, row, column) for row in range(3) for column in range(2)]
    assert not numbers.tiles
    numbers[:, 16:32, 0:16]
    part = np.asarray(levels[0][:, 8:40, 0:30][3, :, :])
    assert_array_equal(part[8:24, :16], whole[3, 16:32, :16])


def as_slice(at: range) -> slice:
    return slice(at.start, at.stop, at.step)


def test_listed_wavelengths_of_lazy_numbers_are_those_of_an_array_and_none_is_read_before() -> None:
    numbers = np.arange(6 * 4 * 5, dtype=np.float32).reshape(6, 4, 5)
    read = []

    def part(*ranges: range) -> Array:
        read.append(ranges)
        return numbers[np.ix_(*ranges)]

    lazy = Lazy("cube", numbers.shape, numbers.dtype, part)
    cube = SpectralCube(lazy, np.arange(400.0, 700, 50)).sel(wavelength=[650, 400, 550])
    assert not read
    assert np.array_equal(cube[:, 1:, ::2], numbers[[0, 3, 5], 1:, ::2])
    assert np.array_equal(cube[1:], numbers[[3, 5]])
