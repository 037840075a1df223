"""The table of maps: what each needs, what it makes, and how it is seen; and colour differences."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import colour
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.analysis.conftest import bounds, curve

import napari_mst as nm
from napari_mst.analysis.classification import MOST_CLASSES
from napari_mst.analysis.comparison import cube_errors
from napari_mst.analysis.label_table import label_table
from napari_mst.analysis.library import colour_checker
from napari_mst.analysis.map_kind import ESTIMATED, Map
from napari_mst.analysis.maps import MAPS, photo_difference
from napari_mst.analysis.regions import label_spectra
from napari_mst.base.errors import Cancelled, CubeError, SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.colour import linear_to_srgb, render_srgb
from napari_mst.photo.photo import Photo

WAVELENGTHS = np.linspace(400, 700, 7)
RNG = np.random.default_rng(8)
CUBE = SpectralCube(RNG.uniform(0.1, 0.9, (7, 40, 36)).astype(np.float32), WAVELENGTHS)
LEAF = curve(WAVELENGTHS, CUBE.data[:, 1, 1], name="leaf", colour="#123456")
NEEDS: dict[str, Any] = {
    "spectra": (LEAF,),
    "photo": CUBE.render(full_scale=1.0),
    "reference": SpectralCube(CUBE.data * np.float32(0.9), WAVELENGTHS),
}


def made(name: str, cube: SpectralCube = CUBE, **asked: Any) -> Map:
    """The map *name* of *cube*, with its usual number and text unless they are *asked* for."""
    kind = MAPS[name]
    given: dict[str, Any] = {kind.needs: NEEDS[kind.needs]} if kind.needs else {}
    if kind.text is not None:
        given[kind.text.name] = next(iter(kind.text.presets(cube)))
    return kind.make(cube, **(given | asked))


@pytest.mark.parametrize("name", MAPS)
def test_every_map_has_the_size_of_its_cube_and_the_content_that_it_says(name: str) -> None:
    result = made(name)
    for _, pixels in result.planes:
        assert pixels.shape == (40, 36)
        is_whole = np.issubdtype(pixels.dtype, np.integer)
        assert is_whole or MAPS[name].content != "labels"
    assert bool(result.names) == (MAPS[name].content == "labels")
    assert (result.kind.name, len(repr(result)) < 300) == (name, True)


DIRTY = np.insert(CUBE.data, 3, 1e9, axis=0)
DIRTY[:, 5:8, 9] = -9999
MARKS = {"bbl": (1, 1, 1, 0, 1, 1, 1, 1), "data ignore value": -9999, "fwhm": (10.0,) * 8}
MARKED = SpectralCube(DIRTY, np.insert(WAVELENGTHS, 3, 520), "nm", "reflectance", metadata=MARKS)
GAPS = CUBE.data.copy()
GAPS[:, 5:8, 9] = np.nan
CLEAN = SpectralCube(GAPS, WAVELENGTHS, "nm", "reflectance")


@pytest.mark.parametrize("name", MAPS)
def test_no_map_counts_a_bad_band_or_a_value_that_stands_for_none(name: str) -> None:
    is_compared = MAPS[name].needs == "reference"
    asked = {"reference": replace(MARKED, data=DIRTY * np.float32(0.9))} if is_compared else {}
    if is_compared:  # its fill is still that of the header
        asked["reference"].data[:, 5:8, 9] = -9999
    found, expected = made(name, MARKED, **asked), made(name, CLEAN)
    assert_allclose(found.data, expected.data, rtol=1e-6, atol=1e-6)
    saved = found.to_cube()
    assert_array_equal(saved.wavelengths, expected.to_cube().wavelengths)
    assert "data ignore value" not in saved.metadata


def test_no_spectrum_statistic_or_picture_counts_them_either() -> None:
    labels = np.repeat(RNG.integers(1, 4, (40, 1)), 36, axis=1)
    tables = [label_table(cube, labels) for cube in (MARKED, CLEAN)]
    assert np.isnan(tables[0].pop("mean 520 nm")).all()
    assert np.isnan(tables[0].pop("sd 520 nm")).all()
    # To 531 nm of PRI, the bad band is the nearest.
    names = set(tables[1]) - {"name", "PRI"}
    assert set(tables[0]) >= names
    for name in names:
        assert_allclose(tables[0][name], tables[1][name], rtol=1e-6, err_msg=name)
    for row, column in ((1, 2), (6, 9)):
        values = np.insert(CLEAN.spectrum(row, column).values, 3, np.nan)
        assert_array_equal(MARKED.spectrum(row, column).values, values)
        seen = nm.point_spectrum(MARKED, row, column).values
        assert_array_equal(seen, values)
    window = nm.Region.of_window(6, 9, (40, 36), 5)
    found = [bounds(nm.region_spectrum(cube, window))[0] for cube in (MARKED, CLEAN)]
    assert_array_equal(np.delete(found[0], 3), found[1])
    assert_array_equal(MARKED.render(), CLEAN.render())
    assert_array_equal(MARKED.composite(), CLEAN.composite())
    pure = [nm.endmembers(cube, 3) for cube in (MARKED, CLEAN)]
    assert [each.name for each in pure[0]] == [each.name for each in pure[1]]


@pytest.mark.parametrize("suffix", [".hdr", ".tif", ".nc"])
def test_bad_bands_and_fill_outlive_a_file(suffix: str, tmp_path: Path) -> None:
    cube = nm.read_cube(nm.write_cube(tmp_path / f"cube{suffix}", MARKED))
    assert_array_equal(cube.data, DIRTY)
    assert_array_equal(nm.maps.anomalies(cube).data, nm.maps.anomalies(MARKED).data)


@pytest.mark.parametrize("name", [name for name in MAPS if MAPS[name].number])
def test_default_number_is_within_its_range_and_that_of_the_function(name: str) -> None:
    number = MAPS[name].number
    assert number is not None
    assert number.low <= number.default <= number.high
    default = inspect.signature(MAPS[name].make).parameters[number.name].default
    assert default == number.default == made(name).facts[f"map {number.name}"]


def test_numbers_and_texts_reach_the_functions() -> None:
    assert len(made("components", count=5).planes) == 5
    assert len(made("clusters", count=3).names) == 3
    nothing = made("classes", angle=0.1).data
    assert nothing[1, 1] == 1
    assert nothing.sum() == 1
    assert_array_equal(made("formula", expression="r650 / r450").data, CUBE.data[5] / CUBE.data[1])


def test_too_many_spectra_are_refused() -> None:
    message = "Expected at most 250 spectra to classify by, got more"
    with pytest.raises(SpectrumError, match=message):
        made("classes", spectra=[LEAF] * (MOST_CLASSES + 1))


def test_a_map_of_estimated_bands_says_so() -> None:
    estimated = replace(CUBE, provenance=Provenance(model="mstpp-srgb"))
    notes = {name: made(name, estimated).note for name in ("components", "formula", "anomalies")}
    assert [ESTIMATED in note for note in notes.values()] == [True, True, False]
    assert not made("components").note
    assert ESTIMATED in made("components", estimated).to_cube().provenance.assumptions


def test_labels_of_a_threshold_are_the_regions_that_touch() -> None:
    data = np.zeros((1, 4, 6), np.float32)
    data[0, 0, 0] = data[0, 1, 1] = data[0, 3, 4:] = 1
    cube = SpectralCube(data, np.array([500.0]))
    labels = Map(cube, data[0]).to_labels(above=0.5)
    assert labels.max() == 2
    assert labels[0, 0] == labels[1, 1] != labels[3, 5]
    assert not Map(cube, data[0]).to_labels(0.5, 0.9).any()


def test_every_plane_is_drawn_with_its_title() -> None:
    result = made("components", count=2)
    drawn = [axes.get_title() for axes in result.plot().axes[:2]]
    assert drawn == [title for title, _ in result.planes]
    assert made("classes").plot().axes[0].images


LABELS = RNG.integers(0, 4, (40, 36))
LONG: dict[str, Callable[..., object]] = {
    "labels": lambda **to: label_spectra(CUBE, LABELS, **to),
    "errors": lambda **to: cube_errors(CUBE, NEEDS["reference"], **to),
    "resampled": lambda **to: nm.resample(CUBE, [550], **to),
}
LONG_MAPS = ["classes", "clusters", "components", "anomalies", "formula", "unmixed"]
LONG_MAPS += ["photo-difference", "reference-rmse"]


@pytest.mark.parametrize("name", [*LONG_MAPS, *LONG])
def test_what_takes_long_reports_and_heeds_a_cancel(name: str) -> None:
    run = LONG.get(name, partial(made, name))
    shares: list[float] = []
    run(progress=Progress(shares.append))
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    shares.clear()
    with pytest.raises(Cancelled):
        run(progress=Progress(shares.append, lambda: bool(shares)))
    assert len(shares) == 1


def test_limits_leave_out_the_outermost_values_and_what_is_no_number() -> None:
    values = np.append(np.linspace(0, 100, 101), np.nan)
    low, high = MAPS["anomalies"].limits_of(values)
    assert (low, high) == pytest.approx((1, 99))


def test_signed_limits_have_zero_in_the_middle() -> None:
    low, high = MAPS["reference-difference"].limits_of(np.linspace(-10, 90, 101))
    assert low == -high == pytest.approx(-89)


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_constant_map_has_limits_with_a_range(value: float) -> None:
    low, high = MAPS["formula"].limits_of(np.full((4, 4), value))
    assert high > low


PATCHES = colour_checker()
BANDS = PATCHES[0].wavelengths
CHART = SpectralCube(np.stack([patch.values for patch in PATCHES], axis=1).reshape(31, 4, 6), BANDS)


def test_difference_from_a_photo_is_colour_sciences() -> None:
    rng = np.random.default_rng(2)
    changed = CHART.render(full_scale=1.0) + rng.integers(-20, 20, (4, 6, 3))
    photo = np.clip(changed, 0, 255).astype(np.uint8)
    seen = linear_to_srgb(np.clip(render_srgb(CHART.data, BANDS), 0, 1))
    seen_lab = colour.XYZ_to_Lab(colour.sRGB_to_XYZ(np.moveaxis(seen, 0, -1)))
    photo_lab = colour.XYZ_to_Lab(colour.sRGB_to_XYZ(photo / 255))
    expected = np.asarray(colour.delta_E(seen_lab, photo_lab, method="CIE 2000"))
    assert_allclose(photo_difference(CHART, photo).data, expected, atol=0.03)
    assert expected.max() > 5


def test_linear_photo_is_compared_as_it_looks() -> None:
    linear = np.clip(render_srgb(CHART.data, BANDS), 0, 1)
    photo = Photo.from_array(np.moveaxis(linear, 0, -1), encoding="linear")
    assert photo_difference(CHART, photo).data.max() < 0.01


def test_what_is_no_number_is_black_and_has_no_difference() -> None:
    data = CHART.data.copy()
    data[:, 1, 2] = np.nan
    photo = np.full((4, 6, 3), 0.5, dtype=np.float32)
    photo[3, 3] = np.nan
    cube = SpectralCube(data, BANDS)
    expected = np.zeros((4, 6), dtype=bool)
    expected[1, 2] = expected[3, 3] = True
    assert_array_equal(np.isnan(photo_difference(cube, photo).data), expected)


def test_what_has_no_colour_is_refused() -> None:
    with pytest.raises(CubeError, match="cover 450-650 nm for a colour, got 0-30 band"):
        photo_difference(
            SpectralCube(CHART.data, np.arange(31.0), "band"), np.zeros((4, 6, 3), np.uint8)
        )
    with pytest.raises(SpectrumError, match="RGB photo of 4 x 6 pixels, got 3 channels of 6 x 4"):
        photo_difference(CHART, np.full((6, 4, 3), 9, np.uint8))
