"""Options shared by several commands, and parsers of their texts."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from napari_mst.base.errors import CubeFileError, SpectrumError, shown
from napari_mst.cli.console import note
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.formats.read_options import ReadOptions
from napari_mst.models.cards import MODELS

DEFAULT_MODEL = next(iter(MODELS))
"""The model for camera photos, for commands that need a model before they see a photo."""


@dataclass(frozen=True)
class OutputFile:
    """The file to which a command writes its result.

    Attributes
    ----------
    output : OUT
        file to write
    overwrite
        replace an existing file
    """

    output: Annotated[Path, "-o"] | None = None
    overwrite: bool = False

    def path(self, usual: str) -> Path:
        """Return the named output file, or the *usual* one in this folder."""
        return self.output or Path(usual)


USUAL = OutputFile()
"""The default file in the working folder, which must not exist."""


def pixel_of(text: str) -> tuple[int, int]:
    """Parse row and column such as "120,80"."""
    try:
        row, column = text.split(",")
        return int(row), int(column)
    except ValueError:
        raise ValueError(f"expected a pixel like 120,80, got {text[:40]!r}") from None


PixelOption = Annotated[tuple[int, int], pixel_of]
"""Row and column of an image."""


def placed(spectra: Iterable[Spectrum], file: Path) -> list[tuple[PixelOption, Spectrum]]:
    """Pair the *spectra* of a *file* with their rows and columns, or raise `SpectrumError`."""
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


def opened(cube: Path, reading: ReadOptions, *, is_alone: bool = True) -> SpectralCube:
    """Read a cube file; assumptions of the reader are printed as notes."""
    try:
        whole = reading.read(cube)
    except CubeFileError:
        if is_alone:
            raise
        # The name and the axis may belong to the other cube of the command.
        whole = replace(reading, variable=None, band_axis=None).read(cube)
    for warning in whole.metadata.get("warnings", ()):
        note(shown(warning, 300))
    return whole
