"""Array types for signatures. Shapes and units are in the docstrings of the functions."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]
"""Numbers in double precision."""
Singles = NDArray[np.float32]
"""Numbers in single precision."""
Floats = NDArray[np.floating]
"""Numbers in any precision."""
Mask = NDArray[np.bool_]
"""True for each element that counts."""
Indices = NDArray[np.intp]
"""Positions of elements in another array."""
Array = NDArray[Any]
"""Elements of any type."""
DType = np.dtype[Any]
"""The type of the elements of an array."""
Codes = NDArray[np.uint8]
"""8-bit code values of a photo or of an sRGB picture."""
Pixel = tuple[int, int]
"""Row and column of a pixel."""


class Brief:
    """Gives a dataclass declared with `repr=False` a one-line repr of at most 300 characters."""

    def __repr__(self) -> str:
        """The class and its changed fields; an array is given as its shape and type."""
        every: Any = fields(self)  # type: ignore[arg-type]
        changed = [each for each in every if getattr(self, each.name) is not each.default]
        texts = [f"{each.name}={_brief(getattr(self, each.name))}" for each in changed]
        line = f"{type(self).__name__}({', '.join(texts)})"
        return line if len(line) <= 300 else f"{line[:296]}...)"


def _brief(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:48]}...{text[-9:]}"


def doubles(numbers: ArrayLike) -> Doubles:
    """*numbers* in double precision, without a copy if they already are."""
    return np.asarray(numbers, dtype=np.float64)


def singles(numbers: ArrayLike) -> Singles:
    """*numbers* in single precision, without a copy if they already are."""
    return np.asarray(numbers, dtype=np.float32)


def is_monotonic(values: Doubles) -> bool:
    """True if *values* rise, or fall, from each to the next."""
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())


def even_step(places: Doubles, most: float) -> float:
    """The step of evenly spaced *places*; 0 if one lies more than *most* steps off an even axis."""
    if len(places) == 1:
        return 1.0
    step = float(np.diff(places).mean())
    line = places[0] + step * np.arange(len(places))
    return step if np.abs(places - line).max() <= most * abs(step) else 0.0
