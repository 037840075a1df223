"""Baselines are what their sources say, and the bundled model beats them."""

from pathlib import Path

import numpy as np
import pytest

from lab.baselines import BASELINES, jakob_hanika, mallett_yuksel, smits
from lab.cards import accuracy
from napari_mst.cube.colour import render_srgb, srgb_to_linear
from napari_mst.photo.cameras import GRID
from napari_mst.training.scoring import BASELINES as LINEAR
from napari_mst.training.scoring import ModelMethod, least_squares

ALL = LINEAR | BASELINES


@pytest.mark.parametrize(
    "name", [*LINEAR, *(pytest.param(name, marks=pytest.mark.slow) for name in BASELINES)]
)
def test_baseline_estimates_white_flat_and_re_renders_greys(name: str) -> None:
    codes = np.broadcast_to(np.array([255, 188, 99], np.uint8), (3, 1, 3))
    estimate = ALL[name]()(codes)
    assert estimate.shape == (31, 1, 3)
    np.testing.assert_allclose(estimate[2:-2, 0, 0], 1, atol=0.12)
    np.testing.assert_allclose(render_srgb(estimate, GRID), srgb_to_linear(codes / 255), atol=0.03)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning:colour")
def test_smits_and_jakob_hanika_are_those_of_colour_science() -> None:
    colour = pytest.importorskip("colour")
    shape = colour.SpectralShape(400, 700, 10)
    codes = np.random.default_rng(0).integers(30, 230, (3, 1, 4)).astype(np.uint8)
    ours = smits()(codes), jakob_hanika()(codes)
    for column in range(4):
        linear = srgb_to_linear(codes[:, 0, column] / 255)
        theirs = colour.recovery.RGB_to_sd_Smits1999(linear)
        expected = np.interp(GRID, theirs.wavelengths, theirs.values)
        np.testing.assert_allclose(ours[0][:, 0, column], expected, atol=1e-12)
        xyz = colour.RGB_to_XYZ(linear, "sRGB")
        theirs = (
            colour.recovery.XYZ_to_sd_Jakob2019(xyz, illuminant=colour.SDS_ILLUMINANTS["D65"])
            .align(shape)
            .values
        )
        np.testing.assert_allclose(
            ours[1][:, 0, column], theirs, atol=0.03
        )  # theirs sees 360-780 nm


@pytest.mark.slow
def test_bundled_model_beats_the_baselines_on_a_real_scene(
    shared_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "paints.npz").symlink_to(shared_data / "cave" / "paints.npz")
    ours = accuracy(ModelMethod("mstpp-srgb"), tmp_path)
    for make in (mallett_yuksel, least_squares):
        theirs = accuracy(make(), tmp_path)
        assert ours["MRAE"] < theirs["MRAE"]
        assert ours["PSNR (dB)"] > theirs["PSNR (dB)"]


def test_the_accuracy_of_a_method_without_a_band_does_not_speak_of_one(tmp_path: Path) -> None:
    cube = np.random.default_rng(0).uniform(0.1, 0.9, (31, 4, 5)).astype(np.float32)
    np.savez(tmp_path / "scene.npz", cube=cube, wavelengths=GRID)
    assert "MRAE" in accuracy(least_squares(), tmp_path)
    assert "in band" not in accuracy(least_squares(), tmp_path)
