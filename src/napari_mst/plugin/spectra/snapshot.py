"""The records of the workbench: an intent, and the snapshot of what is to be seen.

`resolve` makes the one from the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from napari_mst.plugin.spectra.regions import Group
from napari_mst.plugin.spectra.rows import Entry, Spectra
from napari_mst.spectra.matching import Match
from napari_mst.spectra.regions import Spread
from napari_mst.spectra.spectrum import STD, Spectrum, Values
from napari_mst.spectra.transforms import continuum_removed, first_derivative, normalised

Change = Callable[[Spectrum, float], Spectrum]


@dataclass(frozen=True)
class View:
    """One way to show curves.

    Attributes
    ----------
    title
        What the menu calls it.
    label
        Names the values at the axis; "" keeps the name that the cube gives them.
    change
        Gets a spectrum and the wavelength of the band that is shown, and returns the spectrum to
        draw.
    is_of_band
        Whether the curves change when another band is shown.
    """

    title: str
    label: str
    change: Change
    is_of_band: bool = False


def _as_it_is(spectrum: Spectrum, _: float) -> Spectrum:
    return spectrum


def _relative_to_area(spectrum: Spectrum, _: float) -> Spectrum:
    return normalised(spectrum, "area")


def _relative_to_maximum(spectrum: Spectrum, _: float) -> Spectrum:
    return normalised(spectrum, "maximum")


def _derivative(spectrum: Spectrum, _: float) -> Spectrum:
    return first_derivative(spectrum)


def _without_continuum(spectrum: Spectrum, _: float) -> Spectrum:
    return continuum_removed(spectrum)


AS_IS = View("As it is", "", _as_it_is)
VIEWS = (
    AS_IS,
    View("Normalised to area", "relative to area", _relative_to_area),
    View("Normalised to maximum", "relative to maximum", _relative_to_maximum),
    View("Normalised at the band shown", "relative to the band shown", normalised, is_of_band=True),
    View("First derivative", "change per nm", _derivative),
    View("Continuum removed", "continuum removed", _without_continuum),
)


class ValueRange(NamedTuple):
    """The range of the value axis: fitted to the curves, fixed, or left to the mouse wheel.

    Attributes
    ----------
    title
        What the menu calls it.
    limits
        The least and the largest value; None fits them to the curves.
    is_locked
        Whether the range stays as it is until the wheel zooms it.
    """

    title: str
    limits: tuple[float, float] | None = None
    is_locked: bool = False


FITTED = ValueRange("Fit the values")
RANGES = (
    FITTED,
    ValueRange("0 to 1", limits=(0.0, 1.0)),
    ValueRange("Locked (the wheel zooms)", is_locked=True),
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
    has_regions, has_error_bands
        Whether regions are read, and the 90 % error bands of picks.
    view, value_range
        How curves are drawn.
    is_error_shown
        Whether errors to the reference are drawn instead of spectra.
    is_legend_shown
        Whether the plot names its curves.
    """

    is_picking: bool = True
    window: int = 1
    spread: Spread = STD
    has_regions: bool = True
    has_error_bands: bool = True
    view: View = AS_IS
    value_range: ValueRange = FITTED
    is_error_shown: bool = False
    is_legend_shown: bool = False

    @property
    def reading(self) -> tuple[object, ...]:
        """The choices after which cubes are read again; others only change the drawing."""
        return self.spread, self.has_regions, self.has_error_bands


DEFAULTS = Settings()
HINT = "Move over a cube; click to pin its spectrum."
NO_ENTRY = -1
"""Number of the entry of a curve that belongs to none."""


class Bands(NamedTuple):
    """The spectral axis of the cube that is selected, and its band that is shown."""

    wavelengths: Values
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
    has_width
        Whether a layer shows the width of its error band.
    is_busy
        Whether a cube is being adapted, or spots are being looked for.
    notes
        Sentences for the person: how far it is, and which spectra contradict each other.
    """

    has_adapted: bool = False
    is_after: bool = True
    has_width: bool = False
    is_busy: bool = False
    notes: tuple[str, ...] = ()


# The records compare by identity (`eq=False`): arrays have no single truth value.


@dataclass(frozen=True, eq=False)
class Intent:
    """Everything that a snapshot is made from, at one moment.

    Attributes
    ----------
    entries, groups
        The rows, and the regions of each layer.
    chosen
        The selected rows.
    settings
        The choices in the menus.
    cube_names, has_reference
        The cubes whose spectra are drawn, and whether the first is compared with another one.
    bands
        Of the selected cube; None without a cube.
    wavelength
        Of the band that was shown last: it outlives its cube.
    cursor
        Wavelength under the mouse in the plot; None outside.
    live
        The spectra under the mouse, on each cube.
    hint
        What is said while no spectrum is under the mouse.
    matches, match_row
        The spectra of a library that the selected one is most like, and which of them is drawn.
    known
        What has become of the known spectra.
    """

    settings: Settings = DEFAULTS
    entries: Sequence[Entry] = ()
    groups: Sequence[Group] = ()
    chosen: tuple[int, ...] = ()
    cube_names: tuple[str, ...] = ()
    has_reference: bool = False
    bands: Bands | None = None
    wavelength: float = 0.0
    cursor: float | None = None
    live: Spectra = ()
    hint: str = HINT
    matches: tuple[Match, ...] = ()
    match_row: int = 0
    known: KnownState = KnownState()


class Axes(NamedTuple):
    """Wavelengths that the plot spans, their unit, and the name of the values."""

    wavelengths: Values
    unit: str
    label: str


class Reading(NamedTuple):
    """The band at which the table reads values."""

    wavelength: float
    unit: str


class Key(NamedTuple):
    """A line of the legend: the colour, the name, and the style of the curve (0 is solid)."""

    colour: str
    name: str
    style: int


class Marker(NamedTuple):
    """A line in the plot that can be dragged: its name, its colour, and its wavelength."""

    name: str
    colour: str
    wavelength: float


@dataclass(frozen=True, eq=False)
class Line:
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
class Curves:
    """The pinned curves with their legend, and notes on those that are not drawn as they are."""

    lines: tuple[Line, ...] = ()
    keys: tuple[Key, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Live:
    """The curves under the mouse, on each cube."""

    spectra: Spectra = ()
    refusals: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that is to be seen.

    A field is the same object as in the snapshot before if nothing about it has changed.

    Attributes
    ----------
    axes
        None until there is a cube or a spectrum.
    band, cursor
        Wavelengths of the two lines in the plot; None for no line.
    reading
        The band at which the table reads values; None until there is a cube.
    entries, chosen
        The rows of the table, and the selected ones.
    has_scores
        Whether the table has the columns of a comparison.
    curves, live
        The curves of the plot.
    text, notes
        The line below the plot, and what the plot does not show.
    """

    settings: Settings = DEFAULTS
    axes: Axes | None = None
    band: float | None = None
    cursor: float | None = None
    reading: Reading | None = None
    entries: Sequence[Entry] = ()
    chosen: tuple[int, ...] = ()
    has_scores: bool = False
    curves: Curves = Curves()
    live: Live = Live()
    text: str = HINT
    notes: tuple[str, ...] = ()
    matches: tuple[Match, ...] = ()
    match_row: int = 0
    known: KnownState = KnownState()
    made_from: Intent = field(default=Intent(), repr=False)
