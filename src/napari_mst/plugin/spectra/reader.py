"""Has the picks, shapes and labels read that were asked for last, on another thread in a window.

A task takes what it needs from the layers on the main thread, and freezes it; its `run` then reads
the cube on another one. Letters: B bands, H rows, W columns.
"""

import logging
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Shapes
from psygnal import Signal
from skimage.draw import line

from napari_mst.arrays import Array, Doubles, Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.errors import SpectrumError
from napari_mst.plugin.jobs.job import Job, Latest, Start, ignore, run_now
from napari_mst.plugin.viewer.layers import cube_at
from napari_mst.plugin.viewer.photos import page_shown
from napari_mst.plugin.viewer.placement import image_matrix, to_pixels
from napari_mst.spectra.cells import label_table
from napari_mst.spectra.compare import compare_labels, compare_region
from napari_mst.spectra.means import Spread
from napari_mst.spectra.regions import Region, label_spectra, region_spectrum
from napari_mst.watch import Watch

ELLIPSE_CORNERS = 256
"""Corners of the polygon that stands for an ellipse."""
OPEN_SHAPES = frozenset(["line", "path"])
"""napari's names for shapes without an inside: the pixels under the line are read."""

logger = logging.getLogger("napari_mst")


class Identity:
    """Compares an array by identity, without keeping it alive.

    The `id` alone would not do: once an array is freed, another one may have it.
    """

    def __init__(self, array: Any) -> None:
        self._id = id(array)
        self._array_ref = weakref.ref(array)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        array = self._array_ref()
        return isinstance(other, Identity) and array is not None and array is other._array_ref()


@dataclass(frozen=True, eq=False)
class Task:
    """Something to be read from a cube.

    Attributes
    ----------
    key
        Identifies the task: two tasks with equal keys read the same.
    slot
        Identifies the region: while a shape is dragged its slot stays, and its key changes.
    run
        Reads; it gets a watch, and raises `Cancelled` soon after that is cancelled.
    is_large
        Whether it waits for all tasks that are not large.
    """

    key: Hashable
    slot: Hashable
    run: Callable[[Watch], Any]
    is_large: bool = False


Results = dict[Hashable, Any]
"""Results of tasks, by the key of the task or by its slot."""


class Reader:
    """Reads one batch of tasks at a time, and keeps the results while they are asked for.

    Attributes
    ----------
    results
        The result of each task, by its key; None where there was nothing to read.
    latest
        The last result of each slot: for a region that is being dragged, the curve of a moment
        ago.
    read_more
        Emitted after a batch was read, or could not be.
    """

    read_more = Signal()

    def __init__(self, start: Start = run_now) -> None:
        self.results: Results = {}
        self.latest: Results = {}
        self._job = Latest(start)
        self._is_large = False  # what is being read

    @property
    def is_busy(self) -> bool:
        """True while something is being read."""
        return self._job.is_busy

    def ask(self, tasks: Sequence[Task]) -> None:
        """Have *tasks* read, and forget all others; ask again once some were read."""
        keys = {task.key for task in tasks}
        self.results = {key: read for key, read in self.results.items() if key in keys}
        # A new result of a slot comes before the last one.
        read = self.results
        found = {task.slot: read.get(task.key, self.latest.get(task.slot)) for task in tasks}
        self.latest = {slot: result for slot, result in found.items() if result is not None}
        unread = [task for task in tasks if task.key not in self.results]
        small = [task for task in unread if not task.is_large]
        # Thousands of labels take seconds: a shape that is dragged does not wait for them.
        if unread and (not self.is_busy or (small and self._is_large)):
            self._is_large, batch = not small, small or unread[:1]
            on_read, on_failed = partial(self._on_read, batch), partial(self._on_failed, batch)
            self._job.run(Job(partial(_run, batch), on_read, on_failed))

    def forget(self) -> None:
        """Forget everything, and also what is being read right now."""
        self._job.cancel()
        self.ask(())

    def _on_read(self, batch: Sequence[Task], results: Results) -> None:
        self.results |= results
        read = {task.slot: results[task.key] for task in batch}
        self.latest |= {slot: one for slot, one in read.items() if one is not None}
        self.read_more.emit()

    def _on_failed(self, batch: Sequence[Task], error: Exception) -> None:
        logger.error("The regions could not be read", exc_info=error)
        # Without a result they would be wanted again at once, and fail for ever.
        self.results |= {task.key: None for task in batch}
        self.read_more.emit()


def _run(tasks: Sequence[Task], watch: Watch) -> Results:
    """Run *tasks*; returns what they have read, by their keys. Raises `Cancelled`."""
    results: Results = {}
    for task in tasks:
        watch.check()
        results[task.key] = task.run(watch)
    return results


@dataclass(frozen=True, eq=False)
class RegionReading:
    """A way to read each region of a cube layer: its spectrum, or its errors.

    Attributes
    ----------
    on
        The cube layer.
    what
        Identifies the reading.
    of_region
        Reads one region.
    of_labels
        Reads all labels at once.
    """

    on: Image
    what: tuple[Hashable, ...]
    of_region: Callable[[Region], Any]
    of_labels: Callable[[Array, Watch], Any]


def shape_tasks(layer: Shapes, reading: RegionReading) -> list[Task]:
    """The tasks that read each shape of *layer*; each gives what was read, or None off the image.

    There are none where both layers do not lie in one plane.
    """
    cube = cube_at(reading.on)
    matrix = to_pixels(layer, reading.on)
    if matrix is None:
        return []

    def read(vertices: Doubles, kind: str, _: Watch) -> Any:
        try:
            trace = _line if kind in OPEN_SHAPES else Region.of_polygon
            return reading.of_region(trace(vertices, cube.shape[1:]))
        except SpectrumError:
            return None

    tasks = []
    for index, (corners, kind) in enumerate(zip(layer.data, layer.shape_type, strict=True)):
        outline = corners[:, -2:]
        if kind == "ellipse":
            outline = _ellipse(outline)
        vertices = outline @ matrix[:2, :2].T + matrix[:2, 2]
        key = (reading.what, Identity(cube.data), kind, vertices.tobytes())
        slot = (reading.what[0], id(reading.on), id(layer), index)
        # The count is part of the slot: after one was deleted, its index may be that of another.
        tasks.append(Task(key, (*slot, len(layer.data)), partial(read, vertices, kind)))
    return tasks


def label_tasks(
    layer: Labels, reading: RegionReading, version: Hashable, viewer: ViewerModel
) -> list[Task]:
    """Return the task that reads all labels of *layer*, and gives what was read by their numbers.

    *version* identifies a state of their pixels. There is none where both layers do not
    lie in one plane.
    """
    cube = cube_at(reading.on)
    matrix = to_pixels(layer, reading.on)
    if matrix is None:
        return []
    # Of a pyramid, the finest level.
    data = layer.data[0] if layer.multiscale else layer.data
    page = page_shown(layer, data.shape[:-2], viewer.dims.point)
    # The pixels themselves are not compared, as that would take as long as to read them again.
    key = (reading.what, Identity(cube.data), id(layer), version, page, matrix.tobytes())
    slot = (reading.what[0], id(reading.on), id(layer))
    to_labels = np.asarray(np.linalg.inv(matrix), dtype=np.float64)

    def read(watch: Watch) -> Any:
        # A lazy layer is computed only here, on the thread of the read.
        return reading.of_labels(on_grid(np.asarray(data[page]), to_labels, cube.shape[1:]), watch)

    return [Task(key, slot, read, is_large=True)]


def spectra_of(on: Image, spread: Spread) -> RegionReading:
    """Reads the mean spectra of the cube layer *on*."""
    cube = cube_at(on)
    facts = _facts(on)
    return RegionReading(
        on,
        ("spectra", spread, *facts.values()),
        lambda region: placed(region_spectrum(cube, region, spread, **facts), cube),
        lambda labels, watch: label_spectra(cube, labels, spread, **facts, watch=watch),
    )


def table_of(on: Image, names: Mapping[int, str]) -> RegionReading:
    """Measures the labels of the cube layer *on* as a table; they have these *names*."""
    cube, facts = cube_at(on), _facts(on)
    del facts["cube_name"]

    def measured(labels: Array, watch: Watch) -> Any:
        return label_table(cube, labels, names, **facts, watch=watch)

    return RegionReading(on, ("table",), ignore, measured)


def placed(spectrum: Spectrum, cube: SpectralCube) -> Spectrum:
    """Return *spectrum* of *cube*; without its place on a preview, whose pixels are coarser."""
    if not cube.provenance.is_preview:
        return spectrum
    return replace(spectrum, origin=replace(spectrum.origin, row=None, column=None, vertices=()))


def errors_of(on: Image, reference: Image) -> RegionReading:
    """Compares pixels of the cube layer *on* with *reference*; gives None if that is impossible."""
    cube = cube_at(on)
    truth = cube_at(reference)
    return RegionReading(
        on,
        ("errors", Identity(reference.data)),
        lambda region: compared(compare_region, cube, truth, region),
        lambda labels, watch: compared(compare_labels, cube, truth, labels, watch),
    )


def compared(compare: Callable[..., Any], *of: object) -> Any:
    """Return the result of *compare*.

    None where a thing is missing, or they do not fit together: units or sizes differ.
    """
    try:
        return None if any(thing is None for thing in of) else compare(*of)
    except SpectrumError:
        return None


def error_band_of(cube: SpectralCube, row: int, column: int) -> Task:
    """Reads the lower and upper spectrum of the 90 % error band of a pixel; None without one."""

    def read(_: Watch) -> tuple[Singles, Singles] | None:
        # It imports torch, which takes seconds: here, where that happens on another thread.
        from napari_mst.adaptation.bands import spectrum_band

        return spectrum_band(cube, row, column)

    key = ("error band", Identity(cube.data), row, column)
    return Task(key, key, read)


def _facts(layer: Image) -> dict[str, Any]:
    """Return the name of a cube layer and the area of its pixels, for `region_spectrum`."""
    facts: dict[str, Any] = {"cube_name": layer.name}
    unit = str(layer.units[-1])
    matrix = image_matrix(layer)
    # An area needs one unit of length for both axes.
    if unit == "pixel" or matrix is None or unit != str(layer.units[-2]):
        return facts
    facts["pixel_area"] = float(abs(np.linalg.det(matrix[:2, :2])))
    facts["area_unit"] = f"{unit}^2"
    return facts


def on_grid(labels: Array, matrix: Doubles, shape: tuple[int, int]) -> Array:
    """Return the label at the centre of each of (H, W) pixels; 0 outside.

    *matrix* takes these pixels to pixels of *labels*.
    """
    # The usual case: labels of the image itself, which need no second grid.
    if labels.shape == shape and np.allclose(matrix, np.eye(3), atol=1e-6):
        return labels
    # Imported here, so that the docks need not wait for it.
    from scipy.ndimage import affine_transform

    return affine_transform(
        labels,
        matrix[:2, :2],
        matrix[:2, 2],
        output_shape=shape,
        order=0,
        mode="grid-constant",
    )


def _ellipse(corners: Doubles) -> Doubles:
    """Return the outline of the ellipse in a (4, 2) frame."""
    turn = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)[:, None]
    centre = corners.mean(axis=0)
    first_axis = (corners[1] - corners[0]) / 2
    second_axis = (corners[3] - corners[0]) / 2
    return centre + np.cos(turn) * first_axis + np.sin(turn) * second_axis


def _line(vertices: Doubles, shape: tuple[int, int]) -> Region:
    """The pixels under a line through *vertices*. Raises `SpectrumError` if there are none."""
    corners = np.floor(vertices + 0.5).astype(int)
    segments = [np.stack(line(*start, *stop), axis=1) for start, stop in pairwise(corners)]
    pixels = np.concatenate(segments)
    pixels = pixels[((pixels >= 0) & (pixels < shape)).all(axis=1)]
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(pixels.T)] = True
    return Region.of_mask(mask)
