"""Denoising before the network: where it helps, the same in a region, and told in the history."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import napari_mst as nm
from napari_mst.base.arrays import Array
from napari_mst.base.errors import DenoisingError, OutOfMemory
from napari_mst.base.progress import NO_PROGRESS
from napari_mst.cube import Provenance
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.denoising.nl_bayes import denoised_pixels
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.reconstruction import denoising
from napari_mst.reconstruction.denoising import decided, denoised
from napari_mst.reconstruction.preparing import prepared_job

NOISE = 2e-3  # variance over signal

Codes = NDArray[np.uint8]


def light() -> NDArray[np.float64]:
    """Linear light (96, 128, 3) of coloured patches with shading."""
    random = np.random.default_rng(1)
    patches = random.uniform(0.05, 0.7, (6, 8, 3)).repeat(16, 0).repeat(16, 1)
    shading = 1 + 0.1 * np.sin(np.arange(128) / 15)
    return np.asarray(patches * shading[None, :, None])


def codes_of(linear: NDArray[np.float64]) -> Codes:
    return np.rint(linear_to_srgb(linear.clip(0, 1)) * 255).astype(np.uint8)


def noisy() -> Codes:
    random = np.random.default_rng(2)
    linear = light()
    return codes_of(linear + random.standard_normal(linear.shape) * np.sqrt(NOISE * linear))


CLEAN = codes_of(light())
NOISY = noisy()


def reconstructor(model: str = "pixelwise-srgb", **options: Any) -> nm.Reconstructor:
    return nm.Reconstructor(nm.load_model(model), "cpu", **options)


def cube(photo: Codes | nm.Photo, **options: Any) -> nm.SpectralCube:
    return reconstructor(**options).reconstruct(photo)


def error(found: nm.SpectralCube) -> float:
    truth = cube(CLEAN).data
    return float(np.abs(found.data - truth).mean())


def test_a_noisy_photo_is_denoised_by_itself_and_the_history_says_so() -> None:
    found = cube(NOISY)
    assert error(found) < 0.5 * error(cube(NOISY, denoise="off"))
    past = found.provenance
    assert past.denoise == "auto"
    assert past.denoising.startswith("non-local Bayes, 1 x the noise of the photo")
    assert any("denoised before the network" in note for note in past.assumptions)
    assert Provenance.from_json(past.to_json()) == past


def test_a_clean_photo_gives_the_cube_that_it_always_gave() -> None:
    found = cube(CLEAN)
    assert_array_equal(found.data, cube(CLEAN, denoise="off").data)
    assert found.provenance.denoising == ""
    assert found.provenance.assumptions == ()


def test_random_pixels_and_texture_are_no_noise_of_a_sensor() -> None:
    random = np.random.default_rng(3)
    pixels = random.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    shadows = 1 + 0.2 * random.standard_normal((96, 128, 1)).clip(-3, 3)
    for photo in (pixels, codes_of(np.array([0.3, 0.2, 0.1]) * shadows)):
        assert cube(photo).provenance.denoising == ""


def test_a_model_that_it_was_not_tried_with_sees_the_photo_as_it_is() -> None:
    model = nm.load_model("pixelwise-srgb")
    other = replace(model, card=replace(model.card, rendering=""))
    found = nm.Reconstructor(other, "cpu").reconstruct(NOISY)
    assert found.provenance.denoising == ""


def test_a_number_denoises_every_photo_by_that_much() -> None:
    found = cube(CLEAN, denoise=0.8)
    assert found.provenance.denoise == "0.8"
    assert "non-local Bayes, 0.8 x" in found.provenance.denoising
    weak, strong = (error(cube(NOISY, denoise=strength)) for strength in (0.1, 1.2))
    assert strong < weak


@pytest.mark.parametrize("region", [(40, 70, 50, 90), (0, 96, 0, 128), (80, 96, 0, 5)])
def test_a_region_is_denoised_to_the_very_pixels_of_the_whole_photo(
    region: tuple[int, int, int, int],
) -> None:
    setup = reconstructor().setup
    photo = nm.Photo.from_array(NOISY)
    whole = denoised(decided(prepared_job(setup, photo)), NO_PROGRESS)
    of_region = replace(setup, options=replace(setup.options, region=region))
    part = denoised(decided(prepared_job(of_region, photo)), NO_PROGRESS)
    top, bottom, left, right = region
    assert_array_equal(part.part.pixels, whole.part.pixels[:, top:bottom, left:right])
    assert whole.part.full_scale == 257 * photo.full_scale
    assert np.abs(whole.part.pixels / 257 - photo.pixels).max() > 1


@pytest.mark.parametrize("kind", ["uint16", "float32", "linear"])
def test_every_type_of_photo_is_denoised_alike(kind: str) -> None:
    photo = nm.Photo.from_array(NOISY)
    if kind == "uint16":
        photo = nm.Photo.from_array(NOISY.astype(np.uint16) * 257)
    elif kind == "float32":
        photo = nm.Photo.from_array(NOISY.astype(np.float32) / 255, encoding="srgb")
    else:
        linear = np.moveaxis(photo.rows(0, 96, linear=True), 0, -1)
        photo = nm.Photo.from_array(linear, encoding="linear")
    found = cube(photo, correct_colour=False).data
    assert_allclose(found, cube(NOISY, correct_colour=False).data, atol=0.01)


def test_unknown_pixels_stay_unknown_and_influence_no_other() -> None:
    values = NOISY.astype(np.float32) / 255
    values[30, 40] = np.nan
    holed = nm.Photo.from_array(values, encoding="srgb")
    found = cube(holed, correct_colour=False)
    assert found.provenance.denoising
    assert np.isnan(found.data[:, 30, 40]).all()
    assert np.isfinite(found.data).sum() == found.data.size - 31
    whole = cube(nm.Photo.from_array(NOISY.astype(np.float32) / 255, encoding="srgb"))
    near = np.s_[:, 28:33, 38:43]
    assert np.nanmax(np.abs(found.data[near] - whole.data[near])) < 0.2


def test_a_preview_is_denoised_by_the_noise_that_is_left_in_it() -> None:
    found = reconstructor().preview(NOISY)
    assert found.provenance.denoising
    wide = np.tile(CLEAN, (6, 8, 1))  # averaged down
    assert reconstructor().preview(wide).provenance.denoising == ""


def test_the_plan_counts_what_denoising_takes() -> None:
    model = reconstructor()
    plain = model.plan_for(CLEAN)
    assert model.plan_for(NOISY).memory > plain.memory
    # As much as a clean photo takes, and a little: so it is denoising that has no room.
    tight = reconstructor(memory=plain.memory + 100_000)
    tight.reconstruct(CLEAN)
    with pytest.raises(OutOfMemory, match="of free memory for 96 x 128 pixels"):
        tight.reconstruct(NOISY)


def test_progress_of_a_denoised_photo_grows_to_one() -> None:
    shares: list[float] = []
    reconstructor().reconstruct(NOISY, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_finished_cube_of_another_denoising_is_not_taken_for_that_of_a_run() -> None:
    past = cube(NOISY).provenance
    automatic, other = (
        reconstructor(denoise=denoise).origin(past.source_sha256, "srgb")
        for denoise in ("auto", "off")
    )
    assert past.gives_the_cube_of(automatic)
    assert not past.gives_the_cube_of(other)


@pytest.mark.parametrize("denoise", ["on", 0.0, -1, float("nan"), float("inf"), True, None])
def test_what_is_no_way_to_denoise_is_refused(denoise: Any) -> None:
    with pytest.raises(DenoisingError, match="Expected denoise 'auto', 'off' or a number above 0"):
        reconstructor(denoise=denoise)


def test_a_photo_is_denoised_once_for_all_that_is_computed_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[object] = []

    def counted(*given: Any) -> Array:
        calls.append(given)
        return denoised_pixels(*given)

    monkeypatch.setattr(denoising, "denoised_pixels", counted)
    explorer = nm.attention.Explorer(reconstructor("mstpp-srgb"), NOISY)
    record = explorer.record()
    made = explorer.map("attention", nm.attention.Selection("stages.0.encoder.0"))
    assert record.provenance.denoising == made.provenance.denoising != ""
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("attention", "meaning"),
    [
        ("spectral", "Attention is global, so a region is another image"),
        ("none", "The network groups pixels from the corner of a region on"),
    ],
)
def test_a_region_is_noted_as_what_it_is_to_the_network(attention: str, meaning: str) -> None:
    model = nm.load_model("mstpp-srgb")
    network = MSTPlusPlus(stages=1, attention=attention)
    own = nm.Reconstructor(replace(model, network=network), "cpu", correct_colour=False)
    found = own.reconstruct(CLEAN, region=(0, 16, 0, 16))
    assert any(meaning in note for note in found.provenance.assumptions)


def test_a_region_is_the_same_to_a_pixelwise_network(executor: str) -> None:
    """To the bit by kernels; in torch, whose powers depend on where a piece ends, to 1e-6."""
    own = reconstructor(denoise="off", correct_colour=False)
    part = own.reconstruct(CLEAN, region=(3, 20, 5, 30))
    whole = own.reconstruct(CLEAN).data
    tolerance = 0 if executor == "numba" else 1e-6 * whole.max()
    assert_allclose(part.data, whole[:, 3:20, 5:30], rtol=0, atol=tolerance)
    said = part.provenance.assumptions[-1]
    assert "sees each pixel alone, so its estimate is that of the whole photo" in said
    assert ("to 1e-6 of its largest value" in said) == (executor != "numba")
