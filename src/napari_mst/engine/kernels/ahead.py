"""All kernels compiled before their first use, in processes that share the work.

`python -m napari_mst.engine.kernels.ahead GROUP` compiles some and leaves them on disk. numba
lets only one thread of a process compile, and keeps Python's lock for half of the time, which a
window would feel.
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from napari_mst.engine.kernels.bayes import add_estimates
from napari_mst.engine.kernels.block import apply_block
from napari_mst.engine.kernels.colours import move_spectra
from napari_mst.engine.kernels.convolution import convolve, double
from napari_mst.engine.kernels.denormals import flush
from napari_mst.engine.kernels.gram import add_gram
from napari_mst.engine.kernels.non_local import attend
from napari_mst.engine.kernels.powers import decode_light, encode_light
from napari_mst.engine.kernels.spectra import (
    decode_spectra,
    encode_photo,
    estimate_spectra,
    write_sides,
)

# Each group takes about as long as the others, so that processes end together.
_GROUPS: tuple[tuple[Any, ...], ...] = (
    (apply_block,),
    (convolve, double, move_spectra),
    (add_estimates, write_sides),
    (
        flush,
        estimate_spectra,
        encode_photo,
        decode_spectra,
        add_gram,
        encode_light,
        decode_light,
        attend,
    ),
)


def compile_missing() -> None:
    """Compile the kernels that are not on disk, and wait for that.

    The kernels of a process that fails are compiled when they are called.
    """
    for process in begin():
        process.wait()


@cache
def begin() -> "Sequence[subprocess.Popen[bytes]]":
    """Start, once, the processes that compile the groups whose kernels are not on disk."""
    return [
        _start(index)
        for index, group in enumerate(_GROUPS)
        if not all(kernel.is_kept() for kernel in group)
    ]


def _start(group: int) -> "subprocess.Popen[bytes]":
    # -P: a file in the working folder that is called like a module must not be run.
    command = [sys.executable, "-P", "-m", __name__, str(group)]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)


if __name__ == "__main__":
    for each in _GROUPS[int(sys.argv[1])]:
        each.is_kept() or each.compile()
