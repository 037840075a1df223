"""Pillow is asked for the formats that we open, and for no other: some of them start programs."""

import ast
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

import napari_mst
from napari_mst.base.errors import NapariMstError
from napari_mst.formats import read_cube
from napari_mst.formats.band_folder import is_folder_of_bands
from napari_mst.photo.files import (
    FORMATS,
    camera_named_in,
    has_colours_of_its_own,
    is_shown_otherwise,
    orientation,
)
from napari_mst.photo.photo import Photo
from napari_mst.photo.photo_pages import shown_pages

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
ASKING: dict[str, Callable[[Path], object]] = {
    "photo": Photo.read,
    "layer": shown_pages,
    "orientation": orientation,
    "camera": camera_named_in,
    "colours": has_colours_of_its_own,
    "shown": is_shown_otherwise,
    "bands": lambda path: is_folder_of_bands(path.parent),
    "cube": lambda path: read_cube(path.parent),
}


@pytest.mark.skipif(os.name == "nt", reason="the program that stands in is a script")
@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_a_photo_never_starts_a_program(
    suffix: str, ask: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{started}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    bands = tmp_path / "bands"
    bands.mkdir()
    for number in range(3):
        (bands / f"band_{number}{suffix}").write_bytes(POSTSCRIPT)
    with suppress(NapariMstError, OSError):
        ask(bands / f"band_0{suffix}")
    assert not started.exists()


def test_pillow_knows_each_format_that_it_is_asked_for() -> None:
    Image.init()
    assert set(FORMATS) <= Image.OPEN.keys()


def test_pillow_is_never_asked_without_a_list_of_formats() -> None:
    for file in Path(napari_mst.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Image.open":
                assert "formats" in {each.arg for each in node.keywords}, file
