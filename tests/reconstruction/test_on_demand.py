"""A cube that is computed where it is looked at is that of the whole run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from napari_mst import Reconstructor, load_model, read_cube, write_cube
from napari_mst.arrays import Array
from napari_mst.cube.lazy import Lazy
from napari_mst.engine.crop import execute_crop
from napari_mst.errors import Cancelled, ModelError
from napari_mst.photo.photo import Photo, as_photo
from napari_mst.reconstruction import on_demand
from napari_mst.watch import Watch

SHAPE = (150, 170)
ROUNDING = 5e-7
"""Of the largest number: two to four roundings of float32."""


def waves(noise: float = 0.0) -> Array:
    """A photo of colours that change slowly, perhaps with *noise* in 8-bit codes."""
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    colours = [127 + 80 * np.sin(rows / 37 + columns / 61 + channel) for channel in range(3)]
    photo = np.stack(colours, -1) + np.random.default_rng(1).normal(0, noise, (*SHAPE, 3))
    return photo.clip(0, 255).astype(np.uint8)


def blocks() -> Array:
    """A photo with the grid of a JPEG."""
    small = np.random.default_rng(1).integers(0, 256, (19, 22, 3), dtype=np.uint8)
    return small.repeat(8, 0).repeat(8, 1)[: SHAPE[0], : SHAPE[1]]


def with_gaps() -> Photo:
    numbers = waves() / np.float32(255)
    numbers[40:44, 50:90] = np.nan
    return as_photo(numbers.astype(np.float32))


def off(part: Array, cube: Any, key: tuple[Any, ...]) -> float:
    """How far *part* is off, as a share of the largest number."""
    np.testing.assert_array_equal(np.isnan(part), np.isnan(cube.data[key]))
    distance = np.nan_to_num(np.abs(part - cube.data[key])).max()
    return float(distance / np.nanmax(np.abs(cube.data)))


@pytest.mark.parametrize(
    ("photo", "options"),
    [
        pytest.param(waves(), {}, id="clean"),
        pytest.param(waves(), {"correct_colour": False}, id="as the network"),
        pytest.param(waves(9.0), {}, id="noisy and denoised"),
        pytest.param(waves(9.0), {"denoise": "off"}, id="noisy"),
        pytest.param(blocks(), {}, id="JPEG"),
        pytest.param(with_gaps(), {}, id="gaps"),
    ],
)
@pytest.mark.parametrize("model", ["mstpp-srgb", "pixelwise-srgb"])
def test_any_part_is_that_of_the_whole_cube(model: str, photo: Any, options: Any) -> None:
    reconstructor = Reconstructor(load_model(model), "cpu", **options)
    whole = reconstructor.reconstruct(photo)
    cube = reconstructor.open(photo)
    assert isinstance(cube.data, Lazy)
    everything = slice(None)
    for row, column in ((0, 0), (149, 169), (0, 169), (77, 130), (42, 60)):
        assert off(cube.spectrum(row, column), whole, (everything, row, column)) < ROUNDING
    for key in [(everything, slice(30, 80, 3), slice(100, 140)), (7, everything, everything)]:
        assert off(cube[key], whole, key) < ROUNDING
    expected = whole.provenance
    assert cube.provenance == replace(expected, correction=expected.correction.partition(":")[0])


def test_a_region_is_that_of_the_run_of_the_region() -> None:
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu")
    region = (13, 61, 20, 100)
    whole = reconstructor.reconstruct(waves(), region=region)
    key = (slice(None), slice(5, 40), slice(0, 9))
    assert off(reconstructor.open(waves(), region=region)[key], whole, key) < ROUNDING


def test_the_layer_of_an_opened_cube_and_its_save_compute_little_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu")
    whole = reconstructor.reconstruct(waves())
    cube = reconstructor.open(waves())
    pixels = list[int]()

    def counted(*arguments: Any) -> Array:
        part = execute_crop(*arguments)
        pixels.append(part[0].size)
        return part

    monkeypatch.setattr(on_demand, "execute_crop", counted)
    _, arguments, _ = cube.to_layer_data()
    low, high = arguments["contrast_limits"]
    assert sum(pixels) < whole.data[0].size / 10
    assert 0 <= low < high <= whole.data.max()
    pixels.clear()
    saved = read_cube(write_cube(tmp_path / "a.hdr", cube))
    assert off(saved.data, whole, (slice(None),)) < ROUNDING
    assert sum(pixels) == whole.data[0].size


def test_opening_can_be_cancelled() -> None:
    shares = list[float]()
    watch = Watch(shares.append, is_cancelled=lambda: len(shares) > 3)
    with pytest.raises(Cancelled):
        Reconstructor(load_model("mstpp-srgb"), "cpu").open(waves(), watch)
    assert 0 < max(shares) < 1


@pytest.mark.parametrize("options", [{"ensemble": True}, {"precision": "bfloat16"}])
def test_what_is_not_exact_is_not_opened(options: Any) -> None:
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu", **options)
    with pytest.raises(ModelError, match="no ensemble to open a photo"):
        reconstructor.open(waves())
