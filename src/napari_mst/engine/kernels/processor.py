"""The vector unit of this processor, and how much of a product its registers hold."""

import os
from typing import NamedTuple

from napari_mst.engine.kernels.kept import machine

ASKED_FOR = "NAPARI_MST_LAYOUT"
"""The variable of the environment that names a layout, as "8x4", in place of the widest.

An early processor with AVX-512 may slow down in its widest vectors.
"""


class RegisterLayout(NamedTuple):
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


def layouts_of(triple: str, processor: str, features: str) -> tuple[RegisterLayout, ...]:
    """The layouts that a processor, which LLVM names in three strings, can execute.

    The widest vectors come first; of those of one width, those that use all registers.

    Raises
    ------
    ImportError
        If it has no vector unit for which there are kernels.
    """
    # AVX-512 and NEON have 32 vector registers, AVX2 has 16. The sums leave some of them for the
    # factors.
    of_avx2 = RegisterLayout(lanes=8, vectors=2, pixels=6, gram_rows=4)
    if "+avx512vl" in features:
        whole = RegisterLayout(lanes=16, vectors=2, pixels=11, gram_rows=8)
        return whole, RegisterLayout(lanes=8, vectors=4, pixels=6, gram_rows=8), of_avx2
    if "+avx2" in features and "+fma" in features:
        return (of_avx2,)
    if triple.startswith(("aarch64", "arm64")):
        # Every 64-bit ARM processor has NEON, even where LLVM does not know the model.
        # NEON multiplies by a lane of a group of channels. The groups take registers, too, so
        # there is room for five pixels, not six.
        return (RegisterLayout(lanes=4, vectors=4, pixels=5, gram_rows=8),)
    raise ImportError(f"no vector unit that fits, of {processor}")


TRIPLE, PROCESSOR, _FEATURES = machine()
"""The kind of machine and its system, and the processor, as LLVM calls them."""

LAYOUTS = layouts_of(TRIPLE, PROCESSOR, _FEATURES)
"""All that this processor can execute."""


_BY_NAME = {str(layout): layout for layout in LAYOUTS}
_ASKED = os.environ.get(ASKED_FOR) or str(LAYOUTS[0])
if _ASKED not in _BY_NAME:
    raise ImportError(f"{ASKED_FOR} is one of {', '.join(_BY_NAME)} here, not {_ASKED}")

LAYOUT = _BY_NAME[_ASKED]
"""The layout of all kernels of this process: the widest, unless another one is asked for."""

LANES, VECTORS, PIXELS, GRAM_ROWS = LAYOUT

VECTOR = 4 * LANES
"""Bytes of a vector."""

PANEL = LANES * VECTORS
"""Output channels that a product computes at a time; weights are filled up to a multiple of it."""

STEP = 4
"""Input channels that a product takes at a time; weights are filled up to a multiple of it."""
