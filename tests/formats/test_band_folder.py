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


def test_a_scene_in_a_folder_of_its_name_is_found(tmp_path: Path) -> None:
    scene = tmp_path / "balloons_ms" / "balloons_ms"
    scene.mkdir(parents=True)
    write(scene, "balloons_ms_{:02d}.png", range(1, 32))
    assert np.array_equal(read_cube(tmp_path / "balloons_ms").data, DATA)


def test_grey_bands_that_were_saved_as_rgb_are_bands(tmp_path: Path) -> None:
    grey = (DATA[:5] >> 8).astype(np.uint8)
    write(tmp_path, "band_{:02d}.png", range(5), np.stack([grey] * 3, axis=-1))
    assert np.array_equal(read_cube(tmp_path).data, grey)


@pytest.mark.parametrize(
    ("names", "wavelengths"),
    [
        ([f"image_{440 - 10 * at}_{4 - at:03}.png" for at in range(5)], [400, 410, 420, 430, 440]),
        ([f"a_{at}nm_{1000 // at}ms.png" for at in (400, 500, 600)], [400, 500, 600]),
        ([f"2026_{at:02}_{12 * at:04}_cow{400 + 5 * at}.tif" for at in range(3)], [400, 405, 410]),
        (["b450.png", "b550.png", "b650.png", "b720.png"], [450, 550, 650, 720]),
    ],
)
def test_one_of_several_numbers_is_the_wavelength(
    names: list[str], wavelengths: list[float], tmp_path: Path
) -> None:
    for name, plane in zip(names, DATA, strict=False):
        write(tmp_path, name, [0], plane[None])
    cube = read_cube(tmp_path)
    assert (cube.wavelengths.tolist(), cube.unit) == (wavelengths, "nm")
    order = np.argsort(names)
    assert np.array_equal(cube.data, DATA[: len(names)][order])


def test_numbers_that_may_count_files_are_no_wavelengths(tmp_path: Path) -> None:
    cube = read_cube(write(tmp_path, "IMG_{:04d}.png", range(401, 406)))
    assert cube.unit == "band"


@bad_input("062-folder")
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([], "a cube, or band images in .*, got none"),
        (["a.png", "b.png", "c.png"], "3 or more band images .*, got a.png, b.png, c.png"),
        (["a1.png", "a2.png"], "3 or more band images .*, got a1.png, a2.png"),
        ([f"IMG_{at}_{n}.png" for at in "12" for n in "123"], "got 6 files of 2 x 3 numbers"),
        (["a1b3.png", "a2b1.png", "a3b2.png"], "got two numbers that disagree, as in a1b3.png"),
        ([f"{at}{n}.png" for at in "ab" for n in "123"], "of one scene .* got 2: a1.png, b1.png"),
        (["x/1.png", "y/1.png"], "got folders x, y. Open one of its folders"),
    ],
)
def test_other_folders_are_declined_with_the_reason(
    names: list[str], reason: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(imagecodecs.png_encode(DATA[0]))
    assert find_format(tmp_path) is None
    refuse(tmp_path, reason)


def test_photos_are_no_bands(tmp_path: Path) -> None:
    colour = np.zeros((5, 6, 3), np.uint8)
    colour[0, 0] = 1, 2, 3
    write(tmp_path, "photo{}.png", range(4), np.array([colour] * 4))
    assert find_format(tmp_path) is None
    refuse(tmp_path, "one band in photo0.png, got 3 channels. Open colour images as photos")


@bad_input("037-folder")
def test_refuse_unequal_bands(tmp_path: Path) -> None:
    write(tmp_path, "a{}.png", range(5))
    (tmp_path / "a3.png").write_bytes(imagecodecs.png_encode(DATA[0, :5]))
    refuse(tmp_path, r"\(12, 9\) uint16 in a3.png, got \(5, 9\) uint16")
    (tmp_path / "a3.png").write_bytes(
        imagecodecs.png_encode(np.indices((12, 9, 3))[2].astype(np.uint8))
    )
    refuse(tmp_path, "one band in a3.png, got 3 channels")
    (tmp_path / "a3.png").write_bytes(b"\x89PNG")
    refuse(tmp_path, "Expected a band image, got a3.png")
