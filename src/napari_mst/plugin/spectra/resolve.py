"""Resolves what a person has asked for into everything that is to be seen.

Nothing here changes anything or reads a cube, so the same snapshot always gives the same one. Parts
that are expensive to draw are taken from the last snapshot if nothing that they are made from has
changed: the docks compare them with `is`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from napari_mst.cube.spectrum import MODEL_ERROR, Spectrum
from napari_mst.errors import SpectrumError, plain
from napari_mst.plugin.spectra.regions import MOST_CURVES, Group
from napari_mst.plugin.spectra.rows import curve_of
from napari_mst.plugin.spectra.snapshot import (
    NO_ENTRY,
    Axes,
    DrawnCurve,
    LegendLine,
    PlotCurves,
    Snapshot,
    View,
)
from napari_mst.spectra.classification import Match

NO_COLOUR = "#888888"
"""Grey, for curves without a colour of their own."""
MOST_BANDS = 4
"""Selected picks whose error bands are drawn: those of more would cover each other."""
MATCH_STYLE = KNOWN_STYLE = 2
"""Style of a spectrum from a library, and of a known one: the one of a third cube, dots."""


FROM_ZERO_TO_ONE = frozenset(["reflectance", "relative to maximum", "continuum removed"])
"""Names of the values of which an axis shows the whole range, 0 to 1."""


def resolve(new: Snapshot, last: Snapshot) -> Snapshot:
    """Return *new* as it is to be seen; it shares with the *last* one what has not changed."""
    curves = last.curves
    if _curve_inputs(new) != _curve_inputs(last):
        curves = _curves(new)
    live = last.live
    if _live_inputs(new) != _live_inputs(last):
        live = _live(new)
    return replace(
        new,
        entries=last.entries if new.entries == last.entries else new.entries,
        axes=_axes(new, last.axes),
        reading=_reading(new, last.reading),
        curves=curves,
        live=live,
        text=_text(new),
        notes=(*new.known.notes, *curves.notes),
    )


def _curve_inputs(new: Snapshot) -> tuple[Any, ...]:
    rows = (new.entries, new.groups, new.chosen)
    return (*rows, new.cube_names, _match(new), *_live_inputs(new)[1:])


def _live_inputs(new: Snapshot) -> tuple[Any, ...]:
    # Spectra compare by identity, and a tuple that was just read holds others.
    return (new.pointed, new.settings.view)


def _axes(new: Snapshot, last: Axes | None) -> Axes | None:
    """Axes for the selected cube, or else for the first spectrum from a file."""
    settings = new.settings
    label = settings.view.label
    if new.bands is not None:
        wavelengths, unit = new.bands.wavelengths, new.bands.unit
        label = label or new.bands.quantity
    elif new.entries:
        first = new.entries[0].first
        wavelengths, unit = first.wavelengths, first.unit
    else:
        return last
    is_whole = label in FROM_ZERO_TO_ONE and not settings.is_fitted
    axes = Axes(wavelengths, unit, label or "value", 1.0 if is_whole else None)
    if last is None or axes[1:] != last[1:]:
        return axes
    return last if np.array_equal(wavelengths, last.wavelengths) else axes


def _reading(new: Snapshot, last: tuple[float, str] | None) -> tuple[float, str] | None:
    """Return the band nearest to the mouse in the plot, or else the band that is shown."""
    if new.bands is None:
        return last
    wavelengths = new.bands.wavelengths
    at = new.bands.shown if new.cursor is None else new.cursor
    return float(wavelengths[np.abs(wavelengths - at).argmin()]), new.bands.unit


def _text(new: Snapshot) -> str:
    """Tells where the spectrum under the mouse is."""
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


def _live(new: Snapshot) -> tuple[DrawnCurve, ...]:
    there = enumerate(new.pointed)
    lines = [DrawnCurve(spectrum, style) for style, spectrum in there if spectrum is not None]
    return tuple(_viewed(lines, new.settings.view)[0])


def _curves(new: Snapshot) -> PlotCurves:
    large = [group for group in new.groups if group.is_large]
    rows, left_out = _drawn_rows(new)
    lines = [line for group in large for line in _summary_lines(group, new)]
    chosen = frozenset(new.chosen)
    lines += [line for row in rows for line in _entry_lines(row, new, row in chosen)]
    match = _match(new)
    if match is not None:
        lines.append(DrawnCurve(replace(match.spectrum, colour=""), MATCH_STYLE, NO_ENTRY))
    drawn, refusals = _viewed(lines, new.settings.view)
    return PlotCurves(
        lines=tuple(drawn),
        keys=tuple(_keys(new, large, rows)),
        notes=(*_notes(large, left_out), *_band_notes(drawn), *refusals),
    )


def _drawn_rows(new: Snapshot) -> tuple[list[int], int]:
    """Return the rows whose curves are drawn, and the number of selected ones that are left out."""
    chosen = set(new.chosen)
    shown = [row for row, entry in enumerate(new.entries) if entry.is_shown]
    many = {row for row in shown if new.entries[row].is_of_many}
    left_out = set(sorted(many & chosen)[MOST_CURVES:])
    hidden = left_out | (many - chosen)
    return [row for row in shown if row not in hidden], len(left_out)


def _summary_lines(group: Group, new: Snapshot) -> list[DrawnCurve]:
    """Return the median of the many labels of *group* on each cube, with their range."""
    return [
        DrawnCurve(spectrum, style, NO_ENTRY, is_faded=bool(new.chosen))
        for style, spectrum in enumerate(group.summary)
        if spectrum is not None
    ]


def _entry_lines(row: int, new: Snapshot, is_chosen: bool) -> list[DrawnCurve]:
    """Return the curves of one row on each cube, and what is known of it."""
    entry = new.entries[row]
    is_any_chosen = bool(new.chosen)
    # The error bands of many picks on top of each other could not be told apart.
    is_one_of_few = is_chosen and len(new.chosen) <= MOST_BANDS
    is_banded = is_one_of_few or (not is_any_chosen and len(new.entries) == 1)
    is_faded = is_any_chosen and not is_chosen
    lines = [
        DrawnCurve(spectrum if is_banded else _without_error(spectrum), style, row, is_faded)
        for style, spectrum in enumerate(entry.spectra)
        if spectrum is not None
    ]
    if entry.mark is not None and not is_faded:
        lines.append(DrawnCurve(_known_curve(entry.first, curve_of(entry.mark)), KNOWN_STYLE, row))
    return lines


def _known_curve(first: Spectrum, true: Spectrum) -> Spectrum:
    """Return what is *true* of a pick, as far as the wavelengths of its *first* cube reach."""
    low, high = first.wavelengths.min(), first.wavelengths.max()
    is_inside = (true.wavelengths >= low) & (true.wavelengths <= high)
    return replace(
        true.with_values(true.values),
        wavelengths=true.wavelengths[is_inside],
        values=true.values[is_inside],
        colour=first.colour,
    )


def _without_error(spectrum: Spectrum) -> Spectrum:
    """*spectrum* without the error band of its model; what a region spreads stays."""
    return spectrum.with_values(spectrum.values) if _has_error_band(spectrum) else spectrum


def _has_error_band(spectrum: Spectrum) -> bool:
    return spectrum.spread.startswith(MODEL_ERROR)


def _keys(new: Snapshot, large: Sequence[Group], rows: Sequence[int]) -> list[LegendLine]:
    """Return the legend: all curves, and the names of the cubes if there are several."""
    spectra = [new.entries[row].first for row in rows]
    summaries = [group.summary[0] for group in large]
    spectra += [summary for summary in summaries if summary is not None]
    keys = [LegendLine(spectrum.colour or NO_COLOUR, spectrum.name, 0) for spectrum in spectra]
    if len(new.cube_names) > 1:
        keys += [LegendLine(NO_COLOUR, name, style) for style, name in enumerate(new.cube_names)]
    return keys


def _band_notes(lines: Sequence[DrawnCurve]) -> list[str]:
    """Say once how far the error bands among *lines* can be trusted."""
    spreads = {line.spectrum.spread for line in lines if _has_error_band(line.spectrum)}
    states = sorted(spread.removeprefix(f"{MODEL_ERROR}, ") for spread in spreads)
    return [f"Error band (90 %), {state}." for state in states]


def _notes(large: Sequence[Group], left_out: int) -> list[str]:
    notes = [
        f"{group.name}: {len(group.entries):,} labels, drawn as their median and the range of 90 % "
        "of them. Select some to see their curves."
        for group in large
    ]
    if left_out:
        notes.append(f"Of the selected curves, {left_out:,} are not drawn.")
    return notes
