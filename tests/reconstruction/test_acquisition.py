"""A model that is told the camera: photos that it refuses, white, balance, and the history."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst import Acquisition, Photo, Reconstructor
from napari_mst.base.arrays import Array
from napari_mst.base.errors import PhotoError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.colour import linear_to_srgb, reflectances
from napari_mst.models import Model
from napari_mst.models.cards import PUBLISHED
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus
from napari_mst.photo.cameras import CAMERA_RGB, GRID, OF_SENSOR, load_cameras
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refining import refine

NIKON = Acquisition("Nikon_D5100", "A")
torch.manual_seed(0)
LINEAR = np.random.default_rng(0).integers(300, 40_000, (12, 15, 3), dtype=np.uint16)


@pytest.fixture(scope="module")
def model() -> Model:
    """About the linear estimate, with a little of what an untrained network adds."""
    spectra = torch.from_numpy(np.concatenate(list(reflectances().values()))).float()
    _, power, components = torch.linalg.svd(spectra / len(spectra) ** 0.5, full_matrices=False)
    network = RefiningMSTPlusPlus(CameraNetwork((components * power[:, None])[:6].T, width=8))
    network.eval().requires_grad_(False)
    for name in ("conv_in", "conv_out", "pixelwise.hidden.5"):
        network.get_parameter(f"{name}.weight").mul_(0.1)
    card = replace(
        PUBLISHED,
        name="told",
        rendering=CAMERA_RGB,
        is_linear=True,
        normalisation="none",
        quantity="reflectance",
    )
    return Model(card, network, "0" * 64)


def cube_of(
    model: Model, pixels: Array, acquisition: Acquisition = NIKON, *, correct: bool = False
) -> SpectralCube:
    reconstructor = Reconstructor(model, "cpu", acquisition=acquisition, correct_colour=correct)
    return reconstructor.reconstruct(Photo.from_array(pixels, encoding="linear"))


def test_encoded_photo_is_refused(model: Model) -> None:
    with pytest.raises(
        PhotoError, match="Expected linear RGB of a camera for the model told, got sRGB-encoded"
    ):
        Reconstructor(model, "cpu", acquisition=NIKON).reconstruct(LINEAR)


def test_two_cameras_of_one_model_do_not_disturb_each_other(model: Model) -> None:
    photo = Photo.from_array(LINEAR, encoding="linear")
    nikon = Reconstructor(model, "cpu", acquisition=NIKON)
    before = nikon.reconstruct(photo).data
    canon = (
        Reconstructor(model, "cpu", acquisition=Acquisition("Canon_EOS_5D", "D65"))
        .reconstruct(photo)
        .data
    )
    assert np.abs(canon - before).max() > 1e-3
    assert_array_equal(nikon.reconstruct(photo).data, before)
    assert model.network.get_buffer("pixelwise.linear").isnan().all()


def test_white_is_the_stored_value_that_stands_for_1(model: Model) -> None:
    full = cube_of(model, LINEAR)
    darker = cube_of(model, (LINEAR // 4).astype(np.uint16), replace(NIKON, white=65535 / 4))
    assert_allclose(darker.data, full.data, atol=2e-3)
    as_floats = cube_of(model, (LINEAR / 65535 * 0.3).astype(np.float32), replace(NIKON, white=0.3))
    assert_allclose(as_floats.data, full.data, atol=1e-5)


def test_values_of_the_sensor_are_balanced_first(model: Model) -> None:
    sensor = replace(NIKON, balance=OF_SENSOR)
    raw = (LINEAR / 65535 / sensor.gains).astype(np.float32)
    expected = cube_of(model, (LINEAR / 65535).astype(np.float32))
    assert_allclose(cube_of(model, raw, sensor).data, expected.data, atol=1e-5)


@pytest.mark.parametrize(
    "acquisition",
    [NIKON, replace(NIKON, white=50_000.0), replace(NIKON, balance=OF_SENSOR)],
    ids=str,
)
def test_corrected_spectra_show_the_stored_values_to_half_an_8_bit_code(
    model: Model, acquisition: Acquisition
) -> None:
    white = (acquisition.white or 65535) / acquisition.gains
    surfaces = reflectances()["iset_Objects_Vhrel_170"][:168].reshape(12, 14, 31)
    pixels = np.rint(surfaces @ acquisition.response * white).astype(np.uint16)
    cube = cube_of(model, pixels, acquisition, correct=True)
    shown = np.einsum("bhw,bc->hwc", cube.data, acquisition.response) * white
    codes, stored = (255 * linear_to_srgb(each.clip(0, 65535) / 65535) for each in (shown, pixels))
    assert np.percentile(np.abs(codes - stored), 95) < 0.5
    assert cube.colour_error is not None


def test_camera_and_illuminant_are_remembered(model: Model) -> None:
    provenance = cube_of(model, LINEAR, replace(NIKON, white=50_000.0)).provenance
    assert (provenance.camera, provenance.illuminant, provenance.white) == (
        "Nikon_D5100",
        "A",
        50_000,
    )
    assert provenance.white_balance == "as stored"
    assert not any("full scale" in note for note in provenance.assumptions)
    assert any(
        "full scale of the photo was taken" in note
        for note in cube_of(model, LINEAR).provenance.assumptions
    )
    assert type(provenance).from_json(provenance.to_json()) == provenance
    other = cube_of(model, LINEAR, Acquisition("Nikon_D5100", "D65", white=50_000.0)).provenance
    assert not provenance.gives_the_cube_of(other)
    assert provenance.gives_the_cube_of(replace(provenance, device="other"))


@pytest.mark.parametrize("balance", ["as stored", OF_SENSOR])
def test_a_cube_of_a_camera_from_a_file_can_be_refined_without_the_file(
    model: Model, tmp_path: Path, balance: str
) -> None:
    """The photo's colours are those of the camera that the file told, though it is gone."""
    file = tmp_path / "camera.csv"
    rows = np.column_stack([GRID, load_cameras()[NIKON.camera]])
    np.savetxt(file, rows, delimiter=",", header="wavelength (nm),red,green,blue", comments="")
    told, listed = (Acquisition(name, "A", 50_000.0, balance) for name in (str(file), NIKON.camera))
    cubes = [cube_of(model, LINEAR, acquisition, correct=True) for acquisition in (told, listed)]
    file.unlink()
    again = Provenance.from_json(cubes[0].provenance.to_json())
    assert again == cubes[0].provenance
    photo = Photo.from_array(LINEAR, encoding="linear")
    references = [ReferenceSpectrum(5, 6, np.full(31, 0.4), is_certain=True)]
    better, expected = (
        refine(cube, photo, references).data
        for cube in (replace(cubes[0], provenance=again), cubes[1])
    )
    assert_allclose(better, expected, atol=1e-3)
    # The colours were moved, by both alike.
    assert np.abs(better - cubes[0].data).max() > 0.01


def test_preview_knows_the_same_white(model: Model) -> None:
    acquisition = replace(NIKON, white=40_000.0)
    reconstructor = Reconstructor(model, "cpu", acquisition=acquisition, correct_colour=False)
    photo = Photo.from_array(LINEAR, encoding="linear")
    assert_allclose(
        reconstructor.preview(photo).data, reconstructor.reconstruct(photo).data, atol=1e-5
    )
