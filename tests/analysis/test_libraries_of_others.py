"""Spectra as instruments (ASD, Spectral Evolution) and libraries (USGS, ECOSTRESS) store them."""

import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import napari_mst as nm
from napari_mst.base.errors import CubeFileError, CurveWarning

ECOSTRESS = """Name: Abies concolor
Type: vegetation
Description: a fir, wet; from 3 leaves. 34.4 %
First Column: X
Second Column: Y
X Units: Wavelength (micrometers)
Y Units: Reflectance (percent)
Additional Information: abies.ancillary.txt

 2.5\t 10.0
 1.4\t 34.5
 0.35\t 3.0
"""
SED = """Comment:
Measurement: REFLECTANCE
Units: None
Data:
Wvl\tRad. (Ref.)\tRad. (Target)\tReflect. %
350\t1.0E+0\t5.0E-2\t5.0
351\t1.0\t6.0E-2\t6.0
"""
SPLIB = " splib07a Record=22: Aspen_Leaf-A DW92-2 ASDFRa AREF\n  0.05\n -1.2300000e+034\n  0.08\n"
SPLIB_AXIS = " splib07a Record=1: Wavelengths ASD\n 0.35\n 0.351\n 0.352\n"


def asd(kind: int, spectrum: list[float], white: list[float]) -> bytes:
    """Version 8 as ASD's document 600596 lays it out."""
    raw = bytearray(484)
    raw[:3] = b"as8"
    raw[186], raw[199] = kind, 2
    struct.pack_into("<2f", raw, 191, 350.0, 1.0)
    struct.pack_into("<H", raw, 204, len(spectrum))
    reference = bytes(18) + struct.pack("<H", 5) + b"tile." + np.array(white).tobytes()
    return bytes(raw) + np.array(spectrum).tobytes() + reference


def read(path: Path) -> nm.Spectrum:
    with pytest.warns(CurveWarning):
        (spectrum,) = nm.read_spectra(path)
    return spectrum


def test_ecostress_has_its_name_its_unit_and_shares(tmp_path: Path) -> None:
    (tmp_path / "a.spectrum.txt").write_text(ECOSTRESS)
    leaf = read(tmp_path / "a.spectrum.txt")
    assert (leaf.name, leaf.unit) == ("Abies concolor", "nm")
    assert_array_equal(leaf.wavelengths, [2500, 1400, 350])
    assert_allclose(leaf.values, [0.1, 0.345, 0.03])


def test_sed_gives_its_reflectance_alone(tmp_path: Path) -> None:
    (tmp_path / "a.sed").write_text(SED)
    assert_allclose(read(tmp_path / "a.sed").values, [0.05, 0.06])


def test_usgs_takes_the_wavelengths_from_the_file_above(tmp_path: Path) -> None:
    chapter = tmp_path / "ChapterV_Vegetation"
    chapter.mkdir()
    (chapter / "splib07a_Aspen.txt").write_text(SPLIB)
    with pytest.raises(CubeFileError, match="3 wavelengths beside it"):
        nm.read_spectra(chapter / "splib07a_Aspen.txt")
    (tmp_path / "splib07a_Wavelengths_ASD.txt").write_text(SPLIB_AXIS)
    leaf = read(chapter / "splib07a_Aspen.txt")
    assert leaf.name == "Aspen_Leaf-A DW92-2 ASDFRa AREF"
    assert_array_equal(leaf.wavelengths, [350, 351, 352])
    assert_array_equal(leaf.values, [0.05, np.nan, 0.08])


def test_asd_counts_are_divided_by_those_of_the_white(tmp_path: Path) -> None:
    (tmp_path / "raw.asd").write_bytes(asd(0, [10.0, 20, 30], [100.0, 100, 100]))
    (leaf,) = nm.read_spectra(tmp_path / "raw.asd")
    assert (leaf.name, leaf.wavelengths.tolist()) == ("raw", [350, 351, 352])
    assert_allclose(leaf.values, [0.1, 0.2, 0.3])
    (tmp_path / "ready.asd").write_bytes(asd(1, [0.1, 0.2, 0.3], [1.0, 1, 1]))
    assert_allclose(nm.read_spectra(tmp_path / "ready.asd")[0].values, [0.1, 0.2, 0.3])
    (tmp_path / "torn.asd").write_bytes(asd(0, [10.0, 20, 30], [100.0, 100, 100])[:500])
    with pytest.raises(CubeFileError, match="complete ASD file"):
        nm.read_spectra(tmp_path / "torn.asd")
