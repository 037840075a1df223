"""Resolves what a person has asked for into everything that is to be seen: a `Snapshot`.

Nothing here changes anything or reads a cube, so the same snapshot always gives the same one. Parts
that are expensive to draw are taken from the last snapshot if nothing that they are made from has
changed: the docks compare them with `is`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from napari_mst.analysis.classification import Match
from napari_mst.analysis.label_means import Spread
from napari_mst.analysis.transforms import CONTINUUM_REMOVED, normalised, transformed
from napari_mst.base.errors import SpectrumError, plain, shown
from napari_mst.cube.spectrum import MODEL_ERROR, STD, Spectrum
from napari_mst.plugin.spectra.rows import Entry, Spectra, curve_of


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
    """

    is_picking: bool = True
    window: int = 1
    spread: Spread = STD
    view: View = AS_IS
    is_fitted: bool = False


HINT = "Move over a cube; click to pin its spectrum."
NO_ENTRY = -1
"""Number of the entry of a curve that belongs to none."""


class CubeBands(NamedTuple):
    """The spectral axis of the cube that is selected, and its band that is shown."""

    wavelengths: tuple[float, ...]
    unit: str
    quantity: str
    shown: float


@dataclass(frozen=True)
class ReferenceState:
    """The state of a refinement to reference spectra.

    Attributes
    ----------
    has_refined
        Whether there is a cube that was refined to them.
    is_after
        Whether that cube is shown, rather than the one before it.
    is_busy
        Whether a cube is being refined, or spots are being looked for.
    notes
        Sentences for the person: how far it is, and the doubts.
    doubts
        Those about reference spectra that contradict the photo or each other.
    """

    has_refined: bool = False
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
        With its colour and its prediction interval.
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
    cube_names, quantities, has_reference
        The cubes whose spectra are read, what their values are, and whether the first is compared
        with another one.
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
    references
        What has become of the reference spectra.
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
    quantities: tuple[str, ...] = ()
    has_reference: bool = False
    bands: CubeBands | None = None
    cursor: float | None = None
    pointed: Spectra = ()
    hint: str = HINT
    matches: tuple[Match, ...] = ()
    match_row: int = 0
    references: ReferenceState = ReferenceState()
    problem: str = ""

    axes: Axes | None = None
    reading: tuple[float, str] | None = None
    curves: PlotCurves = PlotCurves()
    live: tuple[DrawnCurve, ...] = ()
    text: str = HINT
    notes: tuple[str, ...] = ()


STYLES = ("Solid", "Dashed", "Dotted", "Dash-dotted")
"""The line styles of the curves of the first cube, the second, ..."""
LONGEST = 40
"""Letters of the name of a curve or a cube that are shown."""
NO_COLOUR = "#888888"
"""Grey, for curves that have no colour."""
MOST_CURVES = 1000
"""Rows whose curves are drawn: more would take seconds, and cover each other."""
MOST_BANDS = 4
"""Largest number of selected picks with prediction intervals; more would cover each other."""
MATCH_STYLE = REFERENCE_STYLE = 2
"""Style of a spectrum from a library, and of a known one: the one of a third cube, dots."""


FROM_ZERO_TO_ONE = frozenset(["reflectance", "relative to maximum", "continuum removed"])
"""Names of the values of which an axis shows the whole range, 0 to 1."""


def resolve(new: Snapshot, last: Snapshot) -> Snapshot:
    """Return *new* as it will be drawn; it shares unchanged parts with the *last* snapshot."""
    entries = last.entries if new.entries == last.entries else new.entries
    new = replace(new, entries=entries, axes=_axes(new), reading=_reading(new), text=_text(new))
    # Spectra compare by identity, and a tuple that was just read holds others.
    is_same = (new.pointed, new.settings.view) == (last.pointed, last.settings.view)
    live = last.live if is_same else _live(new)
    has_other_curves = _curve_inputs(new) != _curve_inputs(last)
    curves = _curves(new) if has_other_curves else last.curves
    return replace(new, curves=curves, live=live, notes=(*new.references.notes, *curves.notes))


def _curve_inputs(new: Snapshot) -> tuple[Any, ...]:
    on = (new.cube_names, new.quantities)
    return (new.entries, new.chosen, on, _match(new), new.settings.view)


def _axes(new: Snapshot) -> Axes | None:
    """Axes for the selected cube, or else for the first spectrum from a file."""
    first, settings = new.bands, new.settings
    quantity = "" if first is None else first.quantity
    on = first or (new.entries[0].first if new.entries else None)
    if on is None:
        return None
    label = settings.view.label or quantity or "value"
    is_whole = label in FROM_ZERO_TO_ONE and not settings.is_fitted
    return Axes(tuple(on.wavelengths), on.unit, label, 1.0 if is_whole else None)


def _reading(new: Snapshot) -> tuple[float, str] | None:
    """Return the band nearest to the mouse in the plot, or else the band that is shown."""
    bands = new.bands
    if bands is None:
        return None
    at = bands.shown if new.cursor is None else new.cursor
    return min(bands.wavelengths, key=lambda band: abs(band - at)), bands.unit


def _text(new: Snapshot) -> str:
    """Says where the spectrum under the mouse is."""
    first = next((spectrum for spectrum in new.pointed if spectrum is not None), None)
    if first is None or first.origin.row is None:
        return new.hint
    origin = first.origin
    mean = f", mean of {origin.pixels} pixels" if origin.window > 1 else ""
    return f"row {origin.row}, column {origin.column}{mean}"


def _match(new: Snapshot) -> Match | None:
    """Return the match that is drawn."""
    is_one = 0 <= new.match_row < len(new.matches)
    return new.matches[new.match_row] if is_one else None


def _viewed(lines: Sequence[DrawnCurve], view: View) -> tuple[list[DrawnCurve], list[str]]:
    """*lines* as the plot shows them, and the reasons why some are drawn as they were measured."""
    drawn, refusals = list[DrawnCurve](), set[str]()
    for line in lines:
        try:
            drawn.append(replace(line, spectrum=view.change(line.spectrum)))
        except SpectrumError as error:
            drawn.append(line)
            refusals.add(f"Drawn as measured: {plain(error)}")
    return drawn, sorted(refusals)


def _is_drawn(new: Snapshot, style: int) -> bool:
    """True if the axis of the values is that of cube number *style*: it shows one quantity."""
    is_of_view = bool(new.settings.view.label)
    return is_of_view or len(set(new.quantities[:1] + new.quantities[style : style + 1])) < 2


def _notes_on_cubes(new: Snapshot) -> list[str]:
    """Say which line style each of several cubes has, and which of them are not drawn."""
    if len(new.cube_names) < 2:
        return []
    names = [shown(name, LONGEST) for name in new.cube_names]
    drawn = [style for style in range(len(names)) if _is_drawn(new, style)]
    looks = (f"{STYLES[style % len(STYLES)]}: {names[style]}" for style in drawn)
    notes = [f"{'; '.join(looks)}."] if len(drawn) > 1 else []
    others = ", ".join(name for style, name in enumerate(names) if style not in drawn)
    return [*notes, *([f"Not drawn, as it is another quantity: {others}."] if others else [])]


def _live(new: Snapshot) -> tuple[DrawnCurve, ...]:
    there = enumerate(new.pointed)
    lines = [DrawnCurve(each, style) for style, each in there if each and _is_drawn(new, style)]
    return tuple(_viewed(lines, new.settings.view)[0])


def _curves(new: Snapshot) -> PlotCurves:
    visible = [row for row, entry in enumerate(new.entries) if entry.is_shown]
    chosen = frozenset(new.chosen)
    # Where they are too many, those that are selected come first.
    rows = sorted(sorted(visible, key=lambda row: row not in chosen)[:MOST_CURVES])
    lines = [line for row in rows for line in _entry_lines(row, new, row in chosen)]
    match = _match(new)
    if match is not None:
        lines.append(DrawnCurve(replace(match.spectrum, colour=""), MATCH_STYLE, NO_ENTRY))
    drawn, notes = _viewed(lines, new.settings.view)
    notes = _notes_on_cubes(new) + notes
    if match is not None:
        name = shown(match.spectrum.name, LONGEST)
        notes.append(f"Dotted: {name}, {match.angle:.2f}\N{DEGREE SIGN} away.")
    # How far the prediction intervals can be trusted is said once.
    spreads = {line.spectrum.spread for line in drawn if _has_error_band(line.spectrum)}
    states = sorted(spread.removeprefix(f"{MODEL_ERROR}, ") for spread in spreads)
    notes += [f"Prediction interval (90 %), {state}." for state in states]
    if len(rows) < len(visible):
        more = len(visible) - len(rows)
        notes.append(f"{more:,} more curves are not drawn. Select rows to see theirs.")
    return PlotCurves(tuple(drawn), tuple(_keys(new, rows)), tuple(notes))


def _entry_lines(row: int, new: Snapshot, is_chosen: bool) -> list[DrawnCurve]:
    """Return the curves of one row on each cube, and what is known of it."""
    entry = new.entries[row]
    is_any_chosen = bool(new.chosen)
    # The prediction intervals of many picks on top of each other could not be told apart.
    is_one_of_few = is_chosen and len(new.chosen) <= MOST_BANDS
    is_banded = is_one_of_few or (not is_any_chosen and len(new.entries) == 1)
    is_faded = is_any_chosen and not is_chosen
    lines = []
    for style, spectrum in enumerate(entry.spectra):
        if spectrum is not None and _is_drawn(new, style):
            # What a region spreads stays.
            if not is_banded and _has_error_band(spectrum):
                spectrum = spectrum.with_values(spectrum.values)
            lines.append(DrawnCurve(spectrum, style, row, is_faded))
    if entry.mark is not None and not is_faded:
        known = _reference_curve(entry.first, curve_of(entry.mark))
        lines.append(DrawnCurve(known, REFERENCE_STYLE, row))
    return lines


def _reference_curve(first: Spectrum, true: Spectrum) -> Spectrum:
    """Return what is *true* of a pick, as far as the wavelengths of its *first* cube reach."""
    low, high = first.wavelengths.min(), first.wavelengths.max()
    is_inside = (true.wavelengths >= low) & (true.wavelengths <= high)
    return replace(
        true.with_values(true.values),
        wavelengths=true.wavelengths[is_inside],
        values=true.values[is_inside],
        colour=first.colour,
    )


def _has_error_band(spectrum: Spectrum) -> bool:
    return spectrum.spread.startswith(MODEL_ERROR)


def _keys(new: Snapshot, rows: Sequence[int]) -> list[LegendLine]:
    """Return the legend: all curves, and the names of the cubes if there are several."""
    spectra = (new.entries[row].first for row in rows)
    keys = [LegendLine(one.colour or NO_COLOUR, shown(one.name, LONGEST), 0) for one in spectra]
    if len(new.cube_names) > 1:
        names = (shown(name, LONGEST) for name in new.cube_names)
        keys += [LegendLine(NO_COLOUR, *each) for each in zip(names, count(), strict=False)]
    return keys
