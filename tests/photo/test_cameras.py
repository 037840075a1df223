"""Cameras and lights: their tables, their spellings, and the response that they make together."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst.base.errors import CameraError
from napari_mst.cube.colour import illuminant, srgb_response
from napari_mst.photo.cameras import (
    BALANCED,
    GRID,
    OF_SENSOR,
    Acquisition,
    camera_response,
    load_cameras,
    load_illuminants,
    matching_camera,
    named,
    unbalanced_response,
)


def test_52_measured_cameras_are_there_and_none_without_a_licence() -> None:
    assert len(load_cameras()) == 52
    assert not [name for name in load_cameras() if "NTIRE" in name]
    for sensitivities in load_cameras().values():
        assert sensitivities.shape == (31, 3)
        assert (sensitivities.sum(axis=0) > 0).all()


def test_illuminants_begin_with_the_usual_ones() -> None:
    assert list(load_illuminants())[:3] == ["D65", "D50", "A"]
    assert_array_equal(load_illuminants()["A"], illuminant("A", GRID))
    assert all(power.shape == (31,) and (power > 0).all() for power in load_illuminants().values())


@pytest.mark.parametrize("name", ["Nikon D5100", "nikon_d5100", "NIKON D5100", "Nikon_D5100"])
def test_names_may_be_spelled_with_spaces_and_in_any_case(name: str) -> None:
    """The spelling makes no difference, neither to the response nor to the record."""
    assert Acquisition(name, "a") == Acquisition("Nikon_D5100", "A")
    assert_array_equal(
        camera_response(name, "OFFICE fluorescent"),
        camera_response("Nikon_D5100", "office-fluorescent"),
    )
    assert_array_equal(camera_response("SRGB", "d65"), camera_response("sRGB", "D65"))


@pytest.mark.parametrize("light", ["D65", "A", "F11"])
@pytest.mark.parametrize("camera", ["Nikon_D5100", "Fujifilm_X-T4", "sRGB"])
def test_white_is_white_for_every_camera_and_light(camera: str, light: str) -> None:
    assert_allclose(camera_response(camera, light).sum(axis=0), 1)


def test_srgb_in_daylight_is_srgb() -> None:
    assert_allclose(camera_response("sRGB", "D65"), srgb_response(GRID))


def test_gains_balance_what_the_sensor_gives() -> None:
    sensor = Acquisition("Nikon_D5100", "A", balance=OF_SENSOR)
    seen = unbalanced_response("Nikon_D5100", "A") * sensor.gains
    assert_allclose(seen, sensor.response)
    assert sensor.gains[1] == pytest.approx(1)
    assert sensor.gains[2] > sensor.gains[0]  # blue is what incandescent light lacks
    assert_array_equal(Acquisition("Nikon_D5100", "A").gains, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Nikon_D5200", "D65"), "a camera as Nikon_D"),
        (("Nikon_D5100", "D95"), "a light as D"),
        (("Nikon_D5100", "D65", -1.0), "above 0, got -1.0"),
        (("Nikon_D5100", "D65", float("nan")), "above 0, got nan"),
        (("Nikon_D5100", "D65", 0.0, "auto"), f"Expected a balance '{BALANCED}'"),
    ],
)
def test_unknown_capture_is_refused_at_once(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(CameraError, match=message):
        Acquisition(*arguments)


def test_own_sensitivities_come_from_a_table_and_are_recorded_with_their_checksum(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.csv"
    rows = [
        f"{nm:g},{red:.9g},{green:.9g},{blue:.9g}"
        for nm, (red, green, blue) in zip(GRID, load_cameras()["Nikon_D5100"], strict=True)
    ]
    path.write_text("\n".join(["nm,r,g,b", *rows]))
    assert_allclose(
        camera_response(str(path), "D50"), camera_response("Nikon_D5100", "D50"), atol=1e-8
    )
    assert named(str(path)).startswith("mine.csv (")
    assert named("Nikon_D5100") == "Nikon_D5100"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a wavelength and 3 values in mine.csv, got none"),
        ("nm,r,g\n400,.1,.2\n700,.1,.2\n", "a wavelength and 3 values in mine.csv, got 3 columns"),
        ("nm,r,g,b\n500,1,2,3\n700,1,2,3\n", "from 400 to 700 nm in mine.csv, got others"),
        ("nm,r,g,b\n400,1,0,3\n700,1,0,3\n", "red, green and blue above 0 in mine.csv"),
    ],
)
def test_table_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(CameraError, match=message):
        camera_response(str(tmp_path / "mine.csv"), "D65")


@pytest.mark.parametrize(
    ("make", "model", "name"),
    [
        ("NIKON CORPORATION", "NIKON D5100", "Nikon_D5100"),
        ("Canon", "Canon EOS 5D Mark III", "Canon_EOS_5D_Mark_III"),
        ("SONY", "ILCE-7M3", "Sony_ILCE-7M3"),
        ("FUJIFILM", "X-T4", "Fujifilm_X-T4"),
        ("Canon", "Canon EOS 5D Mark", ""),
        ("Apple", "iPhone 15", ""),
        ("", "", ""),
    ],
)
def test_camera_of_a_file_is_only_the_one_of_exactly_its_name(
    make: str, model: str, name: str
) -> None:
    assert matching_camera(make, model) == name


def test_other_names_of_a_camera_are_known() -> None:
    file = resources.files("napari_mst").joinpath("data", "aliases.json")
    aliases = json.loads(file.read_text(encoding="utf-8"))
    assert len(aliases) == 15
    for alias, name in aliases.items():
        assert name in load_cameras()
        brand, _, model = alias.partition(" ")
        assert matching_camera(brand, alias) == matching_camera(brand, model) == name
    assert matching_camera("Arashi Vision", "Insta360 X5") == "Arashi_Vision_Insta360_X5"
