"""A cube that is computed where it is looked at is that of the whole run."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import on_cpu

from napari_mst import Model, Reconstructor, load_model, read_cube, write_cube
from napari_mst.base.arrays import Array
from napari_mst.base.errors import Cancelled, ModelError
from napari_mst.base.progress import Progress
from napari_mst.cube.lazy import Lazy, cached
from napari_mst.denoising import nl_bayes
from napari_mst.denoising.nl_bayes import NLBayes, denoised_pixels
from napari_mst.engine.crop import execute_crop
from napari_mst.engine.device import choose_device
from napari_mst.engine.windows import Window
from napari_mst.photo.photo import Photo, as_photo
from napari_mst.reconstruction import lazy_statistics, on_demand

SHAPE = (86, 94)
ROUNDING = 5e-7
"""Of the largest number: two to four roundings of float32."""


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a small photo have several tiles, and squares that are estimated from."""
    monkeypatch.setattr(on_demand, "TILE", 64)
    monkeypatch.setattr(lazy_statistics, "SAMPLE", 90_000)


def waves(noise: float = 0.0) -> Array:
    """A photo of colours that change slowly, perhaps with *noise* in 8-bit codes."""
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    colours = [127 + 80 * np.sin(rows / 37 + columns / 61 + channel) for channel in range(3)]
    photo = np.stack(colours, -1) + np.random.default_rng(1).normal(0, noise, (*SHAPE, 3))
    return photo.clip(0, 255).astype(np.uint8)


def blocks() -> Array:
    """A photo with the grid of a JPEG."""
    small = np.random.default_rng(1).integers(0, 256, (11, 12, 3), dtype=np.uint8)
    return small.repeat(8, 0).repeat(8, 1)[: SHAPE[0], : SHAPE[1]]


def with_gaps() -> Photo:
    numbers = waves() / np.float32(255)
    numbers[40:44, 50:80] = np.nan
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
    reconstructor = on_cpu(model, **options)
    whole = reconstructor.reconstruct(photo)
    cube = reconstructor.reconstruct_lazy(photo)
    assert isinstance(cube.data, Lazy)
    everything = slice(None)
    for row, column in ((0, 0), (85, 93), (0, 93), (47, 70), (42, 60)):
        assert off(cube.spectrum(row, column).values, whole, (everything, row, column)) < ROUNDING
    for key in [(everything, slice(30, 80, 3), slice(50, 80)), (7, everything, everything)]:
        assert off(cube[key], whole, key) < ROUNDING
    expected = whole.provenance
    assert cube.provenance == replace(expected, correction=expected.correction.partition(":")[0])


def test_a_region_is_that_of_the_run_of_the_region() -> None:
    reconstructor = on_cpu("mstpp-srgb")
    region = (13, 61, 20, 90)
    whole = reconstructor.reconstruct(waves(), region=region)
    key = (slice(None), slice(5, 40), slice(0, 9))
    assert off(reconstructor.reconstruct_lazy(waves(), region=region)[key], whole, key) < ROUNDING


def test_the_layer_of_an_opened_cube_and_its_save_compute_little_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconstructor = on_cpu("mstpp-srgb")
    whole = reconstructor.reconstruct(waves())
    cube = reconstructor.reconstruct_lazy(waves())
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


def test_an_opened_cube_keeps_to_its_budget_where_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pixel takes 3,000 bytes with its surroundings: half of the budget; tiles are a quarter."""
    budget = 36_000_000
    windows, kept = list[int](), list[int]()

    def counted(*arguments: Any) -> Array:
        part = execute_crop(*arguments)
        windows.append(part[0].size)
        return part

    def noted(*arguments: Any) -> Lazy:
        kept.append(arguments[-1])
        return cached(*arguments)

    monkeypatch.setattr(on_demand, "execute_crop", counted)
    monkeypatch.setattr(on_demand, "cached", noted)
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu", memory=budget)
    np.asarray(reconstructor.reconstruct_lazy(waves()).data)
    assert 0 < max(windows) <= budget / 2 / 3000
    assert kept == [budget / 4]


def test_opening_can_be_cancelled() -> None:
    shares = list[float]()
    progress = Progress(shares.append, is_cancelled=lambda: len(shares) > 3)
    with pytest.raises(Cancelled):
        on_cpu("mstpp-srgb").reconstruct_lazy(waves(), progress)
    assert 0 < max(shares) < 1


NEEDS_BFLOAT16 = pytest.mark.skipif(
    "bfloat16" not in choose_device("cpu").precisions, reason="not on this processor"
)


@pytest.mark.parametrize(
    "options",
    [{"ensemble": True}, pytest.param({"precision": "bfloat16"}, marks=NEEDS_BFLOAT16)],
)
def test_what_is_not_exact_is_not_opened(options: Any) -> None:
    reconstructor = on_cpu("mstpp-srgb", **options)
    with pytest.raises(ModelError, match="no ensemble to open a photo"):
        reconstructor.reconstruct_lazy(waves())


def texture() -> Array:
    """A photo large enough for squares, which differs from place to place."""
    drawn = np.random.default_rng(2)
    small = drawn.integers(40, 216, (5, 5, 3), dtype=np.uint8).repeat(64, 0).repeat(64, 1)
    return small[:300] + drawn.integers(0, 30, (300, 320, 3), dtype=np.uint8)


def test_a_noisy_photo_is_denoised_where_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    denoised = list[int]()

    def counted(photo: Photo, how: NLBayes, window: Window) -> Array:
        denoised.append(window.size[0] * window.size[1])
        return denoised_pixels(photo, how, window)

    monkeypatch.setattr(nl_bayes, "denoised_pixels", counted)
    noisy = np.tile(waves(9.0), (10, 10, 1))
    cube = on_cpu("pixelwise-srgb").reconstruct_lazy(noisy, estimate=True)
    assert cube.provenance.denoising
    denoised.clear()
    cube.spectrum(700, 900)
    assert 0 < sum(denoised) < 60**2


def test_an_estimate_says_how_far_it_is_off_and_so_does_its_file(tmp_path: Path) -> None:
    reconstructor = on_cpu("mstpp-srgb", denoise="off")
    whole = reconstructor.reconstruct(texture())
    cube = reconstructor.reconstruct_lazy(texture(), estimate=True)
    history = cube.provenance
    key = (slice(None), slice(100, 200), slice(100, 200))
    assert history.is_estimate
    assert not whole.provenance.is_estimate
    # As the network makes them: spectra are moved to the colours of the photo afterwards.
    assert ROUNDING < off(cube[key], whole, key) < 3 * history.estimate_error < 0.2
    assert f"off by about {history.estimate_error:.2%}" in history.assumptions[-1]
    saved = read_cube(write_cube(tmp_path / "a.hdr", cube.crop((0, 9), (0, 9)))).provenance
    assert saved.estimate_error == history.estimate_error
    origin = reconstructor.origin(history.source_sha256, history.encoding)
    assert whole.provenance.gives_the_cube_of(origin)
    assert not history.gives_the_cube_of(origin)


def other_weights(model: Model) -> Model:
    network = load_model("mstpp-srgb").network
    next(network.parameters()).data[0] *= 1.01
    return replace(model, network=network)


def test_statistics_are_kept_for_the_same_photo_weights_and_settings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lazy_statistics.FOLDER, str(tmp_path / "kept"))
    passes = list[object]()

    def counted(job: Any) -> Any:
        passes.append(job)
        return lazy_statistics.added_up(job)

    monkeypatch.setattr(on_demand, "added_up", counted)
    model, photo = load_model("mstpp-srgb"), waves(9.0)[:32, :40]
    reconstructor = Reconstructor(model, "cpu", denoise="off")
    spectrum = reconstructor.reconstruct_lazy(photo).spectrum(20, 30).values
    again = reconstructor.reconstruct_lazy(photo, estimate=True)
    np.testing.assert_array_equal(again.spectrum(20, 30).values, spectrum)
    assert not again.provenance.is_estimate
    assert len(passes) == 1
    changed = photo.copy()
    changed[0, 0, 0] ^= 1
    reconstructor.reconstruct_lazy(changed)
    reconstructor.reconstruct_lazy(photo, region=(0, 31, 0, 40))
    reconstructor.reconstruct_lazy(Photo.from_array(photo, full_scale=250.0))
    Reconstructor(model, "cpu", denoise=1.0).reconstruct_lazy(photo)
    Reconstructor(other_weights(model), "cpu", denoise="off").reconstruct_lazy(photo)
    assert len(passes) == 6
    # Whoever swaps the files, or loses a bit of one, has none.
    files = sorted((tmp_path / "kept").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert len(files) == 6
    files[0].write_bytes(files[1].read_bytes())
    reconstructor.reconstruct_lazy(photo)
    whole = bytearray(files[0].read_bytes())
    whole[-9] ^= 1
    files[0].write_bytes(whole)
    reconstructor.reconstruct_lazy(photo)
    assert len(passes) == 8


def resealed(file: Path, facts: dict[str, Any] | None, tensors: dict[str, Any] | bytes) -> None:
    """Give the kept *file* other facts or tensors, and the checksum of them."""
    head = file.read_bytes().split(b"\n", 2)[1]
    if facts is not None:
        head = json.dumps({**json.loads(head), **facts}).encode()
    numbers = tensors if isinstance(tensors, bytes) else lazy_statistics.tensor_bytes(tensors)
    content = head + b"\n" + numbers
    file.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


@pytest.mark.parametrize("fault", ["names", "shape", "nan", "numbers", "noise", "folder", "binary"])
def test_kept_statistics_with_a_fault_are_not_there(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lazy_statistics.FOLDER, str(tmp_path))
    job = on_cpu("mstpp-srgb", denoise="off").prepare(waves()[:48, :48]).job()
    lazy_statistics.keep(job, lazy_statistics.added_up(job)[0])
    kept = lazy_statistics.recalled(job)
    assert kept is not None
    (file,) = tmp_path.iterdir()
    tensors: Any = dict(kept.known.folded)
    name = next(iter(tensors))
    facts = None
    if fault == "names":
        tensors["other"] = tensors.pop(name)
    elif fault == "shape":
        tensors[name] = tensors[name][..., :1].contiguous()
    elif fault == "nan":
        tensors[name] = tensors[name] * float("nan")
    elif fault == "numbers":
        tensors = b"not numbers"
    elif fault == "noise":
        facts = {"noise": {"deviation": 3}}
    resealed(file, facts, tensors)
    if fault == "binary":
        file.write_bytes(b"\xff" * 100)
    elif fault == "folder":
        file.unlink()
        file.mkdir()
    assert lazy_statistics.recalled(job) is None
