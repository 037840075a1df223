"""The peak of this processor in vectors of one width: multiply-adds that wait for nothing else.

LLVM makes the loop directly, so that its speed does not depend on how kernels fill the registers.
"""

import ctypes
import time
from collections.abc import Callable

from llvmlite import ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

# AVX2 has 16 registers, other units 32; ten sums or more hide the four to five cycles of two units.
SUMS = 12
"""Multiply-adds of a step, which do not wait for each other."""

_WIDEST = 64  # bytes of a vector
_STEPS = 400_000  # half a millisecond and more: a clock that wide vectors slow has settled by then
_TURNS = 9


def rate(lanes: int) -> float:
    """FLOP/s in float32 that one thread reaches in vectors of *lanes* numbers."""
    loop = multiply_adds(lanes)
    seconds = []
    for _ in range(_TURNS):
        start = time.perf_counter()
        loop(_STEPS)
        seconds.append(time.perf_counter() - start)
    return 2 * SUMS * lanes * _STEPS / min(seconds)  # others may disturb a turn


@global_compiler_lock
def multiply_adds(lanes: int, is_double: bool = False) -> Callable[[int], None]:
    """A loop that takes its number of steps: each multiplies and adds `SUMS` vectors of *lanes*."""
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
