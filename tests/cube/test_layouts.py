"""Layouts of spectra in texts, each with an example as programs and instruments write it."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import napari_mst as nm
from napari_mst.base.errors import CubeFileError, OutOfMemory
from napari_mst.cube import text_tables
from napari_mst.cube.text_tables import parsed

NAN = math.nan


class Read(NamedTuple):
    """A text, and its spectra: wavelengths in nm and reflectance by name."""

    text: str
    spectra: dict[str, tuple[list[float], list[float]]]


AT = [400.0, 410.0, 420.0]
LEAF, SOIL = [0.1, 0.2, 0.3], [0.2, 0.25, 0.3]
BOTH = {"leaf": (AT, LEAF), "soil": (AT, SOIL)}

JCAMP = """##TITLE= {title}
##JCAMP-DX= 4.24 $$ made by hand
##DATA TYPE= UV/VIS SPECTRUM
##XUNITS= NANOMETERS
##YUNITS= REFLECTANCE
##XFACTOR= 1
##YFACTOR= 0.1
##FIRSTX= 400
##LASTX= 490
##NPOINTS= 10
##XYDATA= (X++(Y..Y))
{data}
##END=
"""
TEN = [400.0 + 10 * at for at in range(10)]
# The example of the specification, in its five forms, over two lines where there are checks.
VALUES = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0, -0.1, -0.2, -0.3]
FORMS = {
    "fixed": "400 1 2 3 3 2\n450 1 0 -1 -2 -3",
    "packed": "400+1+2+3+3+2+1+0-1-2-3",
    "squeezed": "400ABCCBA@abc",
    "differences": "400AJJ%j\n440Bjjjjj",
    "differences and repeats": "400AJT%jX",
}

READ = {
    "Cary, with a log below": Read(
        "leaf,,soil,\nWavelength (nm),%R,Wavelength (nm),%R,\n400,10,400,20,\n410,20,410,25,\n"
        "420,30,420,30,\n\nleaf\nCollection Time: 1/2/2020 10:11:12 AM\nScan Rate (nm/min),600.0\n",
        BOTH,
    ),
    "Shimadzu, of other wavelengths": Read(
        '"leaf - RawData","","soil - RawData",""\nWavelength nm.,R%,Wavelength nm.,R%\n'
        "400,10,403,20\n410,20,413,25\n420,30,,\n",
        {"leaf - RawData": (AT, LEAF), "soil - RawData": ([403, 413], SOIL[:2])},
    ),
    "WebPlotDigitizer": Read(
        "leaf,,soil,\nX,Y,X,Y\n400,.1,400,.2\n410,.2,410,.25\n420,.3,420,.3\n", BOTH
    ),
    "pairs without a heading": Read(
        "400 .1 403 .2\n410 .2 413 .25\n420 .3 423 .3\n",
        {"column 2": (AT, LEAF), "column 4": ([403, 413, 423], SOIL)},
    ),
    "pairs whose heading names no wavelengths": Read(
        "w1,leaf,w2,soil\n400,.1,403,.2\n410,.2,413,.25\n420,.3,423,.3\n",
        {"leaf": (AT, LEAF), "soil": ([403, 413, 423], SOIL)},
    ),
    "pandas, with its index": Read(
        ",wavelength,leaf,soil\n0,400,.1,.2\n1,410,.2,.25\n2,420,.3,.3\n", BOTH
    ),
    "R, write.table of wavelengths": Read(
        '"nm" "leaf" "soil"\n"1" 400 0.1 0.2\n"2" 410 0.2 0.25\n"3" 420 0.3 0.3\n', BOTH
    ),
    "bands and their wavelengths": Read(
        "band;wavelength (um);leaf;soil\n1;0,4;.1;.2\n2;0,41;.2;.25\n3;0,42;.3;.3\n", BOTH
    ),
    "EcoSIS": Read(
        "Sample Name,Latin Species,Target Type,400,410,420\nleaf,rubra,Leaf,.1,.2,.3\n"
        "soil,,Soil,.2,.25,.3\n",
        BOTH,
    ),
    "EcoSIS, facts behind": Read(
        "400,410,420,site,sample_id\n.1,.2,.3,north,leaf\n.2,.25,.3,north,soil\n", BOTH
    ),
    "pandas": Read(",400.0,410.0,420.0\n0,.1,.2,.3\n1,.2,.25,.3\n", {
        "0": (AT, LEAF), "1": (AT, SOIL)
    }),
    "pandas, with names": Read(
        ",label,400,410,420\n0,leaf,.1,.2,.3\n1,soil,.2,.25,.3\n", BOTH
    ),
    "R, write.csv": Read(
        '"","id","X400","X410","X420"\n"1","leaf",0.1,0.2,0.3\n"2","soil",0.2,NA,0.3\n',
        {"leaf": (AT, LEAF), "soil": (AT, [0.2, NAN, 0.3])},
    ),
    "R, write.table": Read(
        '"400" "410" "420"\n"leaf" 0.1 0.2 0.3\n"soil" 0.2 0.25 0.3\n', BOTH
    ),
    "R, hyperSpec": Read(
        "name\tspc.400\tspc.410\tspc.420\nleaf\t.1\t.2\t.3\nsoil\t.2\t.25\t.3\n", BOTH
    ),
    "units in the heading": Read(
        "sample;0,40 um;0,41 um;0,42 um\nleaf;10;20;30\nsoil;20;25;30\n", BOTH
    ),
    "Orange": Read(
        "400\t410\t420\tname\ncontinuous\tcontinuous\tcontinuous\tstring\n\t\t\tmeta\n"
        ".1\t.2\t.3\tleaf\n.2\t.25\t.3\tsoil\n",
        BOTH,
    ),
    "numbers alone": Read("400 410 420\n.1 .2 .3\n.2 .25 .3\n", {
        "spectrum 1": (AT, LEAF), "spectrum 2": (AT, SOIL)
    }),
    "CGATS of ArgyllCMS": Read(
        'SPECT\n\nORIGINATOR "Argyll spotread"\nKEYWORD "SPECTRAL_NORM"\nSPECTRAL_NORM "100.0"\n\n'
        "NUMBER_OF_FIELDS 5\nBEGIN_DATA_FORMAT\nSAMPLE_ID SAMPLE_NAME SPEC_400 SPEC_410 SPEC_420 \n"
        'END_DATA_FORMAT\n\nNUMBER_OF_SETS 2\nBEGIN_DATA\n1 "leaf" 10 20 30 \n2 "soil" 20 25 30 \n'
        "END_DATA\n",
        BOTH,
    ),
    "CGATS of X-Rite": Read(
        "CGATS.17\nBEGIN_DATA_FORMAT\nSampleID\tLAB_L\tnm400\tnm410\tnm420\nEND_DATA_FORMAT\n"
        "BEGIN_DATA\nleaf\t50\t.1\t.2\t.3\nsoil\t60\t.2\t.25\t.3\nEND_DATA\n",
        BOTH,
    ),
    "CGATS of the standard": Read(
        "CGATS.17\nBEGIN_DATA_FORMAT\nSAMPLE_ID SPECTRAL_NM SPECTRAL_PCT SPECTRAL_NM SPECTRAL_PCT "
        "SPECTRAL_NM SPECTRAL_PCT\nEND_DATA_FORMAT\nBEGIN_DATA\nleaf 400 10 410 20 420 30\n"
        "soil 400 20 410 25 420 30\nEND_DATA\n",
        BOTH,
    ),
    "Ocean Optics": Read(
        "Data from leaf.txt\nNumber of Pixels: 3\n>>>>>Begin Spectral Data<<<<<\n400\t.1\n410\t.2\n"
        "420\t.3\n>>>>>End Spectral Data<<<<<\n",
        {"leaf.txt": (AT, LEAF)},
    ),
    "Spectra Vista": Read(
        "/*** Spectra Vista SIG Data ***/\nname= C:\\data\\leaf\nunits= Radiance\ndata= \n"
        "400.0 90.5 9.05 10.00\n410.0 91.0 18.2 20.00\n420.0 92.0 27.6 30.00\n",
        {"leaf": (AT, LEAF)},
    ),
    **{f"JCAMP-DX, {form}": Read(JCAMP.format(title="leaf", data=data), {"leaf": (TEN, VALUES)})
       for form, data in FORMS.items()},
    "JCAMP-DX, compound": Read(
        "##TITLE= two\n##DATA TYPE= LINK\n##BLOCKS= 3\n"
        + JCAMP.format(title="leaf", data=FORMS["fixed"])
        + "##TITLE= soil\n##XUNITS= NANOMETERS\n##YUNITS= REFLECTANCE\n##NPOINTS=2\n"
        "##XYPOINTS= (XY..XY)\n405, .1; 415, .2\n##END=\n##END=\n",
        {"leaf": (TEN, VALUES), "soil": ([405, 415], [0.1, 0.2])},
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::napari_mst.base.errors.CurveWarning")
@pytest.mark.parametrize("name", READ)
def test_a_layout_is_read_with_its_names_and_wavelengths(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(READ[name].text)
    spectra = nm.read_spectra(path)
    assert [spectrum.name for spectrum in spectra] == list(READ[name].spectra)
    for spectrum, (at, values) in zip(spectra, READ[name].spectra.values(), strict=True):
        np.testing.assert_allclose(spectrum.wavelengths, at)
        np.testing.assert_allclose(spectrum.values, values, atol=1e-12)


def test_a_table_of_columns_stays_one() -> None:
    matrix = parsed("wavelength (nm),410,420,430\n400,.1,.2,.3\n500,.2,.3,.4\n", "a.csv")
    assert [record["name"] for record in matrix.records] == ["410", "420", "430"]
    numbered = parsed("nm,band 1,band 2,band 3\n400,.1,.2,.3\n500,.2,.3,.4\n", "a.csv")
    assert numbered.wavelengths.tolist() == [400, 500]
    bare = parsed("400,.1,.2,.3\n500,.2,.3,.4\n", "a.csv")
    assert bare.wavelengths.tolist() == [400, 500]
    counts = parsed("nm,a,b,c\n400,5,900,7\n500,6,950,6\n600,5,990,5\n", "a.csv")
    assert [record["name"] for record in counts.records] == ["a", "b", "c"]
    samples = parsed("nm,m1,m2,m3\n400,.1,.2,.3\n500,.2,.3,.4\n", "a.csv")
    assert [record["name"] for record in samples.records] == ["m1", "m2", "m3"]


def test_text_below_the_table_is_said_to_be_left_out() -> None:
    found = parsed("nm,a\n400,.1\n500,.2\nMethod: scan\nUser,Ann\n", "a.csv")
    assert found.wavelengths.tolist() == [400, 500]
    assert list(found.notes) == ["Text below the table was left out (2 rows)."]


REFUSED = {
    ",400,410,420\n500,.1,.2,.3\n510,.2,.3,.4\n": "in the first row or column",
    "id,400,410,420\na,.1,x,.3\n": "numbers in row 2 in a.csv, got 'x'",
    "nm,a,nm,b\n400,.1,400,.1\n400,.2,410,.1\n": "got two that differ at 400",
    "nm,a,um,b\n400,.1,.4,.1\n410,.2,.41,.1\n": "wavelengths of one unit",
    JCAMP.format(title="a", data="400 1 2 3"): "10 points in a.csv, got 3",
    JCAMP.format(title="a", data="400AJT%j\n450Cjjjjj"): "fit their checks in a.csv",
    JCAMP.format(title="a", data="400 1 2 3 4 5\n490 1 2 3 4 5"): "fit their checks in a.csv",
    JCAMP.format(title="a", data="400AS99999"): "10 points in a.csv, got more",
    JCAMP.format(title="a", data="400 1 2 y3"): "a complete JCAMP-DX text in a.csv",
    "##TITLE= a\n##NTUPLES= NMR\n##END=\n": "XYDATA in a JCAMP-DX text in a.csv, got none",
    "BEGIN_DATA_FORMAT\nSAMPLE_ID LAB_L\nEND_DATA_FORMAT\nBEGIN_DATA\n1 50\nEND_DATA\n": (
        "spectra in a CGATS text in a.csv, got none"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_layout_with_a_fault_is_refused(text: str) -> None:
    with pytest.raises(CubeFileError) as caught:
        parsed(text, "a.csv")
    assert REFUSED[text] in str(caught.value)
    assert len(str(caught.value)) < 300


def test_too_many_columns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "MAX_COLUMNS", 3)
    with pytest.raises(CubeFileError, match="at most 3 columns"):
        parsed("nm,a,b,c\n400,1,2,3\n", "a.csv")


def test_a_text_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError

    (tmp_path / "a.csv").write_text("nm,a\n400,.1\n")
    monkeypatch.setattr(text_tables, "_split", none_left)
    with pytest.raises(OutOfMemory, match=r"memory for a\.csv"):
        nm.read_spectra(tmp_path / "a.csv")
