"""The rows of picks: spectra of pixels or small squares, their error bands, and what is known.

The feature "known" of a pick names its mark, or is "". So a mark moves with its pick, and an undo
of the picks brings it back. The marks themselves lie in the metadata of the layer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from napari.layers import Image, Points

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra.reader import Found, Identity, Task, error_band_of
from napari_mst.plugin.spectra.rows import Entry, Mark, Rows, Spectra
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_at
from napari_mst.plugin.viewer.picks import KNOWN
from napari_mst.spectra.compare import Comparison, compare_spectra
from napari_mst.spectra.regions import Region, region_spectrum
from napari_mst.spectra.spectrum import MODEL_ERROR, STD, Spectrum

SPOT = "spot "
"""Begins the names of the picks where a measurement would help."""

_STORE = "napari_mst_known"
"""The key of the marks in the metadata of the layer of picks."""
_SYMBOLS = {True: "diamond", False: "disc"}
"""The symbols of picks that are known, and of others."""
Look = tuple[int, str, str]
"""Window, name and colour of a pick."""
Key = tuple[int, int, str, Look]
"""Row, column, name of the cube, and look: all that a spectrum depends on, beside the cube."""


def keys_of(points: Points) -> list[str]:
    """The name of the mark of each pick; "" for one that is not known."""
    return picks.texts(points, KNOWN)


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
    if numbers != shown and any([*numbers, *shown]):
        points.text = {
            "string": {"array": numbers, "default": ""},
            "color": "white",
            "size": 14,
            "translation": [-float(points.size.max()), 0.0],  # above the pick, not on it
        }


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


class PickRows(Rows):
    """The picks; after one of a thousand has moved, the others are not read again."""

    def __init__(self, layer: Points) -> None:
        super().__init__(layer)
        self._read = dict[Identity, dict[Key, Spectrum]]()
        self._tasks: list[Task] = []
        self._found: Found | None = None

    def forget(self) -> None:
        """See `Rows`."""
        self._read = {}

    def show(self, indices: set[int], is_shown: bool) -> None:
        """See `Rows`."""
        # A copy: napari draws the points again only when `shown` is assigned.
        mask = np.array(self.layer.shown)
        mask[list(indices)] = is_shown
        self.layer.shown = mask

    def delete(self, indices: set[int]) -> None:
        """See `Rows`."""
        picks.remove(self.layer, indices)

    def recolour(self, index: int, colour: str) -> None:
        """See `Rows`."""
        picks.recolour(self.layer, index, colour)

    def rename(self, index: int, name: str) -> None:
        """See `Rows`."""
        names = picks.names(self.layer)
        names[index] = name
        picks.set_feature(self.layer, "name", names)

    def gather(
        self, layers: Sequence[Image], truth: Image | None, found: Found | None
    ) -> tuple[list[Entry], list[Task]]:
        """The entries of picks on the cube *layers*, compared with *truth*, one of these layers.

        *found* has the error bands that were read, by the keys of the tasks, which come second;
        None for no bands.
        """
        self._tasks = []
        self._found = found
        points: Points = self.layer
        # Cubes that are no longer shown are forgotten here, so that their memory can be freed.
        cubes = [cube_at(layer) for layer in layers]
        keys = [Identity(cube.data) for cube in cubes]
        self._read = {key: self._read.get(key, {}) for key in keys}
        if not points.visible:
            return [], []
        columns = [self._column(*on) for on in zip(layers, cubes, strict=True)]
        rows: list[Spectra] = list(zip(*columns, strict=True))
        reference = layers.index(truth) if truth in layers else None

        def comparison_of(index: int) -> Comparison | None:
            return None if reference is None else _compared(rows[index], reference)

        shown = points.shown.tolist()
        marks = marks_of(points)
        # Off all images there is nothing to list; the point stays on its layer.
        entries = [
            Entry(self, index, rows.__getitem__, comparison_of, shown[index], mark=marks[index])
            for index, row in enumerate(rows)
            if any(spectrum is not None for spectrum in row)
        ]
        return entries, self._tasks

    def _column(self, layer: Image, cube: SpectralCube) -> list[Spectrum | None]:
        """The spectra of all points on one cube layer; None for those off the image."""
        points: Points = self.layer
        before = self._read[Identity(cube.data)]
        now = dict[Key, Spectrum]()
        spectra = list[Spectrum | None]()
        pixels, inside = picks.pixels_of(points, layer)
        looks = zip(
            picks.windows(points).tolist(), picks.names(points), picks.colours(points), strict=True
        )
        for (row, column), is_inside, look in zip(pixels.tolist(), inside, looks, strict=True):
            key = (row, column, layer.name, look)
            if is_inside:
                # A band that was missing so far may have been read meanwhile.
                now[key] = self._with_band(before.get(key) or _read(cube, *key), cube)
            spectra.append(now[key] if is_inside else None)
        # Only keys of this time are kept: a point that is dragged has had one at every pixel.
        self._read[Identity(cube.data)] = now
        return spectra

    def _with_band(self, spectrum: Spectrum, cube: SpectralCube) -> Spectrum:
        """*spectrum* of a pixel of *cube* with its error band, if there is one already."""
        row, column = spectrum.origin.row, spectrum.origin.column
        past = cube.provenance
        may_have_band = cube.has_wavelengths and bool(past.error_band or past.adaptation)
        found = self._found
        if found is None or not may_have_band or spectrum.spread or row is None or column is None:
            return spectrum
        task = error_band_of(cube, row, column)
        self._tasks.append(task)
        band = found.get(task.key)
        if band is None:
            return spectrum
        spread = f"{MODEL_ERROR}, {past.calibration}"
        return replace(spectrum, lower=band[0], upper=band[1], spread=spread)


def _read(cube: SpectralCube, row: int, column: int, cube_name: str, look: Look) -> Spectrum:
    """The spectrum of a pick on *cube*."""
    window, name, colour = look
    region = Region.of_window(row, column, cube.shape[1:], window)
    known = None
    if window == 1:
        # The mean and the deviation of a single pixel need no sums over its region.
        values = np.asarray(cube.data[:, row, column], dtype=np.float64)
        known = values, np.zeros_like(values)
    return region_spectrum(
        cube,
        region,
        STD if window > 1 else "",
        cube_name=cube_name,
        known=known,
        name=name,
        colour=colour,
    )


def _compared(spectra: Sequence[Spectrum | None], truth: int) -> Comparison | None:
    """The first of *spectra* against the one with number *truth*."""
    estimate = spectra[0]
    reference = spectra[truth]
    if estimate is None or reference is None:
        return None
    try:
        return compare_spectra(estimate, reference)
    except SpectrumError:
        return None
