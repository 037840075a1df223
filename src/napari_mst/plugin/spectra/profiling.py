"""The profile along a drawn line, without a window: its spectra, and a value along it.

model.profile.draw_line()  # or an existing line
model.profile.text = "NDVI"
model.profile.save("profile.csv")
"""

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from napari.layers import Image, Shapes

from napari_mst.analysis.label_table import write_table
from napari_mst.analysis.transects import Transect, transect
from napari_mst.base.arrays import Doubles, Singles
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.plugin.jobs.task import Latest, Start, Task
from napari_mst.plugin.spectra import layer_rows
from napari_mst.plugin.spectra.map_maker import MapMaker
from napari_mst.plugin.spectra.reader import Identity
from napari_mst.plugin.spectra.shown_spectra import ShownSpectra
from napari_mst.plugin.viewer.layers import band_of, cube_at
from napari_mst.plugin.viewer.placement import Placement, to_pixels

PIXEL = "pixel"
NO_LINE = "Draw a line on the cube first: press Draw a line, then drag the mouse over the image."


class Profile:
    """Keeps the transect of the line that was last drawn or selected.

    Attributes
    ----------
    transect
        The spectra along the line; None without a line on the cube.
    text
        The value of the curve: a formula or an index; "" for the band at the slider.
    """

    def __init__(self, model: ShownSpectra, maps: MapMaker, start: Start) -> None:
        self.transect: Transect | None = None
        self.text = ""
        self._model, self._maps = model, maps
        self._latest = Latest(start)
        self._key: Any = None

    def draw_line(self) -> Shapes | None:
        """Let the user draw a line; None without a cube."""
        return layer_rows.draw(self._model.viewer, "add_line")

    def _line(self, source: Image) -> Doubles | None:
        """Return the corners of the line in pixels of *source*; None if there is none."""
        lines = [
            (rows.layer, index)
            for rows in self._model.layers.shown_rows()
            if isinstance(rows, layer_rows.ShapeRows)
            for index, kind in enumerate(rows.layer.shape_type)
            if kind in layer_rows.OPEN_SHAPES
        ]
        chosen = {(entry.layer, entry.index) for entry in self._model.chosen}
        for layer, index in [*reversed([one for one in lines if one in chosen]), *lines[::-1]]:
            matrix = to_pixels(layer, source)
            if matrix is not None:
                return layer.data[index][:, -2:] @ matrix[:2, :2].T + matrix[:2, 2]
        return None

    def update(self) -> None:
        """Read the spectra again if the line or its cube has changed."""
        source = self._maps.source
        line = None if source is None else self._line(source)
        if source is None or line is None:
            self.forget()
            return
        cube = cube_at(source)
        key = (Identity(cube.data), line.tobytes())
        if key == self._key:
            return
        self._key = key
        run = partial(_transect, cube, line, Placement.of(source))
        model = self._model
        use = partial(setattr, self, "transect")
        self._latest.run(Task(run, use, self._on_failed, model.publish))

    def forget(self) -> None:
        """Release the spectra."""
        self._latest.cancel()
        self._key = self.transect = None

    def _on_failed(self, error: Exception) -> None:
        self.transect = None
        self._model.fail(error)

    @property
    def value(self) -> str:
        """The quantity of the curve: `text`, or else the name of the band at the slider."""
        source = self._maps.source
        if self.text or source is None:
            return self.text
        at = cube_at(source).wavelengths[band_of(source, self._model.viewer.dims.point)]
        return f"r{at:g}"

    @property
    def presets(self) -> Mapping[str, str]:
        """The values to choose from, each with a description."""
        return self._model.layers.presets_of(self._maps.source)

    def curve(self) -> Singles | None:
        """Return the value along the line; None without a line.

        Raises `SpectrumError` if the cube does not have the value.
        """
        return None if self.transect is None else self.transect.along(self.value)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the profile as a table (.csv): distance, place, value, and every band.

        Raises
        ------
        SpectrumError
            If there is no line.
        SaveError
            If the file cannot be written.
        """
        if self.transect is None:
            raise SpectrumError(NO_LINE)
        name = write_table(path, self.transect.table(self.value), overwrite=True).name
        self._model.say(f"{len(self.transect.distances):,} places saved as {name}.")


def spectrogram(found: Transect) -> tuple[Singles, float, float]:
    """Return the picture (k, n) of a transect in evenly spaced rows, and its end wavelengths."""
    at = found.cube.wavelengths
    low, high = float(at.min()), float(at.max())
    even = np.linspace(low, high, len(at))
    # Bands may be uneven and in any order, but the rows of a picture may not.
    nearest = np.abs(even[:, None] - at).argmin(axis=1)
    return found.values[nearest], low, high


def _transect(cube: SpectralCube, line: Doubles, place: Placement, progress: Progress) -> Transect:
    unit = str(place.units[-1])
    height, width = place.scale.tolist() if unit != PIXEL else (1.0, 1.0)
    return transect(cube, line, pixel_size=(height, width), unit=unit, progress=progress)
