"""The legend of the plot of spectra, as the HTML that Qt draws."""

import html
from collections.abc import Sequence

from napari_mst.plugin.spectra.snapshot import Key

MOST = 20
"""Curves that the legend names; it counts the others."""
SIGNS = ("&#9473;&#9473;", "&#9549;&#9549;", "&#8901;&#8901;&#8901;", "&#9473;&#8901;")
"""A solid line, dashes, dots, and dashes with dots: the styles of `curves.DASHES`."""


def legend_html(keys: Sequence[Key], text: str) -> str:
    """A line for each of *keys*, with names in the colour *text* ("#rrggbb")."""
    rows = [_row(key) for key in keys[:MOST]]
    if len(keys) > MOST:
        rows.append(f"and {len(keys) - MOST} more")
    return f'<div style="color:{text}">{"<br>".join(rows)}</div>'


def _row(key: Key) -> str:
    sign = SIGNS[key.style % len(SIGNS)]
    # Names come from files and from people: Qt would take "<" in them for a tag.
    return f'<span style="color:{key.colour}">{sign}</span>&nbsp;{html.escape(key.name)}'
