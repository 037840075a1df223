"""Simulated scenes: deterministic, physical, and photographed as a camera would."""

import numpy as np
import torch

from lab.simulated import Curriculum, SceneSimulator, Simulated
from napari_mst.cube.colour import linear_to_srgb, reflectances
from napari_mst.photo.cameras import camera_response


def test_same_seed_draws_the_same_scenes_and_another_seed_others() -> None:
    first, again, other = (SceneSimulator(seed, size=16).draw(2) for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])


def test_photo_holds_8_bit_srgb_codes_and_cube_is_reflectance() -> None:
    photos, cubes = SceneSimulator(0, size=24).draw(4)
    assert photos.shape == (4, 3, 24, 24)
    assert cubes.shape == (4, 31, 24, 24)
    codes = linear_to_srgb(photos.double().numpy()) * 255
    np.testing.assert_allclose(codes, np.rint(codes), atol=1e-3)
    assert cubes.min() >= 0
    assert cubes.max() <= 1.2001


def test_pixels_are_clean_and_as_the_camera_shows_them() -> None:
    simulator = SceneSimulator(0)
    pixels, spectra = simulator.draw_pixels(500)
    rendered = (spectra @ simulator.response).clamp(0, 1)
    codes, expected = (
        np.rint(linear_to_srgb(light.double().numpy()) * 255) for light in (pixels, rendered)
    )
    np.testing.assert_array_equal(codes, expected)
    assert torch.equal(pixels, SceneSimulator(0).draw_pixels(500)[0])


def test_photo_shows_the_cube() -> None:
    simulator = SceneSimulator(0, size=32)
    photos, cubes = (
        torch.cat(parts) for parts in zip(*(simulator.draw(8) for _ in range(4)), strict=True)
    )
    rendered = torch.einsum("nbhw,bc->nchw", cubes, simulator.response).clamp(0, 1)
    assert (photos - rendered).abs().median() < 0.005
    assert np.corrcoef(photos.flatten(), rendered.flatten())[0, 1] > 0.97


def test_held_out_spectra_are_never_trained_on() -> None:
    training, held_out = SceneSimulator(0).spectra, SceneSimulator(0, held_out=True).spectra
    sources = reflectances()
    assert len(training) + len(held_out) == sum(map(len, sources.values()))
    assert len(held_out) > 100
    seen = {row.tobytes() for row in training.numpy()}
    duplicates = sum(row.tobytes() in seen for row in held_out.numpy())
    assert duplicates < 0.05 * len(held_out)


def clean_share(curriculum: Curriculum) -> float:
    simulator = SceneSimulator(2, size=16, curriculum=curriculum)
    photos, cubes = simulator.draw(120)
    rendered = torch.einsum("nbhw,bc->nchw", cubes, simulator.response)
    codes = [
        np.rint(linear_to_srgb(light.clamp(0, 1).double().numpy()) * 255)
        for light in (photos, rendered)
    ]
    return float((np.abs(codes[0] - codes[1]).max(axis=(1, 2, 3)) <= 1).mean())


def test_curriculum_decides_how_many_photos_are_degraded() -> None:
    assert clean_share(Curriculum(degraded=0)) == 1
    assert 0.2 < clean_share(Curriculum()) < 0.45
    assert clean_share(Curriculum(degraded=1)) < 0.05


def test_curriculum_decides_how_grainy_subjects_are() -> None:
    strengths = (1e-7, 1e-5, 1e-3)
    plain, fine, coarse = (
        SceneSimulator(2, size=16, curriculum=Curriculum(grain=grain)).draw(8)[1]
        for grain in strengths
    )
    assert 1e-4 < (fine - plain).abs().mean() < (coarse - plain).abs().mean() < 0.02


def test_one_material_is_seen_under_many_shadings() -> None:
    simulator = SceneSimulator(3, size=48)
    shading = simulator.shading(*simulator.leaves(4))
    assert shading.shape == (4, 1, 48, 48)
    darkest, brightest = shading.flatten(1).quantile(torch.tensor([0.05, 0.95]), dim=1)
    assert (brightest > 1.5 * darkest).all()


def test_every_pixel_shows_the_nearest_object_that_covers_it() -> None:
    u, v, leaf = SceneSimulator(4, size=32).leaves(3)
    assert leaf.shape == (3, 32, 32)
    assert leaf.min() >= 0
    assert len(leaf.unique()) > 10
    covered = leaf[:, None] > 0
    assert u[covered].abs().max() < 1.0001
    assert v[covered].abs().max() < 1.0001


def test_the_curriculum_goes_from_plain_scenes_to_grain() -> None:
    grains = [Curriculum.at(progress).grain for progress in (0, 0.25, 0.5, 1)]
    np.testing.assert_allclose(grains, [1e-7, 1e-7 * 1e3**0.5, 1e-4, 1e-4])


def test_simulated_scenes_are_seen_by_the_camera() -> None:
    response = torch.from_numpy(camera_response("Nikon_D5100", "A")).float()
    photos, cubes = Simulated(0, 16, response).draw(0, 8, 0)
    rendered = torch.einsum("nbhw,bc->nchw", cubes, response).clamp(0, 1)
    assert (photos - rendered).abs().median() < 0.02
