"""RAW photos in napari: our reader, layers that napari's own has opened, and the cube of one."""

import weakref
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from napari.layers._source import layer_source
from pytestqt.qtbot import QtBot
from tests.raw_photos import Camera, write_dng

from napari_mst.photo.cameras import ESTIMATED
from napari_mst.photo.photo import Photo
from napari_mst.plugin.files.opening import cube_reader, open_paths
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.layer_photos import LayerPhoto

pytest.importorskip("rawpy")

SCENE = np.random.default_rng(0).random((40, 60, 3)) * 0.8
THUMBNAIL = np.full((10, 15, 3), 77, np.uint8)


@pytest.fixture
def dng(tmp_path: Path) -> Path:
    return write_dng(tmp_path / "photo.dng", SCENE, Camera(orientation=6), thumbnail=THUMBNAIL)


def opened(path: Path) -> Image:
    viewer = ViewerModel()
    open_paths(viewer, [path])
    (layer,) = viewer.layers
    return layer


def assert_is_the_photo(layer: Image, path: Path) -> None:
    """The layer gives jobs what the command line reads from the file."""
    of_file = Photo.read(path, encoding="linear")
    for encoding in (None, "linear"):
        of_layer = LayerPhoto.of(layer, (0, 0)).read(encoding)
        np.testing.assert_array_equal(of_layer.pixels, of_file.pixels)
        assert of_layer.full_scale == of_file.full_scale
        assert (of_layer.encoding, of_layer.shot) == (of_file.encoding, of_file.shot)
        assert set(of_layer.assumptions) <= set(of_file.assumptions)


def test_our_reader_opens_the_photo_that_the_command_line_reads(dng: Path) -> None:
    assert cube_reader(str(dng)) is not None
    layer = opened(dng)
    assert layer.rgb
    assert_is_the_photo(layer, dng)


def test_a_raw_photo_chooses_its_model_camera_and_light_unless_a_person_has_chosen(
    dng: Path,
) -> None:
    layer, ordinary = opened(dng), Image(THUMBNAIL, rgb=True)
    form = ReconstructionForm()
    for photo, card in (
        (layer, "mstpp-camera"),
        (ordinary, "mstpp-photo"),
        (layer, "mstpp-camera"),
    ):
        form.photo = weakref.ref(photo)
        assert (form.card, form.misfit) == (card, "")
    assert form.illuminant == ESTIMATED
    assert form.camera == "Nikon_D5100"
    assert "The file says that Nikon_D5100 took it" in form.hint
    form.card = "pixelwise-srgb"
    for photo in (ordinary, layer):
        form.photo = weakref.ref(photo)
        assert form.card == "pixelwise-srgb"
    assert "pixelwise-srgb is for sRGB photos" in form.misfit
    form.use_fitting_card()
    assert (form.card, form.misfit) == ("mstpp-camera", "")


def test_thumbnail_that_napari_opened_gives_way_to_the_photo(dng: Path, qtbot: QtBot) -> None:
    viewer = ViewerModel()
    recogniser = attend(viewer)
    with layer_source(path=str(dng), reader_plugin="napari"):
        viewer.add_image(THUMBNAIL, name="photo")
    qtbot.waitUntil(lambda: viewer.layers[0].data.shape == (60, 40, 3))
    qtbot.waitUntil(lambda: recogniser.running == 0)
    (layer,) = viewer.layers
    assert (layer.name, layer.source.path) == ("photo", str(dng))
    assert_is_the_photo(layer, dng)


def test_pixels_that_were_changed_are_no_longer_those_of_the_sensor(dng: Path) -> None:
    layer = opened(dng)
    layer.data = (layer.data / 65535).astype(np.float32)
    photo = LayerPhoto.of(layer, (0, 0)).read()
    assert (photo.shot, photo.encoding) == (None, "srgb")
