"""RAW photos in napari: our reader, and layers that napari's own reader has opened."""

from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from napari.layers._source import layer_source
from pytestqt.qtbot import QtBot
from tests.raw_photos import Camera, write_dng

from napari_mst.photo.photo import Photo
from napari_mst.plugin.files.contributions import cube_reader
from napari_mst.plugin.files.opening import open_paths
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.photos import LayerPhoto

pytest.importorskip("rawpy")

SCENE = np.random.default_rng(0).random((40, 60, 3)) * 0.8
THUMBNAIL = np.full((10, 15, 3), 77, np.uint8)


@pytest.fixture
def dng(tmp_path: Path) -> Path:
    return write_dng(tmp_path / "photo.dng", SCENE, Camera(orientation=6), thumbnail=THUMBNAIL)


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
    viewer = ViewerModel()
    open_paths(viewer, [dng])
    (layer,) = viewer.layers
    assert layer.rgb
    assert_is_the_photo(layer, dng)


def test_dock_preselects_the_camera_of_a_raw_photo(dng: Path) -> None:
    import weakref

    viewer = ViewerModel()
    open_paths(viewer, [dng])
    (layer,) = viewer.layers
    form = ReconstructionForm(card="mstpp-camera")
    form.photo = weakref.ref(layer)
    assert form.camera == "Nikon_D5100"
    assert "The file says that Nikon_D5100 took it" in form.hint


def test_thumbnail_that_napari_opened_gives_way_to_the_photo(dng: Path, qtbot: QtBot) -> None:
    viewer = ViewerModel()
    recogniser = attend(viewer)
    with layer_source(path=str(dng), reader_plugin="napari"):
        viewer.add_image(THUMBNAIL, name="photo")
    qtbot.waitUntil(lambda: viewer.layers[0].data.shape == (60, 40, 3))
    qtbot.waitUntil(lambda: not recogniser.is_busy)
    (layer,) = viewer.layers
    assert (layer.name, layer.source.path) == ("photo", str(dng))
    assert_is_the_photo(layer, dng)


def test_pixels_that_were_changed_are_no_longer_those_of_the_sensor(dng: Path) -> None:
    viewer = ViewerModel()
    open_paths(viewer, [dng])
    (layer,) = viewer.layers
    layer.data = (layer.data / 65535).astype(np.float32)
    photo = LayerPhoto.of(layer, (0, 0)).read()
    assert (photo.shot, photo.encoding) == (None, "srgb")
