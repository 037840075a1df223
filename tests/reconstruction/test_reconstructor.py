"""The pipeline: the card decides what is done to the photo; the cube and what it says of itself."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from tests.reconstruction.conftest import (
    PHOTO,
    Normalisation,
    Pixels,
    assert_close,
    network_output,
    small_model,
)

from napari_mst import load_model
from napari_mst.base.errors import PhotoError
from napari_mst.cube import NANOMETRES
from napari_mst.reconstruction.reconstructor import Reconstructor

CODES = PHOTO / 255
LINEAR = np.where(CODES <= 0.04045, CODES / 12.92, ((CODES + 0.055) / 1.055) ** 2.4)
STRETCHED = (PHOTO.astype(float) - PHOTO.min()) / (int(PHOTO.max()) - int(PHOTO.min()))


@pytest.mark.parametrize(
    ("is_linear", "normalisation", "numbers"),
    [(True, "none", LINEAR), (False, "min-max", STRETCHED)],
    ids=["linear light", "minimum and maximum of the whole photo as 0 and 1"],
)
def test_the_card_says_as_what_a_photo_reaches_the_network(
    is_linear: bool, normalisation: Normalisation, numbers: Pixels
) -> None:
    chosen = small_model(is_linear, normalisation)
    cube = Reconstructor(chosen, "cpu").reconstruct(PHOTO)
    assert_close(cube.data, network_output(chosen, numbers))


def test_cube_has_the_size_of_the_photo_its_wavelengths_and_its_provenance() -> None:
    cube = Reconstructor(small_model(), device="cpu").reconstruct(PHOTO)
    assert cube.shape == (31, 20, 13)
    assert cube.data.dtype == np.float32
    assert cube.unit == NANOMETRES
    np.testing.assert_array_equal(cube.wavelengths, np.arange(400, 701, 10))
    assert cube.provenance.model == "test"
    assert cube.provenance.weights_sha256 == "0" * 64
    assert cube.provenance.device.startswith("cpu")
    assert {"napari-mst", "torch", "numpy"} <= cube.provenance.versions.keys()


def test_provenance_names_what_computed(executor: str) -> None:
    engine = Reconstructor(small_model(), "cpu").reconstruct(PHOTO).provenance.engine
    assert engine.startswith("exact, streamed")
    assert ("by kernels of numba" in engine) == (executor == "numba")
    assert (
        Reconstructor(small_model(), "cpu", precision="float64")
        .reconstruct(PHOTO)
        .provenance.engine
        == "exact, streamed"
    )


def test_same_photo_gives_the_same_bits_from_a_file_and_from_an_array(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(PHOTO).save(tmp_path / "photo.png")
    reconstructor = Reconstructor(small_model(), "cpu")
    from_file = reconstructor.reconstruct(tmp_path / "photo.png")
    np.testing.assert_array_equal(from_file.data, reconstructor.reconstruct(PHOTO).data)
    assert from_file.provenance.source == "photo.png"
    assert (
        from_file.provenance.source_sha256
        == hashlib.sha256((tmp_path / "photo.png").read_bytes()).hexdigest()
    )


@pytest.mark.parametrize("normalisation", ["none", "min-max"])
def test_one_nan_pixel_stays_one_nan_pixel(normalisation: Normalisation) -> None:
    photo = (PHOTO / 255).astype(np.float32)
    photo[3, 5, 1] = np.nan
    cube = Reconstructor(small_model(normalisation=normalisation), "cpu").reconstruct(photo)
    missing = np.isnan(cube.data)
    assert missing[:, 3, 5].all()
    assert missing.sum() == 31
    assert np.isfinite(cube.data[~missing]).all()
    assert cube.provenance.assumptions


def test_constant_photo_gives_a_finite_cube_in_every_normalisation() -> None:
    for normalisation in ("none", "min-max"):
        cube = Reconstructor(small_model(normalisation=normalisation), "cpu").reconstruct(
            np.full((9, 9, 3), 77, np.uint8)
        )
        assert np.isfinite(cube.data).all()
        assert cube.provenance.assumptions


def test_network_for_other_channels_refuses_a_photo() -> None:
    with pytest.raises(PhotoError, match="Expected 4 channels"):
        Reconstructor(small_model(in_bands=4), "cpu").reconstruct(PHOTO)


def test_colours_are_corrected_by_default_and_it_is_said() -> None:
    chosen = load_model("pixelwise-srgb")
    corrected = Reconstructor(chosen, "cpu").reconstruct(PHOTO)
    raw = Reconstructor(chosen, "cpu", correct_colour=False).reconstruct(PHOTO)
    assert corrected.colour_error is not None
    assert corrected.colour_error.shape == corrected.data.shape[1:]
    assert corrected.provenance.correction.startswith("spectra moved to the colours of the photo")
    assert (raw.colour_error, raw.provenance.correction) == (None, "")
    assert (raw.data != corrected.data).any()


def test_model_whose_rendering_is_unknown_is_left_alone() -> None:
    cube = Reconstructor(small_model(), "cpu").reconstruct(PHOTO)
    assert (cube.colour_error, cube.provenance.correction) == (None, "")
