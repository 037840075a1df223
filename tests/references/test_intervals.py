"""Intervals of refined cubes: from the cube alone, narrower where more is known, and true."""

import mmap
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.references.conftest import Scene, simulated

from napari_mst.base.errors import CubeError
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.metrics import core_pixels
from napari_mst.models import load_model
from napari_mst.reconstruction import model_intervals as of_models
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.intervals import (
    has_interval,
    interval_of,
    intervals_in_files,
    prediction_intervals,
)
from napari_mst.references.process import (
    BAND_FACTOR,
    KERNEL,
    OFFSET,
    Spots,
    band_scale,
    fitted_kernel,
    misjudged,
    reach,
    scaled_bands,
)
from napari_mst.references.refining import refine, spots_of
from napari_mst.training.inputs import INPUTS

SPOTS = ((8, 8), (20, 30), (40, 12), (30, 40), (12, 40), (24, 24), (36, 24), (6, 24))


def refined(scene: Scene, count: int) -> SpectralCube:
    return refine(scene.cube, scene.photo, scene.references(*SPOTS[:count]))


def mean_width(cube: SpectralCube) -> float:
    lower, upper = prediction_intervals(cube)
    return float((upper.data - lower.data).mean())


def test_cube_lies_in_its_band_and_bands_are_cubes_like_it(scene: Scene) -> None:
    better = refined(scene, 3)
    lower, upper = prediction_intervals(better)
    assert (lower.data <= better.data).all()
    assert (upper.data >= better.data).all()
    assert lower.data.min() >= 0
    assert lower.data.dtype == upper.data.dtype == np.float32
    assert better.provenance.calibration == "calibrated by 3 reference spectra"
    for side, cube in (("lower", lower), ("upper", upper)):
        assert cube.provenance.assumptions[-1].endswith("; calibrated by 3 reference spectra.")
        assert of_models.interval_side(cube) == side
        assert not has_interval(cube)


def test_more_known_spectra_make_a_narrower_band(scene: Scene) -> None:
    one, some = (mean_width(refined(scene, count)) for count in (1, 8))
    assert some < one


def test_true_values_lie_in_the_band(scenes: list[Scene]) -> None:
    covered = []
    for scene in scenes:
        lower, upper = prediction_intervals(refined(scene, 8))
        is_within = (scene.truth >= lower.data) & (scene.truth <= upper.data)
        covered.append(is_within[:, core_pixels(scene.truth)].mean())
    assert 0.75 < np.mean(covered) < 0.995


@pytest.mark.parametrize("count", [1, 2, 8])
def test_band_holds_what_the_instrument_may_be_off(scene: Scene, count: int) -> None:
    """Both the reference spectra and the one that checks are measured; several are off alike."""
    better = refined(scene, count)
    _, upper = prediction_intervals(better)
    least = of_models.instrument_error(better.wavelengths) * np.sqrt(2 / count)
    assert (upper.data - better.data >= 0.999 * least[:, None, None]).all()


@pytest.mark.parametrize("too_large", [1.0, 2.0])
def test_variance_grows_as_errors_at_left_out_spots_exceed_it(too_large: float) -> None:
    rng = np.random.default_rng(0)
    count, kernel, scale = 40, KERNEL, np.linspace(0.2, 5, 31)
    features = rng.normal(size=(count, 6))
    among = kernel(features, features) + kernel.noise * np.eye(count)
    errors = np.linalg.cholesky(among) @ rng.normal(size=(count, 31)) * np.sqrt(scale)
    spots = Spots(features, too_large * errors, np.zeros(count))
    expected = (8 + count * too_large**2) / (8 + count)
    assert misjudged(kernel, spots, scale, 1.0) == pytest.approx(expected, rel=0.1)
    assert misjudged(kernel, spots[np.array([0])], scale, 1.0) == 1


def test_band_is_scaled_by_how_well_the_spots_tell_each_other(scene: Scene) -> None:
    spots = spots_of(scene.cube, scene.references(*SPOTS))
    kernel = fitted_kernel(spots)
    scale = scaled_bands(kernel, spots, band_scale(scene.cube.wavelengths))
    factor = misjudged(kernel, spots, scale, reach(kernel, spots))
    assert abs(factor - 1) > 0.02
    record = refined(scene, len(SPOTS)).provenance.refinement
    assert_allclose(record["band scale"], scale * factor, rtol=1e-4)


def test_band_holds_what_a_calibration_with_the_known_spectra_hides(scene: Scene) -> None:
    cube, same = (
        refine(
            scene.cube,
            scene.photo,
            [replace(one, hidden=hidden) for one in scene.references(*SPOTS)],
        )
        for hidden in (1e-9, 0.1)
    )
    assert_array_equal(cube.data, same.data)
    narrow, wide = (prediction_intervals(each)[1].data for each in (cube, same))
    assert (wide > narrow).all()
    least = (cube.data + OFFSET) * (np.exp(BAND_FACTOR * 0.1) - 1)
    assert (wide - cube.data >= 0.999 * least).all()


@pytest.mark.parametrize("kind", ["noise 1e-3", "JPEG 75"])
def test_band_of_a_noisy_or_compressed_photo_holds_what_single_pixels_are_off(kind: str) -> None:
    (taken,) = (each for each in INPUTS if each.name == kind)
    scene = simulated(3, 96)
    photo = np.moveaxis(taken.photograph(scene.truth), 0, -1)
    cube = Reconstructor(load_model("pixelwise-srgb"), "cpu").reconstruct(photo)
    references = [replace(spot, is_certain=True) for spot in scene.references(*SPOTS)]
    better = refine(cube, photo, references)
    record = better.provenance.refinement
    assert record["photo"] == kind.split()[0]
    unaware = replace(better.provenance, refinement={**record, "photo": ""})
    widths = [mean_width(each) for each in (replace(better, provenance=unaware), better)]
    assert 1.01 * widths[0] < widths[1] < 1.6 * widths[0]
    assert refined(scene, 8).provenance.refinement["photo"] == ""


def test_band_of_a_pixel_is_that_of_the_cube(scene: Scene) -> None:
    better = refined(scene, 3)
    lower, upper = prediction_intervals(better)
    band = interval_of(better, 5, 17)
    assert band is not None
    assert_allclose(band[0], lower.spectrum(5, 17), atol=1e-6)
    assert_allclose(band[1], upper.spectrum(5, 17), atol=1e-6)


def test_black_pixel_has_a_band_and_an_unknown_one_has_none(scene: Scene) -> None:
    better = refined(scene, 3)
    better.data[:, 2, 2] = np.nan
    better.data[:, 4, 4] = 0
    upper = prediction_intervals(better)[1]
    assert np.isnan(upper.data[:, 2, 2]).all()
    assert np.isnan(upper.data).sum() == 31
    assert (upper.data[:, 4, 4] > 0).all()


def test_cube_that_is_not_refined_has_the_band_of_its_model(scene: Scene) -> None:
    assert has_interval(scene.cube)
    for one, other in zip(
        interval_of(scene.cube, 2, 3) or (), prediction_intervals(scene.cube), strict=True
    ):
        assert_allclose(one, other.data[:, 2, 3], rtol=1e-5, atol=1e-6)
    assert not has_interval(SpectralCube(scene.cube.data, scene.cube.wavelengths))


@pytest.mark.parametrize("spots", [0, 3])
def test_intervals_on_their_way_to_a_file_lie_in_files_and_have_the_same_bits(
    scene: Scene, spots: int
) -> None:
    cube = refined(scene, spots) if spots else scene.cube
    in_files = intervals_in_files(cube, Progress())
    for there, here in zip(in_files, prediction_intervals(cube), strict=True):
        assert isinstance(memory_of(there.data), mmap.mmap)
        assert there.provenance == here.provenance
        np.testing.assert_array_equal(there.data, here.data)


def memory_of(values: Any) -> object:
    """The object whose memory an array shows."""
    while isinstance(values, np.ndarray | memoryview):
        values = values.base if isinstance(values, np.ndarray) else values.obj
    return values


def test_damaged_record_and_missing_bands_are_told(scene: Scene) -> None:
    better = refined(scene, 2)
    record = dict(better.provenance.refinement)
    del record["kernel"]
    damaged = replace(better, provenance=replace(better.provenance, refinement=record))
    with pytest.raises(CubeError, match=r"record of a refinement .* got damaged text"):
        prediction_intervals(damaged)
    cut = replace(better, data=better.data[:10], wavelengths=better.wavelengths[:10])
    with pytest.raises(CubeError, match="Expected 31 bands, as when the cube was refined, got 10"):
        prediction_intervals(cut)
