"""Options that several commands share, and the values of their texts."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from napari_mst.cube.curves import text_of
from napari_mst.errors import CubeFileError
from napari_mst.formats.wavelengths import column
from napari_mst.option import Option

Cube = Annotated[Path, Option("a cube file of any kind", "CUBE", is_positional=True)]
Model = Annotated[str, Option("name of a model or its weights file", "NAME|FILE")]
Overwrite = Annotated[bool, Option("replace an existing file")]
AsJson = Annotated[bool, Option("print JSON, for programs")]
FullScale = Annotated[float | None, Option("stored value that stands for reflectance 1", "VALUE")]

DEFAULT_MODEL = "mstpp-srgb"


def to_file(text: str, metavar: str = "OUT") -> Option:
    """The option `-o`."""
    return Option(text, metavar, ("-o", "--output"))


def pixel_of(text: str) -> tuple[int, int]:
    """Row and column from "120,80"."""
    try:
        row, column = text.split(",")
        return int(row), int(column)
    except ValueError:
        raise ValueError(f"expected a pixel like 120,80, got {text[:40]!r}") from None


def wavelengths_of(text: str) -> tuple[float, ...] | slice:
    """Wavelengths in nm: "400:700" from the first band to the last, "400,410,...", or a file."""
    first, colon, last = text.partition(":")
    try:
        if colon:
            return slice(float(first), float(last))
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        pass
    listed = _tabled(Path(text))
    if not listed:
        raise ValueError(
            f"Expected wavelengths as 400:700, as 400,410,420 or in a file, got {text[:40]!r}."
        )
    return listed


def _tabled(path: Path) -> tuple[float, ...]:
    """The first number of each line of a table, or all numbers of one line; none if unreadable."""
    try:
        table = text_of(path)
    except CubeFileError:
        return ()
    firsts = [number for line in table.splitlines() for number in column(line, 1)]
    texts = firsts if len(firsts) > 1 else column(table, 0)
    return tuple(float(number) for number in texts)


@dataclass(frozen=True)
class CubeAnswers:
    """The answers to what a cube file may leave open."""

    variable: Annotated[
        str | None, Option("name of the array, where the file holds several", "NAME")
    ] = None
    band_axis: Annotated[
        Literal[0, -1] | None,
        Option("axis of the bands, first (0) or last (-1), where the file does not say"),
    ] = None
    wavelengths: Annotated[
        tuple[float, ...] | slice | None,
        Option(
            "wavelengths of a .npy file, which has none: 400:700 from the first band to the last, "
            "or 400,410,... or a file with one for each band",
            "NM",
            parse=wavelengths_of,
        ),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """The answers that the user gave: a reader refuses those that it does not know."""
        answers = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: answer for name, answer in answers.items() if answer is not None}
