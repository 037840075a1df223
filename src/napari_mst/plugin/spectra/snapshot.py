"""The records of the workbench: what a person has asked for, and what is to be seen of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from napari_mst.cube.spectrum import STD, Spectrum
from napari_mst.plugin.spectra.rows import Entry, Spectra
from napari_mst.spectra.classification import Match
from napari_mst.spectra.means import Spread
from napari_mst.spectra.transforms import CONTINUUM_REMOVED, normalised, transformed


class View(NamedTuple):
    """One way to show curves.

    Attributes
    ----------
    title
        What the menu calls it.
    label
        Names the values at the axis; "" keeps the name that the cube gives them.
    change
        Returns the spectrum to draw.
    """

    title: str
    label: str
    change: Callable[[Spectrum], Spectrum]


AS_IS = View("As it is", "", lambda spectrum: spectrum)
VIEWS = (
    AS_IS,
    View("Normalised to area", "relative to area", partial(normalised, to="area")),
    View("Normalised to maximum", "relative to maximum", partial(normalised, to="maximum")),
    View("First derivative", "change per nm", partial(transformed, way="first derivative")),
    View("Continuum removed", CONTINUUM_REMOVED, partial(transformed, way=CONTINUUM_REMOVED)),
)


@dataclass(frozen=True)
class Settings:
    """The choices of a person.

    Attributes
    ----------
    is_picking
        Whether a click on the image pins a spectrum.
    window
        Side in pixels of the square that a pick is the mean of.
    spread
        What is drawn around the mean of a region.
    view
        How curves are drawn.
    is_fitted
        Whether the axis of the values shows no more than the curves need.
    is_legend_shown
        Whether the plot names its curves.
    """

    is_picking: bool = True
    window: int = 1
    spread: Spread = STD
    view: View = AS_IS
    is_fitted: bool = False
    is_legend_shown: bool = True


HINT = "Move over a cube; click to pin its spectrum."
NO_ENTRY = -1
"""Number of the entry of a curve that belongs to none."""


class Bands(NamedTuple):
    """The spectral axis of the cube that is selected, and its band that is shown."""

    wavelengths: tuple[float, ...]
    unit: str
    quantity: str
    shown: float


@dataclass(frozen=True)
class KnownState:
    """The state of an adaptation to known spectra.

    Attributes
    ----------
    has_adapted
        Whether there is a cube that was adapted to them.
    is_after
        Whether that cube is shown, rather than the one before it.
    is_busy
        Whether a cube is being adapted, or spots are being looked for.
    notes
        Sentences for the person: how far it is, and the doubts.
    doubts
        Those about known spectra that contradict the photo or each other.
    """

    has_adapted: bool = False
    is_after: bool = True
    is_busy: bool = False
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class Axes(NamedTuple):
    """Wavelengths that the plot spans, their unit, and the name of the values.

    *top* is where the axis of the values ends at least, if it starts at zero; None for an axis that
    is fitted to the curves.
    """

    wavelengths: tuple[float, ...]
    unit: str
    label: str
    top: float | None = None


class LegendLine(NamedTuple):
    """A line of the legend: the colour, the name, and the style of the curve (0 is solid)."""

    colour: str
    name: str
    style: int


class Marker(NamedTuple):
    """A line in the plot that can be dragged: its name, its colour, and its wavelength."""

    name: str
    colour: str
    wavelength: float


# These records compare by identity (`eq=False`): arrays have no single truth value.


@dataclass(frozen=True, eq=False)
class DrawnCurve:
    """A curve that is drawn.

    Attributes
    ----------
    spectrum
        With its colour and its error band.
    style
        Number of the cube that it is of: the first is solid, others are dashed.
    entry
        The row of the curve; `NO_ENTRY` if it has none.
    is_faded
        Whether others stand out, as they are selected.
    """

    spectrum: Spectrum
    style: int = 0
    entry: int = 0
    is_faded: bool = False


@dataclass(frozen=True, eq=False)
class PlotCurves:
    """The pinned curves with their legend, and notes on those that are not drawn as they are."""

    lines: tuple[DrawnCurve, ...] = ()
    keys: tuple[LegendLine, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A person's choices, and everything that the dock shows for them at one moment.

    `resolve` makes the second half from the first. A field is the same object as in the snapshot
    before if nothing about it has changed.

    Attributes
    ----------
    settings
        The choices in the menus.
    entries
        The rows of the table.
    chosen
        The selected rows.
    cube_names, has_reference
        The cubes whose spectra are drawn, and whether the first is compared with another one.
    bands
        Of the selected cube; None without a cube.
    cursor
        Wavelength under the mouse in the plot; None outside.
    pointed
        The spectra under the mouse, on each cube.
    hint
        What is said while no spectrum is under the mouse.
    matches, match_row
        The spectra of a library that the selected one is most like, and which of them is drawn.
    known
        What has become of the known spectra.
    problem
        The error of the last action; "" if there is none.
    axes
        None until there is a cube or a spectrum.
    reading
        Wavelength and unit of the band at which the table reads values; None until there is a cube.
    curves, live
        The curves of the plot, and those under the mouse.
    text, notes
        The line below the plot, and what the plot does not show.
    """

    settings: Settings = Settings()
    entries: Sequence[Entry] = ()
    chosen: tuple[int, ...] = ()
    cube_names: tuple[str, ...] = ()
    has_reference: bool = False
    bands: Bands | None = None
    cursor: float | None = None
    pointed: Spectra = ()
    hint: str = HINT
    matches: tuple[Match, ...] = ()
    match_row: int = 0
    known: KnownState = KnownState()
    problem: str = ""

    axes: Axes | None = None
    reading: tuple[float, str] | None = None
    curves: PlotCurves = PlotCurves()
    live: tuple[DrawnCurve, ...] = ()
    text: str = HINT
    notes: tuple[str, ...] = ()
