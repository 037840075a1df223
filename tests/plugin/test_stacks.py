"""All pages of a stack of photos: one layer of cubes, with a slider for the pages."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import Told, make_cube
from tests.plugin.in_viewer import active_in, cube_in, picks_in, picture_in

from napari_mst.analysis.library import read_spectra
from napari_mst.base.errors import Cancelled, OutOfMemory, SpectrumError
from napari_mst.cube.layer import STACK_KEY
from napari_mst.formats import read_cube
from napari_mst.models import load_model
from napari_mst.photo.photo import Rectangle
from napari_mst.plugin.files import saving
from napari_mst.plugin.jobs import workspace
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Request
from napari_mst.plugin.session import request_of_pages, workspace_of
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import LayerPhoto, has_pages, photo_layers
from napari_mst.plugin.viewer.layers import band_of, cube_of
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.reconstructor import Reconstructor

PAGES = np.random.default_rng(3).integers(0, 256, (3, 6, 8, 3), dtype=np.uint8)
MODEL = "pixelwise-srgb"
OPTIONS = RunOptions("cpu", denoise="off")


def order(viewer: ViewerModel, **arguments: Any) -> Request:
    layer = viewer.add_image(PAGES, rgb=True, name="leaf", **arguments)
    viewer.dims.set_point(0, layer.data_to_world((1, 0, 0))[0])
    return request_of_pages(Request(LayerPhoto.of(layer, viewer.dims.point), MODEL, OPTIONS))


def run(viewer: ViewerModel, request: Request) -> None:
    workspace_of(viewer)
    job: Any = request.job
    job.show(viewer, job.make(request, Reports()), request)


@pytest.fixture
def viewer(as_pictures: None) -> ViewerModel:
    """A viewer with the cubes of all pages, taken every 5 s; the second page is shown."""
    viewer = ViewerModel()
    request = order(viewer, scale=(5, 2, 2), translate=(100, 0, 0))
    run(viewer, request)
    return viewer


def test_each_page_has_the_cube_of_a_photo_alone(viewer: ViewerModel) -> None:
    layer = active_in(viewer)
    assert layer.data.shape == (3, 31, 6, 8)
    reconstructor = Reconstructor(load_model(MODEL), **vars(OPTIONS))
    for page, photo in enumerate(PAGES):
        assert_array_equal(layer.data[page], reconstructor.reconstruct(photo).data)


def test_the_slider_of_the_pages_turns_cube_picture_and_photo(viewer: ViewerModel) -> None:
    layer = active_in(viewer)
    limits = layer.contrast_limits
    assert tuple(viewer.dims.range[1]) == (400, 700, 10)
    assert_allclose(viewer.dims.point[:2], (105, 550))
    pictures = []
    for page in (1, 2, 0):
        viewer.dims.set_point(0, 100 + 5 * page)
        assert cube_in(layer).data.base is layer.data
        assert_array_equal(cube_in(layer).data, layer.data[page])
        assert LayerPhoto.of(viewer.layers["leaf"], viewer.dims.point).index == (page, 0)
        assert f"page {page}" in cube_in(layer).provenance.assumptions[0]
        pictures.append(picture_in(viewer).data)
    assert not np.array_equal(pictures[0], pictures[1])
    assert band_of(layer, viewer.dims.point) == 15
    assert layer.contrast_limits == limits


def test_the_cube_of_one_page_names_it_and_the_slider_its_pages(as_pictures: None) -> None:
    viewer = ViewerModel()
    source, workspace = order(viewer).source, workspace_of(viewer)
    for _ in range(2):
        workspace.cube_ready.emit(make_cube(rows=6, columns=8), source)
        (photo, *_), layer = photo_layers(viewer), active_in(viewer)
        assert layer.name.startswith("leaf, page 1 (fake)")
        assert (viewer.dims.axis_labels[0], viewer.dims.point[0]) == ("page", 1)
        source = LayerPhoto.of(photo, viewer.dims.point)


@pytest.mark.parametrize("region", [None, (1, 5, 2, 8)], ids=["whole", "part"])
def test_the_difference_from_the_photo_is_that_of_the_page_of_the_cube(
    region: Rectangle | None,
) -> None:
    viewer = ViewerModel()
    source = replace(order(viewer).source, region=region)
    viewer.add_image(PAGES[0], rgb=True, name="of the same size")
    reconstructor = Reconstructor(load_model(MODEL), **vars(OPTIONS))
    page = PAGES[1] if region is None else PAGES[1][1:5, 2:8]
    workspace_of(viewer).cube_ready.emit(reconstructor.reconstruct(page), source)
    viewer.dims.set_point(0, 0)
    model = SpectraModel(viewer)
    model.attach()
    model.maps.choose("photo-difference")
    model.maps.run()
    assert np.nanmax(viewer.layers[-1].data) < 1
    # A photo that is gone gives way to the topmost one of this size.
    viewer.layers.remove("leaf")
    if region is None:
        model.maps.run()
        assert np.nanmax(viewer.layers[-1].data) > 1
    else:
        with pytest.raises(SpectrumError, match="open the photo"):
            model.maps.run()


def test_a_photo_with_room_for_bands_is_found_again_by_its_recording() -> None:
    viewer = ViewerModel()
    request = order(viewer)
    find = request.source.reference()
    run(viewer, request)
    found = find()
    assert found is not None
    assert found.index == (1, 0)
    assert_array_equal(found.read().pixels, np.moveaxis(PAGES[1], -1, 0))


def test_a_duplicate_of_a_stack_shows_its_own_numbers(viewer: ViewerModel) -> None:
    data, arguments, _ = active_in(viewer).as_layer_data_tuple()
    copy = viewer.add_layer(Image(1 - data, **arguments))
    assert_array_equal(cube_in(copy).data, 1 - data[1])
    copy.data = data[0]
    assert cube_of(copy) is not None


def test_the_map_of_a_page_names_it(viewer: ViewerModel) -> None:
    model = SpectraModel(viewer)
    model.attach()
    model.maps.choose("formula")
    for page in (0, 1):
        viewer.dims.set_current_step(0, page)
        model.maps.run()
        model.maps.run()
    made = [layer.name for layer in viewer.layers if layer.name.startswith("r")]
    assert [name.rpartition(", ")[2] for name in made] == ["page 0", "page 1"]


def test_picks_show_the_page_that_is_seen_and_all_pages_on_request(viewer: ViewerModel) -> None:
    model = SpectraModel(viewer)
    model.attach()
    model.pin((105, 550, 4, 6))
    with pytest.raises(SpectrumError, match="Select a pick"):
        model.over_pages()
    data = active_in(viewer).data
    for page in (1, 2):
        viewer.dims.set_point(0, 100 + 5 * page)
        (entry,) = model.finish().entries
        assert_array_equal(entry.first.values, data[page, :, 2, 3])
    model.choose([0])
    model.over_pages()
    _, *over = model.finish().entries
    assert [entry.first.name for entry in over] == [f"pick 1, page {page}" for page in range(3)]
    assert_array_equal([entry.first.values for entry in over], data[:, :, 2, 3])
    assert len({entry.first.colour for entry in over}) == 3


def test_a_table_of_spectra_names_the_page_of_each(viewer: ViewerModel, tmp_path: Path) -> None:
    model = SpectraModel(viewer)
    model.attach()
    model.pin((105, 550, 4, 6))
    viewer.dims.set_point(0, 110)
    model.finish()
    model.choose([0])
    model.over_pages()
    model.finish()
    model.save_spectra(tmp_path / "pages.csv")
    name = active_in(viewer).name
    cubes = [spectrum.origin.cube for spectrum in read_spectra(tmp_path / "pages.csv")]
    assert cubes == [f"{name}, page {page}" for page in (2, 0, 1, 2)]


def test_pages_are_saved_with_their_numbers_and_picks(viewer: ViewerModel, tmp_path: Path) -> None:
    picks.pin(viewer, (105, 550, 4, 6))
    assert len(picks_in(viewer).data)
    layer = active_in(viewer)
    data, attributes, _ = layer.as_layer_data_tuple()
    written = saving.write_layer(str(tmp_path / "leaf.tif"), data, attributes)
    assert [Path(path).name for path in written] == [f"leaf_00{page}.tif" for page in range(3)]
    assert_array_equal([read_cube(path).data for path in written], layer.data)


def test_the_names_of_the_first_and_the_last_file_are_told(
    viewer: ViewerModel, tmp_path: Path, qtbot: QtBot, told: Told
) -> None:
    pages = active_in(viewer).metadata[STACK_KEY].cubes
    save = saving.Save({tmp_path / f"leaf_{n}.img": cube for n, cube in enumerate(pages)}, False)
    save.ended.connect(save.tell)
    qtbot.waitUntil(lambda: bool(told()))
    assert told() == ["The 3 pages were saved as leaf_0.hdr to leaf_2.hdr."]


def test_pages_that_do_not_fit_into_memory_are_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("napari_mst.base.memory.free_host_memory", lambda: 1000)
    request = order(ViewerModel())
    with pytest.raises(OutOfMemory, match=r"17856 bytes .* for the cubes of 3 pages, got 1000"):
        workspace.reconstruct_pages(request, Reports())


def test_a_cancel_ends_the_run_of_all_pages_and_progress_goes_over_them() -> None:
    shares, said = list[float](), list[str]()
    request = order(ViewerModel())
    workspace.reconstruct_pages(request, Reports(shares.append, say=said.append))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert said[-3:] == [f"{done} of 3 pages of leaf done" for done in range(3)]
    said.clear()
    progress = Reports(is_cancelled=lambda: "1 of 3 pages of leaf done" in said, say=said.append)
    with pytest.raises(Cancelled):
        workspace.reconstruct_pages(request, progress)
    assert said[-1] == "1 of 3 pages of leaf done"


@pytest.mark.parametrize(
    ("shape", "is_rgb", "expected"),
    [
        ((3, 6, 8, 3), True, True),
        ((5, 6, 8), False, True),
        ((3, 1, 6, 8, 3), True, True),
        ((6, 8, 3), True, False),
        ((1, 6, 8, 3), True, False),
        ((2, 3, 6, 8, 3), True, False),
        ((6, 8), False, False),
        ((3, 6, 8), False, False),
    ],
)
def test_only_a_stack_with_one_slider_has_pages(
    shape: tuple[int, ...], is_rgb: bool, expected: bool
) -> None:
    assert has_pages(Image(np.zeros(shape, np.uint8), rgb=is_rgb)) is expected
