"""All curves come through one door, with one set of rules."""

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst.base.errors import CameraError, CubeFileError, CurveWarning
from napari_mst.cube import curves
from napari_mst.cube.illuminants import illuminant_power
from napari_mst.cube.text_tables import parsed
from napari_mst.photo.cameras import GRID, camera_response, light_power

NAN = math.nan
NM = "The unit of the wavelengths is not given; nm was assumed."
UM = "The unit of the wavelengths is not given; um was assumed."
KEPT = "The unit of the wavelengths is not given; they are kept as they are."
HEADING = "The heading says per cent: the values were divided by 100."


class Read(NamedTuple):
    """A text, the wavelengths in it, the values of each curve, and what is said."""

    text: str
    wavelengths: list[float]
    values: list[list[float]]
    notes: Sequence[str] = ()
    unit: str = "nm"


def per_cent(peak: float) -> str:
    return f"Values up to {peak:g} were taken for per cent, and divided by 100."


USGS = """USGS Digital Spectral Library splib06a
Clark and others 2007, USGS, Data Series 231.
(standard deviation of 0.000000 means not measured)
(      -1.23e34  indicates a deleted number)
----------------------------------------------------
Actinolite HS116.3B       W1R1Bb AREF
      0.205100      -1.23e34      -1.23e34
      0.213100       0.062500       0.000000
      2.976000       0.481250       0.000500
"""

ASD = """Text conversion of header file: leaf.000
--------------------------------------------
New ASD spectrum file: Program version = 2.00 file version = 2.00
Spectrum saved: 06/21/2010 at 12:19:20
VNIR channel 1 wavelength = 350 wavelength step = 1
xmin = 350 xmax= 2500
Spectrum file is reflectance data

Wavelength\tleaf.000
350\t0.0431
351\t0.0442
"""

READ = {
    "comma": Read("nm,a\n400,.1\n500,.2\n", [400, 500], [[0.1, 0.2]]),
    "semicolon": Read("nm;a\n400;.1\n500;.2\n", [400, 500], [[0.1, 0.2]]),
    "tab": Read("nm\ta\n400\t.1\n500\t.2\n", [400, 500], [[0.1, 0.2]]),
    "blanks": Read("wavelength (nm)   a\n 400  .1\n 500  .2\n", [400, 500], [[0.1, 0.2]]),
    "comma and blank, one": Read("nm, a\n400, .1\n", [400], [[0.1]]),
    "comma and blank": Read("nm, a, b\n400, .1, .2\n", [400], [[0.1], [0.2]]),
    "decimal commas, semicolon": Read("nm;a\n400,5;0,1\n500;1\n", [400.5, 500], [[0.1, 1]]),
    "decimal commas, tab": Read("nm\ta\n400,5\t0,1\n", [400.5], [[0.1]]),
    "decimal commas, blanks": Read("nm a\n400,5 0,1\n", [400.5], [[0.1]]),
    "whole numbers": Read("nm,a,b\n400,0,1\n500,1,0\n", [400, 500], [[0, 1], [1, 0]]),
    "blanks at ends": Read("nm,a,b,\n400,0,,\n500,1,0,\n  \n", [400, 500], [[0, 1], [NAN, 0]]),
    "um": Read("Wavelength [\u00b5m],a\n.4191,.1\n", [419.1], [[0.1]]),
    "nm that are um": Read(
        "wavelength (nm),a\n0.4,.1\n0.5,.2\n", [400, 500], [[0.1, 0.2]],
        ["The wavelengths are in um, although the file says nm."],
    ),
    "um that are nm": Read(
        "wavelength (um),a\n400,.1\n500,.2\n", [400, 500], [[0.1, 0.2]],
        ["The wavelengths are in nm, although the file says um."],
    ),
    "wavenumbers": Read("Wavenumber (cm-1),a\n25000,.1\n20000,.2\n", [400, 500], [[0.1, 0.2]]),
    "wavenumber": Read("wavenumber,a\n25000,.1\n", [400], [[0.1]]),
    "nm by range": Read("400,.1\n500,.2\n", [400, 500], [[0.1, 0.2]], [NM]),
    "um by range": Read("wavelength,a\n.4,.1\n14.5,.2\n", [400, 14500], [[0.1, 0.2]], [UM]),
    "bands": Read("1,.1\n2,.2\n", [1, 2], [[0.1, 0.2]], [KEPT], "Unknown"),
    "word": Read("wavelength (px),a\n1,.1\n", [1], [[0.1]], [], "px"),
    "numpy": Read("# Wavelength (um) R(%)\n0.4 10\n0.5 20\n", [400, 500], [[0.1, 0.2]], [HEADING]),
    "per cent": Read("nm,Reflectance (%)\n400,.5\n", [400], [[0.005]], [HEADING]),
    "no per cent": Read("nm,18 % grey\n400,.5\n", [400], [[0.5]]),
    "per cent of the set": Read(
        "nm,dark,white\n400,1.5,90\n500,1,95\n", [400, 500], [[0.015, 0.01], [0.9, 0.95]],
        [per_cent(95)],
    ),
    "dark per cent": Read("nm,a\n400,1.5\n500,1\n", [400, 500], [[0.015, 0.01]], [per_cent(1.5)]),
    "fluorescence": Read(
        "nm,orange\n400,.1\n500,.2\n600,1.5\n", [400, 500, 600], [[0.1, 0.2, 1.5]],
        ["Values up to 1.5 were taken for reflectance, not for per cent."],
    ),
    "a bright band": Read(
        "nm,dye\n400,.5\n500,.5\n600,2.5\n", [400, 500, 600], [[0.005, 0.005, 0.025]],
        [per_cent(2.5)],
    ),
    "a number above": Read("3\nnm,a\n400,.1\n", [400], [[0.1]]),
    "pandas": Read(",0,1\n400,.1,.2\n", [400], [[0.1], [0.2]], [NM]),
    "hash": Read("nm,#1\n400,.1\n", [400], [[0.1]]),
    "counts": Read("nm,a\n400,1500\n500,900\n", [400, 500], [[1500, 900]]),
    "radiance": Read("nm,radiance of lamp\n400,15\n500,9\n", [400, 500], [[15, 9]]),
    "noise": Read("nm,a\n350,7.5\n400,.1\n500,.2\n", [350, 400, 500], [[7.5, 0.1, 0.2]]),
    "gaps": Read(
        "nm,a\n400,inf\n410,nan\n420,-9999\n430,-1.23e34\n440,-inf\n450,.1\n",
        [400, 410, 420, 430, 440, 450], [[NAN] * 5 + [0.1]],
        ["Gaps in the values: 5 (-1.23e+34, -9999, -inf, inf)."],
    ),
    "twice the same": Read("nm,a\n500,.2\n400,.1\n500,.2\n", [500, 400], [[0.2, 0.1]]),
    "USGS": Read(
        USGS, [205.1, 213.1, 2976], [[NAN, 0.0625, 0.48125]],
        ["Its standard deviations were left out.", UM, "Gaps in the values: 1 (-1.23e+34)."],
    ),
    "ASD": Read(ASD, [350, 351], [[0.0431, 0.0442]], [NM]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_text_means_this_and_says_so(name: str) -> None:
    text, wavelengths, values, notes, unit = READ[name]
    found = parsed(text, "a.csv").in_shares()
    assert_array_equal(found.wavelengths, wavelengths)
    assert_allclose(found.values, values, rtol=1e-15)
    assert list(found.notes) == list(notes)
    assert found.unit == unit


def test_curves_are_named_by_their_heading_or_title() -> None:
    texts = [
        USGS,
        ASD,
        "Wavelength leaf\n400 .1\n",
        "my leaf\n400 .1\n",
        "x,elm\n400,.1\n",
        "400 .1\n",
    ]
    titles = [parsed(text, "a.csv").records[0]["name"] for text in texts]
    usgs = "Actinolite HS116.3B W1R1Bb AREF"
    assert titles == [usgs, "leaf.000", "leaf", "my leaf", "elm", "column 1"]


REFUSED = {
    "400,0,1\n500,0,2\n": "a name above each column in a.csv, got '400,0,1', whose commas",
    "nm,a,b\n400,0,1,2\n": "got '400,0,1,2', whose commas may be decimal",
    "nm,a\n400,0,1\n500,1\n": "got '400,0,1', whose commas may be decimal",
    "nm,a\n400,.1\n500,.2\n400,.3\n": "one value a wavelength in a.csv, got two that differ at 400",
    "nm,a\n400,.1\n400,nan\n": "got two that differ at 400",
    "nm,a\n0,.1\n400,.2\n": "wavelengths above 0 in a.csv",
    "cm-1,a\n0,.1\n400,.2\n": "wavelengths above 0 in a.csv",
    "nm,a\n400,.1\ninf,.2\n": "a wavelength in every row in a.csv",
    "nm,a\n400,.1\n500,1_0\n": "numbers in row 3 in a.csv, got '1_0'",
    "nm;a\n400;1.234,5\n": "numbers in row 2 in a.csv, got '1.234,5'",
    "400,.1\n500,x\n": "numbers in row 2 in a.csv, got 'x'",
    "400,.1\nmiddle\n500,.2\n": "numbers in row 2 in a.csv, got 'middle'",
    "splib07a Record=1: Quartz BECKb AREF\n 0.1\n 0.2\n": "a table of wavelengths and values",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_means_nothing_or_two_things_is_refused(text: str) -> None:
    with pytest.raises(CubeFileError) as caught:
        parsed(text, "a.csv")
    assert REFUSED[text] in str(caught.value)
    assert len(str(caught.value)) < 300


DIALECTS = [(",", "."), (";", "."), (";", ","), ("\t", ","), (" ", "."), (" ", ",")]
"""Marks between cells, and in numbers."""

NUMBERS = st.floats(0.001, 1.2, allow_subnormal=False).map(lambda value: round(value, 6))


@given(
    values=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6),
    dialect=st.sampled_from(DIALECTS),
    unit=st.sampled_from(["nm", "um", "cm-1"]),
    is_percent=st.booleans(),
)
@settings(deadline=None, max_examples=200)
def test_one_table_is_the_same_in_every_dialect(
    values: list[tuple[float, float]], dialect: tuple[str, str], unit: str, is_percent: bool
) -> None:
    mark, point = dialect
    nm = 400.0 + 10 * np.arange(len(values))
    axis = {"nm": nm, "um": nm / 1000, "cm-1": 1e7 / nm}[unit]
    name = "(%)" if is_percent else "name"
    rows = [[f"wavelength ({unit})", f"a{name}", "b"]]
    for at, pair in zip(axis.tolist(), values, strict=True):
        cells = [at, *(value * (100 if is_percent else 1) for value in pair)]
        rows.append([format(cell, ".17f").replace(".", point) for cell in cells])
    found = parsed("\n".join(mark.join(row) for row in rows), "a.csv").in_shares()
    assert_allclose(found.wavelengths, nm, rtol=1e-12)
    assert_allclose(found.values.T, values, rtol=1e-12)


@given(st.text(st.sampled_from('0159.,;\t\n -+e#%()naif"\u00b5m\0\x1e')))
@settings(deadline=None, max_examples=500)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(CubeFileError):
        found = parsed(text, "a.csv").in_shares()
        assert found.values.shape == (len(found.records), len(found.wavelengths))
        assert not np.isinf(found.values).any() or found.is_own


def lamp(tmp_path: Path, **powers: str) -> str:
    """A file of equal power from 380 to 720 nm, with other *powers* at some ("nm550")."""
    rows = [f"{nm};{powers.get(f'nm{nm}', '1')}" for nm in range(380, 721, 10)]
    path = tmp_path / "lamp.csv"
    path.write_text("\n".join(["wavelength (nm);power", *rows, *powers.get("more", "").split()]))
    return str(path)


@pytest.mark.parametrize(
    ("powers", "message"),
    [
        ({"nm550": "-1"}, "positive numbers from 400 to 700 nm in lamp.csv, got others"),
        ({"more": "550;2"}, "one value a wavelength in lamp.csv, got two that differ at 550"),
        ({"nm550": "1;2"}, "rows of a wavelength and one value in lamp.csv, got 3 columns"),
        ({f"nm{nm}": "inf" for nm in (700, 710, 720)}, "numbers from 400 to 700 nm in lamp.csv"),
    ],
)
def test_a_light_that_can_be_none_is_refused(
    powers: dict[str, str], message: str, tmp_path: Path
) -> None:
    file = lamp(tmp_path, **powers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CurveWarning)
        for read in (light_power, lambda light: illuminant_power(light, GRID)):
            with pytest.raises(CameraError, match=message):
                read(file)


def test_gaps_of_a_light_or_camera_are_told_and_bridged(tmp_path: Path) -> None:
    file = lamp(tmp_path, nm550="inf", nm560="-9999")
    with pytest.warns(CurveWarning, match=r"lamp\.csv: Gaps in the values: 2 \(-9999, inf\)\."):
        assert_array_equal(light_power(file), 1)
    path = tmp_path / "camera.csv"
    path.write_text("um r g b\n.4 1 nan 1\n.41 2 2 2\n.3 2 2 2\n.8 2 2 2\n")
    with pytest.warns(CurveWarning, match=r"camera\.csv: Gaps in the values: 1 \(nan\)\."):
        response = camera_response(str(path), "E")
    assert_allclose(response, 1 / len(GRID))


def test_a_large_light_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MAX_BYTES", 100)
    with pytest.raises(CameraError, match=r"at most 100 bytes in lamp\.csv"):
        light_power(lamp(tmp_path))


def test_numbers_of_our_own_files_stay_as_they_are() -> None:
    text = "# name,a\n# curve,values\nwavelength (Unknown),a\n1,45\n1,-9999\n2,inf\n"
    found = parsed(text, "a.csv")
    assert found.is_own
    assert_array_equal(found.values, [[45, -9999, np.inf]])
    assert_array_equal(found.wavelengths, [1, 1, 2])
    assert (found.unit, found.notes) == ("Unknown", [])
