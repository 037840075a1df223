"""The time of a run, operation by operation: one thread, and the share of what the machine can do.

With the kernels of the extra `fast` each of them is timed, in one run; without them the profiler of
torch tells the operations apart, in another. The roofline (`roofline.py`) is measured in the same
run, before and after it: the larger of the two counts, because a processor that others share
changes its pace. An operation's share of it is the time that it would take at the peak of its own
type of number, or at the bandwidth of a copy, whichever of the two is the longer, of the time that
it took.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from lab.benchmarks.contender import published_network
from lab.benchmarks.roofline import Roofline, roofline
from napari_mst import load_model
from napari_mst.base.arrays import Array
from napari_mst.engine.fast_paths import native
from napari_mst.engine.run import run
from napari_mst.networks.attention import spectral
from napari_mst.networks.mst_plus_plus import build_mst_plus_plus

FLOAT = 4

CONVOLUTIONS = (
    *("_convolution_pointwise", "_convolution_pointwise_", "mkldnn_convolution"),  # of oneDNN
    *("cudnn_convolution", "_conv_depthwise2d"),  # of CUDA
)

Totals = dict[str, list[float]]
"""The totals of each kind of operation: seconds, floating-point operations, bytes read and written."""

KERNELS = [
    ("CompiledBlock", "block", lambda _, channels: 10 * channels[1] ** 2 + 54 * channels[1]),
    (
        "CompiledConvolution",
        "convolution {0.side}x{0.side}",
        lambda own, channels: own.side**2 * prod(channels),
    ),
    ("CompiledUpFusion", "up and fusion", lambda _, channels: sum(channels) * channels[1]),
]
"""The classes of the kernels, their names, and their products a pixel from themselves and the channels before and after."""


def print_operations(height: int, width: int, device: torch.device) -> None:
    """The tables of runs of *height* x *width*: of the kernels, where there are any, and without them."""
    if device.type == "mps":
        print("\ntorch tells no times of operations on MPS")
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    photo = np.random.default_rng(0).random((3, height, width), dtype=np.float32)
    three = build_mst_plus_plus(published_network().state_dict()).to(device)
    networks = {"three stages": three, "mstpp-srgb": load_model("mstpp-srgb").network.to(device)}
    runs = {
        name: lambda network=network: run(
            network, lambda start, stop: photo[:, start:stop], height, width, device
        )
        for name, network in networks.items()
    }
    print(f"\noperations at {height}x{width}, one thread")
    for contend in runs.values():
        contend()
    if native.can_run(device, torch.float32):
        for name, contend in runs.items():
            print_totals(f"{name}, kernels", partial(timed, contend), height * width, device)
        native.is_ready = lambda: False
        for contend in runs.values():
            contend()
    for name, contend in runs.items():
        print_totals(f"{name}, torch", partial(profiled, contend, device), height * width, device)


def print_totals(
    title: str, measure: Callable[[], Totals], pixels: int, device: torch.device
) -> None:
    """A table of the totals that *measure* returns, with their shares of what *device* can do."""
    before = roofline(device)
    totals = measure()
    peak = faster(before, roofline(device))
    everything = sum(seconds for seconds, _, _ in totals.values())
    print(f"\n  roofline: {peak}")
    print(
        f"  {title:24} {'us/pixel':>9} {'share':>6} {'GFLOP/s':>8} {'GB/s':>6} {'of roofline':>12}"
    )
    for name, (seconds, operations, size) in sorted(totals.items(), key=lambda item: -item[1][0]):
        if seconds < 0.005 * everything:
            continue
        flops = peak.double if name.startswith("Gram") else peak.single
        bound = max(operations / flops, size / peak.bandwidth)
        print(
            f"  {name:24} {seconds / pixels * 1e6:9.2f} {seconds / everything:6.0%} {operations / seconds / 1e9:8.1f} "
            f"{size / seconds / 1e9:6.1f} {bound / seconds:12.0%}"
        )
    operations = sum(own for _, own, _ in totals.values())
    share = operations / everything / peak.single
    print(f"  {'all':24} {everything / pixels * 1e6:9.2f} {'':22} {share:12.0%}")


def faster(one: Roofline, other: Roofline) -> Roofline:
    """The larger of each rate."""
    rates = [max(pair) for pair in zip(one[:3], other[:3], strict=True)]
    return Roofline(*rates, one.source)


def profiled(contend: Callable[[], object], device: torch.device) -> Totals:
    """The operations of torch in a run, and the products of NumPy, of which its profiler would know nothing."""
    totals: Totals = defaultdict(lambda: [0.0, 0.0, 0.0])

    def watched_products(pixels: Tensor) -> Tensor:
        totals["Gram"][1] += pixels.numel() * (pixels.shape[-1] + 1)
        totals["Gram"][2] += pixels.nbytes
        with record_function("Gram"):
            return products(pixels)

    products = spectral._own_products
    kinds = {
        ProfilerActivity.CPU,
        ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU,
    }
    threads = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with (
        patch.object(spectral, "_own_products", watched_products),
        profile(activities=kinds, record_shapes=True, experimental_config=threads) as seen,
    ):
        contend()
    for event in seen.key_averages(group_by_input_shape=True):
        if (
            event.device_type != DeviceType.CPU
        ):  # a kernel of a GPU: its operation has its time as well
            continue
        name, operations, numbers = work(event.key, event.input_shapes)
        seconds = (
            event.self_cpu_time_total if device.type == "cpu" else event.self_device_time_total
        ) / 1e6
        for i, value in enumerate(
            (seconds, operations * event.count, numbers * FLOAT * event.count)
        ):
            totals[name][i] += value
    return totals


def timed(contend: Callable[[], object]) -> Totals:
    """The kernels in a run, by the channels that they write, and all that is between them: time of the processor."""
    from napari_mst.engine.fast_paths import compiled_passes  # imports numba

    totals: Totals = defaultdict(lambda: [0.0, 0.0, 0.0])

    def watch(
        kernel: type, name: str, products: Callable[[Any, list[int]], int]
    ) -> Callable[..., Array]:
        def watched(own: Any, *arguments: Any) -> Array:
            start = time.thread_time()
            result = call(own, *arguments)
            seconds = time.thread_time() - start
            features = [
                argument for argument in (*arguments, result) if isinstance(argument, np.ndarray)
            ]
            channels = [features[0].shape[1], result.shape[1]]
            add(
                f"{name.format(own)}, {channels[1]}",
                seconds,
                result[0, 0].size * products(own, channels),
                features,
            )
            return result

        call = kernel.__call__
        return watched

    def watched_gram(x: Array) -> Array:
        start = time.thread_time()
        result = gram(x)
        channels = x.shape[1]
        products = x[0, 0].size * channels * (channels + 1) // 2
        add(f"Gram, float64, {channels}", time.thread_time() - start, products, [x])
        return result

    def add(name: str, seconds: float, products: int, features: list[Array]) -> None:
        for i, value in enumerate(
            (seconds, 2 * products, FLOAT * sum(each.size for each in features))
        ):
            totals[name][i] += value

    gram = compiled_passes.compiled_gram
    with ExitStack() as stack:
        stack.enter_context(patch.object(compiled_passes, "compiled_gram", watched_gram))
        for class_name, name, products in KERNELS:
            kernel = getattr(compiled_passes, class_name)
            stack.enter_context(patch.object(kernel, "__call__", watch(kernel, name, products)))
        start = time.process_time()
        contend()
        everything = time.process_time() - start
    totals["all between them"][0] = everything - sum(seconds for seconds, _, _ in totals.values())
    return totals


def work(key: str, shapes: list[list[int]]) -> tuple[str, float, float]:
    """Name of an operation for the table, its floating-point operations, and the numbers that it reads and writes."""
    key = key.removeprefix("aten::").removeprefix("mkldnn::")
    if key in CONVOLUTIONS:
        x, weight = [shape for shape in shapes if len(shape) == 4][-2:]
        out, per_group, rows, columns = weight
        stride = 2 if columns == 4 else 1
        pixels = (x[2] - rows + stride) // stride * ((x[3] - columns + stride) // stride)
        is_depthwise = per_group == 1 and out == x[1]
        kind = "depthwise" if is_depthwise else f"convolution {columns}x{columns}"
        return kind, 2 * pixels * prod(weight), prod(x) + pixels * out
    if key == "Gram":
        return key, 0, 0
    if key in ("mm", "bmm"):
        a, b = shapes[:2]
        return "Gram", 2 * prod(a) * b[-1], prod(a) + prod(b)
    if key == "copy_":
        return "copies", 0, 2 * prod(shapes[0])
    return "other", 0, 0
