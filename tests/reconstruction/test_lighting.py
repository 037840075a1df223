"""A light that is not given is estimated from the photo: cube, history, prediction interval."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.torch import save_file
from tests.conftest import on_cpu

import napari_mst as nm
from lab.simulated import SceneSimulator
from napari_mst.base.errors import CameraError, ModelError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.models import Model
from napari_mst.networks.vision_transformer import TransformerHyperparameters, VisionTransformer
from napari_mst.photo.cameras import BALANCED, ESTIMATED, OF_SENSOR, unbalanced_response
from napari_mst.photo.photo import Photo
from napari_mst.photo.raw import Shot

CAMERA = "Nikon_D850"


@pytest.fixture(scope="module")
def photo() -> Photo:
    """The values of the sensor for a simulated scene under illuminant A, which it hardly tells."""
    (scene,) = SceneSimulator(35, 48, held_out=True).draw_scenes(1).numpy()
    values = np.einsum("bhw,bc->hwc", scene, unbalanced_response(CAMERA, "A"))
    codes = np.clip(values / values.max(), 0, 1) * 60_000
    return Photo.from_array(codes.astype(np.uint16), encoding="linear", full_scale=65535.0)


@pytest.fixture(scope="module")
def model() -> Model:
    return nm.load_model("mstpp-camera")


def cube_of(model: Model, photo: Photo, illuminant: str) -> SpectralCube:
    acquisition = nm.Acquisition(CAMERA, illuminant, balance=OF_SENSOR)
    return nm.Reconstructor(model, "cpu", acquisition=acquisition).reconstruct(photo)


@pytest.fixture(scope="module")
def estimated(model: Model, photo: Photo) -> SpectralCube:
    return cube_of(model, photo, ESTIMATED)


def test_the_cube_is_that_of_the_estimated_light_told(
    model: Model, photo: Photo, estimated: SpectralCube
) -> None:
    illuminant = nm.light.estimate(photo, CAMERA).illuminant
    told = cube_of(model, photo, illuminant)
    assert_array_equal(estimated.data, told.data)
    assert estimated.provenance.illuminant == told.provenance.illuminant == illuminant


def test_the_history_says_whether_the_light_was_told_or_estimated(
    model: Model, photo: Photo, estimated: SpectralCube
) -> None:
    past = estimated.provenance
    assert past.is_light_estimated
    assert any("illuminant was estimated from the photo: " in each for each in past.assumptions)
    assert not cube_of(model, photo, "A").provenance.is_light_estimated
    assert Provenance.from_json(past.to_json()) == past


def test_a_doubtful_light_widens_the_error_band(
    model: Model, photo: Photo, estimated: SpectralCube
) -> None:
    wide = estimated.provenance.error_band
    told = cube_of(model, photo, "A").provenance.error_band
    assert wide["factor"] == told["factor"]
    assert (np.array(wide["doubt"]) > told["doubt"]).all()
    assert wide["holds"] == f"{told['holds']} and an estimated light"


def test_a_batch_knows_its_cube_again_whatever_the_light_was(
    model: Model, photo: Photo, estimated: SpectralCube
) -> None:
    acquisition = nm.Acquisition(CAMERA, ESTIMATED, balance=OF_SENSOR)
    wanted = nm.Reconstructor(model, "cpu", acquisition=acquisition).origin(photo.sha256, "linear")
    assert estimated.provenance.gives_the_cube_of(wanted)
    told = nm.Acquisition(CAMERA, estimated.provenance.illuminant, balance=OF_SENSOR)
    other = nm.Reconstructor(model, "cpu", acquisition=told).origin(photo.sha256, "linear")
    assert not estimated.provenance.gives_the_cube_of(other)


def test_one_reconstructor_tells_the_light_of_each_photo(
    model: Model, photo: Photo, estimated: SpectralCube
) -> None:
    reconstructor = nm.Reconstructor(
        model, "cpu", acquisition=nm.Acquisition(CAMERA, ESTIMATED, balance=OF_SENSOR)
    )
    # Channels that change places are another light.
    bluer = replace(photo, pixels=photo.pixels[::-1], sha256="bluer")
    other = reconstructor.reconstruct(bluer).provenance.illuminant
    again = reconstructor.reconstruct(photo)
    assert other != again.provenance.illuminant
    assert_array_equal(again.data, estimated.data)


def raw(photo: Photo, *, is_flat: bool = False) -> Photo:
    """The *photo* from a RAW file, with a white as shot that is not quite that of A."""
    red, green, blue = unbalanced_response(CAMERA, "A").sum(axis=0)
    shot = Shot(camera=CAMERA, neutral=(1.1 * red, green, blue), is_flat=is_flat)
    return replace(photo, shot=shot)


@pytest.mark.parametrize("balance", [BALANCED, OF_SENSOR, "0.9 1 0.4"])
def test_a_raw_photo_tells_its_light_however_it_is_balanced(
    model: Model, photo: Photo, balance: str
) -> None:
    acquisition = nm.Acquisition(CAMERA, ESTIMATED, balance=balance)
    cube = nm.Reconstructor(model, "cpu", acquisition=acquisition).reconstruct(raw(photo))
    light = nm.light.estimate(photo, CAMERA).illuminant
    told = replace(acquisition, illuminant=light)
    same = nm.Reconstructor(model, "cpu", acquisition=told).reconstruct(raw(photo))
    assert_array_equal(cube.data, same.data)
    assert (cube.provenance.illuminant, cube.provenance.white_balance) == (light, balance)


def test_a_white_that_is_known_leaves_less_doubt(
    model: Model, photo: Photo, estimated: SpectralCube
) -> None:
    acquisition = nm.Acquisition(CAMERA, ESTIMATED)
    balanced = nm.Reconstructor(model, "cpu", acquisition=acquisition).reconstruct(raw(photo))
    references, unknown = (
        np.mean(cube.provenance.error_band["doubt"]) for cube in (balanced, estimated)
    )
    assert references < unknown


@pytest.mark.parametrize("is_flat", [False, True], ids=["as stored", "divided by a white frame"])
def test_a_balanced_photo_hides_its_light(model: Model, photo: Photo, is_flat: bool) -> None:
    acquisition = nm.Acquisition(CAMERA, ESTIMATED, balance=BALANCED)
    with pytest.raises(CameraError, match="got a white-balanced photo, which hides it"):
        nm.Reconstructor(model, "cpu", acquisition=acquisition).reconstruct(
            raw(photo, is_flat=True) if is_flat else photo
        )


@pytest.mark.parametrize(("darker", "is_warned"), [(0, False), (2, False), (3, True), (5, True)])
def test_a_photo_under_exposed_by_stops_is_warned_of(darker: int, is_warned: bool) -> None:
    light = np.linspace(0, 0.95, 64 * 48).reshape(48, 64, 1) * np.ones(3) / 2**darker
    photo = Photo.from_array(np.rint(255 * linear_to_srgb(light)).astype(np.uint8))
    cube = on_cpu("pixelwise-srgb").reconstruct(photo)
    told = [each for each in cube.provenance.assumptions if "under-exposed" in each]
    assert bool(told) == is_warned
    assert not told or f"by {darker} stops" in told[0]


def test_linear_values_of_a_camera_are_not_warned_of(model: Model, photo: Photo) -> None:
    dark = replace(photo, pixels=photo.pixels // 32, sha256="dark")
    assert not any("exposed" in each for each in cube_of(model, dark, "A").provenance.assumptions)


def test_a_vision_transformer_of_somebody_else_makes_no_cube(tmp_path: Path) -> None:
    shape = TransformerHyperparameters(outputs=10, size=16, patch=4, features=64, heads=1, depth=1)
    path = tmp_path / "vit.safetensors"
    save_file(VisionTransformer(shape).state_dict(), path)
    with pytest.raises(ModelError, match=r"got vit\.safetensors, which gives one answer"):
        on_cpu(path)


def test_the_network_that_tells_lights_makes_no_cube() -> None:
    with pytest.raises(ModelError, match="Expected a model that makes cubes, got light-vit"):
        on_cpu("light-vit")


def test_spectra_that_are_known_in_the_photo_tell_its_light(
    model: Model, photo: Photo, estimated: SpectralCube
) -> None:
    pixels = photo.pixels.copy()
    grey = unbalanced_response(CAMERA, "A").sum(axis=0) * 20_000
    pixels[:, 10:20, 10:20] = grey.astype(np.uint16)[:, None, None]
    pixels[:, 30:40, 30:40] = 65_535
    shown = replace(photo, pixels=pixels)
    narrow = nm.Spectrum(np.array([500.0, 600.0]), np.full(2, 0.3))
    references: dict[Any, nm.Spectrum | float] = {(15, 15): 0.3, (16, 16): narrow, (35, 35): 0.3}
    acquisition = nm.Acquisition(CAMERA, ESTIMATED, balance=OF_SENSOR, references=references)
    reconstructor = nm.Reconstructor(model, "cpu", acquisition=acquisition)
    past = reconstructor.reconstruct(shown).provenance
    assert past.illuminant == nm.light.estimate(shown, CAMERA, {(15, 15): 0.3}).illuminant
    said = "\n".join(past.assumptions)
    assert "The illuminant was estimated from 1 reference spectrum in the photo: " in said
    for sentence in (
        "16, column 16 does not tell the light: Expected a reference spectrum of 420",
        "35, column 35 does not tell the light: Expected",
    ):
        assert f"The reference spectrum at row {sentence}" in said
    assert past.is_light_estimated
    assert np.mean(past.error_band["doubt"]) < np.mean(estimated.provenance.error_band["doubt"])
    # A batch makes the cube anew where something else is known.
    assert past.gives_the_cube_of(reconstructor.origin(photo.sha256, "linear"))
    assert not past.gives_the_cube_of(
        nm.Reconstructor(model, "cpu", acquisition=replace(acquisition, references={})).origin(
            photo.sha256, "linear"
        )
    )


@pytest.mark.parametrize(
    ("gains", "colour"), [((0.5, 1, 0.6), "green"), ((1, 0.5, 1), "magenta"), ((1, 0.6, 0.25), "")]
)
def test_cast_that_no_lamp_has_is_warned_of(gains: tuple[float, ...], colour: str) -> None:
    (scene,) = SceneSimulator(36, 48, held_out=True).draw_scenes(1).numpy()
    scene[:, :12, :12] = 0.8  # something white
    light = np.einsum("bhw,bc->hwc", scene, unbalanced_response("sRGB", "D65"))
    codes = np.rint(linear_to_srgb((light * gains).clip(0, 1)) * 255).astype(np.uint8)
    notes = " ".join(nm.reconstruct(codes, "mstpp-srgb").provenance.assumptions)
    assert ("as in the light of no lamp" in notes) == bool(colour)
    assert colour in notes
