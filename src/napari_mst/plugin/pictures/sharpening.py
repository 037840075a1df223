"""Computes or reads the missing parts of visible cubes on another thread.

The missing parts are tiles, which are drawn coarsely until they are computed, and bands of a large
file.
"""

import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.base.progress import Progress
from napari_mst.cube.lazy import ChunkPlace, Level
from napari_mst.plugin.jobs.task import Task
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.viewer.bands import Bands
from napari_mst.plugin.viewer.late_bands import LateBands
from napari_mst.plugin.viewer.sharing import ViewerHelper, report

AT_A_TIME = 4
"""Number of tiles between redraws of the layer; they take about half a second."""


Source = Level | LateBands
"""Numbers that napari draws while parts of them are still missing."""


class Sharpener(ViewerHelper):
    """Computes the visible parts of the cubes of its viewer, from the middle of the view outwards.

    Each redraw of a layer reports the missing tiles, so that a moved view or a newly shown band
    comes first.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._busy = weakref.WeakSet[Source]()
        viewer.layers.events.connect(self._on_layers)
        for layer in viewer.layers:
            self._attend(layer)

    def _on_layers(self, event: Any) -> None:
        if event.type == "inserted":
            self._attend(event.value)
        elif event.type == "data" and isinstance(getattr(event, "index", None), int):
            self._attend(self.viewer.layers[event.index])

    def _attend(self, layer: Any) -> None:
        source = _source_of(layer)
        if source is not None:
            source.on_missing = partial(self._get, weakref.ref(source))
            layer.refresh(extent=False)

    def _get(self, found: "weakref.ref[Source]", missing: Sequence[Any]) -> None:
        """Read the *missing* band, or compute the middle ones of the missing tiles."""
        source = found()
        if source is None or not missing or source in self._busy:
            return
        self._busy.add(source)
        run = source.read if isinstance(source, LateBands) else partial(_compute, source, missing)
        show = partial(self._show, source)
        job = Task(run, partial(self._on_done, source), partial(self._on_failed, source))
        start(replace(job, on_progress=show), is_listed=False)

    def _on_done(self, source: Source, _: object) -> None:
        self._busy.discard(source)
        self._show(source)

    def _on_failed(self, source: Source, error: Exception) -> None:
        self._busy.discard(source)
        report(error)

    def _show(self, source: Source, _: object = None) -> None:
        viewer = self._viewer_ref()
        if viewer is None:
            return
        if isinstance(source, LateBands):
            Bands.of(viewer).update()
        for layer in viewer.layers:
            if _source_of(layer) is source:
                layer.refresh(extent=False)


def _source_of(layer: Any) -> Source | None:
    """Return the data of *layer*, at its finest level, if parts of them may be missing."""
    if not isinstance(layer, Image):
        return None
    data = layer.data[0] if layer.multiscale else layer.data
    source = getattr(data, "base", None) if layer.multiscale else data
    source = data if source is None else source
    return source if isinstance(source, Source) else None


def _compute(level: Level, missing: Sequence[ChunkPlace], progress: Progress) -> None:
    """Compute the middle ones of the *missing* tiles of *level*."""
    _, row, column = missing[len(missing) // 2]
    nearest = sorted(missing, key=lambda at: (at[1] - row) ** 2 + (at[2] - column) ** 2)
    _, height, width = level.numbers.sides
    for _, row, column in nearest[:AT_A_TIME]:
        progress.check()
        try:
            level.numbers[
                :, row * height : (row + 1) * height, column * width : (column + 1) * width
            ]
        except RuntimeError:
            # Python refuses work on other threads while it shuts down.
            if threading.main_thread().is_alive():
                raise
