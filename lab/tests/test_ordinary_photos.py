"""Ordinary photos: the same for a seed, held out by name, and exact where they are rendered."""

import numpy as np
import pytest
import torch

from lab.ordinary_photos import (
    KINDS,
    Curve,
    Kind,
    apply_curve,
    cameras,
    draw_processing,
    photograph,
    photograph_scene,
)
from napari_mst.base.arrays import Codes, Singles
from napari_mst.cube.colour import render_srgb
from napari_mst.photo.cameras import GRID


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scene(rows: int = 16, columns: int = 20) -> Singles:
    return np.random.default_rng(3).uniform(0.02, 0.9, (31, rows, columns)).astype(np.float32)


def test_rendered_photo_is_that_of_the_reflectance_in_daylight() -> None:
    cube = scene()
    processing = draw_processing(1, seeded(), kind="rendered")
    codes, truth = photograph_scene(cube, processing, seeded())
    light = render_srgb(cube, GRID).clip(0, 1)
    expected = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    assert np.abs(codes / 255 - expected).max() < 0.6 / 255
    assert np.array_equal(truth, cube)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_gives_the_same_photo(kind: Kind) -> None:
    cube = scene()

    def photo(seed: int) -> Codes:
        random = seeded(seed)
        return photograph_scene(cube, draw_processing(1, random, kind=kind), random)[0]

    assert np.array_equal(photo(1), photo(1))
    assert kind == "rendered" or not np.array_equal(photo(1), photo(2))


def test_held_out_cameras_and_lights_are_never_trained_with() -> None:
    processings = [draw_processing(400, seeded(), held_out) for held_out in (False, True)]
    names = [
        [{one.record(index, held_out)[part] for index in range(400)} - {"sRGB", "D65"}]
        for part in ("camera", "light")
        for one, held_out in zip(processings, (False, True), strict=True)
    ]
    trained_cameras, judged_cameras, trained_lights, judged_lights = (each for (each,) in names)
    assert trained_cameras <= set(cameras(held_out=False))
    assert judged_cameras == set(cameras(held_out=True))
    assert not trained_cameras & judged_cameras
    assert not trained_lights & judged_lights


def test_kinds_come_in_their_shares() -> None:
    kinds = draw_processing(4000, seeded()).kind
    shares = np.bincount(kinds, minlength=len(KINDS)) / 4000
    assert shares == pytest.approx([0.6, 0.2, 0.1, 0.1], abs=0.03)


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_curve_rises_from_black_to_white(shape: int) -> None:
    light = torch.linspace(0, 1, 200)[None, :, None].expand(1, -1, 3)
    curve = Curve(*(torch.tensor([value]) for value in (shape, 0.4, 0.3)))
    encoded = apply_curve(light, curve)[0, :, 0]
    assert (encoded.diff() >= 0).all()
    assert encoded[0] == pytest.approx(0, abs=0.01)
    assert encoded[-1] == pytest.approx(1)


def test_set_of_pixels_and_image_have_the_same_colours() -> None:
    cube = scene(8, 8)
    processing = draw_processing(1, seeded(), kind="camera")
    for name in ("shot", "read", "sharpening", "quality", "is_half"):
        getattr(processing, name)[:] = 0
    codes, _ = photograph_scene(cube, processing, seeded())
    pixels = photograph(torch.from_numpy(cube.reshape(31, -1).T.copy())[None], processing)
    assert np.array_equal(np.rint(pixels[0].T.reshape(3, 8, 8).numpy() * 255), codes)


def test_half_size_shows_the_mean_of_four_pixels() -> None:
    cube = scene()
    processing = draw_processing(1, seeded(), kind="camera")
    processing.is_half[:] = True
    codes, truth = photograph_scene(cube, processing, seeded())
    assert codes.shape == (3, 8, 10)
    assert truth[:, 0, 0] == pytest.approx(cube[:, :2, :2].mean(axis=(1, 2)), rel=1e-5)
