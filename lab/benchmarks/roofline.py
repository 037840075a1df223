"""The true peaks of one thread of this machine: `python -m lab.benchmarks.roofline` prints them.

The peak of arithmetic is that of fused multiply-adds that depend on nothing but themselves, in the
widest vectors that the processor has (AVX-512, AVX2 or NEON), even where the kernels take others.
LLVM makes the loop directly, so that its speed does not depend on how kernels fill the registers.
What a product of matrices reaches is less. The bytes are those of a copy between two buffers that
no cache holds. All is compiled, and measured in time of the processor. Where numba is not
installed, and on a GPU, a product of matrices and a copy of torch stand in, which is said.
"""

import ctypes
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from napari_mst.engine.fast_paths import native

FLOAT = 4

_TURNS = 7
_STEPS = 4_000_000
"""Steps of the loop of multiply-adds: some milliseconds."""
SUMS = 12
"""Multiply-adds of a step: AVX2 has 16 registers, and ten sums or more hide the four to five cycles of two units."""
_WIDEST = 64  # bytes of a vector
_NUMBERS = 1 << 26
"""Numbers of a buffer that is copied: 256 MB, more than any cache."""


class Roofline(NamedTuple):
    """FLOP/s in float32 and float64 and bytes/s that a machine can do; *source* says by what."""

    single: float
    double: float
    bandwidth: float
    source: str

    def __str__(self) -> str:
        rates = f"{self.single / 1e9:.0f} GFLOP/s (float64: {self.double / 1e9:.0f})"
        return f"{rates}, {self.bandwidth / 1e9:.1f} GB/s, by {self.source}"


def roofline(device: torch.device) -> Roofline:
    """The peaks of *device*; on a CPU those of one thread."""
    if device.type == "cpu" and native.is_installed():
        return _compiled_roofline(device)
    rates = [_product_rate(device, dtype) for dtype in (torch.float32, torch.float64)]
    return Roofline(*rates, _copy_rate(device), "products and copies of torch, a lower bound")


def best(call: Callable[[], object], device: torch.device) -> float:
    """Seconds, on a CPU those of the processor, of the fastest of some calls, after one."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    seconds = []
    for _ in range(_TURNS + 1):
        start = clock()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - start)
    return min(seconds[1:])


def _compiled_roofline(device: torch.device) -> Roofline:
    from numba import njit
    from numba.core.compiler_lock import global_compiler_lock

    from napari_mst.engine.kernels.processor import LAYOUT, LAYOUTS

    @njit
    def copy(source, target):
        for place in range(len(source)):
            target[place] = source[place]

    lanes = max(layout.lanes for layout in LAYOUTS)
    rates = []
    for count, is_double in ((lanes, False), (lanes // 2, True)):
        with global_compiler_lock:
            loop = multiply_adds(count, is_double)
        rates.append(2 * SUMS * count * _STEPS / best(lambda loop=loop: loop(_STEPS), device))
    source = np.ones(_NUMBERS, np.float32)
    target = np.empty_like(source)
    bandwidth = 2 * source.nbytes / best(lambda: copy(source, target), device)
    by = f"multiply-adds in vectors of {lanes} (kernels: {LAYOUT}) and a compiled copy"
    return Roofline(*rates, bandwidth, by)


def multiply_adds(lanes: int, is_double: bool = False) -> Callable[[int], None]:
    """A loop that takes its number of steps: each multiplies and adds `SUMS` vectors of *lanes*."""
    from llvmlite import ir
    from numba.core import cgutils
    from numba.core.registry import cpu_target

    kind = ir.VectorType(ir.DoubleType() if is_double else ir.FloatType(), lanes)
    library = cpu_target.target_context.codegen().create_library("peak")
    module = library.create_ir_module("peak")
    arguments = [ir.IntType(64), kind.as_pointer()]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), "peak")
    builder = ir.IRBuilder(function.append_basic_block())
    steps, place = function.args
    name = f"llvm.fma.v{lanes}f{64 if is_double else 32}"
    fused = cgutils.get_or_insert_function(module, ir.FunctionType(kind, [kind] * 3), name)
    # Sums that begin alike, or that nobody reads, LLVM would make only once or not at all.
    starts = [ir.Constant(kind, [float(index)] * lanes) for index in range(SUMS)]
    sums = [cgutils.alloca_once_value(builder, start) for start in starts]
    factor = builder.load(place, align=8)
    with cgutils.for_range(builder, steps):
        for each in sums:
            builder.store(builder.call(fused, [builder.load(each), factor, factor]), each)
    total = factor
    for each in sums:
        total = builder.fadd(total, builder.load(each))
    builder.store(total, place, align=8)
    builder.ret_void()
    library.add_ir_module(module)
    library.finalize()
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(
        library.get_pointer_to_function("peak")
    )

    def loop(steps: int, _code: object = library) -> None:  # which lives as long as the loop
        call(steps, ctypes.create_string_buffer(_WIDEST))

    return loop


def _product_rate(device: torch.device, dtype: torch.dtype) -> float:
    if device.type == "mps" and dtype == torch.float64:
        return float("nan")
    side = 1024 if device.type == "cpu" else 8192
    a, b = torch.rand(2, side, side, device=device, dtype=dtype)
    return 2 * side**3 / best(lambda: torch.mm(a, b), device)


def _copy_rate(device: torch.device) -> float:
    source = torch.rand(_NUMBERS, device=device)
    target = torch.empty_like(source)
    return 2 * FLOAT * len(source) / best(lambda: target.copy_(source), device)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(roofline(torch.device("cpu")))
