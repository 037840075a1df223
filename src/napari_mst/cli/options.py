"""Arguments that several commands share, and the types of their values.

argparse prints the message of an `ArgumentTypeError`, and exits with status 2.
"""

import argparse
import math
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from napari_mst.formats.wavelengths import column
from napari_mst.photo.photo import Rectangle
from napari_mst.reconstruction.options import Denoise

DEFAULT_MODEL = "mstpp-srgb"


def rectangle(text: str) -> Rectangle:
    """Rows and columns from "100:300,0:512"."""
    try:
        rows, columns = text.split(",")
        top, bottom = rows.split(":")
        left, right = columns.split(":")
        return int(top), int(bottom), int(left), int(right)
    except ValueError:
        raise ArgumentTypeError(
            f"expected a region like 100:300,0:512, got {text[:40]!r}"
        ) from None


def gigabytes(text: str) -> int:
    """Bytes from a size in GB."""
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        raise ArgumentTypeError(f"Expected a size in GB, as 4 or 0.5, got {text[:40]!r}.")
    return int(size * 1e9)  # GB, not GiB


def denoising(text: str) -> Denoise:
    """The words "auto" and "off", or h from "0.8"."""
    if text == "auto":
        return "auto"
    if text == "off":
        return "off"
    try:
        h = float(text)
    except ValueError:
        h = 0.0
    if not 0 < h < math.inf:
        raise ArgumentTypeError(
            f"Expected auto, off or a number above 0, as 1.2, got {text[:40]!r}."
        )
    return h


def pixel(text: str) -> tuple[int, int]:
    """Row and column from "120,80"."""
    try:
        row, column = text.split(",")
        return int(row), int(column)
    except ValueError:
        raise ArgumentTypeError(f"expected a pixel like 120,80, got {text[:40]!r}") from None


def numbers(text: str) -> tuple[float, ...]:
    """Numbers from "650,550,450"."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"expected numbers like 650,550, got {text[:40]!r}") from None


def wavelengths(text: str) -> tuple[float, ...] | slice:
    """Wavelengths in nm: "400:700" from the first band to the last, "400,410,...", or a file."""
    first, colon, last = text.partition(":")
    try:
        if colon:
            return slice(float(first), float(last))
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        pass
    found = _tabled(Path(text))
    if not found:
        raise ArgumentTypeError(
            f"Expected wavelengths as 400:700, as 400,410,420 or in a file, got {text[:40]!r}."
        )
    return found


def _tabled(path: Path) -> tuple[float, ...]:
    """The first number of each line of a table, or all numbers of one line; none if unreadable."""
    try:
        table = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ()
    firsts = [number for line in table.splitlines() for number in column(line, 1)]
    texts = firsts if len(firsts) > 1 else column(table, 0)
    return tuple(float(number) for number in texts)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add to *parser* what a cube file may leave open: `reader_options` gives the answers."""
    parser.add_argument(
        "--variable", metavar="NAME", help="name of the array, where the file holds several"
    )
    parser.add_argument(
        "--band-axis",
        type=int,
        choices=(0, -1),
        help="axis of the bands, first or last, where the file does not tell",
    )
    parser.add_argument(
        "--wavelengths",
        type=wavelengths,
        metavar="NM",
        help="wavelengths of a .npy file, which has none: 400:700 from the first band to the "
        "last, or 400,410,... or a file with one for each band",
    )


def reader_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that the user gave: most readers take none, and refuse what they do not know."""
    names = ("variable", "band_axis", "wavelengths")
    given = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add `--model` to *parser*."""
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        metavar="NAME|FILE",
        help=f"name of a model or its weights file (default: {DEFAULT_MODEL})",
    )


def add_device(parser: argparse.ArgumentParser, default: str = "auto") -> None:
    """Add `--device` to *parser*."""
    parser.add_argument(
        "--device", default=default, help="auto, cuda, cuda:1, mps or cpu (default: %(default)s)"
    )


def add_denoise(parser: argparse.ArgumentParser) -> None:
    """Add `--denoise` to *parser*."""
    parser.add_argument(
        "--denoise",
        type=denoising,
        default="auto",
        metavar="auto|off|H",
        help="denoise photos with non-local means before the network: those that are noisy and "
        "were no JPEG (auto), none (off), or all, with h of so many times their noise "
        "(default: auto, which takes 1.2)",
    )


def add_region(parser: argparse.ArgumentParser) -> None:
    """Add `--region` to *parser*."""
    parser.add_argument(
        "--region",
        type=rectangle,
        metavar="ROW0:ROW1,COL0:COL1",
        help="use these pixels only; attention is global, so their numbers differ from those "
        "of the whole photo",
    )


def add_overwrite(
    parser: argparse.ArgumentParser, help_text: str = "replace an existing file"
) -> None:
    """Add `--overwrite` to *parser*."""
    parser.add_argument("--overwrite", action="store_true", help=help_text)


def add_full_scale(parser: argparse.ArgumentParser) -> None:
    """Add `--full-scale` to *parser*."""
    parser.add_argument(
        "--full-scale",
        type=float,
        metavar="VALUE",
        help="stored value that stands for reflectance 1",
    )


def add_output(parser: argparse.ArgumentParser, metavar: str, help_text: str) -> None:
    """Add the required `-o` to *parser*."""
    parser.add_argument("-o", "--output", required=True, type=Path, metavar=metavar, help=help_text)
