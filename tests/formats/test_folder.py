"""Folders of band images, named as data sets name them."""

from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from tests.formats.conftest import bad_input, refuse

from napari_mst.formats import find_format, read_cube

DATA = np.random.default_rng(0).integers(0, 65536, (31, 12, 9), np.uint16)


def write(
    folder: Path, template: str, numbers: "range | list[float]", data: np.ndarray = DATA
) -> Path:
    for plane, number in zip(data, numbers, strict=False):
        path = folder / template.format(number)
        if path.suffix == ".png":
            path.write_bytes(imagecodecs.png_encode(plane))
        else:
            tifffile.imwrite(path, plane)
    return folder


def test_a_scene_as_cave_ships_it_is_one_cube_at_full_depth(tmp_path: Path) -> None:
    write(tmp_path, "balloons_ms_{:02d}.png", range(1, 32))
    (tmp_path / "balloons_RGB.bmp").touch()
    (tmp_path / "Thumbs.db").touch()
    cube = read_cube(tmp_path)
    assert np.array_equal(cube.data, DATA)
    assert (cube.data.dtype, cube.unit) == (np.dtype(np.uint16), "band")
    assert cube.metadata["band names"][30] == "balloons_ms_31"
    assert cube.metadata["warnings"] == ("The file gives no wavelengths; bands are numbered.",)


@pytest.mark.parametrize("template", ["{}nm.png", "scene 2 {} nm v2.tif", "a_{:g}NM.TIF"])
def test_wavelengths_come_from_the_names_in_their_order(tmp_path: Path, template: str) -> None:
    wavelengths = [1000.0, 400.0, 99.5]
    cube = read_cube(write(tmp_path, template, wavelengths))
    assert cube.wavelengths.tolist() == wavelengths[::-1]
    assert cube.unit == "nm"
    assert np.array_equal(cube.data, DATA[2::-1])
    assert "warnings" not in cube.metadata


@bad_input("062-folder")
def test_decline_other_folders(tmp_path: Path) -> None:
    for names in (
        (),
        ("a.png",),
        ("a1.png", "a2.png"),
        ("a.png", "b.png", "c.png"),
        ("a1b1.png", "a2b2.png", "a3b3.png"),
    ):
        inside = tmp_path / str(len(names)) / "-".join(names)
        inside.mkdir(parents=True)
        for name in names:
            (inside / f"{name}.png").write_bytes(imagecodecs.png_encode(DATA[0]))
        assert find_format(inside) is None
        refuse(inside, "Expected a cube file")
    colour = np.zeros((5, 6, 3), np.uint8)
    write(tmp_path, "photo{}.png", range(4), np.array([colour] * 4))
    assert find_format(tmp_path) is None


@bad_input("037-folder")
def test_refuse_unequal_bands(tmp_path: Path) -> None:
    write(tmp_path, "a{}.png", range(5))
    (tmp_path / "a3.png").write_bytes(imagecodecs.png_encode(DATA[0, :5]))
    refuse(tmp_path, r"\(12, 9\) uint16 in a3.png, got \(5, 9\) uint16")
    (tmp_path / "a3.png").write_bytes(imagecodecs.png_encode(np.zeros((12, 9, 3), np.uint8)))
    refuse(tmp_path, "one band in a3.png, got 3 channels")
    (tmp_path / "a3.png").write_bytes(b"\x89PNG")
    refuse(tmp_path, "Expected a band image, got a3.png")
