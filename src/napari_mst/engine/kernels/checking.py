"""Tells whether compiled kernels are right, without numba."""

from collections.abc import Callable

_TOLERANCE = 1e-5


def fault_of(largest_error: Callable[[], float]) -> str:
    """The reason not to use kernels whose *largest_error* this computes; "" if they are right."""
    try:
        error = largest_error()
    except Exception as failure:  # noqa: BLE001 - a compiler may fail in any way, and nobody needs it
        return f"{type(failure).__name__}: {failure}".splitlines()[0]
    return "" if error < _TOLERANCE else f"they are off by {error:.1g}"
