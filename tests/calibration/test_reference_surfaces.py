"""Known reflectances in a photo tell its light: the lights that give their colours count."""

import numpy as np
import pytest

import napari_mst as nm
from lab.lights import HELD_OUT_LIGHTS
from lab.simulated import SceneSimulator
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import PhotoError
from napari_mst.calibration.light import estimating
from napari_mst.calibration.light.seeing import light_table
from napari_mst.calibration.white_patch import angle_between
from napari_mst.photo.cameras import GRID, light_power, unbalanced_response
from napari_mst.photo.photo import Photo

CAMERA = "Nikon_D850"  # training never sees it
SIDE = 64
PLACES = [(row, column) for row in (8, 24) for column in (8, 24)]
Known = dict[tuple[int, int], nm.Spectrum | float]


def photographed(light: str, index: int) -> tuple[Photo, Known, Doubles]:
    """A photo of a scene and four patches that lie in it, and what the patches reflect."""
    simulator = SceneSimulator(300 + index, SIDE, held_out=True)
    (scene,) = simulator.draw_scenes(1).numpy()
    patches = simulator.draw_spectra(len(PLACES)).numpy().clip(0.05, 1)
    for (row, column), spectrum in zip(PLACES, patches, strict=True):
        scene[:, row - 4 : row + 5, column - 4 : column + 5] = spectrum[:, None, None]
    values = np.einsum("bhw,bc->chw", scene, unbalanced_response(CAMERA, light))
    random = np.random.default_rng(index)
    values = values / values.max() * 0.9
    values += random.standard_normal(values.shape) * np.sqrt(1e-4 * values)
    photo = Photo.from_array(values.clip(0, 1).astype(np.float32), encoding="linear")
    references: Known = {
        place: nm.Spectrum(GRID, spectrum) for place, spectrum in zip(PLACES, patches, strict=True)
    }
    return photo, references, patches


def off(estimate: estimating.LightEstimate, light: str) -> float:
    """The mean difference of the two powers, whose own mean is 1."""
    told, true = (power / power.mean() for power in (estimate.power, light_power(light)))
    return float(np.abs(told - true).mean())


def test_four_known_spectra_tell_lamps_that_no_list_has(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = [], []
    for index, light in enumerate(HELD_OUT_LIGHTS[::2]):
        monkeypatch.setattr(estimating, "light_table", lambda light=light: light_table(light))
        photo, references, _ = photographed(light, index)
        before.append(off(nm.light.estimate(photo, CAMERA), light))
        after.append(off(nm.light.estimate(photo, CAMERA, references), light))
    assert np.mean(after) < 0.8 * np.mean(before)


def test_known_spectra_tell_known_lights() -> None:
    before, after = [], []
    for light in ("D65", "A", "F11", "LED-B3"):
        photo, references, _ = photographed(light, 50)
        before.append(off(nm.light.estimate(photo, CAMERA), light))
        after.append(off(nm.light.estimate(photo, CAMERA, references), light))
    assert np.mean(after) < 0.5 * np.mean(before)


def test_a_grey_tells_the_white() -> None:
    photo, references, _ = photographed("F11", 7)
    place = next(iter(references))
    values = np.full(
        (3, 9, 9), (unbalanced_response(CAMERA, "F11").sum(axis=0) * 0.3)[:, None, None]
    )
    pixels = photo.pixels.copy()
    pixels[:, place[0] - 4 : place[0] + 5, place[1] - 4 : place[1] + 5] = values
    photo = Photo.from_array(pixels, encoding="linear")
    white = unbalanced_response(CAMERA, "F11").sum(axis=0)
    blind, told = (
        float(angle_between(nm.light.estimate(photo, CAMERA, each).white, white))
        for each in (None, {place: 0.5})
    )
    assert told < 0.3 < blind


def test_brightness_does_not_matter() -> None:
    photo, references, patches = photographed("F2", 4)
    half = {p: nm.Spectrum(GRID, s / 2) for p, s in zip(PLACES, patches, strict=True)}
    one, other = (nm.light.estimate(photo, CAMERA, each) for each in (references, half))
    assert one.illuminant == other.illuminant


def test_a_spectrum_that_ends_early_is_refused() -> None:
    photo, *_ = photographed("A", 1)
    short = nm.Spectrum(GRID[5:20], np.full(15, 0.2))
    with pytest.raises(PhotoError, match="reference spectrum of 420 to 680 nm, got less"):
        nm.light.estimate(photo, CAMERA, {PLACES[0]: short})
