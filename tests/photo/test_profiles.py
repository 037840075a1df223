"""Photos of other colour spaces become sRGB, judged by colour-science."""

import struct
import zlib
from pathlib import Path
from typing import Any

import colour
import imagecodecs
import numpy as np
import pytest
import tifffile
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from tests.photo.conftest import Array

from napari_mst.base.errors import PhotoError
from napari_mst.formats import read_cube
from napari_mst.photo.files import is_shown_otherwise
from napari_mst.photo.photo import Photo
from napari_mst.photo.photo_pages import shown_pages

D65, D50 = (0.3127, 0.3290), (0.3457, 0.3585)
P3 = (0.68, 0.32, 0.265, 0.69, 0.15, 0.06)
ADOBE = (0.64, 0.33, 0.21, 0.71, 0.15, 0.06)
PROPHOTO = (0.734699, 0.265301, 0.159597, 0.840403, 0.036598, 0.000105)
BT2020 = (0.708, 0.292, 0.17, 0.797, 0.131, 0.046)
SRGB = (0.64, 0.33, 0.30, 0.60, 0.15, 0.06)
SRGB_TABLE = colour.models.eotf_sRGB(np.linspace(0, 1, 4096)).astype(np.float32)

TRUE = np.random.default_rng(0).uniform(0.05, 0.8, (12, 17, 3))
"""Linear sRGB, which all of these spaces hold."""
CODES = {np.uint8: 255, np.uint16: 65535, np.float32: 1}


def profile(primaries: tuple[float, ...], white: tuple[float, float] = D65, **curve: Any) -> bytes:
    options = curve or {"transferfunction": SRGB_TABLE}
    return bytes(imagecodecs.cms_profile("rgb", whitepoint=white, primaries=primaries, **options))


def linear_in(space: str) -> Array:
    """The linear values of `TRUE` in a *space* of colour-science."""
    return np.asarray(
        colour.RGB_to_RGB(TRUE, "sRGB", space, chromatic_adaptation_transform="Bradford")
    )


def stored(values: Array, dtype: Any) -> Array:
    scaled = values * CODES[dtype]
    return scaled.astype(dtype) if dtype == np.float32 else np.rint(scaled).astype(dtype)


def encode_srgb(linear: Array) -> Array:
    return np.asarray(colour.models.eotf_inverse_sRGB(linear))


SPACES: dict[str, tuple[bytes, Array]] = {
    "Display P3": (profile(P3), encode_srgb(linear_in("Display P3"))),
    "Adobe RGB": (profile(ADOBE, gamma=563 / 256), linear_in("Adobe RGB (1998)") ** (256 / 563)),
    "ProPhoto": (profile(PROPHOTO, D50, gamma=1.8), linear_in("ProPhoto RGB") ** (1 / 1.8)),
    "linear BT.2020": (profile(BT2020, gamma=1.0), linear_in("ITU-R BT.2020")),
    "linear sRGB": (profile(SRGB, gamma=1.0), TRUE),
}


def assert_true(photo: Photo, dtype: Any, step: float = 1.0) -> None:
    """Hold that *photo* is sRGB of the `TRUE` light to *step* stored codes of its file."""
    assert (photo.encoding, photo.pixels.dtype) == ("srgb", dtype)
    light = np.moveaxis(photo.rows(linear=True), 0, -1)
    # The code of a dark colour in a linear file is coarse: what a stored step is worth.
    tolerance = step / 255 if dtype == np.uint8 else 0.002
    assert_allclose(encode_srgb(light), encode_srgb(TRUE), atol=tolerance)


@pytest.mark.parametrize("dtype", CODES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("space", SPACES)
def test_colours_of_a_profile_become_srgb_at_every_depth(
    space: str, dtype: Any, tmp_path: Path
) -> None:
    icc, codes = SPACES[space]
    path = tmp_path / "photo.tif"
    tags = [(34675, 7, len(icc), icc, True)]
    tifffile.imwrite(path, stored(codes, dtype), photometric="rgb", extratags=tags, metadata=None)
    photo = Photo.read(path)
    assert_true(photo, dtype, 6 if "linear" in space else 3)
    assert [note for note in photo.assumptions if "converted from" in note]
    assert is_shown_otherwise(path)
    assert_array_equal(shown_pages(path), np.moveaxis(photo.pixels, 0, -1))


def test_a_profile_with_the_colours_of_srgb_changes_nothing_whatever_its_name(
    tmp_path: Path,
) -> None:
    codes = stored(encode_srgb(TRUE), np.uint8)
    Image.fromarray(codes).save(tmp_path / "a.png", icc_profile=profile(SRGB))
    photo = Photo.read(tmp_path / "a.png")
    assert_array_equal(photo.pixels, np.moveaxis(codes, -1, 0))
    assert photo.assumptions == ()


def test_values_that_are_said_to_be_linear_are_left_as_they_are(tmp_path: Path) -> None:
    codes = stored(linear_in("Display P3"), np.uint16)
    tags = [(34675, 7, len(icc := profile(P3)), icc, True)]
    tifffile.imwrite(tmp_path / "a.tif", codes, photometric="rgb", extratags=tags, metadata=None)
    photo = Photo.read(tmp_path / "a.tif", encoding="linear")
    assert_array_equal(photo.pixels, np.moveaxis(codes, -1, 0))
    assert "linear light instead" in " ".join(photo.assumptions)


def test_alpha_is_no_colour_and_colours_of_a_palette_are(tmp_path: Path) -> None:
    icc, codes = SPACES["Display P3"]
    picture = Image.fromarray(stored(codes, np.uint8))
    picture.putalpha(7)
    picture.save(tmp_path / "alpha.png", icc_profile=icc)
    assert_true(Photo.read(tmp_path / "alpha.png"), np.uint8, 3)
    assert (shown_pages(tmp_path / "alpha.png")[..., 3] == 7).all()
    picture.convert("RGB").quantize(256).save(tmp_path / "palette.png", icc_profile=icc)
    assert_true(Photo.read(tmp_path / "palette.png"), np.uint8, 3)


GREY = np.linspace(0.05, 0.9, 17)[None].repeat(12, 0)


@pytest.mark.parametrize("kind", ["gray", "rgb"])
def test_grey_photos_follow_their_curve_and_stay_grey(kind: str, tmp_path: Path) -> None:
    icc = imagecodecs.cms_profile("gray", whitepoint=D50, gamma=1.8)
    if kind == "rgb":
        icc = profile(PROPHOTO, D50, gamma=1.8)
    codes = stored(GREY ** (1 / 1.8), np.uint8)
    Image.fromarray(codes).save(tmp_path / "grey.jpg", icc_profile=bytes(icc), quality=100)
    photo = Photo.read(tmp_path / "grey.jpg")
    light = photo.rows(linear=True)
    assert_array_equal(light[0], light[2])
    assert_allclose(encode_srgb(light[1]), encode_srgb(GREY), atol=2 / 255)


def ink_profile(colours: Array) -> bytes:
    """A CMYK profile: *colours* (2, 2, 2, 2, 3) are the CIELAB of no and of all ink, as bytes."""
    ramp = bytes(range(256))
    matrix = struct.pack(">9i", *(np.eye(3).ravel() * 65536).astype(int).tolist())
    table = b"mft1\0\0\0\0" + bytes([4, 3, 2, 0]) + matrix + 4 * ramp
    table += colours.astype(np.uint8).tobytes() + 3 * ramp
    head = struct.pack(">III", 144 + len(table), 0, 0x02400000) + b"prtrCMYKLab "
    head = (head + bytes(12) + b"acsp").ljust(68, b"\0")
    white = struct.pack(">3i", *(round(value * 65536) for value in (0.9642, 1, 0.8249)))
    head = (head + white).ljust(128, b"\0")
    return head + struct.pack(">I4sII", 1, b"A2B0", 144, len(table)) + table


def test_inks_are_seen_through_their_profile(tmp_path: Path) -> None:
    lab = np.random.default_rng(1).uniform((90, 118, 118), (200, 138, 138), (2, 2, 2, 2, 3))
    lab = lab.astype(np.uint8)
    inks = np.array([[[255, 0, 0, 0], [0, 255, 255, 0], [0, 0, 0, 255]]], np.uint8)
    Image.fromarray(inks.repeat(8, 0).repeat(8, 1), "CMYK").save(
        tmp_path / "inks.tif", icc_profile=ink_profile(lab)
    )
    photo = Photo.read(tmp_path / "inks.tif")
    seen = photo.rows(linear=True)[:, 4, [4, 12, 20]].T
    at = [lab[1, 0, 0, 0], lab[0, 1, 1, 0], lab[0, 0, 0, 1]]
    values = np.array(at) * (100 / 255, 1, 1) - (0, 128, 128)
    xyz = colour.Lab_to_XYZ(values, D50)
    expected = colour.XYZ_to_RGB(xyz, "sRGB", D50, chromatic_adaptation_transform="Bradford")
    assert_allclose(encode_srgb(seen), encode_srgb(expected), atol=2 / 255)
    assert "converted from" in " ".join(photo.assumptions)


@pytest.mark.parametrize(
    "icc",
    [profile(P3)[:150], b"no profile", ink_profile(np.zeros((2, 2, 2, 2, 3)))],
    ids=["cut", "text", "of-inks"],
)
def test_a_profile_that_cannot_be_used_is_a_sentence(icc: bytes, tmp_path: Path) -> None:
    codes = stored(TRUE, np.uint8)
    Image.fromarray(codes).save(tmp_path / "a.jpg", icc_profile=icc, quality=100)
    plain = np.asarray(Image.open(tmp_path / "a.jpg"))
    photo = Photo.read(tmp_path / "a.jpg")
    assert_array_equal(photo.pixels, np.moveaxis(plain, -1, 0))
    assert "taken as sRGB" in " ".join(photo.assumptions)


def exif(colour_space: int, index: str | None) -> Image.Exif:
    fields = Image.Exif()
    fields.get_ifd(0x8769)[0xA001] = colour_space
    if index:
        fields.get_ifd(0xA005)[1] = index
        fields.get_ifd(0x8769)[0xA005] = fields.get_ifd(0xA005)
    return fields


@pytest.mark.parametrize(("space", "index"), [(65535, "R03"), (2, None)])
@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".tif"])
def test_adobe_rgb_that_only_exif_names_is_converted(
    suffix: str, space: int, index: str | None, tmp_path: Path
) -> None:
    codes = stored(SPACES["Adobe RGB"][1].mean((0, 1), keepdims=True).repeat(16, 0), np.uint8)
    picture = Image.fromarray(codes.repeat(16, 1))
    path = tmp_path / f"photo{suffix}"
    picture.save(path, exif=exif(space, index), quality=100)
    light = colour.RGB_to_RGB((codes / 255) ** (563 / 256), "Adobe RGB (1998)", "sRGB")
    seen = Photo.read(path).rows(linear=True)[:, 8, 8]
    assert_allclose(encode_srgb(seen), encode_srgb(light[0, 0]), atol=3 / 255)


def test_colours_that_exif_calls_other_than_srgb_are_doubted(tmp_path: Path) -> None:
    Image.fromarray(stored(TRUE, np.uint8)).save(tmp_path / "a.jpg", exif=exif(65535, None))
    assert "but not which" in " ".join(Photo.read(tmp_path / "a.jpg").assumptions)


def with_chunks(path: Path, codes: Array, **chunks: bytes) -> Path:
    """A PNG of *codes*, 8 or 16 bits, with *chunks* after its header."""
    plain = bytes(imagecodecs.png_encode(np.ascontiguousarray(codes)))
    after_header = 33
    added = b""
    for name, body in chunks.items():
        whole = name.encode() + body
        added += struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))
    path.write_bytes(plain[:after_header] + added + plain[after_header:])
    return path


def gamma(value: float) -> bytes:
    return struct.pack(">I", round(value * 100_000))


def places(primaries: tuple[float, ...]) -> bytes:
    return struct.pack(">8I", *(round(value * 100_000) for value in (*D65, *primaries)))


def bt709(linear: Array) -> Array:
    return np.asarray(colour.models.oetf_BT709(linear))


P3_LIGHT, WIDE_LIGHT = linear_in("Display P3"), linear_in("ITU-R BT.2020")
PNGS: dict[str, tuple[Array, dict[str, bytes]]] = {
    "gAMA": (TRUE ** (1 / 1.8), {"gAMA": gamma(1 / 1.8)}),
    "gAMA-linear": (TRUE, {"gAMA": gamma(1)}),
    "gAMA-cHRM": (P3_LIGHT ** (1 / 2.2), {"gAMA": gamma(1 / 2.2), "cHRM": places(P3)}),
    "cHRM": (encode_srgb(P3_LIGHT), {"cHRM": places(P3)}),
    "gAMA-of-srgb": (encode_srgb(TRUE), {"gAMA": gamma(0.45455), "cHRM": places(SRGB)}),
    "sRGB-first": (encode_srgb(TRUE), {"sRGB": b"\0", "gAMA": gamma(1)}),
    "cICP-P3": (encode_srgb(P3_LIGHT), {"cICP": bytes([12, 13, 0, 1])}),
    "cICP-first": (encode_srgb(P3_LIGHT), {"cICP": bytes([12, 13, 0, 1]), "sRGB": b"\0"}),
    "cICP-BT.709": (bt709(TRUE), {"cICP": bytes([1, 1, 0, 1])}),
    "cICP-BT.2020": (bt709(WIDE_LIGHT), {"cICP": bytes([9, 14, 0, 1])}),
    "cICP-linear": (WIDE_LIGHT, {"cICP": bytes([9, 8, 0, 1])}),
    "cICP-unspecified": (encode_srgb(TRUE), {"cICP": bytes([2, 2, 0, 1])}),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16], ids=["8", "16"])
@pytest.mark.parametrize("kind", PNGS)
def test_the_chunks_of_a_png_say_what_its_values_mean(
    kind: str, dtype: Any, tmp_path: Path
) -> None:
    values, chunks = PNGS[kind]
    path = with_chunks(tmp_path / "a.png", stored(values, dtype), **chunks)
    assert_true(Photo.read(path), dtype, 6 if "linear" in kind else 3)


@pytest.mark.parametrize("curve", [16, 18], ids=["PQ", "HLG"])
def test_a_high_dynamic_range_is_refused_in_a_sentence(curve: int, tmp_path: Path) -> None:
    path = with_chunks(tmp_path / "a.png", stored(TRUE, np.uint8), cICP=bytes([9, curve, 0, 1]))
    with pytest.raises(PhotoError, match=r"standard dynamic range, got .* \(SDR\)"):
        Photo.read(path)


@pytest.mark.parametrize("suffix", [".heic", ".avif"])
def test_photos_of_phones_open_upright_in_their_colours(suffix: str, tmp_path: Path) -> None:
    import pillow_heif

    pillow_heif.register_heif_opener()
    icc, codes = SPACES["Display P3"]
    patch = stored(codes[:1, :2].repeat(32, 0).repeat(32, 1), np.uint8)  # two colours, 32 x 64
    turned = Image.Exif()
    turned[274] = 6
    path = tmp_path / f"phone{suffix}"
    Image.fromarray(patch).save(path, exif=turned.tobytes(), icc_profile=icc, quality=100)
    photo = Photo.read(path)
    assert photo.shape == (64, 32)
    seen = encode_srgb(photo.rows(linear=True)[:, [16, 48], 16].T)
    assert_allclose(seen, encode_srgb(TRUE[0, :2]), atol=4 / 255)


def test_ten_bits_of_a_heic_photo_are_kept_and_its_coding_is_obeyed(tmp_path: Path) -> None:
    import pillow_heif

    codes = stored(encode_srgb(np.ones((16, 32, 3))), np.uint16)
    codes[:, :16] = stored(encode_srgb(linear_in("Display P3")[0, 0]), np.uint16)
    file = pillow_heif.from_bytes("RGB;16", (32, 16), codes.tobytes())
    nclx = {"color_primaries": 12, "transfer_characteristics": 13}
    file.save(tmp_path / "a.heic", quality=-1, chroma=444, **nclx)
    photo = Photo.read(tmp_path / "a.heic")
    assert (photo.pixels.dtype.name, photo.pixels.max()) == ("uint16", 65535)
    seen = encode_srgb(photo.rows(linear=True)[:, 8, 8])
    assert_allclose(seen, encode_srgb(TRUE[0, 0]), atol=0.003)


def test_damaged_heic_photos_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    with pytest.raises(PhotoError, match=r"a\.heic: Expected an intact HEIC photo, got a damaged"):
        Photo.read(tmp_path / "a.heic")


def test_bands_in_a_folder_are_numbers_and_no_colours(tmp_path: Path) -> None:
    plane = stored(GREY, np.uint16)
    for number in range(4):
        with_chunks(tmp_path / f"band_{number}.png", plane, gAMA=gamma(1 / 1.8))
    assert_array_equal(read_cube(tmp_path).data[2], plane)


@pytest.mark.parametrize(("kind", "more"), [("rgb", 1), ("minisblack", 3)])
def test_infrared_beside_red_green_and_blue_is_no_alpha(
    tmp_path: Path, kind: str, more: int
) -> None:
    codes = np.dstack([stored(TRUE, np.uint16), stored(TRUE[..., :1], np.uint16)])
    extra = ["unspecified"] * more
    options: dict[str, Any] = {"photometric": kind, "extrasamples": extra, "planarconfig": "contig"}
    tifffile.imwrite(tmp_path / "aerial.tif", codes, metadata=None, **options)
    assert "no alpha" in " ".join(Photo.read(tmp_path / "aerial.tif").assumptions)
    assert_array_equal(read_cube(tmp_path / "aerial.tif").data, np.moveaxis(codes, -1, 0))


def test_the_coding_of_an_avif_photo_is_obeyed(tmp_path: Path) -> None:
    patch = stored(encode_srgb(linear_in("Display P3")[:1, :1]), np.uint8)
    path = tmp_path / "a.avif"
    Image.fromarray(patch.repeat(32, 0).repeat(32, 1)).save(path, quality=100)
    before, box, after = path.read_bytes().partition(b"colrnclx")
    path.write_bytes(before + box + (12).to_bytes(2) + after[2:])
    seen = encode_srgb(Photo.read(path).rows(linear=True)[:, 16, 16])
    assert_allclose(seen, encode_srgb(TRUE[0, 0]), atol=4 / 255)
