"""The spectra dock in a real window: a corner of a polygon that is dragged with the mouse, and thousands of labels.

`xvfb-run -a python benchmarks/workbench_window.py [--pixels 4000x3000] [--bands 31] [--labels 20000]`

Of the drag: how long after a move of the mouse its curve is painted, when one waits for it and when 60 moves come in a
second; and how long the window's thread was busy without a pause. The same without the dock tells what is napari's.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import napari
import numpy as np
from napari.layers import Shapes
from qtpy.QtCore import QEventLoop, QPoint, Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_mst.cube import SpectralCube
from napari_mst.plugin.spectra.curves import CurvesItem
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.viewer.layers import cube_layer

MOVES = 60
PERIOD = 1 / 60
LONGEST = 30.0
"""Seconds that are waited for anything."""


class Window:
    """A viewer with a cube and the dock; `painted` are the values of the curves, each time that they were painted."""

    def __init__(self, cube: SpectralCube) -> None:
        self.viewer = napari.Viewer(show=True)
        data, arguments, _ = cube_layer(cube, "cube")
        self.viewer.add_image(data, **arguments)
        self.dock = SpectraDock(self.viewer)
        self.widget = self.viewer.window.add_dock_widget(self.dock, name="Spectra")
        self.painted: list[list[bytes]] = []
        paint = CurvesItem.paint

        def watched(curves: CurvesItem, *arguments: object) -> None:
            paint(curves, *arguments)
            self.painted.append([line.spectrum.values.tobytes() for line in curves.lines])

        CurvesItem.paint = watched
        self.settle()
        self.viewer.reset_view()
        self.settle()

    def settle(self) -> None:
        """Let Qt work until nothing is to be drawn."""
        self.wait(lambda: not self.dock.is_drawing)
        for _ in range(5):
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 50)

    def wait(self, until: Callable[[], bool]) -> None:
        """Let Qt work until something is so."""
        begun = time.perf_counter()
        while not until() and time.perf_counter() - begun < LONGEST:
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 5)

    def at(self, row: float, column: float) -> QPoint:
        """The place of a pixel of the image on the canvas."""
        camera, size = self.viewer.scene.camera, self.native.size()
        return QPoint(
            round(size.width() / 2 + (column - camera.center[2]) * camera.zoom),
            round(size.height() / 2 + (row - camera.center[1]) * camera.zoom),
        )

    @property
    def native(self) -> object:
        """The widget that gets the mouse."""
        return self.viewer.window._qt_viewer.canvas.native

    @contextmanager
    def pauses(self) -> Iterator[list[float]]:
        """The times, in ms, between two turns of the event loop."""
        found, last, timer = list[float](), time.perf_counter(), QTimer()

        def tick() -> None:
            nonlocal last
            now = time.perf_counter()
            found.append(1000 * (now - last))
            last = now

        timer.timeout.connect(tick)
        timer.start(0)
        yield found
        timer.stop()


def drag(window: Window, name: str, corners: np.ndarray) -> None:
    """Drag the last corner of a polygon, and print how the dock followed."""
    viewer, left = window.viewer, Qt.MouseButton.LeftButton
    shapes: Shapes = viewer.add_shapes(
        corners, shape_type="polygon", face_color=[1, 1, 1, 0.2], edge_width=10
    )
    shapes.mode, shapes.selected_data = "direct", {0}
    window.settle()
    pixels = window.dock.bench.entries[0].first.origin.pixels if window.dock.isVisible() else 0
    start = window.at(*shapes.data[0][-1])
    QTest.mousePress(window.native, left, pos=start)
    latencies = []
    for move in range(1, 1 + MOVES // 3 if window.dock.isVisible() else 1):
        before, count = window.painted[-1], len(window.painted)
        begun = time.perf_counter()
        QTest.mouseMove(window.native, start + QPoint(-(move % 20), -(move % 20)))

        def is_painted(count: int = count, before: list[bytes] = before) -> bool:
            return any(values not in (before, []) for values in window.painted[count:])

        window.wait(is_painted)
        latencies.append(1000 * (time.perf_counter() - begun))
        window.settle()
    count = len(window.painted)
    with window.pauses() as pauses:
        for move in range(MOVES):
            begun = time.perf_counter()
            QTest.mouseMove(window.native, start + QPoint(-(move % 30), -(move % 30)))
            window.wait(lambda begun=begun: time.perf_counter() - begun > PERIOD)
    curves = len({values[0] for values in window.painted[count:] if values})
    QTest.mouseRelease(window.native, left, pos=start)
    window.settle()
    if latencies:
        low, high = np.percentile(latencies, (50, 95))
        print(
            f"{name}, {pixels:,} pixels: a move is painted after {low:.0f} ms (median), {high:.0f} ms (95 %)"
        )
        print(f"  {MOVES} moves in {sum(pauses) / 1000:.1f} s: {curves} different curves painted")
    low, high, most = np.percentile(pauses, (50, 95, 100))
    print(
        f"  {name}: the window's thread was busy for {low:.1f} ms (median), {high:.0f} ms (95 %), {most:.0f} ms (most)"
    )
    viewer.layers.remove(shapes)


def disc_labels(rows: int, columns: int, count: int) -> np.ndarray:
    """About *count* round cells with labels in no order."""
    side = np.sqrt(rows * columns / count)
    row, column = np.indices((rows, columns), dtype=np.float32)
    cell = (row // side).astype(np.int64) * int(columns // side + 1) + (column // side).astype(
        np.int64
    )
    numbers = (
        np.random.default_rng(0).permutation(3 * int(cell.max() + 1))[: int(cell.max()) + 1] + 1
    )
    inside = np.hypot(row % side - side / 2, column % side - side / 2) < 0.42 * side
    return np.where(inside, numbers[cell], 0).astype(np.int32)


def label(window: Window, labels: np.ndarray) -> None:
    """Add thousands of labels, and print how long it takes until all are listed, and what then stays quick."""
    begun = time.perf_counter()
    layer = window.viewer.add_labels(labels, name="cells")
    print(f"labels: napari shows them after {1000 * (time.perf_counter() - begun):.0f} ms")
    with window.pauses() as pauses:
        window.wait(lambda: len(window.dock.bench.entries) > 100)
    print(
        f"  all {len(window.dock.bench.entries):,} are listed after {time.perf_counter() - begun:.1f} s"
    )
    print(f"  meanwhile the window's thread was busy for at most {max(pauses):.0f} ms")
    window.settle()
    for name, act in (
        ("a label is selected", lambda: window.dock.table.selectRow(1234)),
        (
            "a label is hidden",
            lambda: window.dock.bench.show(window.dock.bench.entries[1235:1236], False),
        ),
        (
            "a label is renamed",
            lambda: window.dock.bench.rename(window.dock.bench.entries[1235], "red cell"),
        ),
        ("the band is changed", lambda: window.viewer.dims.set_current_step(0, 3)),
    ):
        begun = time.perf_counter()
        with window.pauses() as pauses:
            act()
            window.settle()
        print(
            f"  {name}: drawn after {1000 * (time.perf_counter() - begun):.0f} ms, busy at most {max(pauses):.0f} ms"
        )
    window.viewer.layers.remove(layer)
    window.settle()


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pixels", default="4000x3000", help="columns x rows")
    parser.add_argument("--bands", type=int, default=31)
    parser.add_argument("--labels", type=int, default=20000)
    options = parser.parse_args()
    columns, rows = map(int, options.pixels.split("x"))
    data = np.random.default_rng(0).random((options.bands, rows, columns), dtype=np.float32)
    print(f"{columns} x {rows} x {options.bands}, float32")
    window = Window(SpectralCube(data, np.linspace(400, 700, options.bands)))
    unit = np.array([[0.1, 0.1], [0.1, 0.75], [0.5, 0.9], [0.85, 0.85]]) * (rows, columns)
    small = np.array([0.5, 0.5]) * (rows, columns) + (unit - unit.mean(axis=0)) / 12
    drag(window, "a small polygon", small)
    drag(window, "a large polygon", unit)
    label(window, disc_labels(rows, columns, options.labels))
    window.widget.hide()
    drag(window, "without the dock", unit)
    window.viewer.close()


if __name__ == "__main__":
    main()
