"""Our networks beside the same ones in other people's runtimes, on a processor, in one run.

`python -m lab.benchmarks.peers [--size 482x512] [--rounds 5] [--authors MST_Plus_Plus.py]`

Three stages with random weights: our engine, in float32 and bfloat16; the authors' forward in
PyTorch (their own file, where `--authors` names it, else our plain form), also with large blocks
kept by glibc and through torch.compile; and that forward in ONNX Runtime and OpenVINO. Then the
default, `mstpp-srgb`, in PyTorch and exported to ONNX. Each is a process of its own, and they take
turns.

Columns: medians of wall time, and of the processor's time, which a busy machine changes less; wall
time over that of our engine; the peak of memory above the idle process, a pixel; the largest error
against float64, as a share of the largest value. bfloat16 runs where the processor has
instructions for it. OpenVINO takes part where it is installed, and nothing of ours needs it: `pip
install openvino`.
"""

import argparse
import os
import statistics
from importlib.util import find_spec

import torch

from lab.benchmarks import common
from lab.benchmarks.contender import DEFAULT
from lab.benchmarks.engine import Absent, Process
from napari_mst.engine.device import choose_device

RUNTIMES = ("onnxruntime", "openvino", "openvino, bfloat16")


def names(has_authors: bool) -> list[list[str]]:
    """The contenders, network by network."""
    forward = "authors" if has_authors else "published"
    narrow = ["bfloat16"] if "bfloat16" in choose_device("cpu").precisions else []
    ours = ["engine", *narrow]
    three = [*ours, forward, "published, tuned", "compiled", *RUNTIMES]
    return [three, [f"{DEFAULT}{name}" for name in (*ours, "published", "compiled", *RUNTIMES)]]


def compare(contenders: list[str], options: argparse.Namespace) -> None:
    """Print the table of one network."""
    height, width = common.sides(options.size)
    processes: dict[str, Process] = {}
    for name in contenders:
        if "openvino" in name and find_spec("openvino") is None:
            print(f"  {name}: not installed; pip install openvino")
            continue
        try:
            processes[name] = Process(name, height, width, options)
        except Absent as reason:
            print(f"  {name} does not run here: {reason}", flush=True)
    for _ in range(options.rounds):
        for process in processes.values():
            process.take_turn()
    ours = statistics.median(next(iter(processes.values())).seconds)
    print(f"  {'':30} {'wall s':>8} {'proc. s':>8} {'x ours':>7} {'B/pixel':>8} {'error':>8}")
    for name, process in processes.items():
        wall, processor = map(statistics.median, (process.seconds, process.processor))
        print(
            f"  {name:30} {wall:8.3f} {processor:8.3f} {wall / ours:7.2f} "
            f"{process.peak / height / width:8.0f} {process.error:8.1e}",
            flush=True,
        )
        process.finish()


def main() -> None:
    """Command line."""
    parser = common.parser(__doc__)
    parser.add_argument("--size", default="482x512", help="height x width of the photo")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--authors", help="path of the authors' MST_Plus_Plus.py")
    options = parser.parse_args()
    options.device, options.cpu_time = "cpu", False
    load = os.getloadavg()[0]
    print(f"{torch.get_num_threads()} threads, load {load:.1f}, {options.size}", flush=True)
    for contenders in names(bool(options.authors)):
        print()
        compare(contenders, options)


if __name__ == "__main__":
    main()
