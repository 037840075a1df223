"""Spectra that become known: a grey tile, numbers that were copied, a place on another cube.

Letters: B bands.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import NANOMETRES
from napari_mst.errors import SpectrumError
from napari_mst.spectra import table
from napari_mst.spectra.spectrum import Spectrum

CLIPBOARD = "the clipboard"
"""The name of copied text in messages."""

PASTED = "pasted"
"""The name of a copied spectrum that has none."""

_SEPARATORS = re.compile(r"[\s,;]+")


def grey(percent: float, wavelengths: NDArray[np.float64]) -> Spectrum:
    """The flat spectrum of a tile that reflects *percent* of the light, at *wavelengths* (B,).

    Raises
    ------
    SpectrumError
        If *percent* is not above 0 and at most 100.
    """
    if not 0 < percent <= 100:
        raise SpectrumError(
            f"Expected a grey above 0 and up to 100 %, got {percent:g} %. "
            "Read it off the tile or its certificate."
        )
    values = np.full(len(wavelengths), percent / 100)
    return Spectrum(wavelengths, values, name=f"{percent:g} % grey")


def pasted(text: str, wavelengths: NDArray[np.float64]) -> list[Spectrum]:
    """The spectra in *text* that a person has copied.

    It is one value for each of *wavelengths* (B,), in a row or a column; or lines of a wavelength
    in nm and a value; or a table with a wavelength first and a column for each spectrum.

    Raises
    ------
    SpectrumError
        If it is none of these.
    CubeFileError
        If it is a table with a damaged row, which is named.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    values = _numbers(lines)
    if values is not None and len(values) == len(wavelengths):
        return [Spectrum(wavelengths, np.array(values), name=PASTED)]
    if values is not None or not lines:
        found = "nothing" if not lines else f"{len(values or ())} numbers"
        raise SpectrumError(
            f"Expected {len(wavelengths)} values, one a band, or lines of a wavelength and a "
            f"value, got {found}. Copy them again."
        )
    spectra = table.parse(_with_tabs(lines), CLIPBOARD, NANOMETRES)
    return [
        one if not one.name.startswith("column ") else replace(one, name=PASTED) for one in spectra
    ]


def _numbers(lines: Sequence[str]) -> list[float] | None:
    """The numbers of *lines*, if these are one line or have one each; None for a table."""
    cells = [[cell for cell in _SEPARATORS.split(line) if cell] for line in lines]
    if len(lines) > 1 and any(len(row) > 1 for row in cells):
        return None
    try:
        return [float(cell) for row in cells for cell in row]
    except ValueError:
        return None


def _with_tabs(lines: Sequence[str]) -> str:
    """*lines* with tabs between their cells, where there are only blanks."""
    has_marks = any(mark in line for line in lines for mark in ",;\t")
    rows = lines if has_marks else ["\t".join(line.split()) for line in lines]
    return "\n".join(rows)
