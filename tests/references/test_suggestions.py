"""Suggested spots: measurable, the same every time, and better than random ones."""

from dataclasses import replace

import numpy as np
import pytest
from tests.references.conftest import Scene

from napari_mst.base.errors import SpectrumError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.references.process import KERNEL
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refining import refine
from napari_mst.references.suggestions import Design, suggest_measurements


def test_suggestions_are_the_same_every_time_and_go_on_where_they_stopped(scene: Scene) -> None:
    four = suggest_measurements(scene.cube, scene.photo)
    assert four == suggest_measurements(scene.cube, scene.photo, count=4)
    assert suggest_measurements(scene.cube, scene.photo, count=2) == four[:2]
    assert len(set(four)) == 4


UNCORRECTED = Provenance(model="of other colours")
"""With it a cube takes any photo of its size."""


def test_suggestions_avoid_dark_and_clipped_pixels(scene: Scene) -> None:
    photo = scene.photo.copy()
    photo[:, :24] = 255
    data = scene.cube.data.copy()
    data[:, :24, 24:] = 0.001
    cube = SpectralCube(data, scene.cube.wavelengths, provenance=UNCORRECTED)
    for row, column in suggest_measurements(cube, photo, count=8):
        spot = np.s_[row - 1 : row + 2, column - 1 : column + 2]
        assert (photo[spot] < 255).all()
        assert (data[:, spot[0], spot[1]] > 0.01).all()


def test_suggestions_may_be_where_a_channel_is_nothing(scene: Scene) -> None:
    """A saturated colour lacks a channel, and is a material like any other."""
    photo = scene.photo.copy()
    photo[..., 2] = 0
    cube = replace(scene.cube, provenance=UNCORRECTED)
    assert suggest_measurements(cube, photo, count=4) == suggest_measurements(
        scene.cube, scene.photo, count=4
    )


def test_suggestions_are_not_where_something_is_known(scene: Scene) -> None:
    first = suggest_measurements(scene.cube, scene.photo, count=1)[0]
    second = suggest_measurements(scene.cube, scene.photo, scene.references(first), count=1)[0]
    assert max(abs(first[0] - second[0]), abs(first[1] - second[1])) > 3


def test_suggested_spots_are_better_than_random_ones(scenes: list[Scene]) -> None:
    rng = np.random.default_rng(0)
    errors = np.zeros((2, 5))
    for place, scene in enumerate(scenes[:5]):
        random = [(int(row), int(column)) for row, column in rng.integers(1, 47, (4, 2))]
        for way, spots in enumerate((random, suggest_measurements(scene.cube, scene.photo))):
            references = [
                ReferenceSpectrum(*spot, np.maximum(scene.spectrum(*spot), 1e-3)) for spot in spots
            ]
            errors[way, place] = scene.error(refine(scene.cube, scene.photo, references))
    assert errors[1].mean() < errors[0].mean()


def test_small_image_has_fewer_suggestions_than_asked_for() -> None:
    cube = SpectralCube(np.full((31, 2, 3), 0.4, np.float32), np.arange(400.0, 701, 10))
    photo = np.full((2, 3, 3), 170, np.uint8)
    assert len(suggest_measurements(cube, photo, count=20)) == 6


@pytest.mark.parametrize("count", [0, 10_000])
def test_impossible_counts_are_refused(scene: Scene, count: int) -> None:
    with pytest.raises(SpectrumError, match="Expected 1 to 256 suggestions"):
        suggest_measurements(scene.cube, scene.photo, count=count)


def test_photo_with_nothing_to_measure_is_refused(scene: Scene) -> None:
    cube = replace(scene.cube, provenance=UNCORRECTED)
    with pytest.raises(SpectrumError, match="got only dark or clipped ones"):
        suggest_measurements(cube, np.full_like(scene.photo, 255))


def test_each_choice_lowers_the_variances_left_by_those_before() -> None:
    """The judge is the textbook: covariances given all choices at once, by a matrix inverse."""
    at = np.random.default_rng(0).random((30, 6))
    design = Design(KERNEL, at, at[:22], np.zeros(30))
    among, across = KERNEL(at, at), KERNEL(at[:22], at)
    chosen = list[int]()
    for _ in range(4):
        references = among[np.ix_(chosen, chosen)] + KERNEL.noise * np.eye(len(chosen))
        left = among - among[:, chosen] @ np.linalg.solve(references, among[chosen])
        toward = across - across[:, chosen] @ np.linalg.solve(references, among[chosen])
        gain = np.square(toward).sum(axis=0) / (np.diag(left) + KERNEL.noise)
        gain[chosen] = -1
        chosen.append(int(gain.argmax()))
        assert design.next_best() == chosen[-1]
