"""The cube as a figure of matplotlib: its picture, and the spectra of some pixels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from napari_mst.cube.labelled import LabelledCube
from napari_mst.cube.pictures import strided, thumbnail
from napari_mst.curves import BAND_INDEX
from napari_mst.errors import CubeError
from napari_mst.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 1024
"""The longest side of the picture, in pixels that are read."""


def cube_figure(cube: LabelledCube, spectra: Mapping[tuple[int, int], NDArray[Any]]) -> "Figure":
    """A figure of *cube*, and of *spectra* (B,) by the row and column of their pixels.

    Raises `CubeError` if matplotlib is missing.
    """
    figure = new_figure(CubeError, figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _, height, width = cube.data.shape
    picture = thumbnail(strided(cube.data, SIDE), cube)
    # The picture may have fewer pixels: its axes count those of the cube, centres at whole numbers.
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
