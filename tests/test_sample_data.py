"""The files of sample_data are what its README says, and small."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst import Chart, Photo, calibrate, read_cube, read_spectra
from napari_mst.analysis.library import colour_checker
from napari_mst.base.errors import PhotoError
from napari_mst.calibration.white_patch import GreyPatch, acquisition_from_patch
from napari_mst.photo.cameras import OF_SENSOR

FOLDER = Path(__file__).parents[1] / "sample_data"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
PATCHES = (16, 100, 28)
"""Centres of the first and last row of patches in the cube, and the step; columns go on to 156."""


def test_every_file_has_an_origin_and_a_licence_and_all_are_small() -> None:
    rows = [row.split("|") for row in README.splitlines() if row.startswith("| `")]
    assert all(all(cell.strip() for cell in row[1:-1]) and len(row) == 6 for row in rows)
    listed = {name for row in rows for name in re.findall(r"`([\w.]+)`", row[1])}
    files = {path.name: path for path in FOLDER.iterdir()}
    assert listed | {"README.md"} == files.keys()
    assert sum(path.stat().st_size for path in files.values()) < 2.5e6
    assert hashlib.sha256(files["coffee.jpg"].read_bytes()).hexdigest() in README


def test_the_chart_is_one_cube_in_two_formats_with_the_patches_of_its_spectra() -> None:
    tiff, envi = (read_cube(FOLDER / name) for name in ("chart.tif", "chart.hdr"))
    assert_array_equal(tiff.data, envi.data)
    assert_array_equal(tiff.wavelengths, envi.wavelengths)
    spectra = read_spectra(FOLDER / "chart.csv")
    assert [spectrum.name for spectrum in spectra] == [each.name for each in colour_checker()]
    first, last, step = PATCHES
    centres = tiff.data[:, first : last + 1 : step, first:157:step]
    listed = centres.transpose(2, 1, 0).reshape(24, 31)
    ratio = listed / [spectrum.values for spectrum in spectra]
    # One light over all bands of a patch: least in the corners, where 15 % are missing at most.
    assert_allclose(ratio, ratio.mean(axis=1, keepdims=True).repeat(31, 1), rtol=3e-3)
    assert 0.85 < ratio.mean(axis=1).min() < ratio.mean(axis=1).max() < 1


def test_the_raw_photo_shows_the_chart_under_its_light() -> None:
    pytest.importorskip("rawpy")
    photo = Photo.read(FOLDER / "chart.dng")
    patch = GreyPatch((200, 88), 0.51)
    acquisition = acquisition_from_patch(photo, patch, start=OF_SENSOR)
    assert (acquisition.camera, acquisition.illuminant) == ("Nikon_D5100", "A")
    given = re.findall(r"\b(\d+),(\d+)", README[README.index("corner patches") :])
    one, two, three, four = ((float(row), float(column)) for row, column in given)
    after = [patch.after for patch in calibrate(photo, Chart((one, two, three, four))).patches]
    assert np.mean(after) < 0.1
    low, high = ([share * side for side in photo.shape] for share in (0.2, 0.8))
    undragged = Chart(((low[0], low[1]), (low[0], high[1]), (high[0], high[1]), (high[0], low[1])))
    with pytest.raises(PhotoError, match="between the corners, got colours 30% off"):
        calibrate(photo, undragged)
