"""Reference spectra that are wrong: left out, moved or divided by a common factor, and said."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.references.conftest import Scene

from napari_mst.cube import SpectralCube
from napari_mst.photo.photo import Photo
from napari_mst.references.colour_views import view_of
from napari_mst.references.contradictions import ContradictingSpectra, consistent
from napari_mst.references.process import Spots
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refinement_record import reference_spectra
from napari_mst.references.refining import learn, refine

PLACES = ((8, 8), (20, 30), (40, 12), (30, 40), (12, 38))


def told(scene: Scene, references: list[ReferenceSpectrum]) -> tuple[list[ReferenceSpectrum], str]:
    """The spectra that are learnt from, and all that is said about the others."""
    refinement = learn(scene.cube, references, view_of(scene.cube, Photo.from_array(scene.photo)))[
        0
    ]
    return list(refinement.references), " ".join(refinement.doubts)


def test_right_spectra_are_not_accused(scenes: list[Scene]) -> None:
    for scene in scenes:
        references = scene.references(*PLACES)
        used, doubts = told(scene, references)
        assert (used, doubts) == (references, "")


def test_spectrum_of_another_colour_is_left_out_unless_somebody_insists(scene: Scene) -> None:
    right = scene.references(*PLACES)
    wrong = ReferenceSpectrum(*PLACES[0], np.linspace(0.9, 0.02, 31))
    used, doubts = told(scene, [wrong, *right[1:]])
    assert [spot.place for spot in used] == [spot.place for spot in right[1:]]
    assert "row 8, column 8 was left out: its colour is" in doubts
    with pytest.warns(ContradictingSpectra, match="left out"):
        same = refine(scene.cube, scene.photo, [wrong])
    assert same.data is scene.cube.data
    assert "left out" in same.provenance.assumptions[-1]
    insisted = replace(wrong, is_certain=True)
    better = refine(scene.cube, scene.photo, [insisted])
    assert reference_spectra(better.provenance)[0].is_certain


def test_misplaced_spots_are_moved_to_their_colours(scene: Scene) -> None:
    off = np.array([2, 1])
    left = []
    for place in product(range(8, 40, 4), range(8, 40, 4)):
        misplaced = replace(scene.references(place)[0], row=place[0] + 2, column=place[1] + 1)
        used, doubts = told(scene, [misplaced])
        if "was moved by" in doubts:
            left.append(np.hypot(used[0].row - place[0], used[0].column - place[1]))
    assert len(left) > 4
    assert np.mean(left) < 0.5 * np.hypot(*off)


@pytest.mark.parametrize("factor", [1.4, 0.7])
def test_common_factor_is_a_wrong_white_and_is_divided_by(scene: Scene, factor: float) -> None:
    right = scene.references(*PLACES)
    bright = [replace(spot, spectrum=spot.values * factor) for spot in right]
    used, doubts = told(scene, bright)
    assert f"are {factor:.2f} times as bright as the photo" in doubts
    for spot, truth in zip(used, right, strict=True):
        np.testing.assert_allclose(spot.values, truth.values, rtol=0.05)


def test_photo_of_another_white_balance_accuses_no_spectrum(scene: Scene) -> None:
    references = scene.references(*PLACES)
    photo = Photo.from_array((scene.photo * [0.7, 1.0, 1.2]).clip(1, 254).astype(np.uint8))
    cube = SpectralCube(scene.cube.data, scene.cube.wavelengths)
    learnt = learn(cube, references, view_of(cube, photo))
    assert len(learnt.refinement.references) == len(references)
    assert "white balance is off" in learnt.refinement.doubts[0]


def test_spot_that_all_others_contradict_is_left_out() -> None:
    rng = np.random.default_rng(4)
    features = rng.normal(size=(24, 6)) * 0.2
    errors = 0.1 * features[:, :1] + rng.normal(size=(24, 31)) * 0.01
    errors[7] += 0.8 * np.sin(np.arange(31))
    spots = Spots(features, errors, np.zeros(24))
    wavelengths = np.arange(400.0, 701, 10)
    assert 7 not in consistent(spots, wavelengths, [False] * 24)
    assert len(consistent(spots, wavelengths, [False] * 24)) == 23
    assert 7 in consistent(spots, wavelengths, [number == 7 for number in range(24)])


@pytest.mark.parametrize("is_certain", [False, True])
def test_reference_far_brighter_than_its_estimate_is_doubted_unless_somebody_insists(
    scene: Scene, is_certain: bool
) -> None:
    right = scene.references(*PLACES)
    white = replace(right[0], spectrum=4 * right[0].values + 0.03, is_certain=is_certain)
    learnt = learn(scene.cube, [white, *right[1:]])
    doubts = [text for text in learnt.refinement.doubts if "times as bright as the estim" in text]
    assert [white.place in text for text in doubts] == [True] * (not is_certain)
