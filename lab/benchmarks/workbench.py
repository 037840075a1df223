"""Speed of the spectra dock, from the move of the mouse to the redrawn curve, and with many picks.

`xvfb-run -a python -m lab.benchmarks.workbench [--pixels 4000x3000] [--bands 31] [--rounds 200] [--picks 1000] [--noise]`

A move is given to the dock as napari gives it; the plot is then repainted at once. Times are medians and 95th
percentiles. The cube is in memory; every move is to another random pixel.
"""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
from napari.components import ViewerModel
from qtpy.QtCore import QEventLoop
from qtpy.QtWidgets import QApplication

from lab.benchmarks import common
from napari_mst.cube import SpectralCube
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_layer


def main() -> None:
    """Print a table."""
    parser = common.parser(__doc__)
    parser.add_argument("--pixels", default="4000x3000", help="columns x rows")
    parser.add_argument("--bands", type=int, default=31)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--picks", type=int, default=1000)
    parser.add_argument(
        "--noise", action="store_true", help="spectra that jump from band to band, not smooth ones"
    )
    options = parser.parse_args()
    columns, rows = common.sides(options.pixels)
    application = QApplication.instance() or QApplication([])
    viewer = ViewerModel()
    wavelengths = np.linspace(400, 700, options.bands)
    light = np.random.default_rng(0).random((rows, columns), dtype=np.float32)
    data = light * (0.5 + 0.3 * np.sin(wavelengths / 40)).astype(np.float32)[:, None, None]
    for number, band in enumerate(data if options.noise else ()):
        band *= np.roll(light, 7919 * (1 + number))
    _, arguments, _ = cube_layer(SpectralCube(data, wavelengths), "cube")
    viewer.add_image(data, **arguments)
    dock = SpectraDock(viewer)
    dock.show()
    settle(application, dock)
    places = (
        np.random.default_rng(1).integers((rows, columns), size=(4 * options.rounds, 2)).tolist()
    )

    def hover() -> None:
        row, column = places.pop()
        dock.pace.stop()  # as if the last redraw were long ago
        for callback in viewer.mouse_move_callbacks:
            callback(viewer, SimpleNamespace(position=(550.0, row, column)))
        dock.plot.viewport().repaint()

    print(f"{columns} x {rows} x {options.bands}, float32")
    tell("hover to redrawn curve", hover, options.rounds)
    dock.menus.windows[2].trigger()
    tell("the same, mean of 5 x 5 pixels", hover, options.rounds)
    dock.menus.windows[0].trigger()
    dock.bench.pin((550, 0, 0))
    settle(application, dock)
    points = picks.picks_layer(viewer)
    if points is None:
        raise SystemExit("Nothing was pinned.")
    points.data = np.stack([np.full(options.picks, 5), np.arange(options.picks)], axis=1)
    (first,) = common.seconds(lambda: settle(application, dock))
    print(f"{options.picks} picks, drawn for the first time: {1000 * first:.0f} ms")
    tell(f"hover to redrawn curve, {options.picks} picks", hover, options.rounds)

    def move_a_pick() -> None:
        points.data = np.concatenate([points.data[:-1], [places.pop()]])
        dock.pace.draw()
        dock.plot.viewport().repaint()

    tell(f"one of {options.picks} picks moved, all redrawn", move_a_pick, 10)


def settle(application: QApplication, dock: SpectraDock) -> None:
    """Let Qt work until nothing is to be drawn."""
    while dock.is_drawing:
        application.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 20)
    application.processEvents()


def tell(what: str, act: Callable[[], None], rounds: int) -> None:
    """Print how long *act* takes."""
    low, high = np.percentile(common.seconds(act, rounds), (50, 95))
    print(f"{what}: median {1000 * low:.1f} ms, 95 % within {1000 * high:.1f} ms")


if __name__ == "__main__":
    main()
