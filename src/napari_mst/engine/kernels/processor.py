"""The vector unit of this processor, and how much of a product its registers hold."""

from typing import NamedTuple

from numba.core.registry import cpu_target


class Registers(NamedTuple):
    """The vector registers of a processor, and how kernels fill them.

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


def registers_of(triple: str, processor: str, features: str) -> Registers:
    """The sums that fill the registers of a processor, which LLVM names in three strings.

    Raises
    ------
    ImportError
        If it has no vector unit for which there are kernels.
    """
    # AVX-512 and NEON have 32 vector registers, AVX2 has 16. The sums leave some of them for the
    # factors.
    if "+avx512f" in features and processor.startswith("znver"):
        return Registers(lanes=16, vectors=2, pixels=11, gram_rows=8)
    if "+avx512vl" in features:
        # Other processors slow down with vectors of the full width, so LLVM keeps to half of it.
        return Registers(lanes=8, vectors=4, pixels=6, gram_rows=8)
    if "+avx2" in features and "+fma" in features:
        return Registers(lanes=8, vectors=2, pixels=6, gram_rows=4)
    if triple.startswith(("aarch64", "arm64")):
        # Every 64-bit ARM processor has NEON, even where LLVM does not know the model.
        # NEON multiplies by a lane of a group of channels. The groups take registers, too, so
        # there is room for five pixels, not six.
        return Registers(lanes=4, vectors=4, pixels=5, gram_rows=8)
    raise ImportError(f"no vector unit that fits, of {processor}")


_REGISTERS = registers_of(*cpu_target.target_context.codegen().magic_tuple())

LANES = _REGISTERS.lanes
"""float32 numbers in a vector."""

VECTORS = _REGISTERS.vectors
"""Vectors of output channels that a product computes at a time."""

PIXELS = _REGISTERS.pixels
"""Pixels that a product computes at a time."""

GRAM_ROWS = _REGISTERS.gram_rows
"""Rows of a Gram matrix that are summed up at a time."""

VECTOR = 4 * LANES
"""Bytes of a vector."""

PANEL = LANES * VECTORS
"""Output channels that a product computes at a time; weights are filled up to a multiple of it."""

STEP = 4
"""Input channels that a product takes at a time; weights are filled up to a multiple of it."""
