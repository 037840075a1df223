"""Pauses of the window: the longest time that it stands still, for everything that a person does.

`xvfb-run -a python -m lab.benchmarks.workbench_window [actions|regions] [--megapixels 1 12]
[--profile run]`

`actions`: opening, a run, moving the mouse, sliding, maps, a save and 1,000 picks. A pause is the
time between two turns of the event loop. Of the longest ones, three numbers are told: how long it
was by the clock; that less the time in which other programs had the processor, which Linux counts;
and how long the window's own thread worked. The last two hold on a busy computer too. The same
without a dock of ours, where that can be done, tells what is napari's own. `--profile WORD` prints
where the window's thread was during the longest pause of the actions whose names contain WORD.

`regions`: a corner of a polygon that is dragged with the mouse, and thousands of labels. Of the
drag: how long after a
move of the mouse its curve is painted, when one waits for it and when 60 moves come in a second.
"""

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import napari
import numpy as np
from napari.layers import Layer, Shapes
from qtpy.QtCore import QEventLoop, QPoint, Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_mst.cube import SpectralCube
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.spectra.curves import CurvesItem
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_layer, is_composite
from napari_mst.plugin.viewer.picks import picks_layer
from napari_mst.plugin.workspace import WorkspaceDock

BANDS = 31
MOVES = 60
PERIOD = 1 / 60
PICKS = 1000
LONGEST = 300.0
"""Seconds that are waited for anything."""
TICK = 1
"""Milliseconds between two looks: without a rest, the watch itself would take a core from the jobs."""
PROFILED_LINES = 45


class Pause(NamedTuple):
    """A time in ms between two turns of the event loop: by the clock, with a core of its own, and worked in it."""

    clock: float
    alone: float
    worked: float


class Now(NamedTuple):
    """The time in seconds by the clock, and how long the window's thread waited for a core, and worked, so far."""

    clock: float
    waited: float
    worked: float

    @classmethod
    def read(cls) -> "Now":
        """Read all three."""
        statistics = Path("/proc/thread-self/schedstat")
        waited = int(statistics.read_text().split()[1]) / 1e9 if statistics.exists() else 0.0
        return cls(time.perf_counter(), waited, time.thread_time())

    def since(self, before: "Now") -> Pause:
        """The pause from *before* to now."""
        clock = self.clock - before.clock
        waited = self.waited - before.waited
        return Pause(1000 * clock, 1000 * (clock - waited), 1000 * (self.worked - before.worked))


@contextmanager
def pauses() -> Iterator[list[Pause]]:
    """The times between two turns of the event loop."""
    found, last, timer = list[Pause](), Now.read(), QTimer()

    def tick() -> None:
        nonlocal last
        now = Now.read()
        found.append(now.since(last))
        last = now

    timer.timeout.connect(tick)
    timer.start(TICK)
    yield found
    timer.stop()
    tick()


class Profiles:
    """The profile of the longest pause since it was made: `shown` prints it."""

    def __init__(self) -> None:
        self._longest, self._worked = cProfile.Profile(), 0.0
        self._present, self._begun = cProfile.Profile(), 0.0
        self._timer = QTimer()
        self._timer.timeout.connect(self._turn)
        self._timer.start(TICK)
        self._begin()

    def _begin(self) -> None:
        self._present, self._begun = cProfile.Profile(), time.thread_time()
        self._present.enable()

    def _end(self) -> None:
        self._present.disable()
        worked = time.thread_time() - self._begun
        if worked > self._worked:
            self._longest, self._worked = self._present, worked

    def _turn(self) -> None:
        self._end()
        self._begin()

    def shown(self) -> None:
        """Stop, and print the longest."""
        self._timer.stop()
        self._end()
        pstats.Stats(self._longest).sort_stats("cumulative").print_stats(PROFILED_LINES)


def wait(until: Callable[[], bool]) -> None:
    """Let Qt work until something is so."""
    begun = time.perf_counter()
    # Wakes the loop where nothing else does: to ask all the time would keep threads from working.
    waker = QTimer()
    waker.start(TICK)
    while not until() and time.perf_counter() - begun < LONGEST:
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    if not until():
        print(f"  (given up after {LONGEST:.0f} s)", flush=True)


def gap(act: Callable[[], object], until: Callable[[], bool] = lambda: True) -> Pause:
    """The longest of each kind of pause, from the beginning of *act* until something is so and is painted."""
    with pauses() as found:
        act()
        wait(until)
        for _ in range(10):
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    return Pause(*(max(times) for times in zip(*found, strict=True)))


class Actions:
    """Everything that a person does with one photo, in turn; each tells its longest pause."""

    def __init__(self, megapixels: float, profiled: str = "") -> None:
        rows = round((megapixels * 0.75e6) ** 0.5)
        self.profiled = profiled
        self.photo = smooth_photo(rows, round(megapixels * 1e6 / rows))
        self.viewer = napari.Viewer(show=True)

    def tell(self, name: str, ours: Pause, alone: Pause | None = None) -> None:
        """Print a line."""
        beside = "" if alone is None else "   " + row_of(alone)
        print(f"  {name:32}{row_of(ours)}{beside}", flush=True)

    def gap(
        self, name: str, act: Callable[[], object], until: Callable[[], bool] = lambda: True
    ) -> Pause:
        """`gap` of the action *name*; its longest pause is profiled if that was asked for."""
        if not self.profiled or self.profiled not in name:
            return gap(act, until)
        profiles = Profiles()
        found = gap(act, until)
        profiles.shown()
        return found

    def all(self) -> None:
        """Do everything."""
        rows, columns, _ = self.photo.shape
        print(f"{columns} x {rows}: longest pause in ms; the same in napari alone")
        print(" " * 34 + 2 * "   clock   alone  worked   ")
        viewer = self.viewer
        self.warm_up()
        alone = gap(lambda: viewer.add_image(self.photo, rgb=True))
        viewer.layers.clear()
        gap(lambda: None)
        name = "the workspace opens"
        self.tell(name, self.gap(name, self.open_dock, lambda: self.dock.isVisible()))
        self.form = self.dock.pages["photo"].widget().reconstruction.form
        wait(lambda: self.form.is_ready)
        name = "a photo opens"
        photo = self.gap(name, lambda: viewer.add_image(self.photo, rgb=True, name="photo"))
        self.tell(name, photo, alone)
        self.run()
        self.move_and_slide()
        for kind in ("formula", "classes"):
            self.make_map(kind)
        self.save()
        self.many_picks()
        # Last, as clusters of 12 MP take minutes: a pause on the way counts, whether they end or
        # not.
        self.make_map("clusters")
        viewer.close()

    def warm_up(self) -> None:
        """Have napari show an image, and a colour bar, twice: OpenGL compiles programs for the first."""
        for count in ("first", "second"):
            layer = self.viewer.add_image(self.photo[..., 0])
            gap(lambda: None)
            alone = gap(lambda layer=layer: setattr(layer.colorbar, "visible", True))
            self.tell(f"napari's {count} colour bar", alone, alone)
            self.viewer.layers.clear()
            gap(lambda: None)

    def open_dock(self) -> None:
        """Open the workspace."""
        self.dock = WorkspaceDock(self.viewer)
        self.viewer.window.add_dock_widget(self.dock, name="napari-mst")

    def run(self) -> None:
        """Reconstruct the photo by the quicker model: the window is the same for all."""
        self.form.card = "pixelwise-srgb"
        page = self.dock.pages["photo"].widget()
        name = "a run, to its picture"
        composer = Composer.of(self.viewer)

        def is_painted() -> bool:
            return not (self.dock.workspace.is_busy or composer.is_busy) and any(
                is_composite(layer) for layer in self.viewer.layers
            )

        ended = self.gap(name, page.reconstruction.run, is_painted)
        self.layer = active_cube_layer(self.viewer)
        data = self.layer.data
        limits = tuple(self.layer.contrast_limits)
        added: list[object] = []

        def add() -> None:
            added.append(
                self.viewer.add_image(data, contrast_limits=limits, rgb=False, visible=True)
            )

        self.dock.hide()
        QApplication.processEvents()
        alone = gap(add)
        self.viewer.layers.remove(added.pop())
        self.viewer.layers.selection.active = self.layer
        self.dock.show()
        gap(lambda: None)
        self.tell(name, ended, alone)

    def at(self, row: float, column: float) -> tuple[float, ...]:
        """A world position on the cube."""
        rows, columns = self.layer.data.shape[-2:]
        return tuple(self.layer.data_to_world((0, row * (rows - 1), column * (columns - 1))))

    def move_and_slide(self) -> None:
        """Move the mouse, slide through the bands, and change the page."""
        shared = self.dock.pages["photo"].widget().view.bench

        def move() -> None:
            for step in range(MOVES):
                begun = time.perf_counter()
                shared._on_move(self.at(step / MOVES, step / MOVES))
                wait(lambda begun=begun: time.perf_counter() - begun > PERIOD)

        def slide() -> None:
            for band in range(20):
                self.viewer.dims.set_current_step(0, band)
                QApplication.processEvents()

        self.tell("the mouse moves", self.gap("the mouse moves", move))
        ours = self.gap("the slider moves", slide)
        self.dock.hide()
        QApplication.processEvents()
        alone = gap(slide)
        self.dock.show()
        self.tell("the slider moves", ours, alone)
        for page in ("spectra", "maps", "attention"):
            name = f"the page {page} opens"
            self.tell(name, self.gap(name, lambda page=page: self.dock.go_to(page)))

    def make_map(self, kind: str) -> None:
        """Make a map."""
        self.dock.go_to("maps")
        maps = self.dock.bench.maps
        if kind == "classes":
            for step in range(5):
                self.dock.bench.pin(self.at(step / 5, step / 5))
        wait(lambda: not self.dock.pages["maps"].widget().bench.is_drawing)
        maps.choose(kind)
        before = set(self.viewer.layers)
        ours = self.gap(f"a map: {kind}", maps.run, lambda: not maps.is_busy)
        made = next((layer for layer in self.viewer.layers if layer not in before), None)
        if made is None:
            maps.cancel()
            wait(lambda: not maps.is_busy)
        alone = None if made is None else self.added_alone(made)
        self.tell(f"a map: {kind}", ours, alone)

    def added_alone(self, layer: Layer) -> Pause:
        """Add a copy of *layer* to napari while our docks are hidden."""
        data, arguments, kind = layer.as_layer_data_tuple()
        copy = Layer.create(data.copy(), {**arguments, "metadata": {}}, kind)
        self.dock.hide()
        QApplication.processEvents()
        alone = gap(lambda: self.viewer.layers.append(copy))
        self.viewer.layers.remove(copy)
        self.viewer.layers.selection.active = self.layer
        self.dock.show()
        gap(lambda: None)
        return alone

    def save(self) -> None:
        """Save the cube as ENVI."""
        self.viewer.layers.selection.active = self.layer
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "cube.hdr")

            def write() -> None:
                self.viewer.layers.save(path, selected=True, plugin="napari-mst")

            self.tell("a save", self.gap("a save", write))

    def many_picks(self) -> None:
        """Paste 1,000 picks, select them, colour one, and pin one more."""
        self.dock.go_to("spectra")
        page = self.dock.pages["spectra"].widget()
        points = picks_layer(self.viewer)
        rows, columns = self.layer.data.shape[-2:]
        many = np.random.default_rng(0).random((PICKS, 2)) * (rows - 1, columns - 1)

        def is_drawn() -> bool:
            return len(self.dock.bench.entries) >= PICKS and not page.bench.is_drawing

        plain = self.viewer.add_points(np.empty((0, 2)))
        alone = gap(lambda: plain.add(many))
        self.viewer.layers.remove(plain)
        self.viewer.layers.selection.active = self.layer
        name = "1,000 picks are added"
        self.tell(name, self.gap(name, lambda: points.add(many), is_drawn), alone)
        self.tell(
            "  one more is pinned", gap(lambda: self.dock.bench.pin(self.at(0.3, 0.7)), is_drawn)
        )
        self.tell("  all are selected", gap(page.table.selectAll, is_drawn))
        chosen = self.dock.bench.entries[500]
        self.tell(
            "  one gets another colour",
            gap(lambda: self.dock.bench.recolour(chosen, "#ff0000"), is_drawn),
        )
        self.tell("  undo", gap(self.dock.bench.undo, is_drawn))
        self.tell(
            "  the slider moves", gap(lambda: self.viewer.dims.set_current_step(0, 3), is_drawn)
        )


def row_of(pause: Pause) -> str:
    """The three times, as columns."""
    return "".join(f"{number:8.0f}" for number in pause)


def smooth_photo(rows: int, columns: int) -> np.ndarray:
    """A photo of soft colours with some noise."""
    row, column = np.ogrid[0 : 1 : rows * 1j, 0 : 1 : columns * 1j]
    planes = (row + 0 * column, column + 0 * row, (row + column) / 2)
    noise = np.random.default_rng(0).integers(0, 8, (rows, columns, 3), dtype=np.uint8)
    return (np.stack(planes, axis=-1) * 240).astype(np.uint8) + noise


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
        wait(lambda: not self.dock.bench.is_drawing)
        for _ in range(5):
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 50)

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

        wait(is_painted)
        latencies.append(1000 * (time.perf_counter() - begun))
        window.settle()
    count = len(window.painted)
    with pauses() as found:
        for move in range(MOVES):
            begun = time.perf_counter()
            QTest.mouseMove(window.native, start + QPoint(-(move % 30), -(move % 30)))
            wait(lambda begun=begun: time.perf_counter() - begun > PERIOD)
    clocks = [pause.clock for pause in found]
    curves = len({values[0] for values in window.painted[count:] if values})
    QTest.mouseRelease(window.native, left, pos=start)
    window.settle()
    if latencies:
        low, high = np.percentile(latencies, (50, 95))
        print(
            f"{name}, {pixels:,} pixels: a move is painted after {low:.0f} ms (median), "
            f"{high:.0f} ms (95 %)"
        )
        print(f"  {MOVES} moves in {sum(clocks) / 1000:.1f} s: {curves} different curves painted")
    low, high, most = np.percentile(clocks, (50, 95, 100))
    print(
        f"  {name}: the window's thread was busy for {low:.1f} ms (median), {high:.0f} ms (95 %), "
        f"{most:.0f} ms (most)"
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
    with pauses() as found:
        wait(lambda: len(window.dock.bench.entries) > 100)
    print(
        f"  all {len(window.dock.bench.entries):,} are listed after {time.perf_counter() - begun:.1f} s"
    )
    print(f"  meanwhile the window's thread was busy for at most {max(found).clock:.0f} ms")
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
        with pauses() as found:
            act()
            window.settle()
        print(
            f"  {name}: drawn after {1000 * (time.perf_counter() - begun):.0f} ms, busy at most "
            f"{max(found).clock:.0f} ms"
        )
    window.viewer.layers.remove(layer)
    window.settle()


def drag_and_label(megapixels: float, labels: int) -> None:
    """Drag polygons over a cube, and add labels to it."""
    rows = round((megapixels * 0.75e6) ** 0.5)
    columns = round(megapixels * 1e6 / rows)
    data = np.random.default_rng(0).random((BANDS, rows, columns), dtype=np.float32)
    print(f"{columns} x {rows} x {BANDS}, float32")
    window = Window(SpectralCube(data, np.linspace(400, 700, BANDS)))
    unit = np.array([[0.1, 0.1], [0.1, 0.75], [0.5, 0.9], [0.85, 0.85]]) * (rows, columns)
    small = np.array([0.5, 0.5]) * (rows, columns) + (unit - unit.mean(axis=0)) / 12
    drag(window, "a small polygon", small)
    drag(window, "a large polygon", unit)
    label(window, disc_labels(rows, columns, labels))
    window.widget.hide()
    drag(window, "without the dock", unit)
    window.viewer.close()


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("actions", "regions"), default="actions")
    parser.add_argument("--megapixels", type=float, nargs="+", default=[1, 12])
    parser.add_argument("--labels", type=int, default=20000)
    parser.add_argument("--profile", default="", metavar="WORD")
    options = parser.parse_args()
    for megapixels in options.megapixels:
        if options.what == "actions":
            Actions(megapixels, options.profile).all()
        else:
            drag_and_label(megapixels, options.labels)


if __name__ == "__main__":
    main()
