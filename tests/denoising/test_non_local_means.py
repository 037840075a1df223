"""Non-local means: the sum of its definition, the same bits in any tile, and as self-attention."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import napari_mst as nm
from napari_mst.base.errors import Cancelled, DenoisingError, OutOfMemory
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.denoising import numpy_kernel, streaming
from napari_mst.denoising.as_attention import attention, embedding, projections, tokens
from napari_mst.denoising.numpy_kernel import ImageBlock, Tile
from napari_mst.denoising.streaming import Filter, non_local_rows

Doubles = NDArray[np.float64]

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.random((3, 14, 17))
SMALL = IMAGE[:, :7, :8]  # for what takes long
TAPS = Filter(0.2).taps


def direct_sum(image: Doubles, value: Doubles, using: Filter) -> Doubles:
    """The definition, pixel by pixel, as nobody would compute it."""
    _, height, width = image.shape
    o = using.patch // 2
    padded = np.pad(image, ((0, 0), (o, o), (o, o)), mode="reflect")
    patch_weights = np.outer(using.taps, using.taps)
    result = np.empty((len(value), height, width))
    for row, column in np.ndindex(height, width):
        own = padded[:, row : row + using.patch, column : column + using.patch]
        total, means = 0.0, np.zeros(len(value))
        for other in np.ndindex(height, width):
            if max(abs(other[0] - row), abs(other[1] - column)) > using.distance:
                continue
            y, x = other
            off = padded[:, y : y + using.patch, x : x + using.patch] - own
            d = float((np.square(off).mean(axis=0) * patch_weights).sum())
            weight = float(np.exp(-max(d - 2 * using.sigma**2, 0) / using.h**2))
            total += weight
            means += weight * value[:, y, x]
        result[:, row, column] = means / total
    return result


@pytest.fixture(params=["NumPy", "numba"])
def exactness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """How near results are to float64: the reference in NumPy, and the compiled kernel."""
    # Chosen here: the program itself takes NumPy where the kernel fails its check.
    if request.param == "numba":
        pytest.importorskip("numba")
        from napari_mst.denoising.kernel import CompiledTile

        monkeypatch.setattr(streaming, "_fastest", lambda: lambda block: CompiledTile(block).attend)
        return 1e-6
    monkeypatch.setattr(
        streaming, "_fastest", lambda: lambda block: partial(numpy_kernel.attend, block)
    )
    return 1e-9


@pytest.mark.parametrize(
    ("patch", "distance", "sigma"), [(5, 4, 0.0), (3, 7, 0.1), (1, 2, 0.05), (5, None, 0.0)]
)
def test_it_is_the_sum_of_its_definition(
    patch: int, distance: int | None, sigma: float, exactness: float
) -> None:
    using = Filter(0.2, patch, 7 if distance is None else distance, sigma)
    found = nm.non_local_means(SMALL, 0.2, patch=patch, distance=distance, sigma=sigma)
    expected = direct_sum(SMALL, SMALL, using)
    assert_allclose(found, expected, rtol=0, atol=exactness)


def test_large_numbers_hide_no_small_difference(exactness: float) -> None:
    using = Filter(0.2, 5, 3)
    found = nm.non_local_means(SMALL + 1e4, 0.2, distance=3, value=SMALL)
    expected = direct_sum(SMALL, SMALL, using)
    assert_allclose(found, expected, rtol=0, atol=exactness)


def test_a_photo_guides_the_means_of_a_cube(exactness: float) -> None:
    cube = RANDOM.random((5, 7, 8))
    found = nm.non_local_means(SMALL, 0.2, distance=3, value=cube)
    expected = direct_sum(SMALL, cube, Filter(0.2, 5, 3))
    assert_allclose(found, expected, rtol=0, atol=exactness)


@pytest.mark.parametrize("name", ["nlm_patches_1_5_4", "nlm_patches_3_3_5"])
def test_patches_give_the_reference_numbers(name: str, shared_data: Path, exactness: float) -> None:
    with np.load(shared_data / f"attention/{name}.npz") as case:
        image = np.moveaxis(case["in/image"], -1, 0)
        patch, distance = int(case["in/patch"]), int(case["in/distance"])
        found = nm.non_local_means(
            image,
            float(case["in/h"]),
            patch=patch,
            distance=distance,
            sigma=float(case["in/sigma"]),
        )
        assert_allclose(found, np.moveaxis(case["out/exact"], -1, 0), atol=exactness)


@pytest.mark.parametrize("name", ["nlm_attention_002_1", "nlm_attention_002_3"])
def test_single_pixels_over_the_whole_image_give_the_reference_attention(
    name: str, shared_data: Path, exactness: float
) -> None:
    with np.load(shared_data / f"attention/{name}.npz") as stored:
        case = dict(stored)
    image = np.moveaxis(case["in/image"], -1, 0)
    channels, height, width = image.shape
    # The distances of the reference are summed over the channels, ours are their mean.
    h = float(case["in/h"]) / np.sqrt(channels)
    found = nm.non_local_means(image, h, patch=1, distance=None)
    assert_allclose(found, np.moveaxis(case["out/image"], -1, 0), atol=exactness)
    queries, keys, values = projections(channels)
    assert_array_equal(queries, case["w/W_Q"])
    assert_array_equal(keys, case["w/W_K"])
    assert_array_equal(values, case["w/W_V"])
    every = tokens(image, Filter(h, 1, 0))
    weights = attention(every, every, Filter(h, 1, 0))
    assert_allclose(weights, case["out/weights"], atol=1e-9)
    pixel = nm.non_local_weights(image, 2, 3, h, patch=1, distance=None)
    assert_allclose(pixel.weights.ravel(), case["out/weights"][2 * width + 3], atol=1e-9)
    assert pixel.weights.shape == (height, width)


def test_query_times_key_is_minus_the_squared_difference() -> None:
    token = RANDOM.random((6, 12))
    queries, keys, values = projections(12)
    product = (embedding(token) @ queries) @ (embedding(token) @ keys).T
    expected = -np.square(token[:, None] - token[None]).sum(axis=2)
    assert_allclose(product, expected, atol=1e-12)
    assert_array_equal(embedding(token) @ values, token)


def test_weights_of_a_pixel_add_up_to_one_and_give_its_mean(exactness: float) -> None:
    means = nm.non_local_means(IMAGE, 0.2, patch=3, distance=4, sigma=0.05)
    for row, column in [(0, 0), (7, 8), (13, 2)]:
        pixel = nm.non_local_weights(IMAGE, row, column, 0.2, patch=3, distance=4, sigma=0.05)
        whole = pixel.over(14, 17)
        assert whole.sum() == pytest.approx(1, abs=1e-12)
        mean = (IMAGE * whole).sum((1, 2))
        assert_allclose(mean, means[:, row, column], atol=exactness)


def test_a_flat_image_counts_every_pixel_of_the_window(exactness: float) -> None:
    flat = np.full((1, 9, 9), 0.4)
    assert nm.non_local_weights(flat, 4, 4, 0.1, distance=2).effective == pytest.approx(25)
    found = nm.non_local_means(flat, 0.1, distance=2)
    assert_allclose(found, flat, rtol=exactness)


@pytest.mark.parametrize("tile", [Tile(0, 14, 0, 17), Tile(3, 9, 5, 16)])
def test_a_pixel_has_the_same_bits_wherever_a_tile_lies(tile: Tile, exactness: float) -> None:
    assert exactness < 1e-5
    generator = np.random.default_rng(1)
    block = ImageBlock(
        generator.random((3, 30, 33)), generator.random((4, 26, 29)), TAPS, 6, -8.0, 0.01
    )
    attend = streaming._fastest()(block)
    whole = attend(Tile(0, 14, 0, 17))
    assert_array_equal(attend(tile), whole[:, *tile.moved(0, 0)])


def test_an_image_cut_into_bands_has_the_same_bits() -> None:
    image = RANDOM.random((1, 40, 2100))  # so wide that a band has 32 rows

    def read(start: int, stop: int) -> np.ndarray:
        return image[:, start:stop]

    bands = list(
        non_local_rows(read, read, np.ones((40, 2100), bool), Filter(0.3, 3, 2), NO_PROGRESS)
    )
    assert len(bands) == 2
    one = np.concatenate([means for _, means in bands], axis=1)
    part = nm.non_local_means(image[:, 20:], 0.3, patch=3, distance=2)
    assert_array_equal(one[:, 20 + 3 :], part[:, 3:])


def test_nan_pixels_stay_nan_and_weigh_nothing() -> None:
    holed = IMAGE.copy()
    holed[1, 5, 5] = np.nan
    filled = np.where(np.isfinite(holed).all(axis=0), IMAGE, 0.0)
    found = nm.non_local_means(holed, 0.2, distance=3)
    assert np.isnan(found[:, 5, 5]).all()
    assert np.isfinite(np.delete(found.reshape(3, -1), 5 * 17 + 5, axis=1)).all()
    other = filled.copy()
    other[:, 5, 5] = 1e6
    far = nm.non_local_means(filled, 0.2, distance=3, value=other)
    assert np.abs(far[:, 5, 6]).max() > 10  # what would come of it, if it weighed anything
    assert np.abs(found[:, 5, 6]).max() < 1


def test_a_cancel_ends_it_and_progress_ends_at_one() -> None:
    shares: list[float] = []
    nm.non_local_means(IMAGE, 0.2, distance=2, progress=Progress(shares.append, lambda: False))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    with pytest.raises(Cancelled):
        nm.non_local_means(IMAGE, 0.2, progress=Progress(is_cancelled=lambda: True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"h": 0.0}, "Expected h above 0, got 0"),
        ({"h": float("nan")}, "Expected h above 0, got nan"),
        ({"patch": 4}, "Expected an odd patch of 1 or more, got 4"),
        ({"sigma": -1.0}, "Expected sigma of 0 or more, got -1"),
        ({"distance": 17}, "Expected a distance of 0 to 16 .* got 17. Give None"),
        ({"distance": -1}, "Expected a distance of 0 to 16"),
        ({"value": np.zeros((1, 3, 3))}, "Expected a value of 14 x 17 pixels .* got 3 x 3"),
        ({"value": np.zeros((3, 3))}, "as value, got float64 of shape"),
    ],
)
def test_impossible_numbers_are_refused_in_one_sentence(
    options: dict[str, float], message: str
) -> None:
    given: dict[str, float] = {"h": 0.1, **options}
    with pytest.raises(DenoisingError, match=message) as caught:
        nm.non_local_means(IMAGE, **given)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 300


def test_a_pixel_outside_of_the_image_is_refused() -> None:
    with pytest.raises(DenoisingError, match="within 14 rows x 17 columns, got row 14, column 0"):
        nm.non_local_weights(IMAGE, 14, 0, 0.1)
    holed = np.where(np.arange(17) == 3, np.nan, IMAGE)
    with pytest.raises(
        DenoisingError, match="Expected a finite pixel, got NaN or infinity at 1, 3"
    ):
        nm.non_local_weights(holed, 1, 3, 0.1)


def test_more_tokens_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("napari_mst.base.memory.free_host_memory", lambda: 10_000)
    with pytest.raises(OutOfMemory, match="of free memory for 238 tokens of 75 numbers"):
        nm.non_local_weights(IMAGE, 1, 1, 0.1, distance=None)
    with pytest.raises(OutOfMemory, match="of free memory for 14 x 17 pixels"):
        nm.non_local_means(IMAGE, 0.1)
