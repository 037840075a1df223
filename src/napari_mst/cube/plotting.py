"""Figures of matplotlib, where it is installed: `pip install "napari-mst[figures]"`."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from napari_mst.errors import NapariMstError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(error: type[NapariMstError], **options: Any) -> "Figure":
    """A figure of `matplotlib.pyplot` with these *options*; raises *error* without matplotlib.

    So `pyplot.show()` shows it in a script, and a notebook shows it below its cell. Many
    figures in one cell or script should be closed: `pyplot.close(figure)`.
    """
    try:
        pyplot = import_module("matplotlib.pyplot")
        base: object = import_module("matplotlib.figure").Figure
    except ImportError:
        base = None
    # Where matplotlib is missing, colour-science puts mocks of its modules into their place.
    if not isinstance(base, type):
        advice = 'Run: pip install "napari-mst[figures]"'
        raise error(f"Expected matplotlib for a figure, got none. {advice}.")
    figure: Figure = pyplot.figure(FigureClass=_figure_class(base), **options)
    return figure


@cache
def _figure_class(base: Any) -> type[Any]:
    """The figures of *base* that a notebook shows once, though they also end a cell."""

    class NotebookFigure(base):  # type: ignore[misc]
        def _ipython_display_(self) -> None:
            pyplot = import_module("matplotlib.pyplot")
            # A notebook shows the value of a cell, and below it each figure that pyplot holds.
            if "inline" in pyplot.get_backend():
                pyplot.close(self)
            raise NotImplementedError  # IPython shows it as it shows any figure

    return NotebookFigure
