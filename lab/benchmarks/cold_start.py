"""The first run on a computer, and in a process; and what a process does before its first answer.

    python -m lab.benchmarks.cold_start [--wait 15] [--side 512] [--against SRC] [--pairs 5]

A fresh process does as the window does when its dock opens (it imports torch and begins to make the
kernels ready), waits as a person who looks for a photo, and then makes three cubes, with no kernel
on disk and with all of them. "at once" does not wait.

Commands are whole processes, by seconds of the processor, each beside one of another build, whose
folder `src` is SRC. For `reconstruct` of the sample photo the table is followed by the libraries
that it imports, and by the stacks of its first second, folded as for a flame graph.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import napari_mst
from lab.benchmarks import common

PACKAGE = Path(napari_mst.__file__).parent

PHOTO = Path(__file__).parents[2] / "sample_data" / "coffee.jpg"

CUBE = "cube.hdr"

RECONSTRUCT = ["reconstruct", str(PHOTO), "-o", CUBE, "--overwrite"]

COMMANDS = (RECONSTRUCT, ["info", CUBE], ["models"])

START = """
import json, sys, time
opened = time.perf_counter()
import numpy as np
from napari_mst.plugin.reconstruct.dock import list_devices
list_devices()
time.sleep(max(float(sys.argv[1]) - (time.perf_counter() - opened), 0))
clock, processor = [time.perf_counter()], [time.process_time()]
from napari_mst import Reconstructor, load_model
side = int(sys.argv[2])
photo = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu", denoise="off")
for _ in range(3):
    reconstructor.reconstruct(photo)
    clock.append(time.perf_counter())
    processor.append(time.process_time())
first, _, third = np.diff(processor)
print(json.dumps([clock[1] - clock[0], first, first / third]))
"""

WATCHED = """
import collections, runpy, sys, threading, time
counts = collections.Counter()
main = threading.main_thread().ident

def watch():
    while time.process_time() < 1:
        frame, names = sys._current_frames().get(main), []
        while frame is not None:
            names.append(frame.f_globals.get("__name__", "?") + "." + frame.f_code.co_name)
            frame = frame.f_back
        counts[";".join(name for name in reversed(names) if "importlib" not in name)] += 1
        time.sleep(0.002)

watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
try:
    runpy.run_module("napari_mst", run_name="__main__", alter_sys=True)
finally:
    watcher.join()
    for stack, count in counts.items():
        print(f"stack {count} {stack}", file=sys.__stderr__)
"""


def run(
    options: list[str], folder: str, source: str
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Python with *options* in *folder*, with the package in *source*; and its processor seconds."""
    environment = os.environ | {"PYTHONPATH": source}
    environment.pop("NUMBA_CACHE_DIR", None)
    before = os.times()
    done = subprocess.run(
        [sys.executable, *options],
        env=environment,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    after = os.times()
    own = after.children_user + after.children_system
    return done, own - before.children_user - before.children_system


def rows(wait: float, side: int) -> Iterator[str]:
    """Each case of a first run, with its seconds and its share of the third."""
    for name, pause in (("at once", 0.0), (f"after {wait:g} s", wait)):
        with tempfile.TemporaryDirectory() as folder:
            # Kernels are kept beside their source: a copy of the package has none there.
            shutil.copytree(
                PACKAGE, Path(folder, PACKAGE.name), ignore=shutil.ignore_patterns("__pycache__")
            )
            for state in ("cold", "warm"):
                done, _ = run(["-c", START, str(pause), str(side)], folder, folder)
                clock, processor, share = json.loads(done.stdout)
                yield f"| {name}, {state} | {clock:.1f} | {processor:.1f} | {share:.2f} |"


def pairs(count: int, against: str, folder: str) -> Iterator[str]:
    """Each command with its processor seconds and, where there is another build, its share."""
    builds = [str(PACKAGE.parent), *[against][: bool(against)]]
    for command in COMMANDS:
        options = ["-m", "napari_mst", *command]
        times = [[run(options, folder, build)[1] for build in builds] for _ in range(count + 1)]
        # The first ones compile, to bytes and to kernels.
        own, other = zip(*((each[0], each[-1]) for each in times[1:]), strict=True)
        ratio = median(one / two for one, two in zip(own, other, strict=True))
        yield f"| {command[0]} | {median(own):.2f} | {median(other):.2f} | {ratio:.3f} |"


def imports(folder: str) -> Iterator[str]:
    """The libraries whose import takes longest, by themselves."""
    done, _ = run(
        ["-X", "importtime", "-m", "napari_mst", *RECONSTRUCT], folder, str(PACKAGE.parent)
    )
    own: Counter[str] = Counter()
    for line in re.finditer(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)", done.stderr):
        own[line[2]] += int(line[1])
    return (f"{taken / 1000:7.1f} ms {name}" for name, taken in own.most_common(12))


def stacks(folder: str) -> Iterator[str]:
    """The stacks that the first second of the processor is spent in, most frequent first."""
    done, _ = run(["-c", WATCHED, *RECONSTRUCT], folder, str(PACKAGE.parent))
    counts = Counter(
        {stack: int(count) for count, stack in re.findall(r"stack (\d+) (.*)", done.stderr)}
    )
    total = counts.total()
    for stack, count in counts.most_common(12):
        # Every stack begins with the same calls.
        yield f"{count / total:6.1%} {stack.partition('cli.main.main;')[2] or stack}"


def main() -> None:
    """Print the tables."""
    parser = common.parser(__doc__)
    parser.add_argument("--wait", type=float, default=15.0)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--against", default="")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print("| command | processor, s | other build | ratio |\n|---|---|---|---|")
        for row in pairs(given.pairs, given.against, folder):
            print(row, flush=True)
        print("\nImports by themselves", *imports(folder), sep="\n    ")
        print("\nStacks of the first second", *stacks(folder), sep="\n    ")
    print("\n| first run | seconds | of the processor | by the third |\n|---|---|---|---|")
    for row in rows(given.wait, given.side):
        print(row, flush=True)


if __name__ == "__main__":
    main()
