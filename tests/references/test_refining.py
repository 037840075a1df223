"""Refined cubes: as a plain Gaussian process in float64 says, whatever the strips; better, careful,
and telling."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.references.conftest import Scene

from napari_mst.analysis.regions import point_spectrum
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import Cancelled, CubeError, PhotoError, SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.colour import render_srgb
from napari_mst.cube.spectrum import Spectrum
from napari_mst.formats import read_cube, write_cube
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.colour_fidelity import code_cells
from napari_mst.references.coarse_cube import refine_with_cube
from napari_mst.references.process import (
    KERNEL,
    MOST,
    Kernel,
    Spots,
    fitted_kernel,
    leave_one_out,
    posterior,
    reach,
)
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refinement_record import reference_spectra
from napari_mst.references.refining import refine, spots_of
from napari_mst.references.suggestions import suggest_measurements

SPOTS = ((8, 8), (20, 30), (40, 12), (30, 40), (12, 40))


def plain_kernel(kernel: Kernel, a: Doubles, b: Doubles) -> float:
    """The kernel between two points, as the docstrings say it."""
    colour = np.square((a[:3] - b[:3]) / kernel.chroma_length).sum()
    colour += ((a[3] - b[3]) / kernel.brightness_length) ** 2
    place = np.square((a[4:] - b[4:]) / kernel.place_length).sum()
    far = np.sqrt(colour / kernel.place_colour**2 + place)
    local = kernel.colour * np.exp(-colour / 2) + kernel.place * np.exp(-far)
    return float(kernel.everywhere + local)


def test_spectra_that_calibrated_a_photo_outweigh_its_colours(scene: Scene) -> None:
    """Also where another spectrum becomes known later: what the chart says is not moved back."""
    first, *others = scene.references(*SPOTS)
    warmer = np.linspace(0.8, 1.25, 31)
    charted = [
        replace(one, spectrum=by * one.values, hidden=0.1)
        for one, by in zip(others, (warmer, 1 / warmer, warmer, 1 / warmer), strict=True)
    ]
    cube = refine(scene.cube, scene.photo, charted)
    later = refine(cube, scene.photo, [first])
    for refined in (cube, later):
        assert refined.provenance.correction.startswith("colours as the reference spectra say")
        for spot in charted:
            found = point_spectrum(refined, spot.row, spot.column, 3).values
            ratio = found / spot.values
            assert ratio[20:].mean() / ratio[:10].mean() == pytest.approx(1, abs=0.2)


def test_shift_is_that_of_a_plain_process() -> None:
    """Pixel by pixel and spot by spot, without any of the shortcuts."""
    rng = np.random.default_rng(0)
    points, pixels = (rng.normal(size=(n, 6)) for n in (7, 20))
    errors, noise = rng.normal(size=(7, 31)) * 0.1, rng.random(7) * 0.01
    kernel = KERNEL
    among = np.array([[plain_kernel(kernel, a, b) for b in points] for a in points])
    among += np.diag(noise + kernel.noise)
    across = np.array([[plain_kernel(kernel, a, b) for b in points] for a in pixels])
    own = np.array([plain_kernel(kernel, a, a) for a in pixels])
    process = posterior(kernel, Spots(points, errors, noise), np.ones(31))
    expected = across @ np.linalg.solve(among, errors)
    assert_allclose(process.shift(pixels), expected, atol=1e-6)
    left = own - np.einsum("kn,nk->k", across, np.linalg.solve(among, across.T))
    assert_allclose(process.variance(pixels), left + kernel.noise, atol=1e-6)


def test_spot_left_out_is_told_as_by_a_process_without_it() -> None:
    rng = np.random.default_rng(1)
    spots = Spots(rng.normal(size=(6, 6)), rng.normal(size=(6, 31)), np.zeros(6))
    told, _ = leave_one_out(KERNEL, spots)
    for left_out in range(6):
        others = np.arange(6) != left_out
        rest = Spots(spots.features[others], spots.errors[others], spots.noise[others])
        process = posterior(KERNEL, rest, np.ones(31))
        across = KERNEL(spots.features[[left_out]], process.points)
        assert_allclose(told[left_out], (across @ process.weights)[0], atol=1e-6)


def test_inducing_points_tell_nearly_what_all_spots_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(300, 6)) * 0.3
    errors = np.sin(features @ rng.normal(size=(6, 31))) * 0.1
    spots = Spots(features, errors, np.full(300, 1e-3))
    pixels = rng.normal(size=(50, 6)) * 0.3
    exact = posterior(KERNEL, spots, np.ones(31))
    monkeypatch.setattr("napari_mst.references.process.EXACT", 200)
    few = posterior(KERNEL, spots, np.ones(31))
    assert len(few.points) == 200
    error = np.abs(few.shift(pixels) - exact.shift(pixels)).mean()
    assert error < 0.1 * np.abs(exact.shift(pixels)).mean()
    assert (few.variance(pixels) >= exact.variance(pixels) * 0.9).all()


def test_nothing_known_changes_nothing(scene: Scene) -> None:
    assert refine(scene.cube, scene.photo, []) is scene.cube


def test_strips_do_not_change_a_bit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    references = scene.references(*SPOTS)
    once = refine(scene.cube, scene.photo, references)
    monkeypatch.setattr(code_cells, "BLOCK_PIXELS", 100)
    again = refine(scene.cube, scene.photo, references)
    assert_array_equal(once.data, again.data)


def test_refined_cube_is_float32_and_the_first_one_is_as_it_was(scene: Scene) -> None:
    before = scene.cube.data.copy()
    better = refine(scene.cube, scene.photo, scene.references(*SPOTS))
    assert_array_equal(scene.cube.data, before)
    assert better.data.dtype == np.float32
    assert better.data.flags.c_contiguous
    assert better.shape == scene.cube.shape
    assert better.data.min() >= 0


def test_known_spot_is_nearly_reproduced(scene: Scene) -> None:
    for spot in SPOTS:
        truth = scene.spectrum(*spot)
        before, after = (
            np.abs(
                cube.data[:, spot[0] - 1 : spot[0] + 2, spot[1] - 1 : spot[1] + 2].mean(axis=(1, 2))
                - truth
            ).mean()
            for cube in (scene.cube, refine(scene.cube, scene.photo, scene.references(spot)))
        )
        assert after < 0.35 * before + 0.002, spot


def test_colours_stay_those_of_the_photo(scene: Scene) -> None:
    better = refine(scene.cube, scene.photo, scene.references(*SPOTS))
    light = np.moveaxis((scene.photo / 255.0), -1, 0)
    encoded = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    is_inside = ((scene.photo > 0) & (scene.photo < 255)).all(axis=-1)
    shown = render_srgb(better.data, GRID)
    assert np.abs(shown - encoded)[:, is_inside].max() < 0.005


def test_known_spectra_better_the_mean_of_all_scenes(scenes: list[Scene]) -> None:
    before = np.mean([scene.error(scene.cube) for scene in scenes])
    errors = []
    for count in (1, 5):
        refined = [
            refine(each.cube, each.photo, each.references(*SPOTS[:count])) for each in scenes
        ]
        pairs = zip(scenes, refined, strict=True)
        errors.append(np.mean([each.error(cube) for each, cube in pairs]))
    assert errors[0] < 0.97 * before
    assert errors[1] < 0.85 * before


def test_spots_that_speak_against_each_other_stop_the_correction() -> None:
    """Errors of random signs: what one spot says of the next is worse than nothing."""
    rng = np.random.default_rng(3)
    features = np.tile(rng.normal(size=6), (12, 1)) + rng.normal(size=(12, 6)) * 0.05
    signs = np.where(np.arange(12) % 2, 1.0, -1.0)
    against = Spots(features, np.outer(signs, np.full(31, 0.2)), np.zeros(12))
    along = Spots(features, np.full((12, 31), 0.2), np.zeros(12))
    assert reach(KERNEL, against) < 0.3
    assert reach(KERNEL, along) == 1.0


def test_two_spots_that_speak_against_the_correction_halve_it() -> None:
    """The defaults count for two spots, see `reach`."""
    features = np.tile(np.random.default_rng(3).normal(size=6), (2, 1))
    opposite = Spots(features, np.outer([0.2, -0.2], np.ones(31)), np.zeros(2))
    assert reach(KERNEL, opposite) == pytest.approx(0.5)


def test_one_spot_tells_other_colours_a_quarter_of_what_all_share() -> None:
    alone = Spots(np.zeros((1, 6)), np.full((1, 31), 0.1), np.zeros(1))
    kernel = fitted_kernel(alone)
    other = np.array([[9.0, -9, 0, 9, 9, 9]])
    at_once = kernel(other, alone.features) / KERNEL(other, alone.features)
    assert_allclose(at_once, 0.25)


def test_one_spot_tells_little_of_other_brightnesses() -> None:
    alone = Spots(np.zeros((1, 6)), np.full((1, 31), 0.1), np.zeros(1))
    darker = np.array([[0.0, 0, 0, -1.2, 0, 0]])
    told = fitted_kernel(alone)(darker, alone.features) / KERNEL.own(alone.features)
    assert told < 0.25
    assert KERNEL(darker, alone.features) / KERNEL.own(alone.features) > 0.75


@pytest.mark.parametrize("count", [1, 4])
def test_known_spectra_tell_the_brightness_of_a_photo_of_unknown_exposure(
    scene: Scene, count: int
) -> None:
    """The error that all pixels share: 1 where it stays, 0 where it is gone."""
    dark = np.asarray(scene.cube.data) * np.float32(0.6)
    past = scene.cube.provenance

    def left(band: dict[str, Any]) -> float:
        provenance = replace(past, correction="", error_band={**past.error_band, **band})
        cube = replace(scene.cube, data=dark, provenance=provenance)
        better = refine(cube, scene.photo, scene.references(*SPOTS[:count]))
        return float(np.log(np.median(scene.truth / np.asarray(better.data))) / -np.log(0.6))

    assert abs(left({"brightness": [0.7, 1.6]})) < 0.15
    if count == 1:  # it may be that of a material, where the exposure is known
        assert left({}) > 0.3


def test_no_correction_goes_beyond_a_factor_of_e_squared() -> None:
    far = Spots(np.zeros((1, 6)), np.outer([1], np.linspace(-9, 9, 31)), np.zeros(1))
    shift = posterior(KERNEL, far, np.ones(31)).shift(far.features)
    assert (shift.min(), shift.max()) == (-2, 2)


def test_uncertain_spectrum_goes_less_far(scene: Scene) -> None:
    spot = SPOTS[0]
    moves = []
    for uncertainty in (0.0, 0.1, 0.5):
        values = scene.spectrum(*spot) * 0.7
        references = ReferenceSpectrum(*spot, values, uncertainty=uncertainty, is_certain=True)
        better = refine(scene.cube, scene.photo, [references])
        moves.append(np.abs(better.data[:, 8, 8] - scene.cube.data[:, 8, 8]).sum())
    assert moves[0] > moves[1] > moves[2] > 0


def test_spot_measured_again_replaces_the_first(scene: Scene) -> None:
    truth = scene.spectrum(20, 30)
    first, far = (ReferenceSpectrum(20, 30, share * truth, is_certain=True) for share in (1.2, 0.6))
    better = refine(refine(scene.cube, scene.photo, [first]), scene.photo, [far])
    (references,) = reference_spectra(better.provenance)
    assert_allclose(references.values, far.values, rtol=1e-5)
    alone = refine(scene.cube, scene.photo, [far])
    assert_allclose(better.data[:, 20, 30], alone.data[:, 20, 30], rtol=0.01)


def test_missing_bands_are_corrected_as_the_nearest_ones(scene: Scene) -> None:
    values = scene.spectrum(8, 8)
    part = Spectrum(GRID[3:28], values[3:28])
    spots = spots_of(scene.cube, [ReferenceSpectrum(8, 8, part)])
    assert_array_equal(spots.errors[0, :3], np.full(3, spots.errors[0, 3]))
    assert_array_equal(spots.errors[0, 28:], np.full(3, spots.errors[0, 27]))


def test_pixel_without_numbers_stays_so_and_harms_no_other(scene: Scene) -> None:
    data = scene.cube.data.copy()
    data[:, 2, 2] = np.nan
    better = refine(replace(scene.cube, data=data), scene.photo, scene.references((20, 30)))
    assert np.isnan(better.data[:, 2, 2]).all()
    assert np.isnan(better.data).sum() == 31


def test_kernel_is_fitted_to_spots_of_the_whole_list() -> None:
    """The blocks of a coarse cube come row by row: the first ones are the top of the image."""
    rng = np.random.default_rng(5)
    errors = rng.normal(size=(3 * MOST, 31)) * 0.05
    spots = Spots(rng.normal(size=(3 * MOST, 6)) * 0.3, errors, np.zeros(3 * MOST))
    kernel = fitted_kernel(spots)
    other = errors.copy()
    other[MOST:] *= np.linspace(1, 20, 2 * MOST)[:, None]
    changed = fitted_kernel(replace(spots, errors=other))
    assert changed != kernel


def test_photo_of_the_whole_scene_is_cut_to_the_region_of_the_cube(scene: Scene) -> None:
    part = scene.cube.data[:, 10:40, 5:45]
    past = replace(scene.cube.provenance, region="10:40,5:45")
    cube = SpectralCube(np.ascontiguousarray(part), GRID, provenance=past)
    references = [ReferenceSpectrum(10, 25, scene.spectrum(20, 30))]
    whole = refine(cube, scene.photo, references)
    cut = refine(cube, scene.photo[10:40, 5:45], references)
    assert_array_equal(whole.data, cut.data)


def test_linear_photo_without_a_camera_moves_no_colours(scene: Scene) -> None:
    from napari_mst.photo.photo import Photo

    linear = Photo.from_array(scene.photo.astype(np.uint16) * 257, encoding="linear")
    cube = SpectralCube(scene.cube.data, GRID, provenance=Provenance(model="mst-plus-plus"))
    better = refine(cube, linear, scene.references((20, 30)))
    assert better.provenance.correction == ""


def test_known_spectra_come_back_from_a_file(scene: Scene, tmp_path: Path) -> None:
    fine = np.arange(395.0, 711)
    given = [
        *scene.references((20, 30)),
        ReferenceSpectrum(
            8, 8, Spectrum(fine, np.full(fine.size, 0.4), name="tile, 40 %"), 1, 0.02, 0.05
        ),
    ]
    better = refine(scene.cube, scene.photo, given)
    again = read_cube(write_cube(tmp_path / "cube.npz", better))
    assert again.provenance == better.provenance
    first, second = reference_spectra(again.provenance)
    assert_allclose(first.values, given[0].values, rtol=1e-5)
    assert isinstance(second.spectrum, Spectrum)
    assert (second.row, second.column, second.window) == (8, 8, 1)
    assert (second.uncertainty, second.hidden) == (0.02, 0.05)
    assert second.spectrum.name == "tile, 40 %"


def test_cube_refined_again_keeps_to_what_was_known_before(scene: Scene) -> None:
    once = refine(scene.cube, scene.photo, scene.references((20, 30)))
    twice = refine(once, scene.photo, scene.references((8, 8)))
    assert [(one.row, one.column) for one in reference_spectra(twice.provenance)] == [
        (20, 30),
        (8, 8),
    ]
    truth = scene.spectrum(20, 30)
    error = np.abs(twice.data[:, 19:22, 29:32].mean(axis=(1, 2)) - truth).mean()
    assert error < 0.5 * np.abs(scene.cube.data[:, 19:22, 29:32].mean(axis=(1, 2)) - truth).mean()


def test_another_photo_of_the_same_size_is_refused_by_its_colours(scene: Scene) -> None:
    references = scene.references((8, 8))
    part = scene.cube.crop(slice(4, 44), slice(0, 48))
    for photo, cube in (
        (scene.photo[:, ::-1], scene.cube),
        (scene.photo[::-1], part),
        (scene.photo[4:44, ::-1], part),
    ):
        with pytest.raises(PhotoError, match=r"got one whose colours are \d+ codes off"):
            refine(cube, photo, references)


def test_a_noisy_copy_of_the_photo_is_taken_for_it(scene: Scene) -> None:
    noise = np.random.default_rng(0).normal(0, 12, scene.photo.shape)
    copy = (scene.photo + noise).clip(0, 255).astype(np.uint8)
    better = refine(scene.cube, copy, [replace(scene.references((8, 8))[0], is_certain=True)])
    assert better.provenance.refinement


WAYS: dict[str, Callable[..., Any]] = {
    "references": lambda scene, cube, photo, progress: refine(
        cube, photo, scene.references(*SPOTS), progress
    ),
    "coarse": lambda scene, cube, photo, progress: refine_with_cube(
        cube, photo, SpectralCube(scene.truth[:, ::6, ::6], GRID), progress
    ),
    "suggested": lambda scene, cube, photo, progress: suggest_measurements(
        cube, photo, progress=progress
    ),
}


@pytest.mark.parametrize("way", ["references", "coarse"])
def test_progress_rises_to_one(scene: Scene, way: str) -> None:
    shares: list[float] = []
    WAYS[way](scene, scene.cube, scene.photo, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


CANCELLED = Progress(is_cancelled=lambda: True)
BAD: dict[str, tuple[dict[str, Any], slice, Any, type[Exception], str | None]] = {
    "cancelled": ({}, np.s_[:], CANCELLED, Cancelled, None),
    "size": ({}, np.s_[:-1], None, PhotoError, "photo of the cube, 48 x 48 pixels, got one"),
    "radiance": ({"quantity": "radiance"}, np.s_[:], None, CubeError, "cube of reflectance, got"),
    "absorbance": ({"quantity": "absorbance"}, np.s_[:], None, CubeError, "got absorbance"),
    "no wavelengths": ({"unit": "band"}, np.s_[:], None, CubeError, "in nm, got 'band'"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_refined_is_refused(scene: Scene, way: str, name: str) -> None:
    changes, rows, progress, error, message = BAD[name]
    with pytest.raises(error, match=message):
        WAYS[way](scene, replace(scene.cube, **changes), scene.photo[rows], progress)


def test_spot_without_numbers_is_refused(scene: Scene) -> None:
    data = np.full_like(scene.cube.data, np.nan)
    with pytest.raises(SpectrumError, match="Expected numbers in the cube at row 8, column 8"):
        refine(replace(scene.cube, data=data), scene.photo, scene.references((8, 8)))
