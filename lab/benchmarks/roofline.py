"""The true peaks of one thread of this machine: `python -m lab.benchmarks.roofline` prints them.

The peak of arithmetic is a loop of fused multiply-adds that depend on nothing but themselves, in all
vector registers but two: what a product of matrices reaches is less, and a kernel that is better
than the product would seem to be beyond the peak. The bytes are those of a copy between two buffers
that no cache holds. Both are compiled by numba, and are measured in time of the processor. Where
numba is not installed, and on a GPU, a product of matrices and a copy of torch stand in, which is
said. On Intel processors with AVX-512 the vectors are those of the kernels, half as wide as AVX-512.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from napari_mst.engine.forms import native

FLOAT = 4
DOUBLE = 8
_LINE = 64

# AVX2 has 16 registers, other units 32; ten sums or more hide the four to five cycles of two units.
REGISTERS = 12
"""Sums that do not wait for each other."""

_TURNS = 7
_STEPS = 400_000
"""Steps of the loop of multiply-adds: some milliseconds."""
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


class _Chain(NamedTuple):
    """The address of some numbers, and how often they are multiplied and added."""

    address: int
    steps: int


def _compiled_roofline(device: torch.device) -> Roofline:
    singles, doubles, copy, lanes = _loops()
    numbers = np.full(_LINE * REGISTERS // FLOAT, 0.5, np.float32)
    wide_numbers = np.full(_LINE * REGISTERS // DOUBLE, 0.5)
    source = np.ones(_NUMBERS, np.float32)
    target = np.empty_like(source)
    of_singles = best(lambda: singles(numbers.ctypes.data, _STEPS), device)
    of_doubles = best(lambda: doubles(wide_numbers.ctypes.data, _STEPS), device)
    of_copy = best(lambda: copy(source, target), device)
    operations = 2 * REGISTERS * _STEPS * lanes
    return Roofline(
        operations / of_singles,
        operations * FLOAT / DOUBLE / of_doubles,
        2 * source.nbytes / of_copy,
        "compiled multiply-adds and a compiled copy",
    )


@cache
def _loops() -> tuple[Callable, Callable, Callable, int]:
    """Loops of multiply-adds in float32 and in float64, one that copies, and the lanes of a vector."""
    from numba import njit

    from napari_mst.engine.kernels.emitter import FLOATS, HALF, emitted
    from napari_mst.engine.kernels.processor import LANES

    @emitted
    def multiply_singles(e, chain):
        _multiply(e, chain, FLOATS)

    @emitted
    def multiply_doubles(e, chain):
        _multiply(e, chain, HALF)

    @njit
    def singles(address, steps):
        multiply_singles(_Chain(address, steps))

    @njit
    def doubles(address, steps):
        multiply_doubles(_Chain(address, steps))

    @njit
    def copy(source, target):
        for place in range(len(source)):
            target[place] = source[place]

    return singles, doubles, copy, LANES


def _multiply(e: Any, chain: _Chain, kind: Any) -> None:
    """Multiply and add in all registers, and store them, so that nothing is left out."""
    factor = e.load(chain.address, kind)
    summand = e.load(e.at(chain.address, _LINE), kind)
    registers = e.variables(REGISTERS, factor)
    with e.loop(chain.steps):
        for register in registers:
            e.put(e.multiply_add(e.value(register), factor, summand), register)
    for place, register in enumerate(registers):
        e.store(e.value(register), e.at(chain.address, place * _LINE))


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
