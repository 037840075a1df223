"""The charts that are known: where their patches lie, what they are called, what they reflect.

A new kind is a row of `CHARTS`. Letters: n patches, of which reflectances are known.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

PATCHES = (
    *("dark skin", "light skin", "blue sky", "foliage", "blue flower", "bluish green"),
    *("orange", "purplish blue", "moderate red", "purple", "yellow green", "orange yellow"),
    *("blue", "green", "red", "yellow", "magenta", "cyan"),
    *("white", "neutral 8", "neutral 6.5", "neutral 5", "neutral 3.5", "black"),
)
"""The names of the patches of a Classic, row by row."""

_SG_COLUMNS = "ABCDEFGHIJKLMN"
_SG_ROWS = 10
# The table of the Digital SG has the patches column by column, without these, which are all of one
# black. Each spectrum has the colour that its maker publishes for its place: 0.8 CIELAB off in the
# mean, the next patch in the order being tens off.
_SG_WITHOUT = frozenset(
    ("C1", "F1", "I1", "L1", "A2", "N3", "A5", "E6", "N6", "A8", "N9", "C10", "F10", "I10", "L10")
)


@dataclass(frozen=True, eq=False)
class ChartKind:
    """The arrangement of a chart, and its colours.

    Attributes
    ----------
    title
        Its name for a person.
    rows, columns
        Its grid, the patches in the corners being those that a user clicks.
    corners
        Their names, for a person, in the order around the chart.
    patches
        (n) names of the patches whose reflectances are known.
    places
        (n, 2): row and column of each on the grid.
    greys
        Indices of the greys that tell the balance, from white to black.
    table, key
        The file in `data` that has their reflectances (n, 31), and its array.
    """

    title: str
    rows: int
    columns: int
    corners: str
    patches: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    greys: tuple[int, ...]
    table: str
    key: str

    @functools.cached_property
    def reflectances(self) -> NDArray[np.float64]:
        """(n, 31): measured reflectance at 400, 410, ..., 700 nm."""
        path = resources.files("napari_mst").joinpath("data", self.table)
        with path.open("rb") as stream, np.load(stream) as stored:
            return np.asarray(stored[self.key], dtype=np.float64)


def _classic(title: str) -> ChartKind:
    return ChartKind(
        title=title,
        rows=4,
        columns=6,
        corners="dark skin, bluish green, black, white",
        patches=PATCHES,
        places=tuple((row, column) for row in range(4) for column in range(6)),
        greys=tuple(range(18, 24)),
        table="chart31.npz",
        key="babelcolor",
    )


def _digital_sg() -> ChartKind:
    every = {
        f"{letter}{row + 1}": (row, column)
        for column, letter in enumerate(_SG_COLUMNS)
        for row in range(_SG_ROWS)
    }
    places = {name: place for name, place in every.items() if name not in _SG_WITHOUT}
    patches = tuple(places)
    return ChartKind(
        title="ColorChecker Digital SG",
        rows=_SG_ROWS,
        columns=len(_SG_COLUMNS),
        corners="A1, N1, N10, A10, all white",
        patches=patches,
        places=tuple(places.values()),
        greys=tuple(patches.index(f"{letter}5") for letter in "EFGHIJ"),
        table="reflectance31.npz",
        key="iset_gretagDigitalColorSG",
    )


CHARTS: Mapping[str, ChartKind] = MappingProxyType(
    {
        "classic": _classic("ColorChecker Classic"),
        "passport": _classic("ColorChecker Passport"),
        "digital-sg": _digital_sg(),
    }
)
"""The charts that are known, by the name that `Chart` takes; the usual one first."""
