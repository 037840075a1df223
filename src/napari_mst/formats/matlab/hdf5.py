"""MAT-files of version 7.3, and other HDF5 files, read by h5py.

The library gives a fill value for everything that is not in the file, and follows links into other
files. Both are looked for here before any number is believed.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import CubeFileError
from napari_mst.formats.matlab.stored import SEAL, TEXT_BYTES, StoredArray, too_large
from napari_mst.formats.record import OWN
from napari_mst.isolation import limits
from napari_mst.isolation.limits import ROOM_BYTES
from napari_mst.messages import mismatch, shown


def hdf5_arrays(path: Path, head: bytes) -> tuple[dict[str, StoredArray], dict[str, str]]:
    """The arrays of numbers in the file at *path* by name, and our texts in it.

    *head* are the first bytes of the file, which tell if MATLAB wrote it: MATLAB stores the axes
    reversed.
    """
    import h5py

    limits.limit_memory(ROOM_BYTES)
    file = h5py.File(path, "r")
    _check_links(path, file)
    is_matlab = head.startswith(b"MATLAB")
    arrays: dict[str, StoredArray] = {}

    def add(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        _check_place(path, name, item)
        if _is_of_numbers(name, item):
            arrays[name] = _array(path, item, is_matlab)

    file.visititems(add)
    return arrays, _texts(path, file)


def _is_of_numbers(name: str, item: Any) -> bool:
    """True for arrays of numbers, not for text or for what MATLAB keeps for itself."""
    # MATLAB keeps the contents of cells under `#refs#`, and text as numbers of class `char`.
    is_internal = name.startswith("#") or item.attrs.get("MATLAB_class") == b"char"
    return item.dtype.kind in "biuf" and item.shape is not None and not is_internal


def _array(path: Path, item: Any, is_matlab: bool) -> StoredArray:
    shape = item.shape[::-1] if is_matlab else item.shape
    return StoredArray(
        shape=tuple(shape),
        itemsize=item.dtype.itemsize,
        stored_bytes=item.id.get_storage_size(),
        read=_reader(item, is_matlab),
        offset=_offset(path, item) if is_matlab else None,
        dtype=item.dtype.str,
        check=partial(_check_stored, path, item),
    )


def _offset(path: Path, item: Any) -> int | None:
    """The place where the numbers begin; None if they are in chunks, or the file ends before."""
    offset: int | None = item.id.get_offset()
    if item.chunks is not None or offset is None:
        return None
    return offset if offset + item.nbytes <= path.stat().st_size else None


def _reader(item: Any, is_matlab: bool) -> Callable[[], NDArray[Any]]:
    def read() -> NDArray[Any]:
        if item.chunks:
            # The library decompresses a whole chunk at a time, however large it says that it is.
            chunk = math.prod(item.chunks) * item.dtype.itemsize
            limits.limit_memory(3 * item.nbytes + chunk + ROOM_BYTES)
        return np.asarray(item[()].T if is_matlab else item[()])

    return read


def _texts(path: Path, file: Any) -> dict[str, str]:
    """Our record and its seal, where they are in the *file*."""
    texts = {}
    if OWN in file:
        if file[OWN].nbytes > TEXT_BYTES:
            raise too_large(path, TEXT_BYTES, str(file[OWN].nbytes))
        # MATLAB has text as UTF-16.
        codes = np.ravel(file[OWN][()]).astype("<u2")
        texts[OWN] = codes.tobytes().decode("utf-16-le", "replace")
    if "cube" in file and SEAL in file["cube"].attrs:
        texts[SEAL] = bytes(file["cube"].attrs[SEAL]).decode("ascii", "replace")
    return texts


def _check_links(path: Path, file: Any) -> None:
    """Refuse a *file* that has links into other files: it could show any file of the user."""
    from h5py import h5l

    def other(name: bytes, link: Any) -> bytes | None:
        return None if link.type in (h5l.TYPE_HARD, h5l.TYPE_SOFT) else name

    found = file.id.links.visit(other, info=True)
    if found is not None:
        raise _elsewhere(path, found.decode("utf-8", "replace"))


def _check_place(path: Path, name: str, item: Any) -> None:
    """Refuse an array whose numbers lie in other files, by name or as a virtual dataset."""
    from h5py import h5d

    plan = item.id.get_create_plist()
    if plan.get_layout() == h5d.VIRTUAL or plan.get_external_count():
        raise _elsewhere(path, name)


def _elsewhere(path: Path, name: str) -> CubeFileError:
    found = f"'{shown(name, 30)}' that lies in another file"
    return mismatch(path.name, "all numbers", found, "Copy its numbers into one file.")


def _check_stored(path: Path, item: Any) -> list[str]:
    """Compare what is stored of a dataset with its shape, and give a warning about absent chunks.

    Raises `CubeFileError` if nothing was ever written, or the index of its chunks is damaged.
    """
    name = shown(item.name, 30)
    if not item.id.get_storage_size():
        found = f"'{name}' that was never written"
        raise mismatch(path.name, "numbers", found, "Get the file again.")
    if item.chunks is None:
        return []
    sides = zip(item.shape, item.chunks, strict=True)
    count = math.prod(math.ceil(side / step) for side, step in sides)
    stored = item.id.get_num_chunks()
    if stored < count:
        fill = shown(item.fillvalue, 20)
        missing = f"Of the {count} chunks of '{name}' {count - stored} are not in the file"
        return [f"{missing}; the numbers there are its fill value, {fill}."]
    if stored > count or not _is_index_whole(item):
        expected = f"an index of {count} chunks"
        raise mismatch(path.name, expected, "a damaged one", "Get the file again.")
    return []


def _is_index_whole(item: Any) -> bool:
    """True if each chunk is at its place, has a possible size, and shares no bytes with another."""
    starts = (range(0, side, step) for side, step in zip(item.shape, item.chunks, strict=True))
    chunks = [item.id.get_chunk_info_by_coord(start) for start in itertools.product(*starts)]
    if any(chunk.byte_offset is None for chunk in chunks):
        return False
    places = sorted((chunk.byte_offset, chunk.byte_offset + chunk.size) for chunk in chunks)
    if any(end > start for (_, end), (start, _) in itertools.pairwise(places)):
        return False
    # A bit of the mask says that a filter was left out. A chunk that no filter changed, compressed
    # or not, has as many bytes as its numbers.
    no_filter = 2 ** item.id.get_create_plist().get_nfilters() - 1
    unfiltered = [chunk for chunk in chunks if chunk.filter_mask & no_filter == no_filter]
    nbytes = math.prod(item.chunks) * item.dtype.itemsize
    return all(chunk.size == nbytes for chunk in unfiltered)
