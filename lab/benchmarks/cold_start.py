"""The first run on a computer: with no kernel on disk, and with all of them.

    python -m lab.benchmarks.cold_start [--wait 15] [--side 512]

A fresh process does as the window does when its dock opens (it imports torch and begins to make the
kernels ready), waits as a person who looks for a photo, and then makes a cube. "at once" does not
wait.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import napari_mst
from lab.benchmarks import common

PACKAGE = Path(napari_mst.__file__).parent

START = """
import json, sys, time
opened = time.perf_counter()
import numpy as np
from napari_mst.plugin.reconstruct.dock import list_devices
list_devices()
time.sleep(max(float(sys.argv[1]) - (time.perf_counter() - opened), 0))
begun, used = time.perf_counter(), time.process_time()
from napari_mst import Reconstructor, load_model
side = int(sys.argv[2])
photo = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
Reconstructor(load_model("mstpp-srgb"), "cpu", denoise="off").reconstruct(photo)
print(json.dumps([time.perf_counter() - begun, time.process_time() - used]))
"""


def seconds(folder: str, wait: float, side: int) -> tuple[float, float]:
    """Seconds from Run to the cube, by the clock and of the processor, of the package in *folder*."""
    command = [sys.executable, "-c", START, str(wait), str(side)]
    environment = os.environ | {"PYTHONPATH": folder}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        command, env=environment, cwd=folder, check=True, capture_output=True, text=True
    )
    clock, processor = json.loads(done.stdout)
    return clock, processor


def rows(wait: float, side: int) -> Iterator[tuple[str, float, float]]:
    """Each case, with its seconds."""
    for name, pause in (("at once", 0.0), (f"after {wait:g} s", wait)):
        with tempfile.TemporaryDirectory() as folder:
            # Kernels are kept beside their source: a copy of the package has none there.
            no_kernels = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE, Path(folder, PACKAGE.name), ignore=no_kernels)
            yield f"{name}, cold", *seconds(folder, pause, side)
            yield f"{name}, warm", *seconds(folder, pause, side)


def main() -> None:
    """Print the table."""
    parser = common.parser(__doc__)
    parser.add_argument("--wait", type=float, default=15.0)
    parser.add_argument("--side", type=int, default=512)
    given = parser.parse_args()
    print("| run | seconds | of the processor |\n|---|---|---|")
    for name, clock, processor in rows(given.wait, given.side):
        print(f"| {name} | {clock:.1f} | {processor:.1f} |", flush=True)


if __name__ == "__main__":
    main()
