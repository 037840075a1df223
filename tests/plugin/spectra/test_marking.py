"""References: a mark refines the cube at once, then all of it, and comes back from a file."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from numpy.testing import assert_allclose, assert_array_equal
from tests.plugin.in_viewer import add_cube, cube_in, picks_in
from tests.plugin.spectra.later import Later
from tests.plugin.spectra.reference_scene import (
    SPOTS,
    WAVELENGTHS,
    marks_in,
    model_of,
    pin,
    references_in,
    with_scene,
)

from napari_mst.analysis.library import colour_checker
from napari_mst.base.errors import CubeError, PhotoError, SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Origin, Spectrum
from napari_mst.formats import read_cube, write_cube
from napari_mst.plugin.files.saving import cube_to_save
from napari_mst.plugin.jobs.task import Start, Task, run_now
from napari_mst.plugin.spectra import refiner, resolve
from napari_mst.plugin.spectra.marking import grey, pasted
from napari_mst.plugin.spectra.rows import curve_of
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.references.intervals import interval_width
from napari_mst.references.refining import refine


def pinned(*spots: tuple[int, int], start: Start = run_now) -> tuple[ViewerModel, SpectraModel]:
    """The scene with picks at *spots*, and its model."""
    viewer = with_scene()
    model = SpectraModel(viewer, start_job=start)
    model.attach()
    pin(model, *spots)
    return viewer, model


def test_first_comes_a_coarse_cube_and_what_is_late_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refiner, "PIXELS", 200)
    jobs, seen = Later(), list[np.ndarray]()
    viewer, model = pinned(*SPOTS, start=jobs)
    photo, estimate = viewer.layers["photo"].data, viewer.layers["estimate"]

    def look(cube: SpectralCube, job: Task) -> None:
        job.on_preview(cube)
        layer = viewer.layers["estimate refined"]
        assert cube_in(layer).provenance.is_preview
        seen.append(layer.data)
        # Their numbers would be those of other pixels in a file.
        model.finish()
        assert [entry.first.origin.row for entry in model.entries] == [None] * 3
        model.point_at((550, 4, 5))
        assert "row" not in model.finish().text
        corners = [layer.data_to_world(corner)[1:] for corner in ((0, -0.5, -0.5), (0, 7.5, 10.5))]
        assert_allclose(corners, [(-0.5, -0.5), (23.5, 31.5)])

    # Another pick becomes known before the first cube is there: that one is dropped.
    for entries in (model.entries[:1], model.entries[1:2]):
        model.references.mark(entries, viewer.layers["truth"])
        assert model.finish().references.is_busy
    jobs.do()
    assert "estimate refined" not in viewer.layers
    (job,) = jobs.waiting
    jobs.waiting = [replace(job, on_preview=partial(look, job=job))]
    jobs.do()
    assert not model.finish().references.is_busy
    layer = viewer.layers["estimate refined"]
    exact = refine(cube_in(estimate), photo, references_in(model, viewer)).data
    # Each coarse pixel has the number in its middle, and they cover the image.
    (coarse,) = seen
    assert coarse.shape == (31, 8, 11)
    assert_allclose(coarse, exact[:, 1::3, 1::3], atol=1e-5)
    assert_array_equal(layer.data, exact)
    assert_array_equal(layer.scale, estimate.scale)
    assert [entry.first.origin.row for entry in model.entries] == [row for row, _ in SPOTS]
    assert not cube_in(layer).provenance.is_preview


def test_what_changes_meanwhile_does_not_stop_a_search_for_spots() -> None:
    jobs = Later()
    _, model = pinned(SPOTS[0], start=jobs)
    model.references.suggest(4)
    model.rename(model.entries[0], "leaf")
    model.finish()
    jobs.do()
    assert [entry.first.name for entry in model.finish().entries] == ["leaf"] + [
        f"spot {number}" for number in range(1, 5)
    ]


def test_width_of_the_interval_is_a_layer_until_the_cube_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolve, "MOST_BANDS", 1)
    viewer, model = pinned(*SPOTS)
    model.references.mark(model.entries[:1], viewer.layers["truth"])
    curve, true, *_ = model.finish().curves.lines
    assert (curve.style, true.style, true.entry) == (0, 2, 0)
    model.references.show_width()
    layer = viewer.layers["Prediction interval width: estimate"]
    one = layer.data
    assert_array_equal(one, interval_width(cube_in(viewer.layers["estimate refined"])))
    model.references.mark(model.entries[1:], viewer.layers["truth"])
    model.finish()
    assert layer not in viewer.layers
    model.references.show_width()
    assert viewer.layers["Prediction interval width: estimate"].data.mean() < one.mean()
    # The interval itself is drawn around the curves of few picks only.
    for chosen, banded in (([0], 1), ([0, 1], 0)):
        model.choose(chosen)
        lines = model.finish().curves.lines
        assert sum(line.spectrum.lower is not None for line in lines) == banded


@pytest.mark.parametrize("is_undone", [False, True])
def test_deleting_the_refined_layer_shows_the_cube_before(is_undone: bool) -> None:
    viewer, model = pinned(*SPOTS)
    model.references.mark(model.entries[:1], colour_checker()[0])
    model.finish()
    base = viewer.layers["estimate"]
    assert not base.visible
    viewer.layers.remove("estimate refined")
    if is_undone:
        model.undo()
    model.finish()
    assert base.visible
    assert not model.snapshot.references.has_refined
    if not is_undone:
        # The marks are still there: the switch makes the layer again.
        model.references.show_after(True)
        model.finish()
        assert viewer.layers["estimate refined"].visible
        assert not base.visible


@pytest.mark.parametrize("is_after", [True, False])
@pytest.mark.parametrize("name", ["estimate", "estimate refined"])
def test_either_cube_of_a_refinement_may_be_selected_even_while_it_is_hidden(
    name: str, is_after: bool
) -> None:
    viewer, model = pinned(*SPOTS)
    first, second, *_ = model.entries
    model.references.mark([first], viewer.layers["truth"])
    model.finish()
    model.references.show_after(is_after)
    viewer.layers.selection.active = viewer.layers[name]
    model.finish()
    assert model.references.cube.data is viewer.layers["estimate"].data
    model.references.mark([second], viewer.layers["truth"])
    model.finish()
    assert marks_in(viewer)[:2] == ["as in truth"] * 2
    assert len(cube_in(viewer.layers["estimate refined"]).provenance.refinement["references"]) == 2


def test_known_spectra_come_back_with_the_file(tmp_path: Path) -> None:
    viewer, model = pinned(*SPOTS)
    model.references.mark(model.entries[:1], colour_checker()[0])
    model.finish()
    layer = viewer.layers["estimate refined"]
    path = write_cube(
        tmp_path / "refined.hdr", cube_to_save(layer.data, layer.as_layer_data_tuple()[1])
    )
    saved = read_cube(path)
    saved.provenance.refinement["references"][0]["hidden"] = 0.05
    again = ViewerModel()
    opened = add_cube(again, saved, "refined")
    reopened = model_of(again)
    (entry,) = reopened.entries
    assert entry.mark is not None
    assert curve_of(entry.mark).name == "dark skin"
    assert entry.mark.hidden == 0.05
    assert (entry.first.origin.row, entry.first.origin.column) == SPOTS[0]
    assert again.layers[0] is opened
    assert len(again.layers) == 2
    add_cube(again, saved, "second")
    assert "of second were left out" in reopened.finish().text
    again.layers.selection.active = opened
    reopened.references.unmark([entry])
    assert "stays so" in reopened.finish().text


def test_without_its_photo_a_cube_waits_for_it() -> None:
    viewer = with_scene()
    photo = viewer.layers["photo"].data
    viewer.layers.remove("photo")
    viewer.add_image(255 - photo, rgb=True, name="another")
    model = model_of(viewer)
    pin(model, SPOTS[0])
    model.references.mark(model.entries, viewer.layers["truth"])
    with pytest.raises(
        PhotoError, match="the photo of the cube, 24 x 32 pixels; 'another' is another one"
    ):
        model.finish()
    model.finish()
    assert "estimate refined" not in viewer.layers
    viewer.add_image(photo, rgb=True, name="photo")
    model.finish()
    assert "estimate refined" in viewer.layers


def test_copy_of_a_known_pick_is_not_known_and_a_moved_one_stays() -> None:
    viewer, model = pinned(*SPOTS[:2])
    model.references.mark(model.entries[:1], colour_checker()[0])
    model.finish()
    points = picks_in(viewer)
    points.selected_data = {0}
    points._copy_data()
    points._paste_data()
    points.data = [[5, 6], *points.data[1:]]
    model.finish()
    assert marks_in(viewer) == ["dark skin", "", ""]
    (references,) = cube_in(viewer.layers["estimate refined"]).provenance.refinement["references"]
    assert (references["row"], references["column"]) == (5, 6)


def test_spectrum_that_the_photo_contradicts_is_left_out_until_somebody_insists() -> None:
    viewer, model = pinned(*SPOTS)
    model.references.mark(model.entries[:1], grey(90, WAVELENGTHS))
    (doubt,) = model.finish().references.doubts
    assert "row 4, column 5 was left out" in doubt
    assert "estimate refined" not in viewer.layers
    model.references.insist(model.entries[:1])
    assert model.finish().text.startswith("Refined to 1 reference spectrum")
    assert not model.snapshot.references.doubts
    assert "estimate refined" in viewer.layers


def test_file_with_places_becomes_picks() -> None:
    _, model = pinned()
    curves = [
        replace(one, origin=Origin(row=row, column=column))
        for one, (row, column) in zip(colour_checker(), SPOTS, strict=False)
    ]
    with pytest.raises(SpectrumError, match="does not say where 'dark skin' was measured"):
        model.references.open([*curves, colour_checker()[0]])
    assert not model.entries
    model.references.open(curves)
    assert model.finish().text.startswith("Refined to 3 reference spectra")


BAD: dict[str, tuple[Callable[[SpectraModel], object], str]] = {
    "no pick": (
        lambda model: model.references.mark([], colour_checker()[0]),
        "No pick is selected",
    ),
    "per cent": (lambda model: mark(model, np.full(31, 50.0)), "Divide per cent by 100"),
    "other wavelengths": (
        lambda model: mark(model, np.ones(31), WAVELENGTHS + 400),
        "got 0 within",
    ),
    "too bright a grey": (lambda _: grey(120, WAVELENGTHS), "A tile reflects more than 0"),
    "too few numbers": (lambda _: pasted("1 2 3", WAVELENGTHS), "31 bands, but 3 values"),
    "no numbers": (lambda _: pasted(" \n", WAVELENGTHS), "but no values"),
}


def mark(model: SpectraModel, values: np.ndarray, wavelengths: np.ndarray = WAVELENGTHS) -> None:
    model.references.mark(model.entries, Spectrum(wavelengths, values))


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_known_is_refused_and_nothing_changes(name: str) -> None:
    act, message = BAD[name]
    viewer, model = pinned(SPOTS[0])
    with pytest.raises(SpectrumError, match=message):
        act(model)
    assert marks_in(viewer) == [""]
    assert len(viewer.layers) == 4


def test_a_cube_that_cannot_be_refined_is_refused() -> None:
    viewer, model = pinned(SPOTS[0])
    cut = cube_in(viewer.layers["estimate"]).sel(wavelength=slice(500, 600))
    add_cube(viewer, cut, "cut")
    model.finish()
    with pytest.raises(CubeError, match="colours of a photo, got 500-600 nm"):
        model.references.suggest(1)
    viewer.layers.clear()
    with pytest.raises(CubeError, match="There is no cube to refine"):
        model.references.suggest(1)


PASTED = {
    "a row": " ".join(map(str, np.linspace(0.1, 0.4, 31))),
    "a column": "\n".join(map(str, np.linspace(0.1, 0.4, 31))),
    "pairs": "\n".join(f"{nm:g}, {0.1 + i / 100}" for i, nm in enumerate(WAVELENGTHS)),
    "pairs between blanks": "\n".join(
        f"{nm:g}  {0.1 + i / 100}" for i, nm in enumerate(WAVELENGTHS)
    ),
    "a table": "wavelength (nm)\tleaf\n"
    + "\n".join(f"{nm:g}\t{0.1 + i / 100}" for i, nm in enumerate(WAVELENGTHS)),
}


@pytest.mark.parametrize("kind", PASTED)
def test_numbers_are_pasted_as_they_were_copied(kind: str) -> None:
    (spectrum,) = pasted(PASTED[kind], WAVELENGTHS)
    assert_allclose(spectrum.values, np.linspace(0.1, 0.4, 31))
    assert_allclose(spectrum.wavelengths, WAVELENGTHS)
    assert spectrum.unit == "nm"
    assert spectrum.name == ("leaf" if kind == "a table" else "pasted")
