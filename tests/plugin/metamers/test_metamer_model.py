"""The model of metamers: its colours and sentences, as a script sees them, without Qt."""

import numpy as np
import pytest
from napari.components import ViewerModel
from numpy.testing import assert_allclose
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube

from napari_mst.analysis.metamers import metamers
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.formats import read_cube
from napari_mst.plugin.metamers.dock import subject_at
from napari_mst.plugin.metamers.metamer_model import QUESTION, TO_ESTIMATE, MetamerModel, Subject
from napari_mst.plugin.workspace_dock import sample_path

NEUTRAL = 15


def test_the_spectrum_moves_and_its_codes_do_not() -> None:
    model = MetamerModel()
    for patch in range(24):
        model.choose_patch(patch)
        for direction in range(TO_ESTIMATE):
            model.choose_direction(direction)
            model.slide(-1.0)
            assert np.abs(model.metamer.spectrum.values - model.first.spectrum.values).max() > 0.005
            assert model.metamer.codes == model.first.codes
            assert model.metamer.spectrum.values.max() <= 1 + 1e-9


def test_the_second_light_tells_them_apart_and_the_photo_s_does_not() -> None:
    model = MetamerModel()
    model.choose_patch(NEUTRAL)
    model.slide(1.0)
    model.answer()
    assert model.metamer.difference > 3
    assert "Under A the difference is plain to see." in model.sentence
    model.choose_light("D65")
    assert model.metamer.difference < 1e-9
    assert "Under D65 an eye can hardly tell them apart either." in model.sentence


def test_each_patch_asks_which_of_two_was_photographed_and_then_why_nobody_can_tell() -> None:
    model = MetamerModel()
    for patch in (NEUTRAL, 3):
        model.choose_patch(patch)
        assert (model.is_asking, model.sentence) == (True, QUESTION)
        model.answer()
        assert model.sentence.startswith("Nobody can tell: both are RGB ")
    model.choose_patch(0)
    model.slide(0)
    assert not model.is_asking
    model.slide(0.5)
    model.choose_direction(TO_ESTIMATE)  # while there is no estimate
    assert not model.is_asking


def test_the_slider_leads_to_the_estimate() -> None:
    model = MetamerModel()
    model.choose_direction(TO_ESTIMATE)
    assert model.metamer.spectrum is model.subject.spectrum
    assert "is estimating" in model.sentence
    family = metamers(model.subject.spectrum)
    _, high = family.limits(family.blacks[1])
    estimate = family.moved(family.blacks[1], high / 2)
    model.take_estimate((0, 0, 0), estimate)
    assert model.estimate is None  # of a colour that is no longer looked at
    model.take_estimate(model.codes, estimate)
    for end in (1.0, 7.0):
        model.slide(end)
        assert_allclose(model.metamer.spectrum.values, estimate.values, atol=1e-12)
    model.slide(0.5)
    halfway = (estimate.values + model.subject.spectrum.values) / 2
    assert_allclose(model.metamer.spectrum.values, halfway, atol=1e-12)


def chart_viewer() -> ViewerModel:
    viewer = ViewerModel()
    add_cube(viewer, read_cube(sample_path("chart.tif")), "chart")
    return viewer


def test_a_click_on_a_cube_takes_its_pixel_and_the_estimate_of_another_cube_there() -> None:
    viewer = chart_viewer()
    truth = read_cube(sample_path("chart.tif"))
    made = SpectralCube(truth.data / 2, truth.wavelengths, provenance=Provenance(model="mstpp"))
    layer = add_cube(viewer, made, "made")
    subject = subject_at(viewer, (550.0, 20.0, 30.0))
    assert subject is not None
    assert subject.spectrum.name == "chart, row 20, column 30"
    assert_allclose(subject.spectrum.values, truth.spectrum(20, 30))
    assert subject.estimate is not None
    assert_allclose(subject.estimate.values, truth.spectrum(20, 30).values / 2)
    viewer.layers.remove("chart")
    alone = subject_at(viewer, (550.0, 20.0, 30.0))
    assert alone is not None
    assert not alone.has_truth
    assert subject_at(viewer, (550.0, -9.0, 30.0)) is None
    layer.visible = False
    assert subject_at(viewer, (550.0, 20.0, 30.0)) is None


def test_an_estimate_alone_is_not_called_true() -> None:
    model = MetamerModel()
    model.choose(Subject(model.chart[3], has_truth=False))
    model.choose_direction(TO_ESTIMATE)
    assert not model.subject.has_truth
    assert "is itself an estimate" in model.sentence


def test_only_visible_bands_of_a_cube_are_moved() -> None:
    wavelengths = np.arange(350, 2500, 10.0)
    cube = SpectralCube(np.full((215, 4, 4), 0.3), wavelengths)
    viewer = ViewerModel()
    add_cube(viewer, cube, "wide")
    subject = subject_at(viewer, (550.0, 1.0, 1.0))
    assert subject is not None
    assert (subject.spectrum.wavelengths.min(), subject.spectrum.wavelengths.max()) == (380, 780)
    model = MetamerModel()
    model.choose(subject)
    estimate = Spectrum(np.arange(400, 701, 10.0), np.full(31, 0.3))
    model.take_estimate(model.codes, estimate)
    model.choose_direction(TO_ESTIMATE)
    assert "other bands" in model.sentence
    assert model.estimated is not None
    assert model.estimated.difference < 1


def test_a_cube_that_is_no_reflectance_is_refused_and_nothing_changes() -> None:
    cube = make_cube()
    radiance = SpectralCube(cube.data, cube.wavelengths, quantity="radiance")
    viewer = ViewerModel()
    add_cube(viewer, radiance, "lamp")
    with pytest.raises(SpectrumError, match="Expected a cube of reflectance, got radiance in"):
        subject_at(viewer, (550.0, 1.0, 1.0))
    model = MetamerModel()
    before = model.subject
    with pytest.raises(SpectrumError, match="without gaps"):
        model.choose(Subject(model.chart[0].with_values(np.full(31, np.nan))))
    assert model.subject is before
