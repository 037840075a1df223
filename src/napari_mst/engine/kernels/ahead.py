"""All kernels compiled before their first use, in processes that share the work.

`python -m napari_mst.engine.kernels.ahead NAME ...` compiles some and leaves them on disk. numba
lets only one thread of a process compile, and keeps Python's lock for half of the time, which a
window would feel.
"""

import inspect
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from numba import types

from napari_mst.engine.kernels.block import apply_block
from napari_mst.engine.kernels.caching import is_kept
from napari_mst.engine.kernels.colours import move_spectra
from napari_mst.engine.kernels.convolution import convolve, double
from napari_mst.engine.kernels.gram import add_gram
from napari_mst.engine.kernels.means import attend
from napari_mst.engine.kernels.powers import decode_light, encode_light
from napari_mst.engine.kernels.spectra import decode_spectra, estimate_spectra, write_sides

# Each takes about as long as the others, so that processes end together.
_GROUPS: tuple[dict[str, Any], ...] = (
    {"apply_block": apply_block},
    {"convolve": convolve, "double": double, "move_spectra": move_spectra},
    {
        "estimate_spectra": estimate_spectra,
        "decode_spectra": decode_spectra,
        "add_gram": add_gram,
        "encode_light": encode_light,
        "decode_light": decode_light,
        "attend": attend,
        "write_sides": write_sides,
    },
)


def compile_missing() -> None:
    """Compile the kernels that are not on disk, and wait for that.

    A process that fails leaves its kernels to whoever calls them: they are compiled then.
    """
    for process in begin():
        process.wait()


@cache
def begin() -> "Sequence[subprocess.Popen[bytes]]":
    """Start, once, the processes that compile the kernels that are not on disk."""
    missing = [_missing(group) for group in _GROUPS]
    return [_start(names) for names in missing if names]


def _missing(group: dict[str, Any]) -> list[str]:
    return [name for name, kernel in group.items() if not is_kept(kernel, signature_of(kernel))]


def _start(names: Sequence[str]) -> "subprocess.Popen[bytes]":
    # -P: a file in the working folder that is called like a module must not be run.
    command = [sys.executable, "-P", "-m", __name__, *names]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)


def signature_of(kernel: Any) -> tuple[Any, ...]:
    """The types that *kernel* is called with: integers, and records of integers."""
    parameters = inspect.signature(kernel.py_func).parameters.values()
    return tuple(_type_of(parameter.annotation) for parameter in parameters)


def _type_of(annotation: Any) -> Any:
    if annotation is int:
        return types.int64
    return types.NamedUniTuple(types.int64, len(annotation._fields), annotation)


def main(names: Sequence[str]) -> None:
    """Compile the kernels of these *names*."""
    for group in _GROUPS:
        for name in group.keys() & set(names):
            kernel = cast("Any", group[name])
            kernel.compile(signature_of(kernel))


if __name__ == "__main__":
    main(sys.argv[1:])
