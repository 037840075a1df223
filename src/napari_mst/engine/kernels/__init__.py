"""Vector kernels of the network on a CPU, compiled by numba for the processor at hand.

A row of features is stored as planes of vectors, [channels / LANES][pixels][LANES], with zeros for
channels that only fill up a vector. So what a loop reads lies side by side, and no address is a
multiple of a large power of two. A block goes through an image row by row and keeps the few rows
that the next convolution needs, so nothing but its input and its output leaves the cache.

`processor`     the vector unit, its peak, and how kernels fill its registers
`emitter`       vector instructions of LLVM, written out
`caching`       what is compiled stays on disk
`packed_rows`   features in memory, and rows of them as planes of vectors
`products`      convolutions over all channels, or over each alone
`block`, `convolution`, `gram`, `spectra`  the kernels of `engine.fast_paths.compiled_passes`
`powers`        exponentials and powers, for loops that LLVM makes vector instructions of
`colours`       for `reconstruction.colour_fidelity`: spectra moved to the colours of a photo
`patch_groups`  patches of one look, as `bayes` takes them
`non_local`     for `denoising`: non-local means
`bayes`         for `denoising`: non-local Bayes

All numbers in the records are bytes, addresses and counts. Letters: C channels, h, w sides of what
is computed.
"""

from collections.abc import Callable

_TOLERANCE = 1e-5  # of kernels, by the largest value


def fault_of(largest_error: Callable[[], float]) -> str:
    """The reason not to use kernels whose *largest_error* this computes; "" if they are right."""
    try:
        error = largest_error()
    except Exception as failure:  # noqa: BLE001 - a compiler may fail in any way, and nobody needs it
        return f"{type(failure).__name__}: {failure}".splitlines()[0]
    return "" if error < _TOLERANCE else f"they are off by {error:.1g}"
