"""A part of a refined cube is what the whole one is there, and the width is that of its band."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.references.conftest import Scene

from napari_mst.base.errors import CubeError
from napari_mst.photo.photo import as_photo
from napari_mst.references.colour_views import Part, Parts
from napari_mst.references.intervals import interval_width, prediction_intervals
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refining import applied, learn, refine
from napari_mst.references.suggestions import suggest_measurements

SPOTS = ((8, 8), (20, 30), (40, 12))
PARTS = (
    Part(range(5, 6), range(7, 8)),
    Part(range(3, 30), range(10, 48)),
    Part(range(2, 47, 3), range(1, 40, 3)),
    Part.whole((48, 48), step=5),
)


@pytest.mark.parametrize("part", PARTS)
def test_part_is_that_of_the_whole_refined_cube(scene: Scene, part: Part) -> None:
    whole = refine(scene.cube, scene.photo, scene.references(*SPOTS))
    process = learn(scene.cube, scene.references(*SPOTS)).process
    found = Parts(scene.cube, scene.photo).refined(process, part)
    assert found.shape == (31, *part.shape)
    assert_allclose(found, whole.data[part.key], atol=1e-5)


def test_part_of_a_noisy_photo_keeps_the_colours_of_its_own_spectra(scene: Scene) -> None:
    noise = np.random.default_rng(0).normal(scale=12, size=scene.photo.shape)
    noisy = np.clip(scene.photo + noise, 0, 255).astype(np.uint8)
    process = learn(scene.cube, scene.references(*SPOTS)).process
    whole = Part.whole((48, 48))
    clean = Parts(scene.cube, scene.photo).refined(process, whole)
    found = Parts(scene.cube, noisy).refined(process, whole)
    assert np.abs(found - clean).mean() < 0.01


def test_learning_and_applying_is_refining(scene: Scene) -> None:
    learnt = learn(scene.cube, scene.references(*SPOTS))
    one = applied(scene.cube, as_photo(scene.photo), learnt)
    other = refine(scene.cube, scene.photo, scene.references(*SPOTS))
    assert_array_equal(one.data, other.data)
    assert one.provenance == other.provenance


@pytest.mark.parametrize("is_refined", [True, False])
def test_width_is_that_of_the_band_over_the_mean(scene: Scene, is_refined: bool) -> None:
    cube = refine(scene.cube, scene.photo, scene.references(*SPOTS)) if is_refined else scene.cube
    lower, upper = prediction_intervals(cube)
    mean = np.maximum(cube.data.mean(axis=0), 0.01)
    expected = (upper.data - lower.data).mean(axis=0) / mean
    shares: list[float] = []
    width = interval_width(cube, shares.append)
    assert width.dtype == np.float32
    assert_allclose(width, expected, rtol=1e-4)
    assert shares[-1] == 1.0


def test_cube_whose_bands_were_cut_away_is_told_so_and_not_its_model(scene: Scene) -> None:
    cut = scene.cube.sel(wavelength=slice(500, 600))
    for bands_of in (prediction_intervals, interval_width):
        with pytest.raises(CubeError, match=r"Expected all bands of pixelwise-srgb, got 11 of 500"):
            bands_of(cut)
    with pytest.raises(CubeError, match=r"colours of a photo, got 500-600 nm"):
        refine(cut, scene.photo, [ReferenceSpectrum(8, 8, scene.spectrum(8, 8)[10:21])])
    with pytest.raises(CubeError, match=r"colours of a photo, got 500-600 nm"):
        suggest_measurements(cut, scene.photo)
