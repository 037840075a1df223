"""RAW photos: the values of the sensor, upright, and never the small picture in the file."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import colour
import numpy as np
import pytest
import tifffile
from numpy.testing import assert_allclose, assert_array_equal
from tests.raw_photos import (
    BAYER,
    MATRIX,
    XTRANS,
    Array,
    Camera,
    mosaic,
    rationals,
    write_dng,
    write_linear_dng,
)

import napari_mst
from napari_mst.base import sandbox
from napari_mst.base.errors import NapariMstError, PhotoError
from napari_mst.batch.jobs import find_photos
from napari_mst.photo import raw
from napari_mst.photo.files import camera_named_in, is_shown_otherwise, orientation
from napari_mst.photo.photo import Photo
from napari_mst.photo.photo_pages import shown_pages
from napari_mst.photo.raw_header import RAW_SUFFIXES, is_raw_file

pytest.importorskip("rawpy")

COLOUR = (0.3, 0.5, 0.1)
FLAT = np.broadcast_to(COLOUR, (40, 60, 3))
THUMBNAIL = np.full((10, 15, 3), 77, np.uint8)


def halves(rows: int = 40, columns: int = 60) -> np.ndarray[Any, Any]:
    """Dark above, bright below, and brightest at the right: it tells how it is turned."""
    image = np.full((rows, columns, 3), 0.1)
    image[rows // 2 :] = 0.4
    image[rows // 2 :, columns // 2 :] = 0.8
    return image


@pytest.mark.parametrize(
    ("pattern", "method"), [(BAYER, "AHD"), ((2, 1, 1, 0), "AHD"), (XTRANS, "Markesteijn's")]
)
def test_black_level_and_saturation_are_applied_to_every_pattern(
    tmp_path: Path, pattern: tuple[int, ...], method: str
) -> None:
    # LibRaw demosaics X-Trans from 512 x 512 on
    image = np.broadcast_to(COLOUR, (516, 516, 3))
    photo = Photo.read(write_dng(tmp_path / "photo.dng", image, pattern=pattern))
    assert (photo.encoding, photo.full_scale, photo.shape) == ("linear", 65535, (516, 516))
    inner = photo.rows(8, 508, linear=True)[:, :, 8:-8]
    assert_allclose(inner.mean(axis=(1, 2)), COLOUR, atol=1e-4)
    assert inner.std(axis=(1, 2)).max() < 1e-4
    assert photo.shot is not None
    assert photo.shot.demosaicing.startswith(method)


def test_linear_dng_keeps_its_pixels_as_they_are(tmp_path: Path) -> None:
    image = np.random.default_rng(0).random((30, 40, 3))
    photo = Photo.read(write_linear_dng(tmp_path / "linear.dng", image))
    shares = np.round(image * 4000) / 4000
    assert_allclose(photo.rows(0, 30, linear=True), shares.transpose(2, 0, 1), atol=4e-5)
    assert photo.shot is not None
    assert "each pixel has all its colours" in photo.shot.demosaicing


@pytest.mark.parametrize("asked", [1, 3, 6, 8])
def test_photo_is_turned_upright(tmp_path: Path, asked: int) -> None:
    turns = {1: 0, 3: 2, 6: -1, 8: 1}[asked]
    path = write_dng(tmp_path / "turned.dng", halves(), Camera(orientation=asked))
    upright = np.moveaxis(Photo.read(path).pixels, 0, -1) / 65535
    expected = np.rot90(halves(), turns)
    assert upright.shape == expected.shape
    assert np.median(np.abs(upright - expected)) < 1e-3
    assert orientation(path) == 1  # there is nothing left to turn


def test_small_picture_is_never_taken_for_the_photo(tmp_path: Path) -> None:
    plain = Photo.read(write_dng(tmp_path / "plain.dng", halves()))
    for name, is_reduced in (("a.dng", True), ("b.nef", False), ("c.tif", True), ("d", False)):
        path = write_dng(tmp_path / name, halves(), thumbnail=THUMBNAIL, is_reduced=is_reduced)
        assert_array_equal(Photo.read(path).pixels, plain.pixels)
        assert_array_equal(shown_pages(path), np.moveaxis(plain.pixels, 0, -1))
        assert is_shown_otherwise(path)
        with pytest.raises(NapariMstError):
            napari_mst.read_cube(path)


def test_camera_and_white_as_shot_are_kept_and_told(tmp_path: Path) -> None:
    path = write_dng(tmp_path / "photo.dng", FLAT, thumbnail=THUMBNAIL)
    photo = Photo.read(path)
    shot = photo.shot
    assert shot is not None
    assert (shot.make, shot.model, shot.camera) == (
        "NIKON CORPORATION",
        "NIKON D5100",
        "Nikon_D5100",
    )
    assert shot.neutral == (0.5, 1.0, 0.6)
    told = " ".join(photo.assumptions)
    for part in ("NIKON D5100", "AHD", "0.5, 1, 0.6", "known as Nikon_D5100", "lens"):
        assert part in told
    assert camera_named_in(path) == (shot.make, shot.model)


def test_unknown_camera_and_missing_white_are_said(tmp_path: Path) -> None:
    camera = Camera("Acme", "Snap 9", neutral=None)
    photo = Photo.read(write_dng(tmp_path / "photo.dng", FLAT, camera))
    assert photo.shot is not None
    assert (photo.shot.camera, photo.shot.neutral) == ("", None)
    told = " ".join(photo.assumptions)
    assert "The sensitivities of Acme Snap 9 are not among the measured ones" in told
    assert "does not state the white balance" in told


XY = (0.3457, 0.3585)
WARM = tuple(float(value) for value in np.reshape(MATRIX, 9) * 1.1 - 0.02)


def dng_neutral(x: float, y: float, *lights: tuple[tuple[float, ...], float]) -> Array:
    """The neutral by the specification, with a temperature of colour-science."""
    matrices = [np.reshape(matrix, (3, 3)) for matrix, _ in lights]
    kelvin = float(colour.temperature.xy_to_CCT_Hernandez1999(np.array([x, y])))
    share = 1.0
    if len(lights) == 2:
        warm, cold = (1 / temperature for _, temperature in lights)
        share = float(np.clip((1 / kelvin - cold) / (warm - cold), 0, 1))
    matrix = share * matrices[0] + (1 - share) * matrices[-1]
    neutral = matrix @ (x / y, 1, (1 - x - y) / y)
    return neutral / neutral[1]


@pytest.mark.parametrize("xy", [XY, (0.44, 0.405), (0.3127, 0.329)])
@pytest.mark.parametrize("is_pair", [False, True], ids=["one-light", "two-lights"])
def test_the_white_of_a_dng_may_be_a_chromaticity(
    is_pair: bool, xy: tuple[float, float], tmp_path: Path
) -> None:
    tags: list[tuple[Any, ...]] = [
        (50706, 1, 4, (1, 4, 0, 0), True),
        (50721, 10, 9, rationals(MATRIX), True),
        (50778, 3, 1, 21, True),
        (50729, 5, 2, rationals(xy), True),
        (33421, 3, 2, (2, 2), True),
        (33422, 1, 4, (0, 1, 1, 2), True),
    ]
    lights: list[Any] = [(MATRIX, 6504.0)]
    if is_pair:
        tags[1:3] = [
            (50721, 10, 9, rationals(WARM), True),
            (50722, 10, 9, rationals(MATRIX), True),
            (50778, 3, 1, 17, True),
            (50779, 3, 1, 21, True),
        ]
        lights = [(WARM, 2856.0), (MATRIX, 6504.0)]
    path = tmp_path / "pixel.dng"
    pixels = np.full((24, 32), 1064, np.uint16)
    tifffile.imwrite(path, pixels, photometric=32803, extratags=tags, metadata=None)
    shot = Photo.read(path).shot
    assert shot is not None
    assert shot.neutral is not None
    assert_allclose(shot.neutral, dng_neutral(*xy, *lights), atol=2e-3)


def test_saturated_pixels_are_told(tmp_path: Path) -> None:
    image = np.array(FLAT)
    image[10:20, 10:20] = 1
    photo = Photo.read(write_dng(tmp_path / "photo.dng", image))
    assert any("at the saturation of the sensor" in text for text in photo.assumptions)
    clean = Photo.read(write_dng(tmp_path / "clean.dng", FLAT))
    assert not any("saturation of the sensor" in text for text in clean.assumptions)


def test_folder_of_photos_has_its_raw_files_too(tmp_path: Path) -> None:
    names = {f"photo{number}{suffix}" for number, suffix in enumerate(RAW_SUFFIXES)}
    for name in names:
        (tmp_path / name).touch()
    found = find_photos([tmp_path], tmp_path / "out", lambda _: None)
    assert {photo.name for photo, _ in found} == names


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2000])


def cut_in_its_head(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def text(path: Path) -> None:
    path.write_text("no photo " * 99)


def quad(path: Path) -> None:
    pattern = np.repeat(np.repeat(np.reshape(BAYER, (2, 2)), 2, 0), 2, 1)
    write_dng(path, FLAT, pattern=tuple(int(colour) for colour in pattern.ravel()))


def with_white_pixels(path: Path) -> None:
    write_dng(path, np.dstack([FLAT] * 3), pattern=(0, 1, 6, 2))


def enlarged(path: Path) -> None:
    with tifffile.TiffFile(path, mode="r+") as file:
        page = file.pages.first
        page = page.pages[0].aspage() if page.pages else page
        for tag in ("ImageWidth", "ImageLength"):
            page.tags[tag].overwrite(20_000)


def with_level(path: Path, tag: int, level: int) -> None:
    with tifffile.TiffFile(path, mode="r+") as file:
        page = file.pages.first
        (page.pages[0].aspage() if page.pages else page).tags[tag].overwrite(level)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (partial(with_level, tag=50714, level=4064), "a black level below .* 4064, got 4064"),
        (partial(with_level, tag=50717, level=63), "a black level below .* of 63, got 64"),
        (partial(with_level, tag=50717, level=2**32 - 1), "up to 65535, got 4294967295"),
        (cut, "got .* it is cut off"),
        (cut_in_its_head, "cut off or damaged"),
        (text, "of a camera that LibRaw [0-9.]+ knows, got something else"),
        (enlarged, "at most 178,956,970 pixels, got more"),
        (quad, "Bayer or X-Trans pattern of red, green and blue, got another pattern of 4 x 4"),
        (with_white_pixels, "got another pattern of 2 x 2"),
    ],
)
@pytest.mark.usefixtures("apart")
def test_damaged_or_unknown_raw_photo_is_refused_in_one_sentence(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    path = write_dng(tmp_path / "photo.dng", FLAT, thumbnail=THUMBNAIL)
    damage(path)
    with pytest.raises(PhotoError, match=rf"^photo.dng: Expected .*{message}") as error:
        Photo.read(path)
    assert len(str(error.value)) < 300


def test_raw_photo_is_linear_and_cannot_be_said_to_be_srgb(tmp_path: Path) -> None:
    path = write_dng(tmp_path / "photo.dng", FLAT)
    with pytest.raises(PhotoError, match="Expected linear values of a RAW photo"):
        Photo.read(path, encoding="srgb")
    assert Photo.read(path, encoding="linear").encoding == "linear"


def test_without_rawpy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_dng(tmp_path / "photo.dng", FLAT)
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(PhotoError, match=r"pip install 'napari-mst\[raw\]'"):
        Photo.read(path)


def test_any_failure_of_rawpy_is_told_as_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 0.27 rawpy had no `RawPy.other`, and each photo was called damaged."""
    path = write_dng(tmp_path / "photo.dng", FLAT)

    def lacking(*_: object) -> None:
        raise AttributeError("'RawPy' object has no attribute 'other'")

    monkeypatch.setattr(raw, "_shot", lacking)
    monkeypatch.setattr(sandbox, "limit_memory", lambda _: None)
    with pytest.raises(PhotoError, match=r"got AttributeError: .*'other'\. Update rawpy") as error:
        raw.developed(path)
    assert "damaged" not in str(error.value)


def test_libraw_is_limited_before_it_opens_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms: list[int] = []
    monkeypatch.setattr(sandbox, "limit_memory", rooms.append)
    with pytest.raises(PhotoError, match="damaged"):
        raw.developed(tmp_path / "missing.dng")
    raw.developed(write_dng(tmp_path / "photo.dng", FLAT))
    assert rooms == [sandbox.ROOM_BYTES] * 2 + [sandbox.ROOM_BYTES + 64 * 40 * 60]


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="only Linux sets limits of memory")
def test_libraw_gets_the_memory_that_its_pixels_need_and_no_more(tmp_path: Path) -> None:
    path = write_dng(tmp_path / "photo.dng", halves(3000, 4000))
    code = f"""
import json, pathlib, sys
from napari_mst.base.sandbox import answers
from napari_mst.photo import raw
raw.sandbox.ROOM_BYTES, raw._PIXEL_BYTES = 2**26, int(sys.argv[1])
path = pathlib.Path({str(path)!r})
print(json.dumps(next(answers("napari_mst.photo.raw:developed", path, []))[0]))
"""
    for pixel_bytes, told in ((0, "more memory than its pixels need"), (64, "shape")):
        command = [sys.executable, "-c", code, str(pixel_bytes)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert told in done.stdout


def test_ordinary_photos_are_no_raw_photos(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "photo.tif", mosaic(FLAT).astype(np.float32))
    assert not is_raw_file(tmp_path / "photo.tif")
    assert not is_raw_file(tmp_path / "missing.dng")


@pytest.mark.parametrize(
    ("head", "make", "model"),
    [
        (b"FUJIFILMCCD-RAW 0201FF159502X-T4".ljust(200, b"\0"), "FUJIFILM", "X-T4"),
        (b"\0\0\0\x18ftypcrx \0\0\0\1crx isom" + b"\0" * 60, "", ""),
    ],
    ids=["RAF", "CR3-without-camera"],
)
def test_other_formats_are_known_by_their_first_bytes(
    tmp_path: Path, head: bytes, make: str, model: str
) -> None:
    path = tmp_path / "photo"
    path.write_bytes(head)
    assert is_raw_file(path)
    assert camera_named_in(path) == (make, model)


def test_camera_of_a_cr3_stands_in_a_box_of_its_own(tmp_path: Path) -> None:
    tiff = tmp_path / "box.tif"
    tags = [(271, 2, 0, "Canon", True), (272, 2, 0, "Canon EOS R5", True)]
    tifffile.imwrite(tiff, np.zeros((4, 4), np.uint8), extratags=tags, metadata=None)
    path = tmp_path / "photo.cr3"
    path.write_bytes(b"\0\0\0\x18ftypcrx \0\0\0\1crx isom\0\0\0\0CMT1" + tiff.read_bytes())
    assert camera_named_in(path) == ("Canon", "Canon EOS R5")
