"""ENVI headers of the catalogue of bad inputs: read exactly, with a warning, or refused."""

import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from tests.formats.conftest import refuse

from napari_mst.base.errors import SaveError
from napari_mst.cube import SpectralCube
from napari_mst.formats import find_format, read_cube, write_cube

FIELDS = {
    "samples": "3",
    "lines": "4",
    "bands": "2",
    "header offset": "0",
    "file type": "ENVI Standard",
    "data type": "2",
    "interleave": "bsq",
    "byte order": "0",
    "wavelength units": "nm",
    "wavelength": "{500, 600}",
}
DATA = np.arange(24, dtype="<i2").reshape(2, 4, 3)
Check = Callable[[Path], None]


def write_pair(
    folder: Path,
    changes: Mapping[str, str | None] = MappingProxyType({}),
    data: bytes = DATA.tobytes(),
    suffix: str = ".img",
) -> Path:
    """A valid pair but for *changes* of its header; None leaves a field out."""
    fields = {key: value for key, value in (FIELDS | dict(changes)).items() if value is not None}
    return write_raw(
        folder,
        "ENVI\n" + "".join(f"{key} = {value}\n" for key, value in fields.items()),
        data,
        suffix,
    )


def write_raw(
    folder: Path, header: str | bytes, data: bytes = DATA.tobytes(), suffix: str = ".img"
) -> Path:
    path = folder / "cube.hdr"
    path.write_bytes(header if isinstance(header, bytes) else header.encode())
    path.with_suffix(suffix).write_bytes(data)
    return path


def refused(match: str, folder: Path, data: bytes = DATA.tobytes(), **changes: str | None) -> None:
    renamed = {key.replace("_", " "): value for key, value in changes.items()}
    refuse(write_pair(folder, renamed, data), match)


def warned(
    match: str, expected: dict[str, Any], folder: Path, data: bytes = DATA.tobytes(), **changes: str
) -> None:
    cube = read_cube(
        write_pair(folder, {key.replace("_", " "): value for key, value in changes.items()}, data)
    )
    assert [told for told in cube.metadata["warnings"] if re.search(match, told)]
    assert len(cube.metadata["warnings"]) == 1
    assert {key: getattr(cube, key) for key in expected if key != "wavelengths"} == {
        key: value for key, value in expected.items() if key != "wavelengths"
    }
    assert cube.wavelengths.tolist() == expected.get("wavelengths", [500, 600])


def exact(folder: Path, header: str | bytes) -> None:
    """The header means the cube that `FIELDS` describes."""
    cube = read_cube(write_raw(folder, header))
    assert np.array_equal(cube.data, DATA)
    assert cube.data.dtype == np.int16
    assert cube.wavelengths.tolist() == [500, 600]
    assert "warnings" not in cube.metadata


HEADER = "ENVI\n" + "".join(f"{key} = {value}\n" for key, value in FIELDS.items())


def decline_other_kinds(folder: Path) -> None:
    for content in (
        b"#?RADIANCE\n",
        b"\x5c\x01\0\0" + b"\0" * 344,
        b"BYTEORDER I\nLAYOUT BIL\n",
        b"",
    ):
        path = folder / "other.hdr"
        path.write_bytes(content)
        assert find_format(path) is None
        refuse(path, "Expected")


def accept_encodings(folder: Path) -> None:
    for header in (
        b"\xef\xbb\xbf" + HEADER.encode(),
        HEADER.replace("\n", "\r\n").encode(),
        HEADER.replace("\n", "\r").encode(),
        (HEADER + "operator = Bj\xf6rn\n").encode("latin-1"),
    ):
        exact(folder, header)
    assert read_cube(folder / "cube.hdr").metadata["operator"] == "Bj\xf6rn"


def refuse_binary(folder: Path) -> None:
    for header in (HEADER.encode("utf-16"), HEADER.encode("utf-16-be"), b"ENVI\n\0\x01\x02"):
        refuse(write_raw(folder, header), "UTF-16 or binary")


def accept_odd_keys(folder: Path) -> None:
    for header in (
        HEADER.upper(),
        HEADER.replace("data type", "Data\t Type"),
        HEADER.replace(" = ", "="),
    ):
        exact(folder, header)


def refuse_missing(folder: Path) -> None:
    refuse(write_raw(folder, "ENVI\nbands = 2\n"), "none for samples, lines, data type, interleave")


def accept_interleave_case(folder: Path) -> None:
    for name, axes in (("Bsq", (0, 1, 2)), ("bIL", (1, 0, 2)), ("BiP", (1, 2, 0))):
        cube = read_cube(write_pair(folder, {"interleave": name}, DATA.transpose(axes).tobytes()))
        assert np.array_equal(cube.data, DATA)


def refuse_short_data(folder: Path) -> None:
    refused("Expected 48 bytes in cube.img, got 47", folder, DATA.tobytes()[:-1])


def refuse_huge_header(folder: Path) -> None:
    start = time.perf_counter()
    refuse(write_raw(folder, HEADER + ";\n" * 2**23), "at most 16777216 bytes in cube.hdr")
    refuse(write_raw(folder, HEADER + "a = {" + "1,\n" * 2**19), "closing brace after 'a'")
    exact(folder, HEADER + "x\n" * 2**19)
    assert time.perf_counter() - start < 60


def refuse_unclosed_braces(folder: Path) -> None:
    refused("closing brace after 'wavelength'", folder, wavelength="{500, 600")
    swallowing = HEADER.replace("ENVI\n", "ENVI\ndescription = {a\nband names = {b, c}\n")
    refuse(write_raw(folder, swallowing), "closing brace after 'description'")


def accept_comments(folder: Path) -> None:
    exact(
        folder,
        HEADER.replace("600}", "600} ; nm, measured").replace("ENVI\n", "ENVI\n; bands = 7\n;\n"),
    )
    exact(folder, HEADER.replace("500, 600}", "500,\n; a comment\n 600\n} text"))


def accept_a_scalar_wavelength(folder: Path) -> None:
    cube = read_cube(write_pair(folder, {"bands": "1", "lines": "8", "wavelength": "500"}))
    assert (cube.wavelengths.tolist(), cube.unit) == ([500.0], "nm")


def convert_units(folder: Path) -> None:
    for unit, texts in (
        ("NM", "{500, 600}"),
        ("Nanometres", "{500 600}"),
        ("um", "{0.5, 0.6}"),
        ("\xb5m", "{.5, 6e-1}"),
        ("\N{GREEK SMALL LETTER MU}m", "{0.5, 0.6,}"),
        ("micrometers", "{0.500, 0.600}"),
        ("Microns", "{0.5,\n0.6}"),
        ("Angstroms", "{5000, 6000}"),
        ("mm", "{0.0005, 0.0006}"),
    ):
        exact(folder, HEADER.replace("= nm", f"= {unit}").replace("{500, 600}", texts))


def keep_unknown_units(folder: Path) -> None:
    for unit in ("Unknown", "Index", "Wavenumber"):
        cube = read_cube(write_pair(folder, {"wavelength units": unit}))
        assert (cube.unit, cube.wavelengths.tolist(), cube.has_wavelengths) == (
            unit,
            [500, 600],
            False,
        )
        assert len(cube.metadata["warnings"]) == 1


def assume_nanometres(folder: Path) -> None:
    told = ("The unit of the wavelengths is not given; nm was assumed.",)
    for texts, wavelengths in (("{500, 600}", [500, 600]), ("{100, 1e5}", [100, 100_000])):
        cube = read_cube(
            write_pair(folder, {"wavelength units": None, "wavelength": texts, "fwhm": "{5, 6}"})
        )
        assert (cube.unit, cube.wavelengths.tolist(), cube.metadata["warnings"]) == (
            "nm",
            wavelengths,
            told,
        )
        assert cube.metadata["fwhm"] == (5, 6)
    for texts in ("{0.5, 0.6}", "{99.9, 600}", "{500, 100001}"):
        cube = read_cube(write_pair(folder, {"wavelength units": None, "wavelength": texts}))
        assert cube.unit == "Unknown"
        assert "not given; they are kept as they are" in cube.metadata["warnings"][0]


def assume_little_endian(folder: Path) -> None:
    path = write_pair(folder, {"byte order": None})
    cube = read_cube(path)
    assert np.array_equal(cube.data, DATA)
    assert cube.metadata["warnings"] == (
        "The header does not give the byte order; little-endian was assumed.",
    )
    single_bytes = write_pair(
        folder, {"byte order": None, "data type": "1"}, DATA.astype("u1").tobytes()
    )
    assert "warnings" not in read_cube(single_bytes).metadata


def warn_of_bad_lists(folder: Path) -> None:
    for key, value in (("fwhm", "{1}"), ("fwhm", "{1, x}"), ("bbl", "{1, 2}"), ("bbl", "{1}")):
        cube = read_cube(write_pair(folder, {key: value}))
        assert key not in cube.metadata
        assert f"'{key}'" in cube.metadata["warnings"][0]
    good = read_cube(
        write_pair(folder, {"fwhm": "{0.01, 0.02}", "bbl": "{1, 0}", "wavelength units": "um"})
    )
    assert (good.metadata["fwhm"], good.metadata["bbl"]) == ((10.0, 20.0), (1, 0))
    named = read_cube(write_pair(folder, {"band names": "{blue, red,}"}))
    assert named.metadata["band names"] == ("blue", "red")


def apply_the_scale_factor(folder: Path) -> None:
    path = write_pair(folder, {"reflectance scale factor": "10"})
    cube = read_cube(path)
    assert cube.data.dtype == np.float32
    assert np.array_equal(cube.data, (DATA / 10).astype("f4"))
    assert cube.quantity == "reflectance"
    again = read_cube(write_cube(folder / "again.hdr", cube))
    assert np.array_equal(again.data, cube.data)
    assert again.metadata["applied scaling"] == "reflectance scale factor 10"
    assert np.array_equal(read_cube(path, scale=False).data, DATA)
    for factor in ("0", "x", "-1", "nan"):
        zero = read_cube(write_pair(folder, {"reflectance scale factor": factor}))
        assert np.array_equal(zero.data, DATA)
        assert zero.metadata["warnings"] == (
            f"The field 'reflectance scale factor' is {factor}; it is ignored.",
        )


def apply_gains(folder: Path) -> None:
    changes = {
        "data gain values": "{2, 0.5}",
        "data offset values": "{1, -1}",
        "reflectance scale factor": "4",
    }
    cube = read_cube(write_pair(folder, changes))
    assert np.array_equal(cube.data, (DATA * [[[2]], [[0.5]]] + [[[1]], [[-1]]]).astype("f4") / 4)
    assert "data gain values" not in cube.metadata
    unfit = read_cube(write_pair(folder, {"data gain values": "{2}"}))
    assert np.array_equal(unfit.data, DATA)
    assert len(unfit.metadata["warnings"]) == 1


def keep_the_ignore_value(folder: Path) -> None:
    assert (
        read_cube(write_pair(folder, {"data ignore value": "7"})).metadata["data ignore value"]
        == 7.0
    )
    scaled = read_cube(
        write_pair(folder, {"data ignore value": "7", "reflectance scale factor": "10"})
    )
    assert np.array_equal(np.isnan(scaled.data), DATA == 7)
    assert np.isnan(scaled.metadata["data ignore value"])


def show_the_magnitude(folder: Path) -> None:
    values = (DATA * (3 + 4j)).astype("<c8")
    cube = read_cube(write_pair(folder, {"data type": "6"}, values.tobytes()))
    assert np.array_equal(cube.data, DATA * 5)
    assert cube.metadata["warnings"] == ("The numbers are complex; their magnitude is shown.",)


def save_without_loss_or_not(folder: Path) -> None:
    for index, values in enumerate(
        (np.array([1, 2**40]), np.array([2**63], "u8"), np.array([-1, 2**32 - 1]))
    ):
        with pytest.raises(SaveError, match=r"can hold \(u1, .*got u?int64"):
            write_cube(
                folder / f"{index}.hdr", SpectralCube(values.reshape(1, 1, -1), np.array([500.0]))
            )
    for data in (np.ones((1, 1, 1), "c8"), np.ones((1, 1, 1), object)):
        with pytest.raises(SaveError, match="Expected real numbers"):
            write_cube(folder / "odd.hdr", SpectralCube(data, np.array([500.0])))
    assert list(folder.iterdir()) == []


def refuse_compressed(folder: Path) -> None:
    refuse(write_pair(folder, {"file compression": "1"}), "file compression 0 in cube.hdr, got 1")


def choose_the_data_file(folder: Path) -> None:
    path = write_pair(folder)
    (folder / "cube").write_bytes(b"another product")
    (folder / "cube.png").write_bytes(b"a quick look")
    assert np.array_equal(read_cube(path).data, DATA)
    (folder / "cube.raw").write_bytes(bytes(48))
    refuse(path, r"one data file named cube in .*, got cube.img, cube.raw")
    assert not read_cube(folder / "cube.raw").data.any()
    path.with_name("cube.raw.hdr").write_bytes(path.read_bytes())
    assert np.array_equal(read_cube(path).data, DATA)


def our_own_data_file_wins(folder: Path) -> None:
    (folder / "cube").write_bytes(bytes(48))
    path = write_cube(folder / "cube.hdr", SpectralCube(DATA, np.array([500.0, 600.0])))
    assert np.array_equal(read_cube(path).data, DATA)


def accept_odd_names(folder: Path) -> None:
    for data, header in (
        ("a b [1].dat", "a b [1].hdr"),
        ("\xe9.raw", "\xe9.raw.hdr"),
        ("A.IMG", "A.HDR"),
        ("n", "n.hdr"),
    ):
        (folder / header).write_text(HEADER)
        (folder / data).write_bytes(DATA.tobytes())
        assert np.array_equal(read_cube(folder / header).data, DATA)


def open_the_data_file(folder: Path) -> None:
    for header in ("cube.hdr", "cube.HDR", "cube.raw.hdr"):
        folder = folder / "one"
        folder.mkdir()
        (folder / header).write_text(HEADER)
        (folder / "cube.raw").write_bytes(DATA.tobytes())
        assert find_format(folder / "cube.raw") is not None
        assert np.array_equal(read_cube(folder / "cube.raw").data, DATA)
    (folder / "lone.raw").write_bytes(DATA.tobytes())
    refuse(folder / "lone.raw", "an ENVI header at or beside lone.raw, got none")


def keep_any_text(folder: Path) -> None:
    text = "a {b}, c\nlines = 99\r\n; d\N{EM DASH}%7B = {\x00 "
    fields = {
        "description": text,
        "band names": (text, ",;"),
        "sensor type": text,
        "x\nlines = 9": "1",
        "bands": "9",
    }
    cube = SpectralCube(DATA, np.array([500.0, 600.0]), metadata=fields)
    path = write_cube(folder / "cube.hdr", cube)
    assert path.read_bytes().isascii()
    again = read_cube(path)
    assert {key: again.metadata[key] for key in list(fields)[:3]} == {
        key: fields[key] for key in list(fields)[:3]
    }
    assert again.shape == DATA.shape


def refuse_conflicts(folder: Path) -> None:
    refuse(
        write_raw(folder, HEADER + "lines = 5\n"),
        "one value for 'lines' in cube.hdr, got two that differ",
    )
    exact(folder, HEADER + "lines = 4\n")


NUMBERED = {"unit": "band", "wavelengths": [0, 1]}
CASES: list[tuple[str, Check]] = [
    ("001-other-kinds", decline_other_kinds),
    ("002-encodings", accept_encodings),
    ("003-binary", refuse_binary),
    ("004-keys", accept_odd_keys),
    ("005-missing", refuse_missing),
    ("006-conflict", refuse_conflicts),
    ("007-case", accept_interleave_case),
    *[
        ("007-unknown", partial(refused, "bsq, bil or bip in cube.hdr", interleave=name))
        for name in ("xyz", "", "{bip}")
    ],
    *[
        ("008-type", partial(refused, "data type of 1, 2, 3, 4, 5, 6, 9", data_type=code))
        for code in ("7", "16", "0")
    ],
    ("008-text", partial(refused, "whole number for 'data type'", data_type="float32")),
    ("009-order", partial(refused, "'byte order' 0 or 1 in cube.hdr, got 2", byte_order="2")),
    ("009-text", partial(refused, "whole number for 'byte order'", byte_order="Host (Intel)")),
    ("009-missing", assume_little_endian),
    *[("010-size", partial(refused, "'bands' of 1 or more", bands=size)) for size in ("0", "-3")],
    *[
        ("010-text", partial(refused, "whole number for 'lines'", lines=size))
        for size in ("many", "", "4.5", "1e3")
    ],
    ("011-short", refuse_short_data),
    ("012-long", partial(warned, "3 bytes longer", {}, data=DATA.tobytes() + b"abc")),
    ("013-bomb", partial(refused, r"\d{19} bytes", lines="999999999", samples="999999999")),
    ("014-negative", partial(refused, "'header offset' of 0 or more", header_offset="-4")),
    ("014-beyond", partial(refused, "1048 bytes in cube.img, got 48", header_offset="1000")),
    ("015-huge", refuse_huge_header),
    ("016-brace", refuse_unclosed_braces),
    ("017-comments", accept_comments),
    ("018-count", partial(warned, "3 wavelengths for 2", NUMBERED, wavelength="{1, 2, 3}")),
    *[
        ("019-text", partial(warned, "not numbers", NUMBERED, wavelength=t))
        for t in ("{a, b}", "{nan, 1}", "{5nm, 6nm}")
    ],
    (
        "019-order",
        partial(
            warned, "neither rise nor fall", {"wavelengths": [600, 600]}, wavelength="{600, 600}"
        ),
    ),
    ("020-scalar", accept_a_scalar_wavelength),
    ("021-units", convert_units),
    ("022-units", keep_unknown_units),
    ("022-missing", assume_nanometres),
    ("023-lists", warn_of_bad_lists),
    ("024-commas", partial(warned, "'band names'", {}, band_names="{red, dark, blue}")),
    ("025-scale", apply_the_scale_factor),
    ("026-gains", apply_gains),
    ("027-ignore", keep_the_ignore_value),
    ("028-complex", show_the_magnitude),
    ("030-types", save_without_loss_or_not),
    ("031-gzip", refuse_compressed),
    *[
        ("032-kind", partial(refused, "file type 'ENVI Standard'", file_type=kind))
        for kind in ("ENVI Spectral Library", "ENVI Classification", "TIFF")
    ],
    ("033-frames", partial(refused, "no major frame offsets", major_frame_offsets="{0, 8}")),
    ("034-several", choose_the_data_file),
    ("034-ours", our_own_data_file_wins),
    ("035-names", accept_odd_names),
    ("036-data", open_the_data_file),
    ("089-text", keep_any_text),
]


@pytest.mark.parametrize("check", [pytest.param(check, id=name) for name, check in CASES])
def test_bad_input(check: Check, tmp_path: Path) -> None:
    check(tmp_path)
