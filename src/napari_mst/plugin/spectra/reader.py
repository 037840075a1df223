"""Reads the spectra of picks, shapes and labels, in a window on another thread.

A task copies what it needs from the layers on the main thread; its `run` then reads the cube on
another thread. Letters: B bands, H rows, W columns.
"""

import logging
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels
from psygnal import Signal

from napari_mst.analysis.comparison import compare_labels, compare_region
from napari_mst.analysis.label_means import Spread
from napari_mst.analysis.regions import Region, label_spectra, region_spectrum
from napari_mst.base.arrays import Array, Doubles
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import MODEL_ERROR, Spectrum
from napari_mst.plugin.jobs.task import Latest, Start, Task, run_now
from napari_mst.plugin.viewer.layer_photos import page_shown
from napari_mst.plugin.viewer.layers import cube_at, name_of_cube
from napari_mst.plugin.viewer.placement import image_matrix, to_pixels

logger = logging.getLogger("napari_mst")


class Identity:
    """Compares an array by identity, without keeping it alive.

    The `id` alone is not enough: once an array is freed, another one may get it.
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
class ReadTask:
    """Something to read from a cube.

    Attributes
    ----------
    key
        Identifies the task: tasks with equal keys read the same.
    slot
        Identifies the region: while a shape is dragged, its slot stays and its key changes.
    run
        Reads; it receives a progress, and raises `Cancelled` soon after a cancel.
    is_quick
        Whether the task runs at once, on the calling thread.
    is_large
        Whether the task waits for all tasks that are not large.
    """

    key: Hashable
    slot: Hashable
    run: Callable[[Progress], Any]
    is_quick: bool = False
    is_large: bool = False


Results = dict[Hashable, Any]
"""Results of tasks, by key or by slot."""


class Reader:
    """Reads one batch of tasks at a time, and keeps the results as long as they are asked for.

    Attributes
    ----------
    results
        The result of each task, by key; None where there was nothing to read.
    latest
        The last result of each slot: a region that is being dragged has its previous curve.
    read_more
        Emitted after each batch, even a failed one.
    """

    read_more = Signal()

    def __init__(self, start: Start = run_now) -> None:
        self.results: Results = {}
        self.latest: Results = {}
        self._job = Latest(start)
        self._is_large = False  # whether the running batch is large

    @property
    def is_busy(self) -> bool:
        """True while a batch is being read."""
        return self._job.is_busy

    def ask(self, tasks: Sequence[ReadTask]) -> None:
        """Read *tasks*, and forget all others; ask again after each batch."""
        keys = {task.key for task in tasks}
        self.results = {key: read for key, read in self.results.items() if key in keys}
        quick = [task for task in tasks if task.is_quick and task.key not in self.results]
        self.results |= _run(quick, NO_PROGRESS)
        # A new result of a slot takes precedence over the last one.
        read = self.results
        found = {task.slot: read.get(task.key, self.latest.get(task.slot)) for task in tasks}
        self.latest = {slot: result for slot, result in found.items() if result is not None}
        unread = [task for task in tasks if task.key not in read]
        small = [task for task in unread if not task.is_large]
        # Thousands of labels take seconds: a dragged shape does not wait for them.
        if unread and (not self.is_busy or (small and self._is_large)):
            self._is_large, batch = not small, small or unread[:1]
            on_read, on_failed = partial(self._on_read, batch), partial(self._on_failed, batch)
            self._job.run(Task(partial(_run, batch), on_read, on_failed))

    def forget(self) -> None:
        """Forget everything, including the running batch."""
        self._job.cancel()
        self.ask(())

    def _on_read(self, batch: Sequence[ReadTask], results: Results) -> None:
        self.results |= results
        read = {task.slot: results[task.key] for task in batch}
        self.latest |= {slot: one for slot, one in read.items() if one is not None}
        self.read_more.emit()

    def _on_failed(self, batch: Sequence[ReadTask], error: Exception) -> None:
        logger.error("The regions could not be read", exc_info=error)
        # Without a result the tasks would be asked for again, and fail for ever.
        self.results |= {task.key: None for task in batch}
        self.read_more.emit()


def _run(tasks: Sequence[ReadTask], progress: Progress) -> Results:
    """Run *tasks*, and return their results by key. Raises `Cancelled`."""
    results: Results = {}
    for task in tasks:
        progress.check()
        results[task.key] = task.run(progress)
    return results


@dataclass(frozen=True, eq=False)
class Reading:
    """A way to read each place of a cube layer: its spectrum or its errors.

    Attributes
    ----------
    on
        The cube layer.
    what
        Identifies the reading: its name, and everything that it depends on.
    of_region
        Reads one region.
    of_labels
        Reads all labels at once.
    of_band
        Reads the prediction interval at a row and a column; None if the cube has none.
    """

    on: Image
    what: tuple[Hashable, ...]
    of_region: Callable[[Region], Any]
    of_labels: Callable[[Array, Progress], Any]
    of_band: Callable[[int, int, Progress], Any] | None = None

    def task(
        self, slot: Hashable, place: Hashable, read: Callable[[Progress], Any], **how: bool
    ) -> ReadTask:
        """Return the task that reads a *place* for a *slot*; its result is None off the image."""

        def run(progress: Progress) -> Any:
            try:
                return read(progress)
            except SpectrumError:  # off the image, or the cubes do not fit together
                return None

        return ReadTask((self.what, place), (self.what[0], id(self.on), slot), run, **how)


def label_image(
    layer: Labels, on: Image, viewer: ViewerModel
) -> tuple[Hashable, Callable[[], Array]] | None:
    """Return a key of the place of *layer* on the cube layer *on*, and a function for its labels.

    The function returns the labels (H, W) on the pixels of the cube, and computes a lazy layer.
    None if the two layers do not lie in one plane.
    """
    shape = cube_at(on).shape[1:]
    matrix = to_pixels(layer, on)
    if matrix is None:
        return None
    # Of a pyramid, the finest level.
    data = layer.data[0] if layer.multiscale else layer.data
    page = page_shown(layer, data.shape[:-2], viewer.dims.point)
    to_labels = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return (page, matrix.tobytes()), lambda: on_grid(np.asarray(data[page]), to_labels, shape)


def spectra_of(on: Image, spread: Spread) -> Reading:
    """Reads mean spectra of the cube layer *on*, and prediction intervals of single pixels."""
    cube = cube_at(on)
    facts = facts_of(on)
    past = cube.provenance
    has_interval = cube.has_wavelengths and bool(past.error_band or past.refinement)

    def of_region(region: Region) -> Spectrum:
        # A single pixel does not vary.
        spectrum = region_spectrum(cube, region, spread if region.size > 1 else "", **facts)
        return placed(spectrum, cube)

    return Reading(
        on,
        ("spectra", Identity(cube.data), spread, *facts.values()),
        of_region,
        lambda labels, progress: label_spectra(cube, labels, spread, **facts, progress=progress),
        partial(_error_band, cube) if has_interval and not past.is_preview else None,
    )


def placed(spectrum: Spectrum, cube: SpectralCube) -> Spectrum:
    """Return *spectrum* of *cube*, without its place if *cube* is a preview, which is coarser."""
    if not cube.provenance.is_preview:
        return spectrum
    return replace(spectrum, origin=replace(spectrum.origin, row=None, column=None, vertices=()))


def _error_band(cube: SpectralCube, row: int, column: int, _: Progress) -> dict[str, Any] | None:
    """Return the bounds of the 90 % prediction interval of a pixel's spectrum; None without one."""
    # Imports torch, which takes seconds: here, on another thread.
    from napari_mst.references.intervals import interval_of

    band = interval_of(cube, row, column)
    if band is None:
        return None
    spread = f"{MODEL_ERROR}, {cube.provenance.calibration}"
    return {"lower": band[0], "upper": band[1], "spread": spread}


def errors_of(on: Image, reference: Image) -> Reading:
    """Compares pixels of the cube layer *on* with the same pixels of *reference*."""
    cube, truth = cube_at(on), cube_at(reference)
    return Reading(
        on,
        ("errors", Identity(cube.data), Identity(truth.data)),
        partial(compare_region, cube, truth),
        partial(compare_labels, cube, truth),
    )


def facts_of(layer: Image) -> dict[str, Any]:
    """Return the name of the cube of a layer and the area of its pixels, for `region_spectrum`."""
    facts: dict[str, Any] = {"cube_name": name_of_cube(layer)}
    unit = str(layer.units[-1])
    matrix = image_matrix(layer)
    # An area needs one unit of length for both axes.
    if unit == "pixel" or matrix is None or unit != str(layer.units[-2]):
        return facts
    facts["pixel_area"] = float(abs(np.linalg.det(matrix[:2, :2]))), f"{unit}^2"
    return facts


def on_grid(labels: Array, matrix: Doubles, shape: tuple[int, int]) -> Array:
    """Return the label at the centre of each of (H, W) pixels; 0 outside.

    *matrix* takes these pixels to pixels of *labels*.
    """
    # In the usual case, labels of the image itself need no second grid.
    if labels.shape == shape and np.allclose(matrix, np.eye(3), atol=1e-6):
        return labels
    # Imported here, so that the docks open without waiting for it.
    from scipy.ndimage import affine_transform

    return affine_transform(
        labels,
        matrix[:2, :2],
        matrix[:2, 2],
        output_shape=shape,
        order=0,
        mode="grid-constant",
    )
