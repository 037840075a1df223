"""Computes, on another thread, the tiles of a cube that its viewer draws by coarse numbers."""

import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.base.progress import Progress
from napari_mst.cube.lazy import ChunkPlace, Lazy, Level
from napari_mst.plugin.jobs.task import Task
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.viewer.sharing import ViewerHelper, report

AT_A_TIME = 4
"""Tiles after which the layer is drawn again: as many take about half a second."""


class Sharpener(ViewerHelper):
    """Has what is seen of the cubes of its viewer computed, from the middle of the view outwards.

    A layer that is drawn again tells which tiles it still misses, so that a view that has moved
    comes first.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._busy = weakref.WeakSet[Image]()
        viewer.layers.events.connect(self._on_layers)
        for layer in viewer.layers:
            self._attend(layer)

    def _on_layers(self, event: Any) -> None:
        if event.type == "inserted":
            self._attend(event.value)
        elif event.type == "data" and isinstance(getattr(event, "index", None), int):
            self._attend(self.viewer.layers[event.index])

    def _attend(self, layer: Any) -> None:
        if not isinstance(layer, Image) or not layer.multiscale:
            return
        level = _level_of(layer)
        if isinstance(level, Level):
            level.on_missing = partial(self._refine, weakref.ref(layer))
            layer.refresh(extent=False)

    def _refine(self, found: "weakref.ref[Image]", missing: Sequence[ChunkPlace]) -> None:
        """Compute the middle ones of the *missing* tiles, unless the layer waits for others."""
        layer = found()
        if layer is None or not missing or layer in self._busy or not self.has(layer):
            return
        self._busy.add(layer)
        _, row, column = missing[len(missing) // 2]
        nearest = sorted(missing, key=lambda at: (at[1] - row) ** 2 + (at[2] - column) ** 2)
        numbers = _level_of(layer).numbers
        run = partial(_compute, numbers, nearest[:AT_A_TIME])
        job = Task(run, on_failed=report, on_done=partial(self._on_done, layer))
        start(job, is_listed=False)

    def _on_done(self, layer: Image, _: object) -> None:
        self._busy.discard(layer)
        if self.has(layer):
            layer.refresh(extent=False)


def _level_of(layer: Image) -> Any:
    """The finest level of *layer*; that of a picture has its colours last."""
    level = layer.data[0]
    return getattr(level, "base", None) or level


def _compute(numbers: Lazy, places: Sequence[ChunkPlace], progress: Progress) -> None:
    _, height, width = numbers.sides
    for _, row, column in places:
        progress.check()
        try:
            numbers[:, row * height : (row + 1) * height, column * width : (column + 1) * width]
        except RuntimeError:
            # Python refuses work on other threads when it is about to end.
            if threading.main_thread().is_alive():
                raise
