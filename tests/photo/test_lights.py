"""Lights by name: radiators, daylight and mixtures are those of the CIE and of colour-science."""

import colour
import numpy as np
import pytest
from numpy.testing import assert_allclose

from napari_mst.base.errors import CameraError
from napari_mst.cube.colour import illuminant, stored
from napari_mst.photo.cameras import (
    ESTIMATED,
    GRID,
    Acquisition,
    camera_response,
    light_power,
    load_illuminants,
)
from napari_mst.photo.lights import mixture_name


def test_a_radiator_of_2856_kelvin_is_illuminant_a() -> None:
    power = light_power("Planck 2856 K")
    assert_allclose(power / power[16] * 100, illuminant("A", GRID), rtol=1e-3)


@pytest.mark.parametrize("kelvin", [4000, 5003, 6504, 7504, 12_000])
def test_daylight_is_that_of_colour_science(kelvin: int) -> None:
    place = colour.temperature.CCT_to_xy_CIE_D(kelvin)
    told = colour.sd_CIE_illuminant_D_series(place, M1_M2_rounding=False)
    expected = np.array([told[nm] for nm in GRID])
    power = light_power(f"daylight {kelvin} K")
    assert_allclose(power, expected / expected.mean(), rtol=2e-4)


def test_lamps_of_the_cie_are_listed_with_the_others() -> None:
    assert len(stored("lamps31.npz")) == 38
    assert set(stored("lamps31.npz")) < set(load_illuminants())
    assert {"FL3.12", "HP1", "LED-B3", "LED-V2"} < set(load_illuminants())
    told = colour.SDS_ILLUMINANTS["LED-B3"]
    smooth = np.array([told[nm] for nm in GRID[5:]])  # this lamp has no line that 10 nm would blur
    own = stored("lamps31.npz")["LED-B3"][5:]
    assert np.corrcoef(own, smooth)[0, 1] > 0.995


def test_a_mixture_is_the_sum_of_its_lights_by_their_power() -> None:
    known = load_illuminants()
    wanted = 0.7 * known["A"] / known["A"].mean() + 0.3 * known["F11"] / known["F11"].mean()
    for name in ("0.7 A + 0.3 F11", "0.70 a + .3 f11", mixture_name({"A": 0.7, "F11": 0.3})):
        assert_allclose(light_power(name), wanted)
    with_radiator = light_power("0.5 planck 3000 k + 0.5 daylight 6000 K")
    assert with_radiator.mean() == pytest.approx(1)


@pytest.mark.parametrize(
    "name",
    [
        "Planck 20 K",
        "daylight 2000 K",
        "0.5 A + 0.5 nothing",
        "A + F11",
        "0 A + 1 F11",
        " + ".join(["0.05 nothing"] * 17),
        "x" * 300,
        "Planck",
    ],
)
def test_what_describes_no_light_is_refused(name: str) -> None:
    with pytest.raises(CameraError, match="Expected a CSV file or a light"):
        camera_response("Nikon_D5100", name)


def test_a_mixture_of_too_many_lights_is_counted() -> None:
    assert light_power(" + ".join(["0.08 daylight 5600 K"] * 12)).shape == (31,)
    with pytest.raises(CameraError, match="at most 12 lights in a mixture, got 17"):
        light_power(" + ".join(["0.05 daylight 5600 K"] * 17))


def test_a_capture_may_leave_the_light_to_the_photo() -> None:
    acquisition = Acquisition("nikon d5100", "Estimate")
    assert (acquisition.camera, acquisition.illuminant) == ("Nikon_D5100", ESTIMATED)
    assert acquisition.is_estimated
    assert not Acquisition("Nikon_D5100", "A").is_estimated
    with pytest.raises(CameraError, match="got 'no camera'"):
        Acquisition("no camera", ESTIMATED)
