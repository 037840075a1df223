"""The rows of picks: spectra of pixels or small squares, their error bands, and what is known.

The feature "known" of a pick names its mark, or is "". So a mark moves with its pick, and an undo
of the picks brings it back. The marks themselves lie in the metadata of the layer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Image, Points

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra.reader import Reader, Task
from napari_mst.plugin.spectra.region_tasks import error_band_of
from napari_mst.plugin.spectra.rows import Entry, Mark, Spectra
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.picks import KNOWN
from napari_mst.spectra.compare import Comparison, compare_spectra
from napari_mst.spectra.regions import Region, region_spectrum
from napari_mst.spectra.spectrum import MODEL_ERROR, STD, Spectrum
from napari_mst.watch import UNWATCHED

SPOT = "spot "
"""Begins the names of the picks where a measurement would help."""

_STORE = "napari_mst_known"
"""The key of the marks in the metadata of the layer of picks."""
_SYMBOLS = {True: "diamond", False: "disc"}
"""The symbols of picks that are known, and of others."""


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


def put_marks(points: Points, marks: Mapping[int, Mark | None]) -> None:
    """Mark the picks at these indices; None takes a mark away."""
    keys = keys_of(points)
    store = _store_of(points)
    for index, mark in marks.items():
        keys[index] = "" if mark is None else _free_key(mark.title, store)
        if mark is not None:
            store[keys[index]] = mark
    picks.set_feature(points, KNOWN, keys)


def tidy_marks(points: Points) -> None:
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


AT_ONCE = 5
"""Error bands computed while the picks are gathered, after torch was imported; 0.5 ms each."""

Band = tuple[Any, Any]
"""The lower and the upper spectrum of an error band."""


class Look(NamedTuple):
    """The properties of a pick that do not depend on its place."""

    window: int
    name: str
    colour: str


class PickKey(NamedTuple):
    """Everything that the spectrum of a pick depends on, beside the values of its cube."""

    row: int
    column: int
    cube_name: str
    look: Look

    def read(self, cube: SpectralCube) -> Spectrum:
        """The spectrum of the pick on *cube*."""
        window, name, colour = self.look
        region = Region.of_window(self.row, self.column, cube.shape[1:], window)
        return region_spectrum(
            cube,
            region,
            STD if window > 1 else "",
            cube_name=self.cube_name,
            known=self._known(cube),
            name=name,
            colour=colour,
        )

    def _known(self, cube: SpectralCube) -> tuple[Any, Any] | None:
        """The mean and the deviation of a single pixel, which need no sums over its region."""
        if self.look.window > 1:
            return None
        values = np.asarray(cube.data[:, self.row, self.column], dtype=np.float64)
        return values, np.zeros_like(values)


class Known(NamedTuple):
    """The spectra that were read of one cube, and its data.

    Nothing else can have the id of the data while it is kept.
    """

    data: Any
    spectra: dict[PickKey, Spectrum]


class PickRows:
    """Reads picks; after one of a thousand has moved, the others are not read again."""

    def __init__(self, reader: Reader) -> None:
        self.bands = ErrorBands(reader)
        self._known = dict[int, Known]()

    def forget(self) -> None:
        """Let go of everything that was read."""
        self._known = {}

    def gather(
        self, points: Points | None, layers: Sequence[Image], truth: Image | None
    ) -> list[Entry]:
        """The entries of picks on the cube *layers*, compared with *truth*, one of these layers."""
        self.bands.begin()
        # Cubes that are no longer shown are forgotten here, so that their memory can be freed.
        cubes = [cube_at(layer) for layer in layers]
        self._known = {
            id(cube.data): self._known.get(id(cube.data), Known(cube.data, {})) for cube in cubes
        }
        if points is None or not points.visible:
            return []
        looks = _looks(points)
        columns = [self._column(layer, points, looks) for layer in layers]
        rows: list[Spectra] = list(zip(*columns, strict=True))
        reference = layers.index(truth) if truth in layers else None

        def comparison_of(index: int) -> Comparison | None:
            return None if reference is None else _compared(rows[index], reference)

        shown = points.shown.tolist()
        known = marks_of(points)
        # Off all images there is nothing to list; the point stays on its layer.
        return [
            Entry(points, index, rows.__getitem__, comparison_of, shown[index], mark=known[index])
            for index, row in enumerate(rows)
            if any(spectrum is not None for spectrum in row)
        ]

    def _column(self, layer: Image, points: Points, looks: Sequence[Look]) -> list[Spectrum | None]:
        """The spectra of all *points* on one cube layer; None for those off the image."""
        cube = cube_at(layer)
        before = self._known[id(cube.data)].spectra
        now = dict[PickKey, Spectrum]()
        found = list[Spectrum | None]()
        pixels, inside = picks.pixels_of(points, layer)
        for (row, column), is_inside, look in zip(pixels.tolist(), inside, looks, strict=True):
            if not is_inside:
                found.append(None)
                continue
            key = PickKey(row, column, layer.name, look)
            # A band that was missing so far may have been read meanwhile.
            now[key] = self.bands.around(before.get(key) or key.read(cube), cube)
            found.append(now[key])
        # Only keys of this time are kept: a point that is dragged has had one at every pixel.
        self._known[id(cube.data)] = Known(cube.data, now)
        return found


class ErrorBands:
    """Puts error bands around spectra of single pixels, and collects tasks for missing bands."""

    def __init__(self, reader: Reader) -> None:
        self.is_on = True
        self.tasks: list[Task] = []
        self._reader = reader
        self._has_torch = False
        self._computed = 0

    def begin(self) -> None:
        """Nothing is missing any more: the picks are gathered anew."""
        self.tasks = []
        self._computed = 0

    def around(self, spectrum: Spectrum, cube: SpectralCube) -> Spectrum:
        """*spectrum* of a pixel of *cube* with its error band, if there is one already."""
        row, column = spectrum.origin.row, spectrum.origin.column
        past = cube.provenance
        may_have_band = bool(past.error_band or past.adaptation)
        is_wanted = self.is_on and cube.has_wavelengths and may_have_band
        if not is_wanted or spectrum.spread or row is None or column is None:
            return spectrum
        task = error_band_of(cube, row, column)
        band = self._read(task)
        if band is None:
            self.tasks.append(task)
            return spectrum
        # The first band has imported torch: from now on a few more do not hold up the window.
        self._has_torch = True
        lower, upper = band
        spread = f"{MODEL_ERROR}, {cube.provenance.calibration}"
        return replace(spectrum, lower=lower, upper=upper, spread=spread)

    def _read(self, task: Task) -> Band | None:
        found = self._reader.found
        if task.key in found:
            band: Band | None = found[task.key]
            return band
        if not self._has_torch or self._computed == AT_ONCE:
            return None
        self._computed += 1
        return task.run(UNWATCHED)


def cube_at(layer: Image) -> SpectralCube:
    """The cube of a cube layer."""
    cube = cube_of(layer)
    if cube is None:
        raise TypeError(f"Expected a cube layer, got {layer.name!r}.")
    return cube


def _looks(points: Points) -> list[Look]:
    windows = picks.windows(points).tolist()
    names, colours = picks.names(points), picks.colours(points)
    return [Look(*look) for look in zip(windows, names, colours, strict=True)]


def _compared(spectra: Sequence[Spectrum | None], truth: int) -> Comparison | None:
    """The first of *spectra* against the one with number *truth*."""
    estimate, reference = spectra[0], spectra[truth]
    if estimate is None or reference is None:
        return None
    try:
        return compare_spectra(estimate, reference)
    except SpectrumError:
        return None
