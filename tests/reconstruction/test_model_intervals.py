"""Prediction intervals: around every spectrum, as wide as calibrated, from the cube alone."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from tests.conftest import on_cpu

from lab.simulated import SceneSimulator
from napari_mst import load_model, prediction_intervals
from napari_mst.base.errors import Cancelled, CubeError
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import srgb_response
from napari_mst.cube.provenance import UNCALIBRATED
from napari_mst.formats import read_cube, write_cube
from napari_mst.models import MODELS
from napari_mst.models.cards import BRIGHTNESS, CAMERA, FACTOR, JPEG, NOISE, PHOTOGRAPHED
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.photo.cameras import Acquisition
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.model_intervals import (
    STRAY,
    has_model_band,
    instrument_error,
    margins,
    model_spectrum_band,
)
from napari_mst.reconstruction.reconstructor import Reconstructor

WAVELENGTHS = np.arange(400.0, 701, 10)
PHOTO = np.random.default_rng(0).integers(0, 256, (12, 15, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def cube() -> SpectralCube:
    return on_cpu("pixelwise-srgb").reconstruct(PHOTO)


@pytest.mark.parametrize("name", [card.name for card in MODELS.values() if card.file])
def test_every_bundled_model_has_a_calibrated_band(name: str) -> None:
    """After new weights: `napari-mst calibrate` on all files of models/weights."""
    card = MODELS[name]
    kinds = (NOISE,) if card.needs_camera else (NOISE, JPEG, CAMERA)
    factors = BRIGHTNESS if name == PHOTOGRAPHED else ()
    if factors:
        kinds = (CAMERA,)
        (darker,), (brighter,) = (card.error_band[each] for each in factors)
        assert 0 < darker < 1 < brighter
    assert card.error_band.keys() == {FACTOR, *kinds, *factors}
    assert all(len(card.error_band[each]) == 31 for each in (FACTOR, *kinds))
    assert all(0.5 < factor < 3 for factor in card.error_band[FACTOR])
    assert all(0 <= doubt < 1 for kind in kinds for doubt in card.error_band[kind])


def test_cube_lies_in_its_band_and_bands_are_cubes_like_it(cube: SpectralCube) -> None:
    lower, upper = prediction_intervals(cube)
    assert (lower.data >= 0).all()
    assert (lower.data <= cube.data).all()
    assert (upper.data > cube.data).all()
    assert lower.shape == upper.shape == cube.shape
    assert lower.data.dtype == np.float32
    assert lower.provenance.assumptions[-1].startswith(
        "Lower spectra of the 90 % prediction interval, "
    )
    assert upper.provenance.assumptions[-1].startswith(
        "Upper spectra of the 90 % prediction interval, "
    )


def test_margins_are_the_networks_own_below_and_above() -> None:
    """Some colours are rare: their spectra can lie far above the estimate, but not far below."""
    spectra = np.random.default_rng(1).uniform(0.05, 0.9, (31, 5, 4)).astype(np.float32)
    network = load_model("pixelwise-srgb").network
    assert isinstance(network, PixelwiseNetwork)
    colours = np.einsum("bhw,bc->chw", spectra, srgb_response(WAVELENGTHS)).astype(np.float32)
    lower, estimate, upper = (
        each[0].numpy() for each in network.quantiles(torch.from_numpy(colours)[None])
    )
    below, above = margins(spectra)
    assert_allclose(below, estimate - lower, atol=1e-6)
    assert_allclose(above, upper - estimate, atol=1e-6)
    assert np.abs(above - below).max() > 0.05  # so that the one is not taken for the other


@pytest.mark.usefixtures("executor")
def test_band_is_margin_and_doubt_in_quadrature_and_the_error_of_the_instrument(
    cube: SpectralCube,
) -> None:
    lower, upper = prediction_intervals(cube)
    band = cube.provenance.error_band
    factor, doubt = (np.array(band[key])[:, None, None] for key in ("factor", "doubt"))
    error = instrument_error(WAVELENGTHS)[:, None, None]
    below, above = (
        np.hypot(factor * margin, doubt * cube.data) + error for margin in margins(cube.data)
    )
    assert_allclose(lower.data, np.maximum(cube.data - below, 0), atol=1e-6)
    assert_allclose(upper.data, cube.data + above, atol=1e-6)


@pytest.mark.usefixtures("executor")
def test_pixels_that_are_not_numbers_have_no_band_and_others_have_theirs(
    cube: SpectralCube,
) -> None:
    data = cube.data.copy()
    data[7, 3, 5] = np.nan
    for side, whole in zip(
        prediction_intervals(replace(cube, data=data)), prediction_intervals(cube), strict=True
    ):
        assert np.isnan(side.data[:, 3, 5]).all()
        assert_array_equal(
            np.delete(side.data.reshape(31, -1), 3 * 15 + 5, axis=1),
            np.delete(whole.data.reshape(31, -1), 3 * 15 + 5, axis=1),
        )


def test_bands_report_progress_and_end_at_a_cancel(cube: SpectralCube) -> None:
    shares: list[float] = []
    prediction_intervals(cube, Progress(shares.append))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    with pytest.raises(Cancelled):
        prediction_intervals(cube, Progress(is_cancelled=lambda: True))


def test_error_of_the_instrument_grows_as_a_lamp_has_less_light() -> None:
    error = instrument_error(WAVELENGTHS)
    assert error[-1] == pytest.approx(STRAY)
    assert (np.diff(error) < 0).all()
    # The power of CIE illuminant A at 400 and 700 nm (CIE 15), and as many photons for the power.
    assert error[0] == pytest.approx(STRAY * (198.261 * 700) / (14.708 * 400), rel=1e-3)


@pytest.mark.parametrize("told", ["", "a chart"])
def test_black_pixel_has_a_band_with_a_width_in_every_band(told: str) -> None:
    model = on_cpu("pixelwise-srgb", calibrated_by=told)
    lower, upper = prediction_intervals(model.reconstruct(np.zeros((8, 8, 3), np.uint8)))
    assert (upper.data - lower.data >= STRAY * 0.99).all()


def test_as_many_true_spectra_lie_below_the_networks_band_as_above() -> None:
    """Were its sides swapped in the network itself, a quarter of them would lie below."""
    photo, truth = SceneSimulator(7, 48, held_out=True).draw(1)
    network = load_model("pixelwise-srgb").network
    assert isinstance(network, PixelwiseNetwork)
    lower, _, upper = network.quantiles(photo)
    shares = [float((truth < lower).float().mean()), float((truth > upper).float().mean())]
    assert all(0.005 < share < 0.15 for share in shares), shares


def test_band_of_a_pixel_is_that_of_the_cube(cube: SpectralCube) -> None:
    lower, upper = prediction_intervals(cube)
    band = model_spectrum_band(cube, 3, 7)
    assert band is not None
    assert_allclose(band[0], lower.spectrum(3, 7), atol=1e-6)
    assert_allclose(band[1], upper.spectrum(3, 7), atol=1e-6)


def test_photo_that_nothing_vouches_for_has_a_wider_band_and_says_so(tmp_path: Path) -> None:
    """Widths grow from a vouched PNG over its JPEG to a photo of which nothing is known."""
    model = load_model("pixelwise-srgb")
    scene = np.kron(PHOTO[:4, :4], np.ones((16, 16, 1), np.uint8))
    files = [tmp_path / name for name in ("photo.png", "photo.jpg")]
    for file in files:
        Image.fromarray(scene).save(file)
    vouched = Reconstructor(model, "cpu", calibrated_by="a chart")
    found = [vouched.reconstruct(file) for file in files]
    found.append(Reconstructor(model, "cpu").reconstruct(files[1]))
    widths = []
    for cube in found:
        lower, upper = prediction_intervals(cube)
        assert lower.provenance.assumptions[-1].endswith(f"; {cube.provenance.calibration}.")
        widths.append(float((upper.data - lower.data).mean()))
    assert widths == sorted(widths)
    assert widths[2] > 1.2 * widths[1] > 1.2 * 1.1 * widths[0]
    states = [cube.provenance.calibration for cube in found]
    assert states == ["calibrated by a chart", "calibrated by a chart", UNCALIBRATED]


def test_jpeg_is_known_by_its_blocks_where_the_file_is_not_known() -> None:
    random = np.random.default_rng(3)
    colours = np.kron(random.integers(20, 230, (8, 8, 3)), np.ones((24, 24, 1)))
    photo = (colours + random.normal(0, 6, colours.shape)).clip(0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(photo).save(stream, "jpeg", quality=60)
    compressed = np.asarray(Image.open(stream))
    vouched = on_cpu("pixelwise-srgb", calibrated_by="a chart")
    holds = [
        vouched.reconstruct(each).provenance.error_band["holds"] for each in (photo, compressed)
    ]
    assert holds == ["noise", "noise and JPEG"]


def test_camera_that_is_told_calibrates_the_band() -> None:
    acquisition = Acquisition("Nikon_D5100", "D65")
    photo = Photo.from_array(PHOTO.astype(np.uint16) * 257, encoding="linear")
    cube = on_cpu("mstpp-camera", acquisition=acquisition).reconstruct(photo)
    state = "calibrated by the sensitivities of Nikon_D5100 under D65"
    assert cube.provenance.calibration == state
    assert cube.provenance.error_band["holds"] == "noise"


def test_unknown_brightness_widens_the_band_but_not_that_of_the_shape(cube: SpectralCube) -> None:
    past = cube.provenance
    unsure = replace(
        cube,
        provenance=replace(past, error_band={**past.error_band, "brightness": [0.5, 2.0]}),
    )
    lower, upper = prediction_intervals(cube)
    both, shape = prediction_intervals(unsure), prediction_intervals(unsure, shape_only=True)
    assert_allclose(both[0].data, 0.5 * lower.data, rtol=1e-6)
    assert_allclose(both[1].data, 2 * upper.data, rtol=1e-6)
    assert_array_equal([side.data for side in shape], [lower.data, upper.data])
    pixel = model_spectrum_band(unsure, 1, 1)
    assert pixel is not None
    assert_allclose(pixel[1], both[1].data[:, 1, 1], rtol=1e-5)
    assert unsure.provenance.calibration == "brightness 0.5 to 2 times, until a grey is named"


DAMAGED = [
    ({"factor": each}, "a prediction") for each in ("wide", [1.0, 2.0], [[1.0]], [-1.0], None)
]
DAMAGED += [
    ({"brightness": each}, "two") for each in ([0.5], [2.0, 3.0], [0.5, 0.9], "wide", [0.0, 2.0])
]


@pytest.mark.parametrize(("damage", "needed"), DAMAGED)
def test_damaged_band_of_a_history_is_refused(
    cube: SpectralCube, damage: dict[str, Any], needed: str
) -> None:
    past = replace(cube.provenance, error_band={**cube.provenance.error_band, **damage})
    with pytest.raises(CubeError, match=f"Expected {needed}"):
        prediction_intervals(replace(cube, provenance=past))


def test_band_needs_no_photo_and_survives_a_file(cube: SpectralCube, tmp_path: Path) -> None:
    again = read_cube(write_cube(tmp_path / "cube.hdr", cube))
    assert has_model_band(again)
    assert_array_equal(prediction_intervals(again)[0].data, prediction_intervals(cube)[0].data)


def test_cube_without_a_calibrated_model_has_no_band(cube: SpectralCube) -> None:
    foreign = SpectralCube(cube.data, cube.wavelengths)
    shifted = replace(cube, wavelengths=cube.wavelengths + 1)
    for each, needed in ((foreign, "a cube of a model with a calibrated"), (shifted, "all bands")):
        assert not has_model_band(each)
        assert model_spectrum_band(each, 0, 0) is None
        with pytest.raises(CubeError, match=f"Expected {needed}"):
            prediction_intervals(each)
