"""Options that several commands share, and the values of their texts."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from napari_mst.cube.spectrum import Spectrum
from napari_mst.errors import SpectrumError, shown
from napari_mst.models.cards import MODELS

DEFAULT_MODEL = next(iter(MODELS))
"""The model for photos of cameras, for commands that need one before they see a photo."""

Output = Annotated[Path, "-o"] | None
"""The file to write, or None for one in the working folder."""


def pixel_of(text: str) -> tuple[int, int]:
    """Row and column from "120,80"."""
    try:
        row, column = text.split(",")
        return int(row), int(column)
    except ValueError:
        raise ValueError(f"expected a pixel like 120,80, got {text[:40]!r}") from None


Pixel = Annotated[tuple[int, int], pixel_of]
"""Row and column of an image."""


def placed(spectra: Iterable[Spectrum], file: Path) -> list[tuple[Pixel, Spectrum]]:
    """The *spectra* of a *file*, each behind its row and column; `SpectrumError` without these."""
    found = []
    for spectrum in spectra:
        row, column = spectrum.origin.row, spectrum.origin.column
        if row is None or column is None:
            raise SpectrumError(
                f"Expected a row and a column for each spectrum of {shown(file.name)}, got none "
                f"for {shown(spectrum.name)!r}. Write them above its values, as "
                "`napari-mst spectra` does."
            )
        found.append(((row, column), spectrum))
    return found


def wavelengths_of(text: str) -> tuple[float, ...] | slice:
    """Wavelengths in nm: "400:700" from the first band to the last, or "400,410,..."."""
    first, colon, last = text.partition(":")
    try:
        if colon:
            return slice(float(first), float(last))
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"Expected wavelengths as 400:700 or as 400,410,420, got {text[:40]!r}."
        ) from None


@dataclass(frozen=True)
class CubeAnswers:
    """The answers to what a cube file may leave open.

    Attributes
    ----------
    variable : NAME
        name of the array, where the file holds several
    band_axis
        axis of the bands, first (0) or last (-1), where the file does not say
    wavelengths : NM
        wavelengths of a .npy file, which has none: 400:700 from the first band to the last, or
        400,410,...
    """

    variable: str | None = None
    band_axis: Literal[0, -1] | None = None
    wavelengths: Annotated[tuple[float, ...] | slice, wavelengths_of] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The answers that the user gave: a reader refuses those that it does not know."""
        answers = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: answer for name, answer in answers.items() if answer is not None}


UNANSWERED = CubeAnswers()
"""The file says all."""
