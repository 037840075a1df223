"""Speed, memory and exactness of the engine on a CPU, as ratios against the published forward in the same run.

`python benchmarks/engine.py [--sizes 256x256 482x512 ...] [--rounds 5] [--authors MST_Plus_Plus.py]`

Every contender is a process of its own and they take turns, so that all see the same weather. "published" is the
published forward as people run it; "published, tuned" the same with glibc told to keep large blocks
(MALLOC_MMAP_THRESHOLD_), which spares it most page faults. OpenVINO and ONNX Runtime take part where installed.
Times are medians; memory is the peak of the process above what it had before, a pixel of the photo.
"""

import argparse
import os
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

TUNED = {"MALLOC_MMAP_THRESHOLD_": "4294967296"}
CONTENDER = Path(__file__).with_name("contender.py")


class Process:
    """A contender at one size, in a process of its own."""

    def __init__(self, name: str, height: int, width: int, authors: list[str], **environment: str) -> None:
        self.seconds: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, CONTENDER, name, str(height), str(width), *authors],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment},
        )  # fmt: skip
        peak, error = self._process.stdout.readline().split()
        self.peak, self.error = int(peak), float(error)

    def take_turn(self) -> None:
        """Run once more."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.seconds.append(float(self._process.stdout.readline()))

    def finish(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def compare(height: int, width: int, rounds: int, authors: list[str]) -> None:
    """Print the table of one size."""
    processes = {
        "published": Process("published", height, width, authors),
        "published, tuned": Process("published", height, width, authors, **TUNED),
        "engine": Process("engine", height, width, authors),
    }
    for name in ("openvino", "onnxruntime"):
        if find_spec(name):
            processes[name] = Process(name, height, width, authors)
    for _ in range(rounds):
        for process in processes.values():
            process.take_turn()
    medians = {name: statistics.median(process.seconds) for name, process in processes.items()}
    print(
        f"\n{f'{height}x{width}':20} {'seconds':>9} {'us/pixel':>9} {'x published':>12} {'x tuned':>8} "
        f"{'bytes/pixel':>12} {'error':>9}"
    )
    for name, process in processes.items():
        seconds, pixels = medians[name], height * width
        print(
            f"  {name:18} {seconds:9.3f} {seconds / pixels * 1e6:9.2f} {medians['published'] / seconds:12.2f} "
            f"{medians['published, tuned'] / seconds:8.2f} {process.peak / pixels:12.0f} {process.error:9.1e}",
            flush=True,
        )
        process.finish()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["256x256", "482x512", "1024x1024"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--authors", help="path of the authors' MST_Plus_Plus.py")
    options = parser.parse_args()
    for size in options.sizes:
        height, width = map(int, size.split("x"))
        compare(height, width, options.rounds, [options.authors] if options.authors else [])


if __name__ == "__main__":
    main()
