"""A photo gives the same cube from the window, the command line and Python.

tests/test_site.py compares the browser with Python.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from napari.layers import Image as Layer
from napari.layers._source import layer_source
from numpy.testing import assert_array_equal
from PIL import Image

import napari_mst as nm
from napari_mst.cli.main import main
from napari_mst.photo.photo import Photo
from napari_mst.photo.photo_pages import shown_pages
from napari_mst.plugin.viewer.layer_photos import LayerPhoto

Array = np.ndarray[Any, Any]
P3 = (0.68, 0.32, 0.265, 0.69, 0.15, 0.06)
ICC = bytes(imagecodecs.cms_profile("rgb", whitepoint=(0.3127, 0.3290), primaries=P3, gamma=2.2))
CODES = np.random.default_rng(0).integers(30, 220, (20, 30, 3)).astype(np.uint8)
UPRIGHT_OF_6 = -1  # quarter turns


def turned(adobe: bool = False) -> bytes:
    exif = Image.Exif()
    exif[274] = 6
    if adobe:
        exif.get_ifd(0x8769)[0xA001] = 65535
        exif.get_ifd(0x8769)[0xA005] = {1: "R03"}
    return exif.tobytes()


def jpeg(folder: Path) -> Path:
    Image.fromarray(CODES).save(folder / "a.jpg", icc_profile=ICC, exif=turned())
    return folder / "a.jpg"


def adobe(folder: Path) -> Path:
    Image.fromarray(CODES).save(folder / "a.jpg", exif=turned(adobe=True))
    return folder / "a.jpg"


def heic(folder: Path) -> Path:
    import pillow_heif

    pillow_heif.register_heif_opener()
    Image.fromarray(CODES).save(folder / "a.heic", icc_profile=ICC, exif=turned())
    return folder / "a.heic"


def deep_tiff(folder: Path) -> Path:
    tags = [(34675, 7, len(ICC), ICC, True)]
    codes = CODES.astype(np.uint16) * 257
    tifffile.imwrite(folder / "a.tif", codes, photometric="rgb", extratags=tags, metadata=None)
    return folder / "a.tif"


def as_napari_reads(path: Path) -> Array:
    if path.suffix == ".tif":
        return tifffile.imread(path)
    return np.asarray(Image.open(path))  # on its side


def layer_of(pixels: Array, path: Path) -> LayerPhoto:
    with layer_source(path=str(path), reader_plugin="napari"):
        return LayerPhoto.of(Layer(pixels, rgb=True, name="photo"), (0, 0))


@pytest.mark.parametrize("make", [jpeg, heic])
def test_a_photo_of_a_phone_gives_one_cube_everywhere(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path)
    cube = nm.reconstruct(path, model="pixelwise-srgb")
    assert cube.shape[1:] == (30, 20)
    assert "converted from" in " ".join(cube.provenance.assumptions)

    out = tmp_path / "cube.hdr"
    assert main(["reconstruct", str(path), "-o", str(out), "--model", "pixelwise-srgb"]) == 0
    assert_array_equal(nm.read_cube(out).data, cube.data)

    photo = layer_of(shown_pages(path), path).read()
    in_window = nm.reconstruct(photo, model="pixelwise-srgb")
    assert_array_equal(in_window.data, cube.data)
    assert "converted from" in " ".join(in_window.provenance.assumptions)


@pytest.mark.parametrize("read", [as_napari_reads, shown_pages], ids=["napari", "recognised"])
@pytest.mark.parametrize("make", [jpeg, adobe, deep_tiff])
def test_the_colours_of_a_file_count_where_the_pixels_of_its_layer_are_its_own(
    make: Callable[[Path], Path], read: Callable[[Path], Array], tmp_path: Path
) -> None:
    path = make(tmp_path)
    pixels, truth = read(path), Photo.read(path)
    photo = layer_of(pixels, path).read()
    expected = np.moveaxis(truth.pixels, 0, -1)
    if pixels.shape != expected.shape:
        expected = np.rot90(expected, -UPRIGHT_OF_6)
    assert_array_equal(np.moveaxis(photo.pixels, 0, -1), expected)
    assert set(truth.assumptions) <= set(photo.assumptions)


def test_values_for_a_camera_are_those_of_the_file_though_its_layer_shows_others(
    tmp_path: Path,
) -> None:
    path = deep_tiff(tmp_path)
    photo = layer_of(shown_pages(path), path).read("linear")
    assert_array_equal(photo.pixels, np.moveaxis(CODES.astype(np.uint16) * 257, -1, 0))


def test_a_layer_with_other_pixels_than_its_file_is_doubted(tmp_path: Path) -> None:
    path = jpeg(tmp_path)
    photo = layer_of(CODES ^ 1, path).read()
    assert_array_equal(photo.pixels, np.moveaxis(CODES ^ 1, -1, 0))
    assert "other pixels by now" in " ".join(photo.assumptions)
    path.unlink()
    assert layer_of(CODES, path).read().assumptions == ()
