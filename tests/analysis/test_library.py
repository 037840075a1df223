"""Libraries: others read our files, we read theirs and ours, and damage is refused."""

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import colour
import numpy as np
import pytest
import spectral
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from tests.analysis.conftest import curve

from napari_mst.analysis.classification import best_matches
from napari_mst.analysis.library import colour_checker, read_spectra, spectra_text, write_spectra
from napari_mst.base.errors import CubeFileError, CurveWarning, SaveError
from napari_mst.cube import curves
from napari_mst.cube.spectrum import Origin, Spectrum

WAVELENGTHS = np.array([400.0, 412.5, 1 / 3 + 500])
PICK = curve(
    WAVELENGTHS,
    [0.1, np.nan, 1e-9],
    name="Pick 1",
    colour="#e6194b",
    origin=Origin(cube="scene.hdr", row=3, column=40),
)
REGION = curve(
    WAVELENGTHS,
    np.array([0.1, 0.2, 0.3], np.float32),
    name='leaf, "1"',
    colour="#00ff00",
    lower=np.array([0.0, 0.1, np.nan]),
    upper=np.array([1.0, 1.1, 1.2]),
    spread="std",
    origin=Origin(
        "scene, 2", None, None, 1, "leaf", ((1.5, 2), (1 / 3, 4), (5, 6)), 120, 3, 30.75, "m2"
    ),
)
UNNAMED = curve(WAVELENGTHS, [1.0, 2, 3])
NUMBERED = curve([0.0, 1, 2], [5, 6, 7], "band", "no wavelengths")


def assert_same(read: list[Spectrum], expected: list[Spectrum]) -> None:
    for spectra in zip(read, expected, strict=True):
        for key in Spectrum.__dataclass_fields__:
            assert_equal(*(getattr(spectrum, key) for spectrum in spectra))


@pytest.mark.parametrize("suffix", [".csv", ".sli"])
@pytest.mark.parametrize("spectra", [[PICK, REGION, PICK], [REGION], [NUMBERED], [UNNAMED]])
def test_saved_spectra_open_as_they_were(
    suffix: str, spectra: list[Spectrum], tmp_path: Path
) -> None:
    path = write_spectra(tmp_path / f"saved{suffix}", spectra)
    assert path == tmp_path / f"saved{suffix}"
    assert_same(read_spectra(path), spectra)
    assert write_spectra(path, spectra[:1], overwrite=True) == path
    assert_same(read_spectra(path), spectra[:1])


@pytest.mark.parametrize("suffix", [".csv", ".sli"])
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1),
    st.lists(st.floats(allow_infinity=False), min_size=3, max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_any_name_and_number_round_trips(
    suffix: str, tmp_path_factory: pytest.TempPathFactory, name: str, values: list[float]
) -> None:
    spectrum = curve(WAVELENGTHS, values, name=name, origin=Origin(cube=name, region=name))
    path = write_spectra(tmp_path_factory.mktemp("names") / f"a{suffix}", [spectrum, PICK])
    assert_same(read_spectra(path), [spectrum, PICK])


FORMULAS = ["=1+1", "-1+1", "@SUM(1)", "\t=1", "\uff1d1", "''-1", "a;=1", "a\n+1"]


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_cell_is_a_formula_and_every_name_reads_back(
    name: str, delimiter: str, tmp_path: Path
) -> None:
    spectrum = replace(REGION, name=name, origin=Origin(cube=name, region=name))
    path = write_spectra(tmp_path / "a.csv", [spectrum])
    for text in (path.read_text(), spectra_text([spectrum])):
        for cell in chain(*csv.reader(io.StringIO(text), delimiter=delimiter)):
            is_number = cell.lstrip("+-").replace(".", "", 1).isdigit()
            assert is_number or not cell.startswith((*"=+-@\t\r\uff1d",)), cell
    assert_same(read_spectra(path), [spectrum])


def test_csv_of_several_cubes_keeps_the_wavelengths_of_each(tmp_path: Path) -> None:
    other = curve([700.0, 412.5], [3.0, 4.0], name="other")
    rising = replace(other, wavelengths=other.wavelengths[::-1], values=other.values[::-1])
    assert_same(read_spectra(write_spectra(tmp_path / "a.csv", [PICK, other])), [PICK, rising])


@pytest.mark.parametrize("suffix", [".csv", ".sli"])
def test_headings_tell_a_pick_on_two_cubes_apart(suffix: str, tmp_path: Path) -> None:
    spectra = [PICK, replace(PICK, origin=replace(PICK.origin, cube="b")), REGION]
    path = write_spectra(tmp_path / f"a{suffix}", spectra)
    # A reader of tables finds no records, and reads the headings; spectral reads an ENVI library.
    if suffix == ".csv":
        rows = csv.reader(path.read_text().splitlines())
        names = next(row[1:] for row in rows if not row[0].startswith("#"))
    else:
        names = list(map(unquote, spectral.open_image(f"{path}.hdr").names))
    assert names[:3] == ["Pick 1, scene.hdr", "Pick 1, b", 'leaf, "1"']
    assert_same(read_spectra(path), spectra)


def test_csv_is_a_table_for_any_program(tmp_path: Path) -> None:
    path = write_spectra(tmp_path / "a.csv", [PICK, REGION])
    table = np.genfromtxt(
        path, delimiter=",", comments="#", skip_header=path.read_text().count("# ") + 1
    )
    assert_array_equal(table[:, 0], WAVELENGTHS)
    assert_array_equal(table[:, 1], PICK.values)
    assert_array_equal(table[:, 2:].T, [REGION.values, REGION.lower, REGION.upper])
    assert 'wavelength (nm),Pick 1,"leaf, ""1"""' in path.read_text()


def test_clipboard_has_a_heading_and_tabs() -> None:
    rows = list(csv.reader(io.StringIO(spectra_text([PICK, REGION])), delimiter="\t"))
    leaf = ['leaf, "1"', 'leaf, "1" (lower)', 'leaf, "1" (upper)']
    assert rows[0] == ["wavelength (nm)", "Pick 1", *leaf]
    assert rows[1] == ["400", "0.1", repr(float(np.float32(0.1))), "0", "1"]
    assert len(rows) == 4


@pytest.mark.parametrize("values", [np.array([0.1, 0.2, 0.3], np.float32), [0.1, 0.2, 0.3]])
def test_spectral_reads_the_library_that_we_save(values: Any, tmp_path: Path) -> None:
    path = write_spectra(tmp_path / "a.sli", [curve(WAVELENGTHS, values, name="leaf 1"), PICK])
    judge = spectral.envi.open(f"{path}.hdr", str(path))
    assert_array_equal(judge.spectra, [np.array(values, dtype=float), PICK.values])
    assert judge.names == ["leaf 1", "Pick 1"]
    assert_array_equal(judge.bands.centers, WAVELENGTHS)
    assert judge.bands.band_unit == "Nanometers"


def spectrals(folder: Path, **fields: Any) -> Path:
    """A library as `spectral` saves it."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3) / 8
    header = {
        "wavelength": [0.4, 0.5355, 0.7],
        "spectra names": ["oak", "elm"],
        "wavelength units": "Micrometers",
    }
    spectral.envi.SpectralLibrary(values, header | fields).save(str(folder / "lib"))
    return folder / "lib.sli"


@pytest.mark.parametrize("suffix", [".sli", ".hdr"])
def test_library_that_spectral_saves_opens(suffix: str, tmp_path: Path) -> None:
    found = read_spectra(spectrals(tmp_path).with_suffix(suffix))
    assert [spectrum.name for spectrum in found] == ["oak", "elm"]
    assert_array_equal([spectrum.values * 8 for spectrum in found], [[0, 1, 2], [3, 4, 5]])
    assert_array_equal(found[0].wavelengths, [400, 535.5, 700])
    assert found[0].unit == "nm"


@pytest.mark.parametrize(
    ("units", "wavelengths", "unit", "expected"),
    [
        ("Furlongs", [0.4, 0.5355, 0.7], "Furlongs", [0.4, 0.5355, 0.7]),
        ("Wavenumber", [25000, 20000, 16000], "nm", [400, 500, 625]),
    ],
)
def test_wavelengths_of_a_library_become_nanometres_or_keep_their_word(
    units: str, wavelengths: list[float], unit: str, expected: list[float], tmp_path: Path
) -> None:
    fields = {"wavelength units": units, "wavelength": wavelengths}
    first, _ = read_spectra(spectrals(tmp_path, **fields))
    assert_array_equal(first.wavelengths, expected)
    assert first.unit == unit


def test_library_follows_the_rules_of_all_curves(tmp_path: Path) -> None:
    fields = {"wavelength units": "Unknown", "reflectance scale factor": 0.5}
    fields |= {"data ignore value": "NaN", "z plot titles": ["Wavelength", "Reflectance (%)"]}
    path = spectrals(tmp_path, **fields)
    edit("data ignore value = NaN", "data ignore value = 0", path, path.with_suffix(".hdr"))
    with pytest.warns(CurveWarning) as told:
        found = read_spectra(path)
    assert [str(one.message).removeprefix("lib.sli: ") for one in told] == [
        "The unit of the wavelengths is not given; um was assumed.",
        "Gaps in the values: 1 (nan).",
        "The heading says per cent: the values were divided by 100.",
    ]
    assert_array_equal(found[0].wavelengths, [400, 535.5, 700])
    assert_allclose(found[0].values, [np.nan, 0.0025, 0.005])


@pytest.mark.parametrize("mark", [" , ", ",\n"])
def test_a_comma_in_a_name_stays_in_it(mark: str, tmp_path: Path) -> None:
    path = spectrals(tmp_path)
    edit("{ oak , elm }", f"{{oak, red{mark}elm}}", path, path.with_suffix(".hdr"))
    assert [spectrum.name for spectrum in read_spectra(path)] == ["oak, red", "elm"]


@pytest.mark.parametrize("suffix", [".lib", ".hdr"])
def test_the_library_of_hylite_opens(suffix: str, tmp_path: Path) -> None:
    np.array([[0.1, 0.2], [0.2, 0.3], [0.3, 0.4]]).tofile(tmp_path / "a.lib")
    (tmp_path / "a.hdr").write_text(
        "ENVI\nfile type = ENVI Standard\nwavelength = {400.0, 500.0, 600.0}\n"
        "sample names = {leaf, soil}\nsamples = 2\nbands = 3\nlines = 1\ndata type = 5\n"
        "interleave = bsq\nbyte order = 0\nheader offset = 0\n"
    )
    with pytest.warns(CurveWarning, match="nm was assumed"):
        leaf, soil = read_spectra(tmp_path / f"a{suffix}")
    assert (leaf.name, soil.name) == ("leaf", "soil")
    assert_array_equal(leaf.wavelengths, [400, 500, 600])
    assert_array_equal([leaf.values, soil.values], [[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]])


def test_names_that_are_not_one_each_are_said(tmp_path: Path) -> None:
    path = spectrals(tmp_path)
    edit("{ oak , elm }", "{oak,red,elm}", path, path.with_suffix(".hdr"))
    with pytest.warns(CurveWarning, match="gives 3 names for 2 spectra; they are numbered"):
        found = read_spectra(path)
    assert [spectrum.name for spectrum in found] == ["spectrum 1", "spectrum 2"]


def test_table_of_a_spreadsheet_opens(tmp_path: Path) -> None:
    text = "\ufeff# a comment\r\nwavelength (um),a,b,\r\n0.4,.1,.2,\r\n0.5355,.3,,\r\n"
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    expected = [curve([400, 535.5], [0.1, 0.3], name="a"), curve([400], [0.2], name="b")]
    assert_same(read_spectra(tmp_path / "a.csv"), expected)


def test_unit_is_taken_from_the_caller_where_the_table_gives_none(tmp_path: Path) -> None:
    for heading, scale in (("wavelength,a", 1000), ("wavelength (nm),a", 1)):
        (tmp_path / "a.csv").write_text(f"{heading}\n{400 / scale},1\n{500 / scale},0\n")
        (spectrum,) = read_spectra(tmp_path / "a.csv", unit="um")
        assert_array_equal(spectrum.wavelengths, [400, 500])


def test_name_in_latin_1_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("nm,Gr\xfcn\n400,1\n500,0\n".encode("latin-1"))
    assert read_spectra(tmp_path / "a.csv")[0].name == "Gr\xfcn"


def written(content: str | bytes, suffix: str = ".csv") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / f"a{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def damaged(change: Callable[[Path, Path], object], folder: Path) -> Path:
    path = write_spectra(folder / "a.sli", [PICK, REGION])
    change(path, path.with_name("a.sli.hdr"))
    return path


def edit(old: str, new: str, _: Path, header: Path) -> None:
    text = header.read_text()
    assert old in text
    header.write_text(text.replace(old, new))


def of_another_with_complex_numbers(data: Path, header: Path) -> None:
    edit("data type = 5", "data type = 6", data, header)
    header.write_text(header.read_text().replace("napari mst", "another"))


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "none.csv", "none.csv to be readable, got: No such file"),
    "folder": (lambda folder: folder, "to be readable, got"),
    "empty": (written(""), "a table of wavelengths and values in a.csv, got none"),
    "binary": (written(b"\x89PNG\0\0"), "UTF-16 or binary data"),
    "bounds": (written("# curve,lower\nnm,a\n400,1\n"), "spectra in a.csv, got none"),
    "role": (
        written("# curve,values,middle,upper\nnm,a,b,c\n400,1,2,3\n"),
        "got a change: 'lower'",
    ),
    "row": (written("# row,top\nnm,a\n400,1\n"), "got a change: invalid literal"),
    "colour": (written("# colour,red\nnm,a\n400,1\n"), "got a change: Expected a colour"),
    "long cell": (written('nm,"' + "a" * 200_000 + '"\n400,1\n'), "a table of text"),
    "no header": (written(b"\0\0\0\0", ".sli"), "an ENVI header at or beside a.sli, got none"),
    "cube": (
        partial(damaged, partial(edit, "Spectral Library", "Standard")),
        "file type 'ENVI Spectral Library' in a.sli.hdr, got 'ENVI Standard'",
    ),
    "bands": (
        partial(damaged, partial(edit, "bands = 1", "bands = 2")),
        "'bands' 1, as spectra are lines",
    ),
    "cut": (
        partial(damaged, lambda data, _: data.write_bytes(data.read_bytes()[:-1])),
        "The data file is incomplete",
    ),
    "changed": (
        partial(damaged, lambda data, _: data.write_bytes(bytes(96))),
        "data with checksum",
    ),
    "type": (
        partial(damaged, partial(edit, "data type = 5", "data type = 6")),
        "real numbers in a.sli.hdr, got complex ones",
    ),
    "complex": (partial(damaged, of_another_with_complex_numbers), "real numbers in a.sli.hdr"),
    "origin": (
        partial(damaged, partial(edit, '"row": "3"', '"row": "x"')),
        "got a change: invalid literal",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damage_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    make, message = REFUSED[name]
    path = make(tmp_path)
    with pytest.raises(CubeFileError) as caught:
        read_spectra(path)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_notes_that_no_longer_fit_the_spectra_are_left(tmp_path: Path) -> None:
    path = damaged(partial(edit, "napari mst spectra = {", "napari mst spectra = {5"), tmp_path)
    with pytest.warns(CurveWarning):
        found = read_spectra(path)
    assert [spectrum.name for spectrum in found][:2] == ["Pick 1", 'leaf, "1"']


@pytest.mark.parametrize(
    ("name", "spectra", "message"),
    [
        ("a.csv", [], "wavelengths have one unit, got no spectra"),
        ("a.sli", [PICK, NUMBERED], "wavelengths have one unit, got band, nm"),
        ("a.sli", [PICK, curve([1.0], [2.0])], "same wavelengths for an ENVI library"),
        ("a.csv", [PICK, curve([1.0, 1], [2.0, 3])], "each wavelength once"),
        ("a.txt", [PICK], "ending in .csv, .sli, got 'a.txt'"),
        ("none/a.csv", [PICK], "an existing folder"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    name: str, spectra: list[Spectrum], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SaveError, match=message):
        write_spectra(tmp_path / name, spectra)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".sli"])
def test_existing_file_is_kept_unless_told(suffix: str, tmp_path: Path) -> None:
    path = write_spectra(tmp_path / f"a{suffix}", [PICK])
    with pytest.raises(SaveError, match="which exists"):
        write_spectra(path, [REGION])
    assert_same(read_spectra(path), [PICK])


def test_interrupted_save_is_finished_by_the_next_read(tmp_path: Path) -> None:
    """As a save that was killed after its first rename leaves it."""
    path = write_spectra(tmp_path / "a.sli", [PICK])
    path.with_name("a.sli.hdr").rename(tmp_path / ".a.sli.hdr.old")
    assert_same(read_spectra(path), [PICK])
    assert {file.name for file in tmp_path.iterdir()} == {"a.sli", "a.sli.hdr"}


def test_table_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_spectra(tmp_path / "a.csv", [PICK])
    monkeypatch.setattr(curves, "MAX_BYTES", 10)
    with pytest.raises(CubeFileError, match=r"at most 10 bytes in a\.csv, got more"):
        read_spectra(path)


def test_library_never_takes_the_header_of_a_cube(tmp_path: Path) -> None:
    (tmp_path / "scene.hdr").write_text("ENVI\n")
    write_spectra(tmp_path / "scene.sli", [PICK], overwrite=True)
    assert (tmp_path / "scene.hdr").read_text() == "ENVI\n"
    assert_same(read_spectra(tmp_path / "scene.sli"), [PICK])


def test_colour_checker_is_that_of_colour_science() -> None:
    """Measured on other copies of the chart, each patch is the nearest, or just as grey."""
    standard = colour.SDS_COLOURCHECKERS["ISO 17321-1"]
    names = {name.split(" (")[0]: sd for name, sd in standard.items()} | {
        "white": standard["white 9.5 (.05 D)"],
        "black": standard["black 2 (1.5 D)"],
    }
    chart = colour_checker()
    assert len(chart) == len({patch.name for patch in chart}) == 24
    for patch in chart:
        judge = curve(names[patch.name].wavelengths, names[patch.name].values)
        assert best_matches(patch, [judge])[0].angle < 7.5
        assert patch.values.mean() == pytest.approx(judge.values.mean(), rel=0.35)
