"""Where the feature maps of a streamed run live: a few slabs of memory, allocated once and used again and again."""

import atexit
import mmap
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from napari_mst.engine.regions import Region


class FeatureMap:
    """(H, W, C) features, read and written region by region as (1, C, h, w) channels-last tensors."""

    def __init__(self, values: Tensor) -> None:
        self._values = values

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        height, width, _ = self._values.shape
        return height, width

    def read(self, region: Region) -> Tensor:
        """The features of *region*, halo included: a view."""
        return self._values[region.rows.whole, region.columns.whole].permute(2, 0, 1)[None]

    def write(self, region: Region, features: Tensor) -> None:
        """Put (1, C, h, w) *features* where *region* is, without its halo."""
        target = self._values[region.rows.start : region.rows.stop, region.columns.start : region.columns.stop]
        target.copy_(features[0].permute(1, 2, 0))


class Slab:
    """Memory, or a temporary file, for one full-resolution feature map or for smaller ones side by side."""

    def __init__(
        self, size: int, device: torch.device, is_in_file: bool = False, dtype: torch.dtype = torch.float32
    ) -> None:
        if is_in_file:
            self._memory = _mapped_file(size, dtype)
        elif device.type == "cpu" and hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory = _huge_pages(size, dtype)
        else:
            self._memory = torch.empty(size, device=device, dtype=dtype)

    def feature_map(self, height: int, width: int, channels: int, offset: int = 0) -> FeatureMap:
        """The part of the slab from *offset* (in values) on, as a feature map; what was there is overwritten."""
        return FeatureMap(self._take(offset, height, width, channels))

    def planes(self, bands: int, height: int, width: int) -> Tensor:
        """The start of the slab as the (B, H, W) result; memory of its own where the slab is too small for it."""
        if bands * height * width > self._memory.numel():
            return self._memory.new_empty(bands, height, width)
        return self._take(0, bands, height, width)

    def _take(self, offset: int, *shape: int) -> Tensor:
        size = torch.Size(shape).numel()
        return self._memory[offset : offset + size].view(shape)


def _huge_pages(size: int, dtype: torch.dtype) -> Tensor:
    """*size* values in large pages: a run would otherwise wait for the system to map 4 KB at a time."""
    pages = mmap.mmap(-1, dtype.itemsize * size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype)


def _mapped_file(size: int, dtype: torch.dtype) -> Tensor:
    """*size* values in a temporary file that vanishes with its last user.

    The space is allocated before it is mapped: a full disk is an error here, not a dead process later.
    """
    with tempfile.NamedTemporaryFile(prefix="napari-mst-", delete=False) as file:
        path = Path(file.name)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, dtype.itemsize * size)
            values = torch.from_file(file.name, shared=True, size=size, dtype=dtype)
        except BaseException:
            path.unlink()
            raise
    try:
        path.unlink()
    except PermissionError:  # Windows keeps a mapped file
        atexit.register(path.unlink, missing_ok=True)
    return values
