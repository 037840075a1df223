"""Figures of matplotlib, where it is installed: `pip install "napari-mst[figures]"`."""

from importlib import import_module
from typing import TYPE_CHECKING

from napari_mst.errors import NapariMstError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_class(error: type[NapariMstError]) -> "type[Figure]":
    """The class of figures of matplotlib; raises *error* if there is none."""
    try:
        import_module("matplotlib.pyplot")  # once it is loaded, notebooks show figures
        found: object = import_module("matplotlib.figure").Figure
    except ImportError:
        found = None
    # Where matplotlib is missing, colour-science puts mocks of its modules into their place.
    if not isinstance(found, type):
        advice = 'Run: pip install "napari-mst[figures]"'
        raise error(f"Expected matplotlib for a figure, got none. {advice}.")
    return found
