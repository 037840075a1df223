"""Resolves the user's choices into everything that the docks show: a `Snapshot`.

The functions are pure and read no cube. Parts that are expensive to draw are reused from the last
snapshot if their inputs have not changed: the docks compare them with `is`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

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
        Name in the menu.
    label
        Name of the values at the axis; "" keeps the name from the cube.
    change
        Converts a spectrum to the drawn spectrum.
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
    """The user's settings.

    Attributes
    ----------
    is_picking
        Whether a click on the image pins a spectrum.
    window
        Side in pixels of the square over which a pick averages.
    spread
        The spread drawn around the mean of a region.
    view
        The way to show curves.
    is_fitted
        Whether the value axis spans no more than the curves.
    """

    is_picking: bool = True
    window: int = 1
    spread: Spread = STD
    view: View = AS_IS
    is_fitted: bool = False


HINT = "Move over a cube; click to keep its spectrum."
NO_ENTRY = -1
"""Entry number of a curve without an entry."""


class CubeBands(NamedTuple):
    """The spectral axis of the selected cube, and the wavelength of the shown band."""

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
        Whether there is a refined cube.
    is_after
        Whether the refined cube is shown, rather than the cube before.
    is_busy
        Whether a cube is being refined, or spots are being searched for.
    notes
        Sentences for the user: the progress, and the doubts.
    doubts
        Sentences about reference spectra that contradict the photo or each other.
    """

    has_refined: bool = False
    is_after: bool = True
    is_busy: bool = False
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class Axes(NamedTuple):
    """Wavelengths that the plot spans, their unit, and the name of the values.

    The value axis spans at least 0 to *top*; None fits it to the curves.
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
    """A movable line in the plot: its name, its colour, and its wavelength."""

    name: str
    colour: str
    wavelength: float


# These records compare by identity (`eq=False`): arrays have no single truth value.


@dataclass(frozen=True, eq=False)
class DrawnCurve:
    """A curve to draw.

    Attributes
    ----------
    spectrum
        The spectrum, with its colour and its prediction interval.
    style
        Number of its cube: curves of the first are solid, others dashed.
    entry
        The row of the curve; `NO_ENTRY` if it has none.
    is_faded
        Whether the curve steps back because other curves are selected.
    """

    spectrum: Spectrum
    style: int = 0
    entry: int = 0
    is_faded: bool = False


@dataclass(frozen=True, eq=False)
class PlotCurves:
    """The pinned curves with their legend, and notes on curves that are changed or left out."""

    lines: tuple[DrawnCurve, ...] = ()
    keys: tuple[LegendLine, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The user's choices, and everything that the docks show for them at one moment.

    `resolve` makes the second half from the first. An unchanged field is the same object as in the
    previous snapshot.

    Attributes
    ----------
    settings
        The settings in the menus.
    entries
        The rows of the table.
    chosen
        The selected rows.
    cube_names, quantities, has_reference
        The cubes whose spectra are read, their quantities, and whether the first cube is compared
        with a reference.
    bands
        Bands of the selected cube; None without a cube.
    cursor
        Wavelength under the mouse in the plot; None outside.
    pointed
        The spectra under the mouse, on each cube.
    hint
        The sentence to show while no spectrum is under the mouse.
    matches, match_row
        The library spectra most similar to the selected spectrum, and the row of the drawn one.
    references
        The state of the refinement to reference spectra.
    problem
        The error of the last action; "" if there is none.
    axes
        None until there is a cube or a spectrum.
    reading
        Wavelength and unit of the band at which the table reads values; None until there is a cube.
    curves, live
        The curves of the plot, and those under the mouse.
    text, notes
        The line below the plot, and notes on curves that are changed or left out.
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
"""Most letters shown of the name of a curve or a cube."""
NO_COLOUR = "#888888"
"""Grey, for curves without a colour."""
MOST_CURVES = 1000
"""Most rows whose curves are drawn: more would take seconds, and hide each other."""
MOST_BANDS = 4
"""Most selected picks with prediction intervals: more would hide each other."""
MATCH_STYLE = REFERENCE_STYLE = 2
"""Style of library spectra and of reference spectra: dots, as for a third cube."""


FROM_ZERO_TO_ONE = frozenset(["reflectance", "relative to maximum", "continuum removed"])
"""Names of values whose axis spans the whole range, 0 to 1."""


def resolve(new: Snapshot, last: Snapshot) -> Snapshot:
    """Return *new* as it will be drawn, sharing unchanged parts with the *last* snapshot."""
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
    """Return axes for the selected cube, or else for the first spectrum from a file."""
    first, settings = new.bands, new.settings
    quantity = "" if first is None else first.quantity
    on = first or (new.entries[0].first if new.entries else None)
    if on is None:
        return None
    label = settings.view.label or quantity or "value"
    is_whole = label in FROM_ZERO_TO_ONE and not settings.is_fitted
    return Axes(tuple(on.wavelengths), on.unit, label, 1.0 if is_whole else None)


def _reading(new: Snapshot) -> tuple[float, str] | None:
    """Return the band nearest to the mouse in the plot, or else the shown band, and its unit."""
    bands = new.bands
    if bands is None:
        return None
    at = bands.shown if new.cursor is None else new.cursor
    return min(bands.wavelengths, key=lambda band: abs(band - at)), bands.unit


def _text(new: Snapshot) -> str:
    """Return the place of the spectrum under the mouse, or else the hint."""
    first = next((spectrum for spectrum in new.pointed if spectrum is not None), None)
    if first is None or first.origin.row is None:
        return new.hint
    origin = first.origin
    mean = f", mean of {origin.pixels} pixels" if origin.window > 1 else ""
    place = f"row {origin.row}, column {origin.column}{mean}"
    return place if np.isfinite(first.values).any() else f"{place}: there is no value here"


def _match(new: Snapshot) -> Match | None:
    """Return the match to draw."""
    is_one = 0 <= new.match_row < len(new.matches)
    return new.matches[new.match_row] if is_one else None


def _viewed(lines: Sequence[DrawnCurve], view: View) -> tuple[list[DrawnCurve], list[str]]:
    """Return *lines* as the plot shows them, and the reasons why some are drawn as measured."""
    drawn, refusals = list[DrawnCurve](), set[str]()
    for line in lines:
        try:
            drawn.append(replace(line, spectrum=view.change(line.spectrum)))
        except SpectrumError as error:
            drawn.append(line)
            refusals.add(f"Drawn as measured: {plain(error)}")
    return drawn, sorted(refusals)


def _is_drawn(new: Snapshot, style: int) -> bool:
    """True if the value axis, which shows one quantity, fits cube number *style*."""
    is_of_view = bool(new.settings.view.label)
    return is_of_view or len(set(new.quantities[:1] + new.quantities[style : style + 1])) < 2


def _notes_on_cubes(new: Snapshot) -> list[str]:
    """Name the line style of each of several cubes, and the cubes that are not drawn."""
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
    # If there are too many, the selected ones come first.
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
    # One note says how far the prediction intervals can be trusted.
    spreads = {line.spectrum.spread for line in drawn if _has_error_band(line.spectrum)}
    states = sorted(spread.removeprefix(f"{MODEL_ERROR}, ") for spread in spreads)
    notes += [f"Prediction interval (90 %), {state}." for state in states]
    if len(rows) < len(visible):
        more = len(visible) - len(rows)
        notes.append(f"{more:,} more curves are not drawn. Select rows to see theirs.")
    return PlotCurves(tuple(drawn), tuple(_keys(new, rows)), tuple(notes))


def _entry_lines(row: int, new: Snapshot, is_chosen: bool) -> list[DrawnCurve]:
    """Return the curves of one row on each cube, and its reference spectrum."""
    entry = new.entries[row]
    is_any_chosen = bool(new.chosen)
    # Overlapping prediction intervals of many picks would be indistinguishable.
    is_one_of_few = is_chosen and len(new.chosen) <= MOST_BANDS
    is_banded = is_one_of_few or (not is_any_chosen and len(new.entries) == 1)
    is_faded = is_any_chosen and not is_chosen
    lines = []
    for style, spectrum in enumerate(entry.spectra):
        if spectrum is not None and _is_drawn(new, style):
            # The spread of a region stays.
            if not is_banded and _has_error_band(spectrum):
                spectrum = spectrum.with_values(spectrum.values)
            lines.append(DrawnCurve(spectrum, style, row, is_faded))
    if entry.mark is not None and not is_faded:
        known = _reference_curve(entry.first, curve_of(entry.mark))
        lines.append(DrawnCurve(known, REFERENCE_STYLE, row))
    return lines


def _reference_curve(first: Spectrum, true: Spectrum) -> Spectrum:
    """Return the *true* spectrum of a pick within the wavelengths of its *first* spectrum."""
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
    """Return the legend: all curves, and the names of the cubes if there is more than one."""
    spectra = (new.entries[row].first for row in rows)
    keys = [LegendLine(one.colour or NO_COLOUR, shown(one.name, LONGEST), 0) for one in spectra]
    if len(new.cube_names) > 1:
        names = (shown(name, LONGEST) for name in new.cube_names)
        keys += [LegendLine(NO_COLOUR, *each) for each in zip(names, count(), strict=False)]
    return keys
