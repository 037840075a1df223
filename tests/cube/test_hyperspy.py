"""A cube as a signal of HyperSpy, and back."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.cube.test_xarray import CUBE, DATA, same

from napari_mst.base.errors import CubeError
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.cube.georeference import FIELD
from napari_mst.cube.labelled import _axis_of
from napari_mst.cube.parts import without


def test_what_is_no_signal_is_refused_in_a_sentence() -> None:
    with pytest.raises(CubeError, match="a signal of HyperSpy, got ndarray"):
        SpectralCube.from_hyperspy(DATA)


def test_an_axis_called_bands_without_a_unit_has_their_numbers() -> None:
    axis = SimpleNamespace(units="", name="Bands", axis=np.array([3.0, 4.0, 5.0]))
    numbers, unit = _axis_of(axis)
    assert (numbers.tolist(), unit) == ([0, 1, 2], BAND_INDEX)
    for units, name in (("", "Energy"), ("nm", "bands")):
        axis = SimpleNamespace(units=units, name=name, axis=np.array([400.0, 500.0]))
        if units:
            assert _axis_of(axis)[0].tolist() == [400, 500]
        else:
            with pytest.raises(CubeError, match="the unit of the signal axis"):
                _axis_of(axis)


@pytest.fixture
def signals() -> Any:
    return pytest.importorskip("hyperspy.api", reason="HyperSpy is not installed").signals


@pytest.mark.usefixtures("signals")
def test_a_signal_has_the_wavelengths_on_its_signal_axis() -> None:
    signal = CUBE.to_hyperspy()
    (axis,) = signal.axes_manager.signal_axes
    assert (axis.name, axis.units, axis.is_uniform) == ("wavelength", "nm", True)
    assert_array_equal(axis.axis, CUBE.wavelengths)
    assert signal.axes_manager.navigation_shape == (5, 4)
    assert np.shares_memory(signal.data, DATA)
    assert_array_equal(signal.inav[3, 2].data, DATA[:, 2, 3])


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("wavelengths", [(500, 550, 600), (500, 550, 620), (620, 550, 500)])
def test_a_cube_comes_back(wavelengths: tuple[float, ...]) -> None:
    cube = replace(CUBE, wavelengths=np.array(wavelengths, dtype=np.float64))
    assert same(SpectralCube.from_hyperspy(cube.to_hyperspy()), cube)


@pytest.mark.usefixtures("signals")
def test_a_cube_without_wavelengths_counts_its_bands() -> None:
    counted = replace(CUBE, wavelengths=np.arange(3.0), unit=BAND_INDEX)
    assert same(SpectralCube.from_hyperspy(counted.to_hyperspy()), counted)


@pytest.mark.usefixtures("signals")
def test_a_cube_comes_back_from_a_file_of_hyperspy(tmp_path: Path) -> None:
    from hyperspy.api import load

    CUBE.to_hyperspy().save(tmp_path / "cube.hspy")
    assert same(SpectralCube.from_hyperspy(load(tmp_path / "cube.hspy")), CUBE)


@pytest.mark.usefixtures("signals")
def test_a_part_of_a_signal_is_that_part_of_the_cube() -> None:
    part = SpectralCube.from_hyperspy(CUBE.to_hyperspy().inav[1:4, 2:])
    expected = CUBE.crop(rows=(2, 4), columns=(1, 4))
    assert_array_equal(part.data, expected.data)
    assert part.metadata == without(expected.metadata, [FIELD])
    assert part.provenance.cut


@pytest.mark.usefixtures("signals")
def test_a_signal_whose_pixels_were_added_up_loses_its_place() -> None:
    part = SpectralCube.from_hyperspy(CUBE.to_hyperspy().rebin(scale=(5, 2, 1)))
    assert part.shape == (3, 2, 1)
    assert FIELD not in part.metadata
    assert part.metadata["fwhm"] == (1.0, 2.0, 3.0)


def test_signals_of_others_are_read_or_refused(signals: Any) -> None:
    axes = [
        {"name": "y", "size": 4},
        {"name": "x", "size": 5},
        {"name": "Wavelength", "size": 3, "offset": 0.5, "scale": 0.05, "units": "µm"},
    ]
    signal = signals.Signal1D(np.moveaxis(DATA, 0, -1), axes=axes)
    cube = SpectralCube.from_hyperspy(signal)
    assert_allclose(cube.wavelengths, [500, 550, 600])
    assert (cube.unit, cube.quantity) == ("nm", "")
    assert_array_equal(cube.data, DATA)
    with pytest.raises(CubeError, match="1 signal axis and 2 to navigate"):
        SpectralCube.from_hyperspy(signal.as_signal2D((1, 0)))
    with pytest.raises(CubeError, match="the unit of the signal axis"):
        SpectralCube.from_hyperspy(signals.Signal1D(DATA))
