"""Marks on picks: the true spectrum of the place under a pick, where a person knows it.

The feature "known" of a pick names its mark, or is "". So a mark moves with its pick, and an undo
of the picks brings it back. The marks themselves lie in the metadata of the layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from napari.layers import Points

from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.picks import KNOWN
from napari_mst.spectra.spectrum import Spectrum

LEAST_WINDOW = 3
"""Side in pixels of the spot that is known under a pick of a single pixel."""
SPOT = "spot "
"""Begins the names of the picks where a measurement would help."""

_STORE = "napari_mst_known"
"""The key of the marks in the metadata of the layer of picks."""
_SYMBOLS = {True: "diamond", False: "disc"}
"""The symbols of picks that are known, and of others."""


@dataclass(frozen=True, eq=False)
class Mark:
    """The true reflectance under a pick.

    Attributes
    ----------
    spectrum
        Its name says where it is from.
    window
        Side in pixels of the square that it is the mean of.
    uncertainty
        Standard deviation of the measurement, as a share of its values.
    hidden
        The error that a calibration with this very spectrum hides: see `KnownSpectrum`.
    """

    spectrum: Spectrum
    window: int = LEAST_WINDOW
    uncertainty: float = 0.0
    hidden: float = 0.0

    @property
    def title(self) -> str:
        """The name of its spectrum."""
        return self.spectrum.name or "known spectrum"

    def at(self, row: int, column: int) -> KnownSpectrum:
        """The mark at a pixel. Raises `SpectrumError` if its spectrum is no reflectance."""
        return KnownSpectrum(row, column, self.spectrum, self.window, self.uncertainty, self.hidden)


def keys_of(points: Points) -> list[str]:
    """The name of the mark of each pick; "" for one that is not known."""
    stored = points.features.get(KNOWN)
    if stored is None:
        return [""] * len(points.data)
    # A pick that was added without features has NaN for a key.
    return [key if isinstance(key, str) else "" for key in stored]


def marks_of(points: Points) -> list[Mark | None]:
    """The mark of each pick; None for one that is not known."""
    store = _store_of(points)
    return [store.get(key) for key in keys_of(points)]


def put(points: Points, marks: Mapping[int, Mark | None]) -> None:
    """Mark the picks at these indices; None takes a mark away."""
    keys = keys_of(points)
    store = _store_of(points)
    for index, mark in marks.items():
        keys[index] = "" if mark is None else _free_key(mark.title, store)
        if mark is not None:
            store[keys[index]] = mark
    picks.set_feature(points, KNOWN, keys)


def tidy(points: Points) -> None:
    """Take the marks off picks that were copied, and show by the symbols what is known.

    The copy of a pick lies elsewhere, where the spectrum may be another one.
    """
    keys = keys_of(points)
    own = [key if key not in keys[:index] else "" for index, key in enumerate(keys)]
    if own != keys:
        picks.set_feature(points, KNOWN, own)
    symbols = [_SYMBOLS[bool(key)] for key in own]
    if symbols and symbols != [str(symbol) for symbol in points.symbol]:
        points.symbol = symbols
    _number_spots(points, own)


def _number_spots(points: Points, keys: list[str]) -> None:
    """Write the numbers of spots that are to be measured yet beside their picks."""
    names = picks.names(points)
    pairs = zip(names, keys, strict=True)
    numbers = [name.removeprefix(SPOT) if is_spot(name) and not key else "" for name, key in pairs]
    shown = np.asarray(points.text.values).ravel().tolist()
    if any(numbers) and numbers != shown:
        points.text = {
            "string": {"array": numbers, "default": ""},
            "color": "white",
            "size": 14,
            "translation": [-float(points.size.max()), 0.0],  # above the pick, not on it
        }
    elif any(shown) and not any(numbers):
        points.text = {"string": {"constant": ""}}


def is_spot(name: str) -> bool:
    """True for the name of a pick where a measurement would help, such as "spot 3"."""
    return name.startswith(SPOT) and name.removeprefix(SPOT).isdecimal()


def _store_of(points: Points) -> dict[str, Mark]:
    store: dict[str, Mark] = points.metadata.setdefault(_STORE, {})
    return store


def _free_key(title: str, store: Mapping[str, Mark]) -> str:
    """*title*, or *title* and a number: marks are kept for an undo, so that keys are not reused."""
    number = 1
    key = title
    while key in store:
        number += 1
        key = f"{title} ({number})"
    return key
