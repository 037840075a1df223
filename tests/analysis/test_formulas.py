"""Formulas of bands, and indices by name."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import interp1d

import napari_mst as nm
from napari_mst.analysis import formulas
from napari_mst.analysis.band_maps import formula_presets
from napari_mst.analysis.maps import index
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import NO_PROGRESS
from napari_mst.cube import SpectralCube

WAVELENGTHS = np.arange(400.0, 2401, 10)
RNG = np.random.default_rng(4)
CUBE = SpectralCube(RNG.uniform(0.05, 0.9, (201, 9, 7)).astype(np.float32), WAVELENGTHS)


def band(wavelength: float) -> np.ndarray:
    return CUBE.sel(wavelength=wavelength).astype(np.float64)


# One pixel, and the values of the publications' own formulas where the catalogue has others:
# Kaufman & Tanre 1992 (ARVI, SARVI), Feyisa 2014, Martin 2006, Sims & Gamon 2002, Gitelson 2002,
# Ceccato 2002 (the band of SPOT-VEGETATION), Gu 2007 (bands 2 and 7 of MODIS).
PIXEL = {
    445: 0.03,
    480: 0.04,
    560: 0.08,
    660: 0.06,
    705: 0.12,
    740: 0.30,
    783: 0.38,
    830: 0.42,
    865: 0.43,
    1610: 0.22,
    2200: 0.10,
}
CORRECTED = {
    "ARVI": 0.680,
    "SARVI": 0.510,
    "AWEInsh": -0.940,
    "BAIM": 6.807,
    "mSR705": 3.0,
    "mND705": 0.5,
    "VARI700": 0.2233,
    "GVMI": 0.3684,
    "NDDI": 0.0986,
}


@pytest.mark.parametrize(("name", "value"), CORRECTED.items())
def test_an_index_is_that_of_its_publication(name: str, value: float) -> None:
    data = np.array([*PIXEL.values()])[:, None, None]
    pixel = SpectralCube(data, np.array([*PIXEL], np.float64))
    assert nm.index(pixel, name).data.item() == pytest.approx(value, abs=6e-4)


@pytest.mark.parametrize("name", formulas.catalogue())
def test_every_band_of_an_index_changes_it(name: str) -> None:
    before = formulas.evaluated(CUBE, name, NO_PROGRESS)
    for wavelength in formulas.bands_taken(CUBE, name).values():
        data = CUBE.data.copy()
        data[np.abs(WAVELENGTHS - wavelength) < 10] *= 1.1
        after = formulas.evaluated(SpectralCube(data, WAVELENGTHS), name, NO_PROGRESS)
        assert (np.abs(after - before) > 1e-6 * np.abs(before)).any()


@pytest.mark.parametrize("name", sorted(formulas.catalogue().keys() - CORRECTED))
def test_other_indices_are_those_of_spyndex(name: str) -> None:
    spyndex = pytest.importorskip("spyndex")
    if name not in spyndex.indices:
        assert name in {"PRI", "WBI", "NDWI1240", "VOG1"}
        return
    taken = formulas.bands_taken(CUBE, name)
    at_wavelength = interp1d(WAVELENGTHS, CUBE.data.astype(float), axis=0)
    given = {band: at_wavelength(at) for band, at in taken.items()}
    constants = {each: constant.default for each, constant in spyndex.constants.items()}
    constants |= {"L": 0.5} if name in {"SAVI", "GSAVI", "MNLI"} else {}
    constants |= {"alpha": 0.74} if name == "NDPI" else {}
    with np.errstate(invalid="ignore"):  # the root of a negative number
        expected = spyndex.computeIndex(name, params=constants | given)
    expected = np.where(np.isfinite(expected), expected, np.nan)
    assert_allclose(nm.index(CUBE, name).data, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "value"), [("MCARI", 0.174), ("ARI", 1.901), ("CRI700", 7.904), ("MTCI", 1.865)]
)
def test_narrow_bands_lie_where_they_were_published(name: str, value: float) -> None:
    at = np.arange(400.0, 901)
    spectrum = 0.05 + 0.4 / (1 + np.exp((715 - at) / 12)) + 0.06 * np.exp(-(((at - 550) / 35) ** 2))
    for step in (1, 5):
        cube = SpectralCube(spectrum[::step, None, None], at[::step])
        assert nm.index(cube, name).data.item() == pytest.approx(value, rel=0.002 * step**2)


def test_a_broad_band_stands_for_a_published_wavelength_and_this_is_said() -> None:
    at = np.array([443.0, 492, 560, 665, 704, 740, 783, 833])
    sentinel = SpectralCube(np.linspace(0.1, 0.5, 8)[:, None, None], at)
    made = nm.index(sentinel, "CRI700")
    assert made.data.item() == pytest.approx(
        1 / sentinel.data[1, 0, 0] - 1 / sentinel.data[4, 0, 0]
    )
    said = "B (published at 510 nm) at 492 nm, RE1 (published at 700 nm) at 704 nm"
    assert made.facts["map bands"] == said
    both = formulas.bands_taken(CUBE, "MCARI / OSAVI")
    assert both == {"RE1": 700, "R.670": 670, "G": 550, "N": 830, "R": 660}


def test_indices_that_are_equal_say_so() -> None:
    for name, other in (("MCARI1", "MTVI1"), ("MCARI2", "MTVI2")):
        one, same = (nm.index(CUBE, each).data for each in (name, other))
        assert_allclose(one, same, rtol=1e-4, atol=1e-6)
        assert formulas.catalogue()[name].title.endswith(f"the same as {other}")
        assert formulas.catalogue()[other].title.endswith(f"the same as {name}")


def test_a_formula_is_what_numpy_computes() -> None:
    text = "-(r800 - 2 * r670) ^ 2 / sqrt(r500) + max(r550, r600) * exp(1) - abs(log(NDVI^2))"
    near, red = band(830), band(660)
    ndvi = (near - red) / (near + red)
    expected = -((band(800) - 2 * band(670)) ** 2) / np.sqrt(band(500))
    expected += np.maximum(band(550), band(600)) * np.e - np.abs(np.log(ndvi**2))
    assert_allclose(nm.formula(CUBE, text).data, expected, rtol=1e-6)


def test_a_divisor_of_zero_and_what_is_no_number_give_nan() -> None:
    data = CUBE.data.copy()
    data[:, 0, 0], data[:, 0, 1], data[5, 0, 2] = 0, np.nan, 0
    cube = SpectralCube(data, WAVELENGTHS)
    for text, count in (("r400 / r410", 2), ("1 / (1 / r450)", 3), ("log(r450)", 3)):
        assert np.isnan(nm.formula(cube, text).data).sum() == count


def test_a_band_is_at_most_half_a_step_away_and_never_a_bad_one() -> None:
    assert formulas.band_named(CUBE, "r531.5") == 13
    assert formulas.band_named(CUBE, "r2404.9") == 200
    cut = SpectralCube(CUBE.data[:2], np.array([500.0, 600]), metadata={"bbl": [1, 0]})
    assert formulas.band_named(cut, "r500") == 0
    assert formulas.bands_taken(CUBE, "NDVI") == {"N": 830, "R": 660}
    # Wavelengths around the absorption of water were left out.
    gap = SpectralCube(CUBE.data[:4], np.array([1330.0, 1340, 1460, 1470]))
    # Not the next band instead of a bad one, though few bands are far apart.
    few = SpectralCube(
        CUBE.data[:4], np.array([560.0, 668, 717, 842]), metadata={"bbl": [1, 1, 0, 1]}
    )
    faults = ((CUBE, "r2405.1"), (cut, "r600"), (gap, "r1400"), (few, "r717"), (few, "RE1"))
    for cube, name in faults:
        with pytest.raises(SpectrumError, match=f"nm for {name}, got"):
            formulas.band_named(cube, name)
    with pytest.raises(SpectrumError, match="the band at 717, which the file marks as bad"):
        formulas.band_named(few, "r720")


def test_bands_without_wavelengths_are_taken_by_their_number_and_have_no_index() -> None:
    numbered = SpectralCube(CUBE.data[:5], np.arange(5.0), "band")
    assert_array_equal(nm.formula(numbered, "r3 - r1").data, CUBE.data[3] - CUBE.data[1])
    assert formulas.indices_of(numbered) == {}
    with pytest.raises(SpectrumError, match="nm for N, got 0-4 band"):
        nm.index(numbered, "NDVI")


def test_indices_are_those_whose_bands_there_are() -> None:
    seen = SpectralCube(CUBE.data[:31], WAVELENGTHS[:31])
    names = set(formulas.indices_of(seen))
    assert {"GLI", "PRI", "VARI"} <= names
    assert not names & {"NDVI", "NDWI", "WBI"}
    assert set(formulas.indices_of(CUBE)) == set(formulas.catalogue())


@pytest.mark.parametrize("name", formulas.catalogue())
def test_every_index_has_a_title_a_source_and_a_name_of_its_own(name: str) -> None:
    index = formulas.catalogue()[name]
    assert index.title
    assert index.source.startswith("http")
    assert name not in formulas.BROAD
    assert name not in formulas.FUNCTIONS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "r800 +",
        "(r800",
        "r800.real",
        "r800 if r670 else r500",
        "[r800]",
        "r800 < r670",
        "r800, r670",
        "sqrt(r800, r670)",
        "sqrt(x=r800)",
        "__import__('os').system('true')",
        "(lambda: r800)()",
        "1j * r800",
        "'r800'",
        "3 + 4",
        "(" * 250 + "r800" + ")" * 250,
        "r800 + " * 100 + "r800",
        "9" * 400 + " * r800",
    ],
)
def test_what_is_no_formula_is_refused_and_never_run(text: str) -> None:
    with pytest.raises(SpectrumError, match=r"^Expected (a formula as|a map, an index, or a band)"):
        nm.formula(CUBE, text)


def test_a_name_in_another_case_is_taken_where_it_is_clear() -> None:
    assert_array_equal(nm.index(CUBE, "ndvi").data, nm.index(CUBE, "NDVI").data)
    with pytest.raises(SpectrumError, match="Expected one of BAI and BaI, got 'bai'"):
        nm.index(CUBE, "bai")


def test_a_band_is_moved_everywhere_in_a_formula_but_not_onto_another() -> None:
    assert formulas.moved("(N - R) / (N + R)", 0, 805.4) == "(r805 - R) / (r805 + R)"
    assert formulas.moved("NDVI", 1, 650) == "(N - r650)/(N + r650)"
    assert formulas.moved("r800 / r670", 0, 670.2) == "r800 / r670"


@pytest.mark.parametrize("name", ["EVI", "SAVI", "EVI2", "MSAVI", "OSAVI"])
def test_constants_of_an_index_over_unscaled_numbers_are_said(name: str) -> None:
    values = np.array([0.04, 0.06, 0.05, 0.40]).reshape(4, 1, 1) * np.ones((4, 3, 3))
    stored = SpectralCube(values * 10000, np.array([480.0, 560, 665, 842]), quantity="")
    with pytest.warns(UserWarning, match=f"{name} has constants .* reach 4000: they look unscaled"):
        index(stored, name)
    index(SpectralCube(values, np.array([480.0, 560, 665, 842])), name)
    index(stored, "NDVI")


def test_the_suggested_formulas_take_bands_that_a_sensor_has() -> None:
    few = SpectralCube(CUBE.data[:5], np.array([480.0, 560, 660, 830, 865]))
    for text in formula_presets(few):
        assert np.isfinite(nm.formula(few, text).data).any()
