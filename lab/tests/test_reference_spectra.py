"""The table of reference spectra: its numbers are those of refining each cube by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import napari_mst as nm
from lab.reference_spectra import (
    LABELS,
    LEAST,
    WORST,
    SpotPlan,
    Taken,
    means,
    score,
    taken_of,
)
from lab.tests.conftest import Run
from napari_mst.base.arrays import Indices
from napari_mst.base.errors import SpectrumError
from napari_mst.cube.metrics import core_mrae, core_pixels, mrae
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID
from napari_mst.training.inputs import INPUTS
from napari_mst.training.scenes import Scene
from napari_mst.training.scoring import (
    RENDERED,
    ModelMethod,
    Score,
    by_input,
    table,
    write_csv,
)
from napari_mst.training.scoring import means as means_of_models
from napari_mst.training.scoring import score as score_models

MODEL = "pixelwise-srgb"
KINDS = {kind.name: kind for kind in INPUTS}
CLEAN = KINDS["clean"]


def scene_of_patches(seed: int, name: str = "patches") -> Scene:
    """Six materials in patches of 8 x 8 pixels, and one black patch."""
    random = np.random.default_rng(seed)
    steps = random.normal(0, 0.06, (31, 2, 3))
    materials = (0.4 + np.cumsum(steps, axis=0)).clip(0.06, 0.95)
    cube = materials.repeat(8, axis=1).repeat(8, axis=2).astype(np.float32)
    cube *= random.uniform(0.95, 1.05, (16, 24)).astype(np.float32)
    cube[:, :4, :4] = 0
    return Scene(name, cube, np.ones((16, 24), dtype=bool))


@pytest.fixture(scope="module")
def model() -> nm.Reconstructor:
    return nm.Reconstructor(load_model(MODEL), "cpu", calibrated_by=RENDERED)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [scene_of_patches(0, "first"), scene_of_patches(1, "second")]


@pytest.fixture(scope="module")
def taken(model: nm.Reconstructor, scenes: list[Scene]) -> Taken:
    return taken_of(scenes[0], CLEAN, model)


@pytest.fixture(scope="module")
def scores(model: nm.Reconstructor, scenes: list[Scene]) -> list[Score]:
    return list(score({MODEL: model}, [CLEAN], scenes, SpotPlan((0, 1, 3))))


def by_hand(taken: Taken, places: Indices) -> nm.SpectralCube:
    """The cube of *taken*, refined to the true means of the 3 x 3 pixels around *places*."""
    references = []
    for row, column in places.tolist():
        rows = slice(max(row - 1, 0), row + 2)
        columns = slice(max(column - 1, 0), column + 2)
        truth = taken.scene.cube[:, rows, columns].mean(axis=(1, 2))
        references.append(nm.ReferenceSpectrum(row, column, truth.astype(float)))
    return nm.refine(taken.cube, taken.photo, references)


# In full light, two stops more would clip every pixel.
@pytest.mark.parametrize(
    ("name", "light"), [("clean", 1.0), ("JPEG 75", 1.0), ("+2 stops", 0.3), ("-2 stops", 1.0)]
)
def test_with_nothing_known_the_numbers_are_those_of_the_models_table(
    model: nm.Reconstructor, scenes: list[Scene], name: str, light: float
) -> None:
    kinds = [KINDS[name]]
    scenes = [replace(one, cube=one.cube * np.float32(light)) for one in scenes]
    ours = list(score({MODEL: model}, kinds, scenes, SpotPlan((0,))))
    theirs = list(score_models({MODEL: ModelMethod(MODEL)}, kinds, scenes))
    for one, other in zip([*ours, *means(ours)], [*theirs, *means_of_models(theirs)], strict=True):
        assert one.scene == other.scene
        for label in ("MRAE", "core MRAE"):
            assert one.values[label] == pytest.approx(other.values[label], rel=1e-12)
        assert one.values[WORST] == 1
        np.testing.assert_allclose(one.covered, other.covered, atol=0.01)


def test_numbers_are_those_of_refining_by_hand(taken: Taken, scores: list[Score]) -> None:
    (found,) = [
        one for one in scores if one.scene == "first" and one.method == f"{MODEL}, 3 random"
    ]
    truth = taken.scene.cube
    better = by_hand(taken, taken.random_spots(3))
    error = mrae(better.data, truth)
    lower, upper = (side.data for side in nm.prediction_intervals(better))
    core = core_pixels(truth)
    is_within = (truth >= lower) & (truth <= upper)
    shares = is_within[:, core].mean(axis=1)
    width = ((upper - lower) / np.maximum(better.data, 0.01))[:, core].mean()
    expected = (
        error,
        core_mrae(better.data, truth, GRID),
        error / mrae(taken.cube.data, truth),
        shares.mean(),
        shares.min(),
        width,
    )
    assert tuple(found.values) == LABELS
    np.testing.assert_allclose(list(found.values.values()), expected, rtol=1e-6)
    np.testing.assert_allclose(found.covered, shares)


def test_suggested_spots_are_those_of_photo_and_estimate(
    model: nm.Reconstructor, taken: Taken, scenes: list[Scene]
) -> None:
    plan = SpotPlan((2,), is_suggested=True)
    (found,) = score({MODEL: model}, [CLEAN], scenes[:1], plan)
    places = np.array(nm.suggest_measurements(taken.cube, taken.photo, count=2))
    error = mrae(by_hand(taken, places).data, taken.scene.cube)
    assert found.method == f"{MODEL}, 2 suggested"
    assert found.values["MRAE"] == pytest.approx(error, rel=1e-6)


def test_the_same_seed_draws_the_same_bright_spots(taken: Taken) -> None:
    first = taken.random_spots(20, seed=5)
    assert np.array_equal(first, taken.random_spots(20, seed=5))
    assert not np.array_equal(first, taken.random_spots(20, seed=6))
    assert core_pixels(taken.scene.cube)[first[:, 0], first[:, 1]].all()
    assert len(np.unique(first, axis=0)) == 20


def test_the_seed_of_the_plan_draws_the_spots(model: nm.Reconstructor, scenes: list[Scene]) -> None:
    def errors(seed: int) -> list[float]:
        plan = SpotPlan((2,), seed=seed)
        found = score({MODEL: model}, [CLEAN], scenes, plan)
        return [one.values["MRAE"] for one in found]

    assert errors(3) == errors(3)
    assert errors(3) != errors(4)


def test_no_spot_touches_pixels_without_a_known_reflectance(
    model: nm.Reconstructor, scenes: list[Scene]
) -> None:
    valid = np.ones((16, 24), dtype=bool)
    valid[:, :12] = False
    half = np.where(valid, scenes[0].cube, np.float32(0))
    taken = taken_of(replace(scenes[0], cube=half, valid=valid), CLEAN, model)
    everywhere = taken.random_spots(1000)
    assert len(everywhere) == 16 * 11
    assert everywhere[:, 1].min() == 13
    suggested = taken.suggested_spots(50)
    assert len(suggested)
    assert suggested[:, 1].min() >= 13


def test_a_scene_without_bright_pixels_keeps_its_cube_and_counts_nowhere(
    model: nm.Reconstructor, scenes: list[Scene]
) -> None:
    dark = replace(scenes[0], cube=np.full((31, 16, 24), 0.01, np.float32), name="dark")
    (alone,) = score({MODEL: model}, [CLEAN], [dark], SpotPlan((4,)))
    assert np.isnan(list(alone.values.values())).all()
    (of_both,) = means(score({MODEL: model}, [CLEAN], [dark, scenes[0]], SpotPlan((4,))))
    (of_bright,) = means(score({MODEL: model}, [CLEAN], scenes[:1], SpotPlan((4,))))
    assert of_both.values == of_bright.values


def test_the_mean_tells_the_worst_scene_and_the_least_covered_band(scores: list[Score]) -> None:
    averages = means(scores)
    assert [one.method for one in averages] == [
        f"{MODEL}, nothing known",
        f"{MODEL}, 1 random",
        f"{MODEL}, 3 random",
    ]
    for average in averages:
        rows = [one for one in scores if one.method == average.method]
        assert len(rows) == 2
        assert average.values["MRAE"] == np.mean([one.values["MRAE"] for one in rows])
        assert average.values[WORST] == max(one.values[WORST] for one in rows)
        by_scene = [one.covered for one in rows]
        assert average.values[LEAST] == np.mean(by_scene, axis=0).min()
    assert averages[2].values["MRAE"] < averages[0].values["MRAE"]


def test_the_table_and_the_file_show_every_label(scores: list[Score], tmp_path: Path) -> None:
    averages = means(scores)
    text = table(by_input(scores, averages))
    assert all(label in text for label in LABELS)
    assert "3 random first" in text
    write_csv(tmp_path / "known.csv", scores, LABELS)
    header, *lines = (tmp_path / "known.csv").read_text().splitlines()
    assert header.startswith("method,input,scene,MRAE,core MRAE,worst,coverage,least,width,")
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("counts", "is_suggested", "message"),
    [
        ((), False, "got none"),
        ((0, -1), False, "got 0, -1"),
        ((300,), True, "at most 256 suggested spots, got 300"),
    ],
)
def test_counts_that_cannot_be_are_refused(
    counts: tuple[int, ...], is_suggested: bool, message: str
) -> None:
    with pytest.raises(SpectrumError, match=message):
        SpotPlan(counts, is_suggested)


def test_the_command_prints_a_line_for_each_number_of_known_spectra(
    run: Run, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    for name in ("first", "second"):
        materials = random.uniform(0.1, 0.9, (31, 3, 3))
        cube = materials.repeat(4, axis=1).repeat(4, axis=2).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", cube=cube, wavelengths=np.arange(400.0, 701, 10))
    file = tmp_path / "scores.csv"
    model = ("--model", "pixelwise-srgb", "--device", "cpu")
    plain = (*model, "--no-baselines", "--input", "clean")
    code, out, _ = run("known", tmp_path, *model, "--references", "0,1,2", "--csv", file)
    assert code == 0
    header, nothing, *lines = out.split("\n\n")[0].splitlines()
    assert header.split() == [
        "clean",
        "MRAE",
        "core",
        "MRAE",
        "worst",
        "coverage",
        "least",
        "width",
    ]
    assert [line[:26].strip() for line in lines] == [
        "pixelwise-srgb, 1 random",
        "pixelwise-srgb, 2 random",
    ]
    assert len(file.read_text().splitlines()) == 1 + 3 * 3
    _, models, _ = run("evaluate", tmp_path, *plain)
    assert nothing[36:58] == models.splitlines()[1][36:58]
    code, out, _ = run("known", tmp_path, *model, "--references", "1", "--suggested", "--per-scene")
    assert (code, out.count("1 suggested second")) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--references=-1,4", "Expected numbers of reference spectra from 0 up, got -1, 4."),
        ("--references 300 --suggested", "Expected at most 256 suggested spots, got 300."),
        ("--references 1 --input fog", "got 'fog'"),
    ],
)
def test_the_command_refuses_what_cannot_be(
    run: Run, tmp_path: Path, arguments: str, sentence: str
) -> None:
    code, out, err = run("known", tmp_path, *arguments.split())
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err
