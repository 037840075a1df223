"""Numbers too small to be normal, which a thread can take for zero."""

from llvmlite import ir

from napari_mst.engine.kernels.caching import kernel
from napari_mst.engine.kernels.emitter import Emitter, emitted
from napari_mst.engine.kernels.processor import TRIPLE

_FLUSHED_AND_TAKEN_AS_ZERO = 0x8040  # of MXCSR: FTZ and DAZ
_FLUSHED = 1 << 24  # of FPCR: FZ


@emitted
def _flush(e: Emitter) -> None:
    """Set the bits of this thread's control register."""
    void = ir.VoidType()
    if TRIPLE.startswith(("aarch64", "arm64")):
        number = ir.IntType(64)
        before = e.call("llvm.aarch64.get.fpcr", number)
        e.call("llvm.aarch64.set.fpcr", void, e.builder.or_(before, number(_FLUSHED)))
        return
    number = ir.IntType(32)
    register = e.variable(number(0))
    place = e.builder.bitcast(register, ir.IntType(8).as_pointer())
    e.call("llvm.x86.sse.stmxcsr", void, place)
    e.put(e.builder.or_(e.value(register), number(_FLUSHED_AND_TAKEN_AS_ZERO)), register)
    e.call("llvm.x86.sse.ldmxcsr", void, place)


@kernel
def flush() -> None:
    """Have this thread take numbers below 1e-38 for 0, on which a CPU is many times slower."""
    _flush()
