"""The vector unit of this processor, and how much of a product its registers hold.

Its peak is measured in vectors of one width: multiply-adds that wait for nothing else. LLVM makes
the loop directly, so that its speed does not depend on how kernels fill the registers.
"""

import ctypes
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from napari_mst.engine.kernels.caching import compiled, kept

ASKED_FOR = "NAPARI_MST_LAYOUT"
"""The variable of the environment that names a layout, as "8x4", in place of the fastest."""

_AS_FAST = 0.9
"""Share of the highest rate from which on vectors are taken for as fast as the fastest."""


# AVX2 has 16 registers, other units 32; ten sums or more hide the four to five cycles of two units.
SUMS = 12
"""Multiply-adds of a step, which do not wait for each other."""

_WIDEST = 64  # bytes of a vector
_STEPS = 400_000  # half a millisecond and more: a clock that wide vectors slow has settled by then
_TURNS = 9


class Layout(NamedTuple):
    """The way in which kernels fill the vector registers of a processor.

    Attributes
    ----------
    lanes
        float32 numbers in a vector.
    vectors, pixels
        Vectors of output channels and pixels that one step of a product computes.
    gram_rows
        Rows of a Gram matrix that are summed up at a time.
    """

    lanes: int
    vectors: int
    pixels: int
    gram_rows: int

    def __str__(self) -> str:
        return f"{self.lanes}x{self.vectors}"


def layouts_of(triple: str, processor: str, features: str) -> tuple[Layout, ...]:
    """The layouts that a processor, which LLVM names in three strings, can execute.

    The widest vectors come first; of those of one width, those that use all registers.

    Raises
    ------
    ImportError
        If it has no vector unit for which there are kernels.
    """
    # AVX-512 and NEON have 32 vector registers, AVX2 has 16. The sums leave some of them for the
    # factors.
    of_avx2 = Layout(lanes=8, vectors=2, pixels=6, gram_rows=4)
    if "+avx512vl" in features:
        whole = Layout(lanes=16, vectors=2, pixels=11, gram_rows=8)
        return whole, Layout(lanes=8, vectors=4, pixels=6, gram_rows=8), of_avx2
    if "+avx2" in features and "+fma" in features:
        return (of_avx2,)
    if triple.startswith(("aarch64", "arm64")):
        # Every 64-bit ARM processor has NEON, even where LLVM does not know the model.
        # NEON multiplies by a lane of a group of channels. The groups take registers, too, so
        # there is room for five pixels, not six.
        return (Layout(lanes=4, vectors=4, pixels=5, gram_rows=8),)
    raise ImportError(f"no vector unit that fits, of {processor}")


def fastest(layouts: Sequence[Layout], rate: Callable[[int], float]) -> Layout:
    """The first of *layouts* whose vectors are as fast as any; *rate* gives FLOP/s by lanes.

    Some processors compute as much, or less, in the widest vectors: they slow down, or do them in
    halves. Where it is as much, wide ones still need fewer instructions.
    """
    rates = {lanes: rate(lanes) for lanes in {layout.lanes for layout in layouts}}
    enough = _AS_FAST * max(rates.values())
    return next(layout for layout in layouts if rates[layout.lanes] >= enough)


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


_MACHINE = cpu_target.target_context.codegen().magic_tuple()

PROCESSOR: str = _MACHINE[1]
"""The processor, as LLVM calls it."""

LAYOUTS = layouts_of(*_MACHINE)
"""All that this processor can execute."""


def chosen() -> Layout:
    """The layout that is asked for, or the fastest, which is measured once on a machine."""
    by_name = {str(layout): layout for layout in LAYOUTS}
    asked = os.environ.get(ASKED_FOR)
    if asked:
        if asked not in by_name:
            raise ImportError(f"{ASKED_FOR} is one of {', '.join(by_name)} here, not {asked}")
        return by_name[asked]
    if len({layout.lanes for layout in LAYOUTS}) == 1:
        return LAYOUTS[0]
    # Cubes depend on it in their last bits. So it is kept, by the processor, since computers may
    # share a folder; where it cannot be, it is not measured again and again.
    digest = hashlib.sha256(repr(_MACHINE).encode()).hexdigest()[:8]
    name = kept(f"layout-{digest}.txt", lambda: str(fastest(LAYOUTS, rate)))
    return by_name.get(name, LAYOUTS[0])


LAYOUT = chosen()
"""The layout of all kernels of this process."""

LANES, VECTORS, PIXELS, GRAM_ROWS = LAYOUT

kernel = partial(compiled, variant=str(LAYOUT))
"""Compiles a function in this layout; see `caching.compiled`."""

VECTOR = 4 * LANES
"""Bytes of a vector."""

PANEL = LANES * VECTORS
"""Output channels that a product computes at a time; weights are filled up to a multiple of it."""

STEP = 4
"""Input channels that a product takes at a time; weights are filled up to a multiple of it."""
