"""Speed, memory and exactness of the engine, as ratios against the published forward in the same run.

`python -m lab.benchmarks.engine [--sizes 256x256 482x512 ...] [--rounds 5] [--device cuda]
[--authors MST_Plus_Plus.py]` `python -m lab.benchmarks.engine --tiling --operations [--device
cuda]` prints two tables more: what the usual tiles cost in accuracy, and where the time of a run
goes (on CUDA that is always printed).

Every contender is a process of its own and they take turns, so that all see the same weather.
"published" is the published forward as people run it, in our plain form; "authors" is their own
file, with the same weights, where `--authors` names it; "published, tuned" is "published" with
glibc told to keep large blocks (MALLOC_MMAP_THRESHOLD_), which spares it most page faults. "engine"
is the engine as it is installed, with the kernels of the extra `fast` if numba is; "engine, oneDNN"
is the engine with torch alone. OpenVINO and ONNX Runtime take part on a CPU, where installed. On a
GPU the published forward has TF32 in its convolutions, as torch does it, and also runs without
("exact", as the engine), in channels-last memory, through torch.compile and as a CUDA graph; the
engine also runs in 16 bits and with its maps in the computer's memory. Whoever cannot run there
says why and is left out. Times are medians, "first" is the first run at this size; memory is the
peak of the process (on a GPU: of its memory) above what it had before, a pixel of the photo. Who
needs more memory than is free does not take part, and that is said.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec

import torch

from lab.benchmarks import common
from lab.benchmarks.operations import print_operations
from lab.benchmarks.tiling import print_errors
from napari_mst.engine.device import choose_device
from napari_mst.engine.plan import free_memory

PACKAGES = ("torch", "numba", "openvino", "onnxruntime")
BYTES = {
    "engine": 1500,
    "engine, oneDNN": 1500,
    "bfloat16": 1500,
    "float16": 1500,
    "maps in memory": 1500,
    "published": 3500,
    "published, tuned": 4000,
    "authors": 3500,
    "published, exact": 3500,
    "channels-last": 4000,
    "compiled": 4000,
    "CUDA graph": 4000,
    "openvino": 20000,
    "openvino, bfloat16": 20000,
    "onnxruntime": 7700,
}
"""Bytes that each contender needs a pixel, generously."""

ON_GPU = (
    *("engine", "bfloat16", "float16", "maps in memory"),
    *("published", "published, exact", "channels-last", "compiled", "CUDA graph"),
)

CONTENDER = (sys.executable, "-m", "lab.benchmarks.contender")
TUNED = {"MALLOC_MMAP_THRESHOLD_": "4294967296"}


class Absent(Exception):
    """A contender cannot run here; the text says why."""


class Process:
    """A contender at one size, in a process of its own; each of its turns may end with `Absent`."""

    def __init__(self, name: str, height: int, width: int, options: argparse.Namespace) -> None:
        self.seconds: list[float] = []
        self.processor: list[float] = []
        self._is_cpu_time = options.cpu_time
        authors = [options.authors] if options.authors else []
        program, is_tuned = name.removesuffix(", tuned"), name.endswith(", tuned")
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the process)
        self._process = subprocess.Popen(
            [*CONTENDER, program, str(height), str(width), options.device, *authors],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True,
            env=os.environ | (TUNED if is_tuned else {}),
        )  # fmt: skip
        peak, self.error, self.first = map(float, self._told().split())
        self.peak = int(peak)

    def take_turn(self) -> None:
        """Run once more."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        seconds, of_processor = map(float, self._told().split())
        self.processor.append(of_processor)
        self.seconds.append(of_processor if self._is_cpu_time else seconds)

    def _told(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._complaints.seek(0)
            raise Absent(self._complaints.read().strip().rpartition("\n")[-1][:150])
        return line

    def finish(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def compare(height: int, width: int, options: argparse.Namespace) -> None:
    """Print the table of one size."""
    free, processes = free_memory(torch.device(options.device)), {}
    for name in options.contenders or contenders(options):
        free -= BYTES[name] * height * width
        if free > 0:
            try:
                processes[name] = Process(name, height, width, options)
            except Absent as reason:
                print(f"\n{name} does not run here: {reason}", flush=True)
        else:
            free += BYTES[name] * height * width
            print(f"\n{name} does not fit into memory at {height}x{width}")
    for _ in range(options.rounds):
        for name, process in list(processes.items()):
            try:
                process.take_turn()
            except Absent as reason:
                del processes[name]
                print(f"\n{name} ended at {height}x{width}: {reason}", flush=True)
    medians = dict.fromkeys(BYTES, float("nan"))
    medians |= {
        name: statistics.median(process.seconds)
        for name, process in processes.items()
        if process.seconds
    }
    print(
        f"\n{f'{height}x{width}':20} {'seconds':>9} {'us/pixel':>9} {'x published':>12} {'x tuned':>8} "
        f"{'bytes/pixel':>12} {'error':>9} {'first':>8}"
    )
    for name, process in processes.items():
        seconds, pixels = medians[name], height * width
        print(
            f"  {name:18} {seconds:9.3f} {seconds / pixels * 1e6:9.2f} {medians['published'] / seconds:12.2f} "
            f"{medians['published, tuned'] / seconds:8.2f} {process.peak / pixels:12.0f} "
            f"{process.error:9.1e} "
            f"{process.first:8.2f}",
            flush=True,
        )
        process.finish()


def contenders(options: argparse.Namespace) -> list[str]:
    """The contenders on the device: ours first, so that it is never the one that does not fit."""
    authors = ["authors"] if options.authors else []
    if options.device != "cpu":
        return [*ON_GPU, *authors]
    engines = ["engine", "engine, oneDNN"] if find_spec("numba") else ["engine"]
    narrow = ["bfloat16"] if "bfloat16" in choose_device("cpu").precisions else []
    compilers = filter(find_spec, ("onnxruntime", "openvino"))
    return [*engines, *narrow, "published", *authors, "published, tuned", *compilers]


def main() -> None:
    """Command line."""
    parser = common.parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["256x256", "482x512", "1024x1024"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--contenders", nargs="+", choices=BYTES, help="(default: all that are installed)"
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="time of the processor, for a busy machine: one thread",
    )
    parser.add_argument("--authors", help="path of the authors' MST_Plus_Plus.py")
    parser.add_argument("--tiling", action="store_true", help="the errors of tiles instead")
    parser.add_argument(
        "--operations", action="store_true", help="the time of every kind of operation instead"
    )
    options = parser.parse_args()
    packages = ", ".join(
        f"{package} {version(package)}" for package in PACKAGES if find_spec(package)
    )
    chosen = choose_device(options.device)
    options.device = chosen.name
    timed = ", time of the processor" * options.cpu_time
    print(f"{packages}; {torch.get_num_threads()} threads; {chosen.name} ({chosen.reason}){timed}")
    if options.tiling:
        print_errors(torch.device(options.device))
    if options.operations:
        print_operations(512, 512, torch.device(options.device))
    if options.tiling or options.operations:
        return
    for size in options.sizes:
        compare(*map(int, size.split("x")), options)
    if options.device.startswith("cuda"):
        print_operations(512, 512, torch.device(options.device))


if __name__ == "__main__":
    main()
