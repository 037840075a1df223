"""Decoding the files of strangers in a process of its own, which has limits of memory and time.

Libraries in C crash on some damaged files, and allocate what a file asks for. Here the file is
refused, and nothing else happens. `asking` starts the process, and `answering` runs in it.

MAT-files and RAW photos are decoded so: HDF5, scipy and LibRaw take whole languages of structures
from a file. Pillow and imagecodecs stay in the process of the caller: they get pixels of a size
that was checked, and a process of its own costs each photo 0.2 s of a processor, which is more than
most of them take to decode.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

Answer = tuple[Mapping[str, Any], Iterable[NDArray[Any]]]
"""The result of a decoder: a description for JSON, and contiguous arrays of numbers."""
