"""The picture of a cube: made in full, and as coarsely as while a bar is dragged in the plot.

`python -m lab.benchmarks.pictures [--pixels 4000x3000] [--bands 31]`

Seconds are those of the processor, of one thread, so that other programs do not count. A drag has
to stay below 0.1 s, that of `napari` and of Qt included: `workbench_window.py` measures those.
"""

import time

import numpy as np

from lab.benchmarks import common
from napari_mst.cube import SpectralCube
from napari_mst.cube.pictures import composite_of, paint, rendering
from napari_mst.plugin.pictures.composing import LIVE_PIXELS

REPEATS = 3
BARS = (650.0, 550.0, 450.0)


def main() -> None:
    """Print what was measured."""
    parser = common.parser(__doc__)
    parser.add_argument("--pixels", default="4000x3000", help="columns x rows")
    parser.add_argument("--bands", type=int, default=31)
    options = parser.parse_args()
    columns, rows = common.sides(options.pixels)
    data = np.random.default_rng(0).random((options.bands, rows, columns), dtype=np.float32)
    cube = SpectralCube(data, np.linspace(400, 700, options.bands))
    step = max(1, int(np.ceil(np.sqrt(rows * columns / LIVE_PIXELS))))
    coarse = (slice(0, rows, step), slice(0, columns, step))
    tasks = {
        "best picture": lambda: paint(cube, composite_of(cube)),
        "three bands": lambda: paint(cube, composite_of(cube, BARS)),
        "under LED-B3": lambda: paint(cube, rendering(cube, "LED-B3")),
        f"drag (1 in {step} x {step})": lambda: paint(cube, composite_of(cube, BARS), coarse),
    }
    print(f"{columns} x {rows} x {options.bands}, float32")
    for name, task in tasks.items():
        print(f"{name:<20} {min(common.seconds(task, REPEATS, time.thread_time)):6.3f} s")


if __name__ == "__main__":
    main()
