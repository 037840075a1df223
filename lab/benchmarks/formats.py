"""Speed and memory of saving and opening cubes, as ratios against plain numpy in the same run.

`python -m lab.benchmarks.formats [--pixels 4000x3000] [--bands 31] [--rounds 5] [--folder DIR]`

Saving: every format, and spectral, against `ndarray.tofile` with an fsync, over the old file (which
a crash destroys) and to a temporary that replaces it (as all our saves do; new blocks take a file
system longer than old ones); plain numpy and ENVI also without the fsync. Opening: all numbers into
memory, against `numpy.fromfile`. The contenders take turns, so that all see the same weather, and
the files that are read are in the system's cache; times are medians. Peak memory of a save, and
opening one band of a large ENVI file, are measured in processes of their own (Linux only).
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import spectral.io.envi

from lab.benchmarks import common
from napari_mst.cube import SpectralCube
from napari_mst.formats import FORMATS, read_cube, write_cube

SUFFIXES = [form.suffixes[0] for form in FORMATS if form.suffixes]
LARGE = (300, 2900, 2900)
"""(B, H, W) of a float32 cube of 10 GB."""

PEAK = """
def peak():  # bytes; getrusage would count what the parent had before the exec
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
"""
SAVE = """
import sys
import numpy as np
from napari_mst.cube import SpectralCube
from napari_mst.formats import write_cube
path, shape = sys.argv[1], tuple(map(int, sys.argv[2:]))
small = SpectralCube(np.ones((shape[0], 8, 8), np.float32), np.arange(400.0, 400 + shape[0]))
write_cube(path, small, overwrite=True)
before = peak()
cube = SpectralCube(np.ones(shape, np.float32), small.wavelengths)
write_cube(path, cube, overwrite=True)
print((peak() - before) / cube.data.nbytes)
"""
OPEN = """
import sys, time
start = time.perf_counter()
import numpy as np
from napari_mst.formats import read_cube
imported = time.perf_counter()
band = np.array(read_cube(sys.argv[1]).data[15])
print(time.perf_counter() - start, time.perf_counter() - imported)
print(peak() / 1e6)
"""


def run(code: str, *arguments: object) -> list[float]:
    """The numbers that *code* prints, in a process of its own."""
    command = [sys.executable, "-c", PEAK + code, *map(str, arguments)]
    return [
        float(word)
        for word in subprocess.run(command, capture_output=True, check=True).stdout.split()
    ]


def dump(data: np.ndarray, path: Path) -> None:
    """The plain numpy way, over the old file, until it is on the disk."""
    with path.open("wb") as file:
        data.tofile(file)
        file.flush()
        os.fsync(file.fileno())


def dump_safely(data: np.ndarray, path: Path) -> None:
    """Dump the numbers into a temporary, which then replaces the old file."""
    temporary = path.with_suffix(".tmp")
    dump(data, temporary)
    temporary.replace(path)


def unsynced(save: Callable[[], object]) -> None:
    """Leave it to the system when *save* reaches the disk."""
    with patch("os.fsync"):
        save()


def save_with_spectral(data: np.ndarray, path: Path) -> None:
    """As a careful user of spectral would."""
    image = np.moveaxis(data, 0, 2)
    spectral.io.envi.save_image(
        path, image, interleave="bsq", byteorder=0, dtype="float32", force=True
    )


def compare(title: str, contenders: dict[str, Callable[[], object]], rounds: int) -> None:
    """Print the medians of *contenders* and their ratios to the first two."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            os.sync()  # what the one before left to be written is not this one's work
            seconds[name] += common.seconds(call)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    first, second = list(medians)[:2]
    print(f"\n{title:30} {'seconds':>9} {f'x {first}':>20} {f'x {second}':>20}")
    for name, median in medians.items():
        print(
            f"  {name:28} {median:9.3f} {median / medians[first]:20.2f} {median / medians[second]:20.2f}",
            flush=True,
        )


def compare_speed(folder: Path, shape: tuple[int, ...], rounds: int) -> None:
    """Saving, then opening."""
    data = np.random.default_rng(0).random(shape, dtype=np.float32)
    cube = SpectralCube(data, np.linspace(400, 700, shape[0]))
    saves: dict[str, Callable[[], object]] = {
        "tofile": lambda: dump(data, folder / "plain.raw"),
        "tofile + replace": lambda: dump_safely(data, folder / "safe.raw"),
        "spectral": lambda: save_with_spectral(data, folder / "spectral.hdr"),
    }
    opens: dict[str, Callable[[], object]] = {
        "fromfile": lambda: np.fromfile(folder / "plain.raw", np.float32),
        "spectral": lambda: spectral.io.envi.open(folder / "spectral.hdr").load(),
    }
    saves["tofile, not synced"] = lambda: unsynced(lambda: dump(data, folder / "plain.raw"))
    saves[".hdr, not synced"] = lambda: unsynced(
        lambda: write_cube(folder / "ours_hdr.hdr", cube, overwrite=True)
    )
    for suffix in SUFFIXES:
        path = folder / f"ours{suffix.replace('.', '_')}{suffix}"
        saves[suffix] = lambda path=path: write_cube(path, cube, overwrite=True)
        opens[suffix] = lambda path=path: np.array(read_cube(path).data)
    opens[".hdr, verified"] = lambda: read_cube(folder / "ours_hdr.hdr", verify=True)
    compare(f"save {'x'.join(map(str, shape))}", saves, rounds)
    compare("open", opens, rounds)


def measure_memory(folder: Path, shape: tuple[int, ...]) -> None:
    """Peak memory of a save, the cube included; and one band of a 10 GB file."""
    print("\npeak memory of a save, x cube")
    for suffix in SUFFIXES:
        print(f"  {suffix:28} {run(SAVE, folder / f'peak{suffix}', *shape)[0]:9.2f}", flush=True)
    bands, rows, columns = LARGE
    layout = f"bands = {bands}\nlines = {rows}\nsamples = {columns}\ndata type = 4\ninterleave = bsq\nbyte order = 0\n"
    (folder / "large.hdr").write_text(f"ENVI\n{layout}")
    with (folder / "large.img").open("wb") as file:
        file.truncate(bands * rows * columns * 4)
    results = [run(OPEN, folder / "large.hdr") for _ in range(5)]
    total, opening, megabytes = (statistics.median(column) for column in zip(*results, strict=True))
    print(
        f"\none band of a 10 GB ENVI file: {opening:.3f} s, {total:.3f} s with imports, {megabytes:.0f} MB"
    )


def main() -> None:
    """Command line."""
    options = common.cube_parser(__doc__, rounds=5).parse_args()
    rows, columns = common.sides(options.pixels)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        compare_speed(Path(folder), (options.bands, rows, columns), options.rounds)
        measure_memory(Path(folder), (options.bands, rows, columns))


if __name__ == "__main__":
    main()
