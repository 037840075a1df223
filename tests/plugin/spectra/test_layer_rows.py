"""Shapes and labels as regions of a cube, on a viewer without a window."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels, Shapes
from napari.utils.colormaps import DirectLabelColormap
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube

from napari_mst.base.progress import NO_PROGRESS
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.spectra import reader
from napari_mst.plugin.spectra.layer_rows import Group, LabelRows, ShapeRows
from napari_mst.plugin.viewer import picks

SQUARE = np.array([[3, 4], [3, 9], [8, 9], [8, 4]])


def rows_of(layer: Shapes | Labels) -> ShapeRows | LabelRows:
    return ShapeRows(layer) if isinstance(layer, Shapes) else LabelRows(layer)


def read(viewer: ViewerModel, layer: Shapes | Labels) -> list[Any]:
    cube = viewer.layers["cube"]
    reading = reader.spectra_of(cube, "std")
    return [task.run(NO_PROGRESS) for task in rows_of(layer).tasks(reading, viewer).values()]


def looks(rows: ShapeRows | LabelRows, numbers: Iterable[int]) -> dict[int, tuple[str, str]]:
    curve = Spectrum(np.array([500.0]), np.array([0.5]))
    entries = Group(rows, [dict.fromkeys(numbers, curve)], 1).entries
    return {entry.index: (entry.first.name, entry.first.colour) for entry in entries}


def names(layer: Shapes | Labels, *indices: int) -> list[str]:
    references = looks(rows_of(layer), range(len(layer.data) if isinstance(layer, Shapes) else 10))
    return [references[index][0] for index in indices]


def mean(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    data: NDArray[np.float32] = make_cube().data
    means: NDArray[np.float64] = data[:, mask].astype(float).mean(axis=1)
    return means


def block() -> NDArray[np.bool_]:
    mask = np.zeros((20, 30), dtype=bool)
    mask[3:9, 4:10] = True
    return mask


@pytest.mark.parametrize("ndim", [2, 3])
def test_a_shape_is_read_through_the_transforms_of_both_layers(
    cube_viewer: ViewerModel, ndim: int
) -> None:
    cube = cube_viewer.layers["cube"]
    cube.scale, cube.translate, cube.rotate = (
        (10, 2, 4),
        (400, 7, -3),
        [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
    )
    world = np.array([cube.data_to_world((5, *corner)) for corner in SQUARE])[:, -ndim:]
    shapes = cube_viewer.add_shapes(world / 3, shape_type="polygon", scale=[3] * ndim)
    spectrum = read(cube_viewer, shapes)[0]
    assert_allclose(spectrum.values, mean(block()))
    deviation = make_cube().data[:, block()].astype(float).std(axis=1)
    assert_allclose(spectrum.upper - spectrum.values, deviation)
    assert (spectrum.origin.pixels, spectrum.origin.cube) == (36, "cube")


@pytest.mark.parametrize("kind", ["ellipse", "line", "path"])
def test_other_shapes_cover_the_pixels_that_they_are_drawn_over(
    cube_viewer: ViewerModel, kind: str
) -> None:
    row, column = np.indices((20, 30))
    corners: dict[str, Any] = {
        "ellipse": [[4, 5], [4, 15], [12, 15], [12, 5]],
        "line": [[2, 3], [2, 8]],
        "path": [[2, 3], [2, 8], [6, 8]],
    }
    line = (row == 2) & (column >= 3) & (column <= 8)
    masks = {
        "ellipse": ((row - 8) / 4) ** 2 + ((column - 10) / 5) ** 2 <= 1,
        "line": line,
        "path": line | ((column == 8) & (row >= 2) & (row <= 6)),
    }
    shapes = cube_viewer.add_shapes([np.array(corners[kind])], shape_type=kind)
    spectrum = read(cube_viewer, shapes)[0]
    assert abs(spectrum.origin.pixels - masks[kind].sum()) <= (4 if kind == "ellipse" else 0)
    assert_allclose(spectrum.values, mean(masks[kind]), atol=1e-4)


def test_a_shape_off_the_image_has_no_spectrum(cube_viewer: ViewerModel) -> None:
    shapes = cube_viewer.add_shapes(
        [SQUARE + 100, np.array([[50, 50], [60, 60]])], shape_type=["polygon", "line"]
    )
    assert read(cube_viewer, shapes) == [None, None]


def test_labels_are_read_on_pixels_of_their_own(cube_viewer: ViewerModel) -> None:
    fine = np.zeros((40, 60), dtype=int)
    fine[6:18, 8:20], fine[30:34, 0:4] = 3, 7
    labels = cube_viewer.add_labels(fine, scale=(0.5, 0.5), translate=(-0.25, -0.25))
    (found,) = read(cube_viewer, labels)
    assert sorted(found) == [3, 7]
    assert_allclose(found[3].values, mean(block()))
    coarse = cube_viewer.add_labels(
        block()[::-1].astype(int), affine=[[-1, 0, 19], [0, 1, 0], [0, 0, 1]]
    )
    assert_allclose(read(cube_viewer, coarse)[0][1].values, mean(block()))


def test_of_stacked_labels_the_page_that_is_shown_is_read(cube_viewer: ViewerModel) -> None:
    stack = np.zeros((31, 20, 30), dtype=int)
    stack[5] = block()
    labels = cube_viewer.add_labels(stack, scale=(10, 1, 1), translate=(400, 0, 0))
    cube_viewer.dims.set_point(0, 450)
    assert_allclose(read(cube_viewer, labels)[0][1].values, mean(block()))
    cube_viewer.dims.set_point(0, 460)
    assert [dict(found) for found in read(cube_viewer, labels)] == [{}]


def test_a_calibrated_region_has_its_area_in_units_of_the_image() -> None:
    viewer = ViewerModel()
    units = ("dimensionless", "um", "um")
    add_cube(viewer, make_cube(), scale=(10, 0.5, 2), units=units)
    shapes = viewer.add_shapes(SQUARE, shape_type="polygon", scale=(0.5, 2), units=units[1:])
    origin = read(viewer, shapes)[0].origin
    assert (origin.pixels, origin.area) == (36, 36.0)
    assert origin.area_unit in ("um^2", "micrometer^2")


def test_shapes_of_one_colour_get_colours_of_their_own(cube_viewer: ViewerModel) -> None:
    shapes = cube_viewer.add_shapes(
        [SQUARE, SQUARE + 5, SQUARE + 9], shape_type="polygon", face_color=[1, 1, 1, 0.2]
    )
    before = shapes.edge_color[0].copy()
    ShapeRows(shapes).tell_apart(picks.COLOURS[:2])
    assert_array_equal(shapes.edge_color[0], before)
    assert (
        len(
            {colour for _, colour in looks(ShapeRows(shapes), range(3)).values()}
            - set(picks.PALETTE[:2])
        )
        == 3
    )
    assert_allclose(shapes.face_color[1:, :3], shapes.edge_color[1:, :3])
    assert_allclose(shapes.face_color[:, 3], 0.2)


def test_a_region_is_named_by_its_layer_until_it_gets_a_name_and_keeps_its_features(
    cube_viewer: ViewerModel,
) -> None:
    shapes = cube_viewer.add_shapes([SQUARE, SQUARE + 5], shape_type="polygon", name="leaves")
    features = {"index": [3, 7], "area": [36.5, 16.0]}
    labels = cube_viewer.add_labels(np.zeros((20, 30), dtype=int), name="cells", features=features)
    assert names(shapes, 0, 1) == ["leaves 1", "leaves 2"]
    assert names(labels, 7) == ["cells 7"]
    rows_of(shapes).rename(1, "old leaf")
    rows_of(labels).rename(7, "red cell")
    rows_of(labels).rename(9, "blue cell")
    assert names(shapes, 0, 1) == ["leaves 1", "old leaf"]
    assert names(labels, 3, 7, 9) == ["cells 3", "red cell", "blue cell"]
    assert labels.features["area"].tolist()[:2] == [36.5, 16.0]
    assert labels.features["index"].tolist() == [3, 7, 9]


def test_the_colours_of_classes_are_looked_up_and_not_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = {None: "transparent", 1: "#ff0000", 300: "#00ff00"}
    labels = Labels(np.zeros((2, 2), np.int32), colormap=DirectLabelColormap(color_dict=table))
    # napari compiles this for arrays, which takes seconds of the window's thread.
    compiled = "napari.utils.colormaps.colormap._accel_cmap.labels_raw_to_texture_direct"
    monkeypatch.setattr(compiled, None)
    found = LabelRows(labels).rgba(np.array([1, 300]))
    assert_allclose(found, [(1, 0, 0, 1), (0, 1, 0, 1)])
    assert LabelRows(labels).rgba(np.array([], int)).shape == (0, 4)


def test_every_label_is_compared_with_the_reference_pixel_by_pixel(
    cube_viewer: ViewerModel,
) -> None:
    labels = cube_viewer.add_labels(block().astype(int))
    cube = make_cube()
    noise = np.where(np.indices(cube.shape).sum(axis=0) % 2, 0.1, -0.1)
    truth = add_cube(cube_viewer, replace(cube, data=cube.data + noise), "truth")
    reads = reader.errors_of(cube_viewer.layers["cube"], truth)
    (task,) = LabelRows(labels).tasks(reads, cube_viewer).values()
    comparison = task.run(NO_PROGRESS)[1]
    # Though the mean curves are the same.
    assert comparison.rmse == pytest.approx(0.1, rel=1e-5)
