"""No reader waits for a pipe or a device, which may never end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from napari_mst import read_cube, read_spectra
from napari_mst.attention.record_files import read_attention
from napari_mst.base.errors import NapariMstError
from napari_mst.formats import FORMATS, find_format
from napari_mst.photo.files import camera_named_in, orientation
from napari_mst.photo.frames import frames_of
from napari_mst.photo.photo import Photo

READERS: dict[Callable[[Path], object], tuple[str, ...]] = {
    read_cube: ("a", "a.img", *(f"a{suffix}" for form in FORMATS for suffix in form.suffixes)),
    read_spectra: ("a.csv", "a.sli", "a.hdr"),
    read_attention: ("a.npz",),
    Photo.read: ("a.png",),
    lambda path: list(frames_of(path)): ("a.mp4", "a.tif"),
}
CASES = [(read, name) for read, names in READERS.items() for name in names]


@pytest.mark.skipif("sys.platform == 'win32'", reason="Windows has no such files")
@pytest.mark.usefixtures("ends_soon")
@pytest.mark.parametrize(("read", "name"), CASES)
def test_what_may_never_end_is_refused_unread(
    read: Callable[[Path], object], name: str, tmp_path: Path
) -> None:
    device, pipe = tmp_path / "device" / name, tmp_path / "pipe" / name
    for path in (device, pipe):
        path.parent.mkdir()
    device.symlink_to("/dev/zero")
    os.mkfifo(pipe)
    for path in (device, pipe):
        assert find_format(path) is None
        with pytest.raises(NapariMstError, match=r"got a pipe or a device|Expected a clip, got"):
            read(path)
        assert (orientation(path), camera_named_in(path)) == (1, ("", ""))
