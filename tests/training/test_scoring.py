"""The evaluation: photos are what they say, scenes are read, and scores are counted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.training.conftest import scene_of, smooth_scene

from napari_mst.base.arrays import Array, Codes, Doubles, Floats
from napari_mst.base.errors import CubeFileError
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import srgb_to_linear
from napari_mst.formats import read_cube, write_cube
from napari_mst.photo.cameras import GRID, Acquisition
from napari_mst.training.inputs import INPUTS, Input, camera_inputs
from napari_mst.training.scenes import read_scenes, resampled, scene_files
from napari_mst.training.scoring import (
    ON_CPU,
    Method,
    ModelMethod,
    compared,
    least_squares,
    linear_method,
    means,
    score,
    table,
    write_csv,
)

KINDS = {kind.name: kind for kind in INPUTS}
RANDOM = np.random.default_rng(0)


def write_scene(path: Path, cube: Array, wavelengths: Doubles = GRID) -> None:
    np.savez(path, cube=cube, wavelengths=wavelengths)


def test_metrics_of_a_perfect_method_are_perfect() -> None:
    cube = RANDOM.uniform(0.1, 0.9, (31, 4, 5)).astype(np.float32)
    (perfect,) = score({"": lambda _: cube}, INPUTS[:1], [scene_of(cube)])
    measured = perfect.values
    assert measured["MRAE"] == measured["core MRAE"] == measured["RMSE"] == measured["dE D65"] == 0
    assert measured["SAM (deg)"] < 1e-4
    assert measured["PSNR (dB)"] == np.inf


def test_clean_photo_of_white_is_white() -> None:
    assert (KINDS["clean"].photograph(np.ones((31, 2, 2))) == 255).all()


@pytest.mark.parametrize("kind", INPUTS, ids=lambda kind: kind.name)
def test_every_input_is_the_same_photo_each_time_and_near_the_clean_one(kind: Input) -> None:
    cube = smooth_scene()
    codes = kind.photograph(cube, "scene")
    assert codes.shape == (3, 16, 24)
    assert_array_equal(codes, kind.photograph(cube, "scene"))
    clean = KINDS["clean"].photograph(cube / kind.exposure * kind.exposure, "scene")
    is_exposed = kind.exposure != 1
    assert is_exposed or np.abs(codes.astype(int) - clean).mean() < 12
    assert (codes != clean).any() == (kind.name != "clean")


def test_noise_has_the_stated_variance_and_another_scene_other_noise() -> None:
    grey = np.full((31, 100, 100), 0.4)
    kind = KINDS["noise 1e-3"]
    linear = srgb_to_linear(kind.photograph(grey, "a") / 255)
    assert_allclose(linear.var(axis=(1, 2)), 1e-3 * 0.4, rtol=0.05)
    assert (kind.photograph(grey, "a") != kind.photograph(grey, "b")).any()


def test_exposure_scales_the_target_and_leaves_out_clipped_pixels() -> None:
    cube = 0.3 * smooth_scene()
    kind = KINDS["+2 stops"]

    def perfect_where_not_clipped(codes: Codes) -> Floats:
        return np.where((codes < 255).all(axis=0), 4 * cube, 0)

    (one,) = score({"": perfect_where_not_clipped}, [kind], [scene_of(cube)])
    assert one.values["RMSE"] < 1e-6


def test_balance_for_bluer_light_makes_the_photo_redder() -> None:
    red, _, blue = KINDS["balance +500 K"].photograph(np.full((31, 1, 1), 0.5)).ravel().astype(int)
    assert red > 188 > blue


def test_another_camera_keeps_greys_and_moves_colours() -> None:
    grey, colours = np.full((31, 1, 1), 0.5), smooth_scene()
    kinds = KINDS["clean"], KINDS["another camera"]
    assert len({kind.photograph(grey).tobytes() for kind in kinds}) == 1
    first, second = (kind.photograph(colours).astype(int) for kind in kinds)
    assert 1 < np.abs(first - second).mean() < 12


def test_a_named_camera_gives_linear_photos_that_least_squares_reads() -> None:
    acquisition = Acquisition("Nikon_D850", "D50")
    cube = np.full((31, 5, 6), 0.5, np.float32)
    clean, *others = camera_inputs(acquisition)
    assert_allclose(clean.photograph(cube), 32768, atol=1)
    assert_allclose(
        linear_method(acquisition)(np.full((3, 1, 1), 32768, np.uint16))[5:26], 0.5, atol=0.03
    )
    assert len({clean.name, *(kind.name for kind in others)}) == 1 + len(others)


def test_integers_are_read_at_full_scale_and_said_so(tmp_path: Path) -> None:
    write_scene(tmp_path / "scene.npz", np.full((31, 2, 2), 65535, np.uint16))
    (scene,) = read_scenes(tmp_path)
    assert (scene.cube == 1).all()
    assert "65535" in scene.notes[0]
    (scene,) = read_scenes(tmp_path, full_scale=131070)
    assert (scene.cube == 0.5).all()


def test_every_format_is_a_scene_once_and_unknown_pixels_do_not_count(tmp_path: Path) -> None:
    data = smooth_scene()
    data[3, 0, 0] = np.nan
    write_cube(tmp_path / "a.hdr", SpectralCube(data, GRID))
    write_cube(tmp_path / "b.tif", SpectralCube(data, GRID))
    (tmp_path / "notes.txt").write_text("not a cube")
    scenes = list(read_scenes(tmp_path))
    assert [scene.name for scene in scenes] == ["a", "b"]
    assert all(
        not scene.valid[0, 0] and scene.valid.sum() == scene.valid.size - 1 for scene in scenes
    )
    assert (
        compared(scenes[0].cube + 5 * ~scenes[0].valid, scenes[0].cube, scenes[0].valid)["RMSE"]
        == 0
    )


def test_finer_and_coarser_bands_are_brought_to_the_grid() -> None:
    line = np.arange(390, 711, 2.0)
    assert_allclose(
        resampled(line[:, None, None].astype(np.float32), line).ravel(), GRID, rtol=1e-6
    )
    coarse = np.array([390, 450, 720.0])
    assert_allclose(
        resampled(coarse[:, None, None].astype(np.float32), coarse).ravel(), GRID, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("cube", "wavelengths", "message"),
    [
        (
            np.ones((31, 2, 2), np.float32),
            np.linspace(500, 900, 31),
            "Expected bands from 400 to 700 nm",
        ),
        (np.full((31, 2, 2), 300.0), GRID, "Expected reflectance of about 0 to 1"),
        (np.ones((31, 2, 2), np.int16), GRID, "Expected floats or unsigned integers"),
    ],
    ids=["infrared", "counts", "signed"],
)
def test_cube_that_is_no_reflectance_of_the_visible_is_refused(
    tmp_path: Path, cube: Array, wavelengths: Doubles, message: str
) -> None:
    write_scene(tmp_path / "scene.npz", cube, wavelengths)
    with pytest.raises(CubeFileError, match=message):
        list(read_scenes(tmp_path))


def test_folder_without_scenes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CubeFileError, match="Expected cube files"):
        list(read_scenes(tmp_path))


def test_means_table_and_csv_hold_every_method_and_input(tmp_path: Path) -> None:
    methods = {"ours": least_squares(), "theirs": least_squares()}
    scores = list(
        score(methods, [Input("clean"), Input("noisy", noise=1e-3)], [scene_of(smooth_scene())])
    )
    averages = means(scores)
    assert [(one.input, one.method) for one in averages] == [
        (kind, method) for kind in ("clean", "noisy") for method in methods
    ]
    assert averages[0].values == pytest.approx(scores[0].values, nan_ok=True)
    assert len(table(averages).splitlines()) == 7
    write_csv(tmp_path / "scores.csv", scores)
    assert (tmp_path / "scores.csv").read_text().splitlines()[1].startswith("ours,clean,scene,")
    write_csv(tmp_path / "scores.csv", [replace(scores[0], method="=1+1", scene="@scene")])
    assert (tmp_path / "scores.csv").read_text().splitlines()[1].startswith("'=1+1,clean,'@scene,")


def test_share_of_values_in_the_error_band_is_counted_for_models_band_by_band() -> None:
    methods: dict[str, Method] = {"ours": ModelMethod("pixelwise-srgb"), "theirs": least_squares()}
    scores = list(score(methods, [KINDS["clean"], KINDS["-2 stops"]], [scene_of(smooth_scene())]))
    ours, theirs = means(scores)[:2]
    assert ours.covered.shape == (31,)
    assert ours.values["in band"] == pytest.approx(ours.covered[2:-2].mean())
    assert np.isnan(theirs.covered).all()
    assert np.isnan(theirs.values["in band"])


def test_share_of_pixels_that_show_the_photo_is_counted(tmp_path: Path) -> None:
    cube = smooth_scene()
    codes = KINDS["clean"].photograph(cube)
    brighter = cube.copy()
    brighter[:, : cube.shape[1] // 2] *= 1.2
    methods: dict[str, Method] = {
        "true": lambda _: cube,
        "half": lambda _: brighter,
        "corrected": ModelMethod("mstpp-srgb"),
    }
    found = {
        one.method: one.values["in 1 code"]
        for one in score(methods, [KINDS["clean"]], [scene_of(cube)])
    }
    assert found["true"] == found["corrected"] == 1
    assert 0.4 < found["half"] < 0.6
    assert ((codes > 0) & (codes < 255)).all()


def _with_and_without_correction(cube: Floats, kind: Input) -> list[dict[str, float]]:
    codes = kind.photograph(cube, "a")
    methods = [
        ModelMethod("mstpp-srgb", replace(ON_CPU, correct_colour=correct))
        for correct in (True, False)
    ]
    return [
        compared(method(codes) / kind.exposure, cube, kind.counted(codes)) for method in methods
    ]


@pytest.mark.parametrize("name", ["noise 4e-3", "JPEG 75"])
@pytest.mark.parametrize("scene", ["cd", "fake_and_real_food"])
def test_correction_of_a_small_bad_photo_is_no_loss(
    shared_data: Path, scene: str, name: str
) -> None:
    cube = read_cube(shared_data / "cave" / f"{scene}.npz").data[:, ::4, ::4] / np.float32(65535)
    corrected, raw = _with_and_without_correction(cube, KINDS[name])
    assert corrected["dE D65"] < 1.01 * raw["dE D65"]
    assert corrected["MRAE"] < 1.001 * raw["MRAE"]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_correction_is_no_loss_on_any_input(shared_data: Path, name: str) -> None:
    cubes = [
        read_cube(path).data[:, ::4, ::4] / np.float32(65535)
        for path in scene_files(shared_data / "cave")
    ]
    found = [_with_and_without_correction(cube, KINDS[name]) for cube in cubes]
    for label, tolerance in (
        ("dE D65", 1.0),
        ("MRAE", 1.0005),
    ):  # a wrong balance is shown as it is: luck, in MRAE
        corrected, raw = np.transpose([[one[label] for one in both] for both in found])
        assert corrected.mean() <= tolerance * raw.mean()
        assert (corrected < 1.1 * raw).all()
