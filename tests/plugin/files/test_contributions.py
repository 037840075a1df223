"""The manifest, and cubes in and out through napari."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from napari._qt.dialogs.qt_reader_dialog import QtReaderDialog
from napari.components import ViewerModel
from napari.plugins._npe2 import get_readers
from napari.settings import get_settings
from npe2 import PluginManager, PluginManifest
from npe2.manifest.utils import import_python_name
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import Told, make_cube
from tests.plugin.in_viewer import cube_in, picks_in

from napari_mst.base.errors import NapariMstError, SaveError
from napari_mst.formats import FORMATS, Format, read_cube, write_cube
from napari_mst.photo.heif import HEIF_SUFFIXES
from napari_mst.photo.raw_header import RAW_SUFFIXES
from napari_mst.plugin.files.opening import cube_reader, is_shared, open_as_napari, open_layers
from napari_mst.plugin.files.preferences import PLUGIN, prefer_own_reader
from napari_mst.plugin.files.saving import write_layer
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_layer

LEFT_TO_NAPARI = {".npy"}
OF_A_SHORTER_SUFFIX, OF_FOLDERS = {".imagej.tif"}, {".zarr"}
WRITTEN = {suffix for form in FORMATS for suffix in form.suffixes} - LEFT_TO_NAPARI - OF_FOLDERS
SUFFIXES = sorted(
    WRITTEN.union(RAW_SUFFIXES, HEIF_SUFFIXES, *(form.more_suffixes for form in FORMATS)) - {""}
)


@pytest.fixture(scope="module")
def manifest() -> PluginManifest:
    return PluginManifest.from_distribution("napari-mst")


def test_the_manifest_is_valid_and_all_it_names_is_there(manifest: PluginManifest) -> None:
    manifest.validate_imports()


def test_our_reader_is_the_first_choice_for_a_file_that_napari_cannot_read(
    qtbot: QtBot, manifests: None
) -> None:
    readers = get_readers("cube.hdr")
    assert len(readers) > 1
    dialog = QtReaderDialog(pth="cube.hdr", readers=readers)
    qtbot.addWidget(dialog)
    choice = dialog.reader_btn_group.checkedButton().text()
    assert choice == readers["napari-mst"]


def test_the_manifest_reads_and_writes_what_the_formats_do_and_leaves_to_napari_what_it_opens(
    manifest: PluginManifest,
) -> None:
    readers = manifest.contributions.readers
    writers = manifest.contributions.writers
    assert readers is not None
    assert writers is not None
    (reader,) = readers
    readable = {
        suffix for form in FORMATS for suffix in (*form.suffixes, *form.more_suffixes) if suffix
    }
    assert {pattern.removeprefix("*") for pattern in reader.filename_patterns} == (
        readable - LEFT_TO_NAPARI - OF_A_SHORTER_SUFFIX - OF_FOLDERS
    ) | {*RAW_SUFFIXES, *HEIF_SUFFIXES}
    assert reader.accepts_directories
    assert manifest.on_activate == f"{prefer_own_reader.__module__}:{prefer_own_reader.__name__}"
    written = {tuple(writer.filename_extensions) for writer in writers}
    assert written == {form.suffixes for form in FORMATS if form.suffixes}


def test_each_writer_of_the_manifest_writes_the_format_of_its_suffixes(
    manifest: PluginManifest, tmp_path: Path
) -> None:
    commands = {command.id: command for command in manifest.contributions.commands or ()}
    data, arguments, _ = cube_layer(make_cube(3, 4), "cube")
    for writer in manifest.contributions.writers or ():
        python_name = commands[writer.command].python_name
        assert python_name is not None
        write = import_python_name(python_name)
        folder = Path(mkdtemp(dir=tmp_path))
        (saved,) = write(str(folder / "cube"), data, arguments)
        assert saved.endswith(writer.filename_extensions[0])


@pytest.mark.parametrize(
    ("data", "rgb"), [(np.ones((4, 5, 3)), True), (np.ones((4, 5)), False)], ids=["rgb", "grey"]
)
def test_what_is_no_stack_is_not_saved_as_a_cube(
    tmp_path: Path, data: np.ndarray, rgb: bool
) -> None:
    with pytest.raises(SaveError, match="Expected a stack of bands"):
        write_layer(str(tmp_path / "photo.hdr"), data, {"rgb": rgb, "metadata": {}})


def test_the_reader_leaves_to_napari_what_is_no_cube_file(tmp_path: Path, manifests: None) -> None:
    radiance = tmp_path / "light.hdr"
    radiance.write_bytes(b"#?RADIANCE\n")
    assert cube_reader(str(radiance)) is open_as_napari
    # napari has no reader for this one.
    (tmp_path / "cube.bil").write_bytes(b"no header")
    assert cube_reader(str(tmp_path / "cube.bil")) is open_layers


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "garbage": lambda _: bytes(range(255, 0, -1)) * 9,
    "scrambled": lambda whole: whole[:4] + b"x" * 50,
    "cut": lambda whole: whole[:100],
}


# imageio does not close the files that it cannot read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_bad_file_ends_in_a_sentence_of_ours(
    suffix: str, damage: str, tmp_path: Path, manifests: None
) -> None:
    path = tmp_path / f"bad{suffix}"
    if suffix in WRITTEN:
        write_cube(path, make_cube(3, 4))
    else:
        path.write_bytes(b"II*\0 and no more")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(NapariMstError, match="bad"):
        ViewerModel().open(str(path), plugin=PLUGIN)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [("a.hdr", b"", "got an empty file."), ("a.tif", b"II*\0" + b"x" * 50, "got a damaged one.")],
)
def test_a_bad_file_is_described_in_words(
    tmp_path: Path, name: str, content: bytes, found: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NapariMstError, match=found):
        read_cube(tmp_path / name)


def test_readers_of_other_plugins_and_what_a_person_has_chosen_stay(manifests: None) -> None:
    settings = get_settings().plugins
    settings.extension2reader = {"*.tif": "napari"}
    other = PluginManifest(  # type: ignore[no-untyped-call]
        name="other",
        contributions={
            "commands": [{"id": "other.read", "title": "Read", "python_name": "os.path:join"}],
            "readers": [{"command": "other.read", "filename_patterns": ["*.npz"]}],
        },
    )
    plugins = PluginManager.instance()
    # napari hears of a plugin once for each window that there was, and takes it only once.
    with plugins.events.plugins_registered.blocked():
        plugins.register(other)
    try:
        prefer_own_reader()
    finally:
        plugins.unregister("other")
    chosen = settings.extension2reader
    assert (chosen["*.tif"], chosen["*.tiff"], chosen["*.hdr"]) == ("napari", PLUGIN, PLUGIN)
    assert "*.npz" not in chosen
    # Nobody else reads this one.
    assert "*.bil" not in chosen


@pytest.fixture
def current(cube_viewer: ViewerModel, monkeypatch: pytest.MonkeyPatch) -> ViewerModel:
    """The current viewer, which shows a cube."""
    for module in ("opening", "saving"):
        monkeypatch.setattr(f"napari_mst.plugin.files.{module}.current_viewer", lambda: cube_viewer)
    return cube_viewer


@pytest.mark.parametrize(
    "form", [form for form in FORMATS if form.suffixes], ids=lambda form: form.name
)
def test_a_saved_layer_opens_again_bit_for_bit_with_its_history_and_its_picks(
    form: Format, tmp_path: Path, current: ViewerModel
) -> None:
    layer = current.layers["cube"]
    # The numbers of the layer are saved, not those that it began with.
    layer.data = layer.data + 1
    layer.scale, layer.translate = (10, 2, 3), (400, 5, 6)
    for pixel, window in (((2, 3), 1), ((4, 1), 5)):
        picks.pin(current, layer.data_to_world((0, *pixel)), window)
    points = picks_in(current)
    picks.set_feature(points, "name", ["leaf, \u00e9 {1}", "pick 2"])
    picks.recolour(points, 1, "#123456")
    (saved,) = write_layer(
        str(tmp_path / f"saved{form.suffixes[0]}"), *layer.as_layer_data_tuple()[:2]
    )
    current.layers.remove(points)
    reader = cube_reader(saved)
    assert reader is (open_as_napari if is_shared(Path(saved)) else open_layers)
    (data, arguments, is_image), (at, looks, kind) = open_layers(saved)
    np.testing.assert_array_equal(data, layer.data)
    shown = (is_image, arguments["name"], arguments["axis_labels"][0])
    assert shown == ("image", Path(saved).stem, "wavelength (nm)")
    assert arguments["metadata"]["napari_mst"].provenance == cube_in(layer).provenance
    opened = ViewerModel()
    image, restored = opened.add_image(data, **arguments), opened.add_points(at, **looks)
    assert kind == "points"
    assert picks.picks_layer(opened) is restored
    assert picks.pixels_of(restored, image)[0].tolist() == [[2, 3], [4, 1]]
    assert picks.windows(restored).tolist() == [1, 5]
    assert picks.names(restored) == ["leaf, \u00e9 {1}", "pick 2"]
    assert picks.colours(restored) == picks.colours(points)


@pytest.mark.parametrize(
    ("text", "reason"), [("1 2 3", "damaged"), ("2 3 1 #ff0000 a", "there are picks already")]
)
def test_picks_that_cannot_be_opened_are_left_out_and_said(
    text: str,
    reason: str,
    tmp_path: Path,
    current: ViewerModel,
    told: Told,
) -> None:
    cube = replace(cube_in(current.layers["cube"]), metadata={"picks": text})
    if reason != "damaged":
        picks.pin(current, current.layers["cube"].data_to_world((0, 1, 1)))
    (layer,) = open_layers(str(write_cube(tmp_path / "saved.npz", cube)))
    assert layer[2] == "image"
    assert any(reason in sentence for sentence in told())
