"""Where the time of a run goes: operations of one thread, and their share of what the machine can do.

The roofline is measured in the same run: GFLOP/s by the product of two matrices, GB/s by a copy. An operation's share
of it is the time that it would take at these rates, whichever of the two is the longer, of the time that it took.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from math import prod

import numpy as np
import torch
from contender import published_network
from torch.profiler import ProfilerActivity, profile

from napari_mst.engine.run import run
from napari_mst.models.mst_plus_plus import build_mst_plus_plus

FLOAT = 4


def print_operations(height: int, width: int, device: torch.device) -> None:
    """The table of one run of *height* x *width*."""
    torch.set_num_threads(1)
    photo = np.random.default_rng(0).random((3, height, width), dtype=np.float32)
    network = build_mst_plus_plus(published_network(None).state_dict()).to(device)

    def contend() -> None:
        run(network, lambda start, stop: photo[:, start:stop], height, width, device)

    contend()
    flops, bandwidth = roofline(device)
    kinds = {ProfilerActivity.CPU, ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU}
    threads = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=kinds, record_shapes=True, experimental_config=threads) as seen:
        contend()
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for event in seen.key_averages(group_by_input_shape=True):
        name, operations, numbers = work(event.key, event.input_shapes)
        seconds = (event.self_cpu_time_total if device.type == "cpu" else event.self_device_time_total) / 1e6
        for i, value in enumerate((seconds, operations * event.count, numbers * FLOAT * event.count)):
            totals[name][i] += value
    everything = sum(seconds for seconds, _, _ in totals.values())
    pixels = height * width
    print(f"\noperations at {height}x{width}; roofline {flops / 1e9:.0f} GFLOP/s, {bandwidth / 1e9:.1f} GB/s")
    print(f"  {'':24} {'us/pixel':>9} {'share':>6} {'GFLOP/s':>8} {'GB/s':>6} {'of roofline':>12}")
    for name, (seconds, operations, size) in sorted(totals.items(), key=lambda item: -item[1][0]):
        if seconds < 0.005 * everything:
            continue
        bound = max(operations / flops, size / bandwidth)
        print(
            f"  {name:24} {seconds / pixels * 1e6:9.2f} {seconds / everything:6.0%} {operations / seconds / 1e9:8.1f} "
            f"{size / seconds / 1e9:6.1f} {bound / seconds:12.0%}"
        )
    print(f"  {'all':24} {everything / pixels * 1e6:9.2f}")


def work(key: str, shapes: list[list[int]]) -> tuple[str, float, float]:
    """Name of an operation for the table, its floating-point operations, and the numbers that it reads and writes."""
    key = key.removeprefix("aten::").removeprefix("mkldnn::")
    if key in ("_convolution_pointwise", "_convolution_pointwise_", "mkldnn_convolution", "cudnn_convolution"):
        x, weight = [shape for shape in shapes if len(shape) == 4][-2:]
        out, per_group, rows, columns = weight
        stride = 2 if rows == 4 else 1
        pixels = (x[2] - rows + stride) // stride * ((x[3] - columns + stride) // stride)
        is_depthwise = per_group == 1 and out == x[1]
        kind = "depthwise" if is_depthwise else f"convolution {rows}x{columns}"
        return kind, 2 * pixels * prod(weight), prod(x) + pixels * out
    if key in ("mm", "bmm"):
        a, b = shapes[:2]
        return "Gram", 2 * prod(a) * b[-1], prod(a) + prod(b)
    if key == "copy_":
        return "copies", 0, 2 * prod(shapes[0])
    return "other", 0, 0


def roofline(device: torch.device) -> tuple[float, float]:
    """FLOP/s of a matrix product and bytes/s of a copy: the best of five."""
    side = 1024 if device.type == "cpu" else 8192
    a, b = torch.rand(2, side, side, device=device)
    source = torch.rand(1 << 26, device=device)
    target = torch.empty_like(source)
    product = best(lambda: torch.mm(a, b), device)
    copy = best(lambda: target.copy_(source), device)
    return 2 * side**3 / product, 2 * FLOAT * len(source) / copy


def best(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest of five calls, after one."""
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])
