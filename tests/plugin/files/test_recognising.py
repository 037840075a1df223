"""Layers that napari's own reader has opened become what their files say, without a question."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image as Picture
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import WAVELENGTHS, Told, make_cube
from tests.plugin.in_viewer import cube_in

from napari_mst.batch.clips import write_clip
from napari_mst.cube import SpectralCube
from napari_mst.formats import write_cube
from napari_mst.formats.zarr.writing import CubeClip
from napari_mst.photo.photo import Photo
from napari_mst.plugin.files import describing, questions
from napari_mst.plugin.files.opening import open_paths
from napari_mst.plugin.files.preferences import prefer_own_reader
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import LayerPhoto, photo_layers
from napari_mst.plugin.viewer.layers import cube_layer, cube_of, go_to, is_picture_shown

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
"""Large enough for napari to take it for a photo."""


@pytest.fixture
def viewer(manifests: None) -> ViewerModel:
    return ViewerModel()


def opened(viewer: ViewerModel, path: Path) -> Image:
    """As napari opens the file for a person who has used the plugin before.

    Raises where napari would ask for a reader.
    """
    prefer_own_reader()
    return viewer._open_or_raise_error([str(path)])[0]


def opened_by_napari(viewer: ViewerModel, path: Path) -> Image:
    """As `Viewer.open` does in a script, or a person who chooses napari's own reader."""
    return viewer.open(str(path))[0]


def recognised(viewer: ViewerModel, qtbot: QtBot) -> None:
    recogniser = attend(viewer)
    qtbot.waitUntil(lambda: recogniser.running == 0)


@pytest.mark.parametrize(
    ("suffix", "is_first", "open_file"),
    [
        (".tif", False, opened),  # the dock is opened later
        (".tif", True, opened_by_napari),
        (".npz", True, opened),
        (".zarr", False, opened_by_napari),
    ],
)
def test_a_cube_of_ours_has_its_wavelengths_picks_and_history(
    viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    suffix: str,
    is_first: bool,
    open_file: Callable[[ViewerModel, Path], Image],
) -> None:
    cube = replace(make_cube(), metadata={"picks": "2 3 1 #ff0000 leaf"})
    if is_first:
        attend(viewer)
    layer = open_file(viewer, write_cube(tmp_path / f"cube{suffix}", cube))
    recognised(viewer, qtbot)
    found = cube_of(layer)
    assert found is not None
    assert_array_equal(found.data, cube.data)
    assert_array_equal(found.wavelengths, WAVELENGTHS)
    assert found.provenance == cube.provenance
    assert layer.axis_labels == ("wavelength (nm)", "y", "x")
    assert (layer.scale[0], layer.translate[0]) == (10, 400)
    assert layer.colormap.name == cube_layer(cube, "")[1]["colormap"]
    assert picks.names(picks.picks_layer(viewer)) == ["leaf"]
    assert viewer.layers.selection.active is layer or not is_first
    assert photo_layers(viewer) == []


@pytest.mark.usefixtures("as_pictures")
def test_a_recognised_cube_is_first_shown_as_a_picture(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    composer = Composer.of(viewer)
    attend(viewer)
    layer = opened_by_napari(viewer, write_cube(tmp_path / "cube.tif", make_cube()))
    recognised(viewer, qtbot)
    assert cube_of(layer) is not None
    qtbot.waitUntil(lambda: not composer.is_first_due(layer))
    assert is_picture_shown(viewer, layer)
    go_to(viewer, layer, WAVELENGTHS[-1])
    assert not is_picture_shown(viewer, layer)


def test_the_cubes_of_a_clip_follow_the_frame_that_is_shown(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    frames = [replace(make_cube(), data=make_cube().data + np.float32(at)) for at in range(3)]
    attend(viewer)
    clip = CubeClip(iter(frames), (3, *frames[0].shape), [0, 0.2, 0.4])
    opened(viewer, write_clip(tmp_path / "clip.zarr", clip))
    recognised(viewer, qtbot)
    (layer,) = (layer for layer in viewer.layers if layer.name == "clip")
    assert layer.axis_labels[0] == "time (s)"
    assert layer.scale[0] == pytest.approx(0.2)
    for at in (2, 0):
        viewer.dims.set_point(0, 0.2 * at)
        found = cube_in(layer)
        assert_array_equal(found.data, frames[at].data)
        assert_array_equal(found.wavelengths, WAVELENGTHS)


Offers = list[tuple[str, Callable[[], object]]]


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> Offers:
    """The offers that wait for no answer: their words, and the function that a yes calls."""
    offered: Offers = []

    def offer(text: str, yes: str, accept: Callable[[], object]) -> None:
        offered.append((text, accept))

    monkeypatch.setattr(questions, "offer", offer)
    return offered


def test_a_plain_array_that_napari_opened_becomes_a_cube_if_the_user_says_so(
    viewer: ViewerModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    offers: Offers,
) -> None:
    cube = make_cube()
    np.save(tmp_path / "plain.npy", np.moveaxis(cube.data, 0, -1))
    opened(viewer, tmp_path / "plain.npy")
    attend(viewer)
    ((text, accept),) = offers
    assert "'plain' holds 20 x 30 x 31 numbers (float32) and no wavelengths." in text
    monkeypatch.setattr(questions, "window", lambda: object())
    monkeypatch.setattr(
        questions, "ask_bands_of", lambda *_: questions.DescribedBands(-1, WAVELENGTHS)
    )
    accept()
    (layer,) = viewer.layers
    assert_array_equal(cube_in(layer).data, cube.data)
    assert_array_equal(cube_in(layer).wavelengths, WAVELENGTHS)
    assert layer.axis_labels == ("wavelength (nm)", "y", "x")


@pytest.mark.parametrize("is_cube", [True, False])
def test_wavelengths_of_any_stack_can_be_said(
    viewer: ViewerModel, monkeypatch: pytest.MonkeyPatch, is_cube: bool
) -> None:
    cube = make_cube()
    bare = SpectralCube(cube.data, np.arange(len(cube.data), dtype=float), "band", "")
    if is_cube:
        data, arguments, _ = cube_layer(bare, "bare")
        viewer.add_image(data, **arguments)
    else:
        viewer.add_image(np.moveaxis(cube.data, 0, -1), name="bare")
    viewer.layers.selection.active = viewer.layers[0]
    asked = []

    def ask(*about: Any, is_axis_known: bool) -> questions.DescribedBands:
        asked.append(is_axis_known)
        return questions.DescribedBands(0 if is_cube else -1, WAVELENGTHS)

    monkeypatch.setattr(describing, "current_viewer", lambda: viewer)
    monkeypatch.setattr(questions, "ask_bands", ask)
    describing.set_wavelengths()
    (layer,) = [layer for layer in viewer.layers if not layer.rgb]
    assert_array_equal(cube_in(layer).data, cube.data)
    assert_array_equal(cube_in(layer).wavelengths, WAVELENGTHS)
    assert layer.axis_labels[0] == "wavelength (nm)"
    assert asked == [is_cube]


@pytest.mark.parametrize("number", [np.int64, np.uint16, np.float64])
def test_a_photo_that_was_added_as_a_grey_stack_is_offered_in_colour(
    viewer: ViewerModel, qtbot: QtBot, offers: Offers, number: type
) -> None:
    attend(viewer)
    above = viewer.add_image(np.zeros((40, 50)))
    viewer.add_image(PIXELS.astype(number), rgb=False, name="grey", scale=(2, 3, 1))
    viewer.layers.move(1, 0)
    ((text, accept),) = offers
    assert "'grey' has 3 numbers in each pixel" in text
    accept()
    recognised(viewer, qtbot)
    layer, other = viewer.layers
    assert (layer.name, layer.rgb, other) == ("grey", True, above)
    assert layer.scale.tolist() == [2, 3]
    photo = LayerPhoto.of(layer, viewer.dims.point).read()
    expected = Photo.from_array(PIXELS.astype(number))
    assert_allclose(photo.rows(0, 40, linear=True), expected.rows(0, 40, linear=True))
    assert len(offers) == 1


def test_several_cubes_show_the_band_that_the_first_showed_and_others_are_brought_into_view(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    path = write_cube(tmp_path / "cube.tif", make_cube())
    layers = [opened(viewer, path) for _ in range(3)]
    viewer.dims.set_point(0, 7)
    recognised(viewer, qtbot)
    assert viewer.dims.point[0] == 470
    assert [round(layer.world_to_data(viewer.dims.point)[0]) for layer in layers] == [7] * 3
    infrared = replace(make_cube(), wavelengths=WAVELENGTHS + 600)
    opened(viewer, write_cube(tmp_path / "infrared.tif", infrared))
    recognised(viewer, qtbot)
    assert viewer.dims.point[0] == 1150


def test_what_the_user_has_set_on_the_layer_stays(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    layer = opened(viewer, write_cube(tmp_path / "cube.tif", make_cube()))
    layer.data = changed = layer.data * 2
    layer.name, layer.colormap, layer.scale = "mine", "viridis", (1, 3, 4)
    layer.contrast_limits = (0.2, 0.4)
    recognised(viewer, qtbot)
    assert cube_in(layer).data is changed
    assert (layer.name, layer.colormap.name) == ("mine", "viridis")
    assert (layer.scale.tolist(), layer.contrast_limits) == ([10, 3, 4], [0.2, 0.4])


def test_a_cube_of_one_band_becomes_a_cube_layer_in_its_place(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    cube = make_cube()
    one = SpectralCube(cube.data[:1], cube.wavelengths[:1])
    opened(viewer, write_cube(tmp_path / "one.tif", one))
    viewer.add_image(np.zeros((4, 5)), name="above")
    recognised(viewer, qtbot)
    assert [layer.name for layer in viewer.layers] == ["one", "above"]
    assert_array_equal(cube_in(viewer.layers["one"]).data, one.data)


def test_a_damaged_cube_stays_as_napari_shows_it_and_it_is_said(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path, told: Told
) -> None:
    path = write_cube(tmp_path / "cube.tif", make_cube())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    layer = opened(viewer, path)
    recognised(viewer, qtbot)
    assert cube_of(layer) is None
    (sentence,) = told()
    assert "is shown without its wavelengths. This needs numbers with checksum" in sentence


def test_what_is_no_cube_opens_as_without_us(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path, told: Told, offers: Offers
) -> None:
    stack = np.random.default_rng(1).random((5, 20, 30), dtype=np.float32)
    tifffile.imwrite(tmp_path / "stack.tif", stack)
    tifffile.imwrite(tmp_path / "photo.tif", PIXELS, photometric="rgb")
    np.savez(tmp_path / "stack.npz", stack)
    for number, shape in enumerate([(20, 30), (4, 30, 3), (2, 5, 20, 30), (3, 20, 30)]):
        np.save(tmp_path / f"{number}.npy", np.zeros(shape, np.uint8))
    attend(viewer)
    shown = [opened(viewer, path) for path in sorted(tmp_path.iterdir()) if path.is_file()]
    recognised(viewer, qtbot)
    assert [cube_of(layer) for layer in shown] == [None] * 7
    assert [layer.name for layer in shown if layer.rgb] == ["photo"]
    assert (told(), offers) == ([], [])


def turned(asked: int, path: Path) -> None:
    """Write the photo with an orientation."""
    if path.suffix == ".tif":
        tags = [(274, 3, 1, asked, True)]
        tifffile.imwrite(path, PIXELS, photometric="rgb", extratags=tags, metadata=None)
        return
    exif = Picture.Exif()
    exif[274] = asked
    Picture.fromarray(PIXELS).save(path, exif=exif)


def deep(path: Path) -> None:
    path.write_bytes(imagecodecs.png_encode(PIXELS.astype(np.uint16) * 201))


def in_mode(mode: str, path: Path) -> None:
    Picture.fromarray(PIXELS).convert(mode).save(path)


def inverted(path: Path) -> None:
    tifffile.imwrite(path, PIXELS[..., 0], photometric="miniswhite")


Written = tuple[Callable[[Path], None], str, str]
TURNED: list[Written] = [
    *((partial(turned, asked), "photo.jpg", "turned upright") for asked in range(2, 9)),
    *((partial(turned, 6), f"photo.{suffix}", "turned upright") for suffix in ("png", "tif")),
    (partial(turned, 1), "photo.tif", ""),
]
COLOURS = "the colours of its file"
OTHERWISE: list[Written] = [
    (deep, "a.png", COLOURS),
    (partial(in_mode, "CMYK"), "a.jpg", COLOURS),
    (partial(in_mode, "CMYK"), "a.tif", COLOURS),
    (partial(in_mode, "P"), "a.tif", COLOURS),
    (inverted, "a.tif", COLOURS),
]


@pytest.mark.parametrize(("make", "name", "change"), TURNED + OTHERWISE)
def test_a_photo_is_the_same_in_the_window_and_in_python(
    viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    make: Callable[[Path], None],
    name: str,
    change: str,
    told: Told,
) -> None:
    make(tmp_path / name)
    attend(viewer)
    opened(viewer, tmp_path / name)
    in_python = Photo.read(tmp_path / name)

    def check() -> None:
        (layer,) = viewer.layers
        in_window = LayerPhoto.of(layer, viewer.dims.point).read()
        assert_array_equal(in_window.pixels, in_python.pixels)
        assert in_window.full_scale == in_python.full_scale

    qtbot.waitUntil(check)
    assert [change in sentence for sentence in told()] == [True] * bool(change)


def test_a_photo_whose_pixels_were_changed_meanwhile_stays(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    turned(6, tmp_path / "photo.png")
    layer = opened(viewer, tmp_path / "photo.png")
    layer.data = changed = layer.data // 2
    recognised(viewer, qtbot)
    assert layer.data is changed


def test_all_pages_of_a_turned_photo_stand_upright(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    pages = np.random.default_rng(1).integers(0, 256, (4, 40, 50, 3), dtype=np.uint8)
    tifffile.imwrite(
        tmp_path / "pages.tif", pages, photometric="rgb", extratags=[(274, 3, 1, 6, True)]
    )
    attend(viewer)
    layer = opened(viewer, tmp_path / "pages.tif")
    recognised(viewer, qtbot)
    assert_array_equal(layer.data, np.rot90(pages, -1, axes=(1, 2)))


def test_files_open_as_what_they_are_whatever_they_are_called(
    viewer: ViewerModel, tmp_path: Path, told: Told
) -> None:
    write_cube(tmp_path / "cube.tif", make_cube()).rename(tmp_path / "cube")
    turned(6, tmp_path / "photo.png")
    (tmp_path / "photo.png").rename(tmp_path / "photo")
    tifffile.imwrite(
        tmp_path / "planar", np.moveaxis(PIXELS, -1, 0), photometric="rgb", planarconfig="separate"
    )
    tifffile.imwrite(tmp_path / "pages", np.stack([PIXELS] * 4), photometric="rgb")
    (tmp_path / "text").write_text("neither")
    open_paths(viewer, [tmp_path / name for name in ("cube", "photo", "planar", "pages", "text")])
    assert [(layer.name, layer.data.shape, layer.rgb) for layer in viewer.layers] == [
        ("cube", (31, 20, 30), False),
        ("photo", (50, 40, 3), True),
        ("planar", (40, 50, 3), True),
        ("pages", (4, 40, 50, 3), True),
    ]
    assert_array_equal(cube_in(viewer.layers["cube"]).wavelengths, WAVELENGTHS)
    assert viewer.layers["photo"].source.path == str(tmp_path / "photo")
    (sentence,) = told()
    assert "beside text" in sentence
