"""The table of labels, against scikit-image and the formulas of the distances."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from skimage.measure import regionprops_table

from napari_mst.analysis.formulas import indices_of
from napari_mst.analysis.label_table import MOST_COMPARED, label_table, separability, write_table
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube

RNG = np.random.default_rng(11)
LABELS = RNG.integers(0, 4, (30, 40))
LABELS[0, 0] = 9
DATA = (RNG.normal(3, 1, (4, 30, 40)) + LABELS * RNG.normal(size=(4, 1, 1))) / 10
CUBE = SpectralCube(DATA.astype(np.float32), np.array([500.0, 550, 660, 830]))


def test_every_label_has_its_place_its_area_its_mean_and_its_deviation() -> None:
    table = label_table(CUBE, LABELS, {2: "leaf"}, pixel_area=(0.25, "um^2"))
    props = ("label", "centroid", "num_pixels", "intensity_mean", "intensity_std")
    expected = regionprops_table(LABELS, np.moveaxis(DATA, 0, -1), properties=props)
    names = ("label", "row", "column", "pixels", "mean 550 nm", "sd 830 nm")
    theirs = ("label", "centroid-0", "centroid-1", "num_pixels", "intensity_mean-1")
    for ours, column in zip(names, (*theirs, "intensity_std-3"), strict=True):
        assert_allclose(table[ours], expected[column], rtol=1e-6, atol=1e-6)
    assert table["area (um^2)"] == [each / 4 for each in table["pixels"]]
    assert table["name"] == ["", "leaf", "", ""]


def test_an_index_of_a_label_is_that_of_its_mean_spectrum() -> None:
    table = label_table(CUBE, LABELS)
    near, red = np.array(table["mean 830 nm"]), np.array(table["mean 660 nm"])
    assert_allclose(table["NDVI"], (near - red) / (near + red), rtol=1e-6)
    assert set(indices_of(CUBE)) <= set(table)


def test_the_separability_is_the_jeffries_matusita_distance() -> None:
    one, other = (CUBE.data[:, number == LABELS].astype(float) for number in (1, 2))
    covariances = [np.cov(one), np.cov(other)]
    both, step = sum(covariances) / 2, one.mean(axis=1) - other.mean(axis=1)
    volumes = [np.linalg.det(each) for each in (both, *covariances)]
    bhattacharyya = step @ np.linalg.solve(both, step) / 8
    bhattacharyya += np.log(volumes[0] / np.sqrt(volumes[1] * volumes[2])) / 2
    table = label_table(CUBE, LABELS)
    expected = 2 * (1 - np.exp(-bhattacharyya))
    assert_allclose(table["JM to 1"][:2], [0, expected], rtol=1e-6, atol=1e-12)
    assert np.isnan(table["JM to 1"][3])
    assert "JM to 9" not in table


def test_what_has_fewer_directions_than_bands_is_compared_along_those() -> None:
    mixing = RNG.uniform(0.1, 1, (31, 4))
    many = SpectralCube(np.tensordot(mixing, CUBE.data, 1), np.arange(400.0, 701, 10))
    numbers = np.array([1, 2, 3])
    few = separability(CUBE, LABELS, numbers)
    assert_allclose(separability(many, LABELS, numbers), few, rtol=1e-4, atol=1e-9)


def test_thousands_of_cells_are_not_compared_and_no_label_is_refused() -> None:
    cells = np.arange(1, 1201).reshape(30, 40) // 3
    table = label_table(CUBE, cells)
    assert len(table["label"]) > MOST_COMPARED
    assert not any(name.startswith("JM") for name in table)
    with pytest.raises(SpectrumError, match="with labels, got only 0"):
        label_table(CUBE, 0 * LABELS)


def test_a_table_is_saved_for_other_programs_and_runs_no_formula(tmp_path: Path) -> None:
    table = label_table(CUBE, LABELS, {1: "=1+1"})
    read = pd.read_csv(write_table(tmp_path / "cells.csv", table))
    assert read["name"][0] == "'=1+1"
    assert_array_equal(read["mean 500 nm"], table["mean 500 nm"])
