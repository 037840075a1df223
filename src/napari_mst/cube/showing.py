"""The cube as a notebook page and as a matplotlib figure.

Letters: B bands, H rows, W columns.
"""

import base64
import io
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from napari_mst.base.arrays import Array, Codes
from napari_mst.base.errors import CubeError, NapariMstError, shown
from napari_mst.cube.curves import BAND_INDEX
from napari_mst.cube.parts import PlainCube
from napari_mst.cube.pictures import strided, thumbnail

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FIGURE_SIDE = 1024
"""Longest side of the picture in a figure, in pixels read from the cube."""

SIDE = 256
"""Longest side of a notebook's picture, in pixels, each of which is read from the cube."""


def cube_page(title: str, cube: PlainCube) -> str:
    """The HTML page of *cube*: *title*, a picture and the history.

    Only the pixels of the picture are read, so a cube in a file is not loaded.
    """
    sample = strided(cube.data, SIDE)
    picture = picture_tag(thumbnail(sample, cube))
    rows = [
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(fact)}</td></tr>"
        for name, fact in _facts(cube).items()
    ]
    return (
        f"<div><b>{escape(title)}</b>"
        "<div style='display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start'>"
        f"{picture}<table>{''.join(rows)}</table></div></div>"
    )


def _facts(cube: PlainCube) -> dict[str, str]:
    """The filled fields of the history, one line each."""
    stored = json.loads(cube.provenance.to_json())
    facts = {}
    for name, value in stored.items():
        is_nested = isinstance(value, dict | list)
        text = "; ".join(map(str, value)) if is_nested else str(value)
        facts[name.replace("_", " ")] = shown(text, 120)
    return facts


def picture_tag(picture: Codes) -> str:
    """The HTML tag of *picture*, (H, W, 3) or (H, W), with the image embedded."""
    from PIL.Image import fromarray  # slow to import: only for pictures

    file = io.BytesIO()
    fromarray(picture).save(file, "PNG")
    content = base64.b64encode(file.getvalue()).decode("ascii")
    return f"<img alt='picture of the cube' src='data:image/png;base64,{content}'>"


def cube_figure(cube: PlainCube, spectra: Mapping[tuple[int, int], Array]) -> "Figure":
    """A figure of *cube* and of *spectra* (B,), given by the row and column of their pixels.

    Raises `CubeError` if matplotlib is missing.
    """
    figure = new_figure(CubeError, figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _, height, width = cube.data.shape
    picture = thumbnail(strided(cube.data, FIGURE_SIDE), cube)
    # The picture may have fewer pixels than the cube: its axes count pixels of the cube, with
    # centres at whole numbers.
    edges = (-0.5, width - 0.5, height - 0.5, -0.5)
    left.imshow(picture, extent=edges, cmap="gray")
    for (row, column), values in spectra.items():
        (curve,) = right.plot(cube.wavelengths, values, label=f"{row}, {column}")
        left.plot(column, row, "o", markerfacecolor="none", color=curve.get_color())
    is_counted = cube.unit == BAND_INDEX
    right.set_xlabel("band" if is_counted else f"wavelength ({cube.unit})")
    right.set_ylabel(cube.quantity)
    if spectra:
        right.legend(title="row, column")
    else:
        right.remove()
    return figure


def new_figure(error: type[NapariMstError], **options: Any) -> "Figure":
    """A pyplot figure with these *options*; raises *error* if matplotlib is missing.

    `pyplot.show()` shows it in a script, and a notebook shows it below the cell. Close the figures
    of a cell or script that makes many: `pyplot.close(figure)`.
    """
    try:
        pyplot = import_module("matplotlib.pyplot")
        base: object = import_module("matplotlib.figure").Figure
    except ImportError:
        base = None
    # If matplotlib is missing, colour-science replaces its modules by mocks.
    if not isinstance(base, type):
        advice = 'Run: pip install "napari-mst[figures]"'
        raise error(f"Expected matplotlib for a figure, got none. {advice}.")
    return pyplot.figure(FigureClass=_figure_class(base), **options)


@cache
def _figure_class(base: Any) -> type[Any]:
    """A subclass of *base* that a notebook shows only once, even as the value of a cell."""

    class NotebookFigure(base):  # type: ignore[misc]
        def _ipython_display_(self) -> None:
            pyplot = import_module("matplotlib.pyplot")
            # A notebook shows the value of a cell, and below it every open figure of pyplot.
            if "inline" in pyplot.get_backend():
                pyplot.close(self)
            raise NotImplementedError  # IPython then shows it like any figure

    return NotebookFigure
