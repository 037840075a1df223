"""A save is on the disk when it ends: files before they get their names, then the names."""

import os
from pathlib import Path

import numpy as np
import pytest

from napari_mst.cube import SpectralCube
from napari_mst.formats import write_cube

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="Windows has no fsync of folders, and none to progress"
)

SUFFIXES = (".hdr", ".tif", ".npz", ".mat", ".zarr")


class Disk:
    """Records which files of *folder*, and which of their names, have reached the disk.

    Files are known by their inode, which a rename keeps.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flushed: set[int] = set()
        self.named_too_early: list[str] = []
        self.names_to_flush: list[str] = []
        self._folder, self._fsync, self._replace = folder, os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)

    def fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        inode = os.fstat(descriptor).st_ino
        self.flushed.add(inode)
        if inode == self._folder.stat().st_ino:
            self.names_to_flush.clear()

    def replace(self, source: str, destination: str) -> None:
        if (
            Path(destination).parent == self._folder
        ):  # zarr renames its files within the temporary folder, too
            files = [path for path in (Path(source), *Path(source).rglob("*")) if path.is_file()]
            self.named_too_early += [
                path.name for path in files if path.stat().st_ino not in self.flushed
            ]
            self.names_to_flush.append(str(destination))
        self._replace(source, destination)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_are_on_the_disk_before_their_names_and_these_when_a_save_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    cube = SpectralCube(np.ones((3, 5, 7), np.float32), np.array([400.0, 500.0, 600.0]))
    write_cube(tmp_path / f"cube{suffix}", cube)
    assert disk.flushed
    assert disk.named_too_early == []
    assert disk.names_to_flush == []
