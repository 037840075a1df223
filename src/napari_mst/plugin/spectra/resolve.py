"""Resolves what a person has asked for into a frozen snapshot of everything that is to be seen.

Nothing here changes anything or reads a cube, so the same intent always gives the same snapshot.
Parts that are expensive to draw are taken from the last snapshot if nothing that they are made from
has changed: whoever draws compares them with `is`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra.regions import MOST_CURVES, Group
from napari_mst.plugin.spectra.rows import Entry, Mark
from napari_mst.plugin.spectra.snapshot import (
    NO_ENTRY,
    Axes,
    Curves,
    Intent,
    Key,
    Line,
    Live,
    Reading,
    Settings,
    Snapshot,
)
from napari_mst.spectra.matching import Match
from napari_mst.spectra.spectrum import MODEL_ERROR, Spectrum

NO_COLOUR = "#888888"
"""Grey, for curves without a colour of their own."""
MOST_BANDS = 4
"""Selected picks whose error bands are drawn: those of more would cover each other."""
MATCH_STYLE = KNOWN_STYLE = 2
"""Style of a spectrum from a library, and of a known one: the one of a third cube, dots."""


def resolve(intent: Intent, last: Snapshot) -> Snapshot:
    """The snapshot of *intent*, which shares with the *last* one what has not changed."""
    before = last.made_from
    curves = last.curves
    if _curve_inputs(intent) != _curve_inputs(before):
        curves = _curves(intent)
    live = last.live
    if _live_inputs(intent) != _live_inputs(before):
        live = _live(intent)
    refusals = sorted(curves.refusals | live.refusals)
    return Snapshot(
        settings=intent.settings,
        axes=_axes(intent, last.axes),
        band=None if intent.bands is None else intent.bands.shown,
        cursor=None if intent.bands is None else intent.cursor,
        reading=_reading(intent, last.reading),
        entries=last.entries if intent.entries == last.entries else intent.entries,
        chosen=intent.chosen,
        has_scores=intent.has_reference,
        curves=curves,
        live=live,
        text=_text(intent),
        notes=_all_notes(intent, curves, refusals),
        matches=intent.matches,
        match_row=intent.match_row,
        known=intent.known,
        made_from=intent,
    )


def _all_notes(intent: Intent, curves: Curves, refusals: Sequence[str]) -> tuple[str, ...]:
    drawn = (f"Drawn as measured: {reason}" for reason in refusals)
    return (*intent.known.notes, *curves.notes, *drawn)


def _view_inputs(intent: Intent) -> tuple[Any, ...]:
    settings = intent.settings
    # Most views do not depend on the band: then the slider need not draw all curves again.
    wavelength = intent.wavelength if settings.view.is_of_band else None
    return settings.view, settings.is_error_shown, wavelength


def _curve_inputs(intent: Intent) -> tuple[Any, ...]:
    rows = (intent.entries, intent.groups, intent.chosen)
    return (*rows, intent.cube_names, _match(intent), *_view_inputs(intent))


def _live_inputs(intent: Intent) -> tuple[Any, ...]:
    # Spectra compare by identity, and a tuple that was read anew holds others.
    return (intent.live, *_view_inputs(intent))


def _axes(intent: Intent, last: Axes | None) -> Axes | None:
    """Axes for the selected cube, or else for the first spectrum from a file."""
    settings = intent.settings
    label = "error" if settings.is_error_shown else settings.view.label
    if intent.bands is not None:
        wavelengths, unit = intent.bands.wavelengths, intent.bands.unit
        label = label or intent.bands.quantity
    elif intent.entries:
        first = intent.entries[0].first
        wavelengths, unit = first.wavelengths, first.unit
    else:
        return last
    axes = Axes(wavelengths, unit, label or "value")
    return last if last is not None and _is_same_axes(axes, last) else axes


def _is_same_axes(one: Axes, two: Axes) -> bool:
    is_same_scale = np.array_equal(one.wavelengths, two.wavelengths)
    return is_same_scale and (one.unit, one.label) == (two.unit, two.label)


def _reading(intent: Intent, last: Reading | None) -> Reading | None:
    """The band nearest to the mouse in the plot, or else the band that is shown."""
    if intent.bands is None:
        return last
    wavelengths = intent.bands.wavelengths
    at = intent.bands.shown if intent.cursor is None else intent.cursor
    nearest = float(wavelengths[np.abs(wavelengths - at).argmin()])
    return Reading(nearest, intent.bands.unit)


def _text(intent: Intent) -> str:
    """Tells where the spectrum under the mouse is."""
    first = next((spectrum for spectrum in intent.live if spectrum is not None), None)
    if first is None:
        return intent.hint
    origin = first.origin
    mean = f", mean of {origin.pixels} pixels" if origin.window > 1 else ""
    return f"row {origin.row}, column {origin.column}{mean}"


def _match(intent: Intent) -> Match | None:
    """The match that is drawn."""
    is_one = 0 <= intent.match_row < len(intent.matches)
    return intent.matches[intent.match_row] if is_one else None


class _Viewing:
    """Changes spectra to the way in which they are shown, and keeps the reasons of failures."""

    def __init__(self, intent: Intent) -> None:
        self.refusals = set[str]()
        self.chosen = frozenset(intent.chosen)
        self._view = intent.settings.view
        self._wavelength = intent.wavelength

    def viewed(self, spectrum: Spectrum) -> Spectrum:
        """*spectrum* as the plot shows it; as it was measured, if that is impossible."""
        try:
            return self._view.change(spectrum, self._wavelength)
        except SpectrumError as error:
            self.refusals.add(str(error))
            return spectrum


def _live(intent: Intent) -> Live:
    if intent.settings.is_error_shown:  # a spectrum has no place on an axis of errors
        return Live()
    viewing = _Viewing(intent)
    spectra = tuple(one and viewing.viewed(one) for one in intent.live)
    return Live(spectra, frozenset(viewing.refusals))


def _curves(intent: Intent) -> Curves:
    viewing = _Viewing(intent)
    large = [group for group in intent.groups if group.is_large]
    rows, left_out = _drawn_rows(intent)
    lines = list[Line]()
    for group in large:
        lines += _summary_lines(group, intent, viewing)
    for row in rows:
        lines += _entry_lines(row, intent, viewing)
    match = _match(intent)
    if match is not None:
        curve = viewing.viewed(replace(match.spectrum, colour=""))
        lines.append(Line(curve, MATCH_STYLE, NO_ENTRY))
    return Curves(
        lines=tuple(lines),
        keys=tuple(_keys(intent, large, rows)),
        notes=(*_notes(large, left_out), *_band_notes(lines)),
        refusals=frozenset(viewing.refusals),
    )


def _drawn_rows(intent: Intent) -> tuple[list[int], int]:
    """The rows whose curves are drawn, and the number of selected ones that are left out."""
    chosen = set(intent.chosen)
    drawn = list[int]()
    many = 0
    for row, entry in enumerate(intent.entries):
        if not entry.is_shown:
            continue
        if entry.is_of_many:
            if row not in chosen:
                continue
            many += 1
            if many > MOST_CURVES:
                continue
        drawn.append(row)
    return drawn, max(0, many - MOST_CURVES)


def _summary_lines(group: Group, intent: Intent, viewing: _Viewing) -> list[Line]:
    """The median of the many labels of *group* on each cube, with their range."""
    is_error = intent.settings.is_error_shown
    spectra = (group.error_summary,) if is_error else group.summary
    is_faded = bool(intent.chosen)
    return [
        Line(viewing.viewed(spectrum), style, NO_ENTRY, is_faded)
        for style, spectrum in enumerate(spectra)
        if spectrum is not None
    ]


def _entry_lines(row: int, intent: Intent, viewing: _Viewing) -> list[Line]:
    """The curves of one row on each cube, or its error."""
    entry = intent.entries[row]
    is_chosen = row in viewing.chosen
    is_any_chosen = bool(viewing.chosen)
    # The error bands of many picks on top of each other could not be told apart.
    is_one_of_few = is_chosen and len(viewing.chosen) <= MOST_BANDS
    is_banded = is_one_of_few or (not is_any_chosen and len(intent.entries) == 1)
    lines = []
    for style, spectrum in _drawn_spectra(entry, intent.settings):
        curve = spectrum if is_banded else _without_error(spectrum)
        is_faded = is_any_chosen and not is_chosen
        lines.append(Line(viewing.viewed(curve), style, row, is_faded))
    is_compared = lines and not intent.settings.is_error_shown
    if entry.mark is not None and is_compared and (is_chosen or not is_any_chosen):
        lines.append(Line(viewing.viewed(_known_curve(entry, entry.mark)), KNOWN_STYLE, row))
    return lines


def _known_curve(entry: Entry, mark: Mark) -> Spectrum:
    """The known spectrum of *entry*, as far as the wavelengths of its cube reach."""
    first = entry.first
    true = mark.spectrum
    low, high = first.wavelengths.min(), first.wavelengths.max()
    is_inside = (true.wavelengths >= low) & (true.wavelengths <= high)
    return replace(
        true,
        wavelengths=true.wavelengths[is_inside],
        values=true.values[is_inside],
        lower=None,
        upper=None,
        spread="",
        colour=first.colour,
    )


def _drawn_spectra(entry: Entry, settings: Settings) -> list[tuple[int, Spectrum]]:
    """The curves of *entry* with the numbers of their cubes."""
    if not settings.is_error_shown:
        return [(style, one) for style, one in enumerate(entry.spectra) if one is not None]
    if entry.comparison is None:
        return []
    first = entry.first
    return [(0, replace(entry.comparison.error, name=first.name, colour=first.colour))]


def _without_error(spectrum: Spectrum) -> Spectrum:
    """*spectrum* without the error band of its model; what a region spreads stays."""
    return spectrum.with_values(spectrum.values) if _has_error_band(spectrum) else spectrum


def _has_error_band(spectrum: Spectrum) -> bool:
    return spectrum.spread.startswith(MODEL_ERROR)


def _keys(intent: Intent, large: Sequence[Group], rows: Sequence[int]) -> list[Key]:
    """The legend: all curves, and the names of the cubes if there are several."""
    spectra = [intent.entries[row].first for row in rows]
    summaries = [group.summary[0] for group in large]
    spectra += [summary for summary in summaries if summary is not None]
    keys = [Key(spectrum.colour or NO_COLOUR, spectrum.name, 0) for spectrum in spectra]
    if len(intent.cube_names) > 1:
        keys += [Key(NO_COLOUR, name, style) for style, name in enumerate(intent.cube_names)]
    return keys


def _band_notes(lines: Sequence[Line]) -> list[str]:
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
