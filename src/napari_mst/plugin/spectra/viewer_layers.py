"""Gathers the spectra of the layers of a viewer.

Also restores the spectra of a file where they were measured, as picks and as regions.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Points, Shapes

from napari_mst.analysis.band_maps import formula_presets
from napari_mst.analysis.regions import Region, point_spectrum, region_spectrum
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.jobs.task import Start
from napari_mst.plugin.spectra.layer_rows import (
    Group,
    LabelRows,
    LayerRows,
    PickRows,
    ShapeRows,
    add_regions,
    group_of,
    region_layers,
)
from napari_mst.plugin.spectra.reader import Identity, Reader, errors_of, placed, spectra_of
from napari_mst.plugin.spectra.resolve import Snapshot
from napari_mst.plugin.spectra.rows import FileRows
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import (
    PLACE,
    active_cube_layer,
    cube_at,
    name_of_cube,
    selection_kept,
    shown_cube_layers,
)
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.plugin.viewer.sharing import ViewerHelper

SAME = 1e-5
"""Largest relative difference of equal spectra, as text files and float32 round."""
PAINTED = frozenset(["data", "paint", "labels_update"])
"""napari's names of the events that may change the pixels of labels."""
CHANGES = PAINTED.union(
    PLACE,
    # the list of layers
    ("inserted", "removed", "reordered"),
    # one layer: "metadata" is another page of a stack
    ("visible", "name", "metadata", "features"),
    # its colours
    ("face_color", "current_face_color", "edge_color", "current_edge_color", "colormap"),
)
"""Events that may change curves."""
KINDS: dict[type[Layer], type[LayerRows]] = {
    Points: PickRows,
    Shapes: ShapeRows,
    Labels: LabelRows,
}
"""Kinds of rows by type of layer."""


class ViewerLayers(ViewerHelper):
    """The layers of one viewer, and everything read from them.

    It gives new picks and regions names and colours. Results of a cube are kept while it is shown.

    Attributes
    ----------
    reader
        Reads regions and prediction intervals.
    history
        Remembers the changes of the picks.
    files
        The rows of spectra without a place, such as spectra from files.
    position
        The world position of the mouse; None while it is not over the image.
    """

    def __init__(self, viewer: ViewerModel, start_reading: Start) -> None:
        super().__init__(viewer)
        self.reader = Reader(start_reading)
        self.history = picks.History()
        self.files = FileRows()
        self.position: Position | None = None
        self._rows = WeakKeyDictionary[Layer, LayerRows]()
        self._groups: Sequence[Group] = ()
        self._presets: tuple[Identity | None, dict[str, str]] = (None, {})

    def forget(self) -> None:
        """Release everything that was read."""
        self.reader.forget()
        self._groups = ()

    @property
    def points(self) -> Points | None:
        """The layer of the picks, if there is one."""
        return picks.picks_layer(self.viewer)

    def rows_of(self, layer: Layer | None) -> Any:
        """Return the rows of *layer*; None for other kinds of layers."""
        for base, kind in KINDS.items():
            if isinstance(layer, base):
                if layer not in self._rows:
                    self._rows[layer] = kind(layer)
                return self._rows[layer]
        return None

    # ------------------------------------------------------------ listening

    def layer_of(self, event: Any) -> Layer | None:
        """Return the layer that an event concerns; None if it concerns the list of layers."""
        # The list of layers passes on the events of each layer, with the index of the layer.
        index = getattr(event, "index", None)
        is_one = isinstance(index, int) and 0 <= index < len(self.viewer.layers)
        # The index of a removed layer may belong to another layer by now.
        return self.viewer.layers[index] if is_one and event.type != "removed" else None

    def is_stale_after(self, event: Any) -> bool:
        """True if *event* may change curves. Names and colours new picks and regions, too."""
        layer = self.layer_of(event)
        rows = self.rows_of(layer)
        # Emitted at every redraw, but napari has no other event for dragged shapes and undone
        # paint.
        if event.type == "set_data":
            return rows is not None and layer is not self.points
        if event.type not in CHANGES:
            return False
        if isinstance(rows, LabelRows):
            rows.changed(has_other_pixels=event.type in PAINTED)
        if event.type == "data" and rows is not None:
            self._on_data(event, rows)
        if event.type == "inserted":
            self._tell_apart(event.value)
            # If these are picks from a file, the first undo goes back to their present state.
            self.history.record(self.points)
        return True

    def _on_data(self, event: Any, rows: LayerRows) -> None:
        action = getattr(event, "action", None)
        if action == "removed":
            rows.removed(set(event.data_indices))
        # Picks restored by an undo have their names and colours already.
        if action != "added" or self.history.is_undoing:
            return
        # napari gives a new point the colour and the name of the previous one.
        if rows.layer is self.points:
            picks.tell_apart(rows.layer, event.data_indices)
            picks.name_all(rows.layer, event.data_indices)
        self._tell_apart(rows.layer)

    def _tell_apart(self, layer: Layer) -> None:
        """Give the regions of *layer* unique colours, which no pick has either."""
        rows = self.rows_of(layer)
        if isinstance(rows, ShapeRows):
            rows.tell_apart(np.empty((0, 4)) if self.points is None else self.points.face_color)

    def record(self) -> None:
        """Name unnamed picks, and remember all picks as a step to undo."""
        if self.points is not None:
            picks.name_all(self.points)
            self.history.record(self.points)

    # ------------------------------------------------------------ gathering

    def gather(self, last: Snapshot, reference: Image | None) -> dict[str, Any]:
        """Return the present rows as changes to *last*; slow results follow later."""
        viewer = self.viewer
        layers = shown_cube_layers(viewer)
        # A hidden reference comes last.
        if layers and reference is not None and reference not in layers:
            layers = [*layers, reference]
        readings = [spectra_of(on, last.settings.spread) for on in layers]
        if layers and reference is not None:
            # Errors come last, as `Group` expects them after the cubes.
            readings.append(errors_of(layers[0], reference))
        every = self.shown_rows() if layers else []
        tasks = {rows: [rows.tasks(reading, viewer) for reading in readings] for rows in every}
        # One list for all, as the reader forgets everything that is not in it.
        columns = chain.from_iterable(tasks.values())
        self.reader.ask([task for column in columns for task in column.values()])
        latest = self.reader.latest
        self._groups = [
            group_of(
                rows, [rows.found(latest, each) for each in columns], len(layers), self._groups
            )
            for rows, columns in tasks.items()
        ]
        entries = [entry for group in self._groups for entry in group.entries]
        entries += self.files.gather(layers)
        # A table of another size is rebuilt without a selection, as rows have moved.
        is_same_table = len(entries) == len(last.entries)
        is_same_table &= (reference is not None) == last.has_reference
        return {
            "entries": entries,
            "chosen": last.chosen if is_same_table else (),
            "cube_names": tuple(layer.name for layer in layers),
            "quantities": tuple(cube_at(layer).quantity for layer in layers),
            "has_reference": reference is not None,
        }

    def shown_rows(self) -> list[Any]:
        """List the rows of the visible picks and of each visible layer of regions."""
        drawn = [self.points, *region_layers(self.viewer)]
        return [self.rows_of(layer) for layer in drawn if layer is not None and layer.visible]

    def pixel_on(self, layer: Image | None) -> tuple[int, int] | None:
        """Return the pixel (row, column) of *layer* under the mouse; None outside."""
        if layer is None or self.position is None or self.viewer.dims.ndisplay != 2:
            return None
        return pixel_at(layer, self.position)

    def presets_of(self, layer: Image | None) -> dict[str, str]:
        """Return each band, ratio and index of the cube *layer*, with a description."""
        if layer is None:
            return {}
        cube = cube_at(layer)
        # Cached, as it goes through all indices, and docks ask at each move of the mouse.
        if self._presets[0] != Identity(cube.data):
            bands = {f"r{at:g}": f"The band at {at:g} {cube.unit}" for at in cube.wavelengths}
            self._presets = Identity(cube.data), bands | dict(formula_presets(cube))
        return self._presets[1]

    def read_live(self, window: int) -> tuple[Spectrum | None, ...]:
        """Return the spectra of squares of *window* pixels under the mouse; none in 3-D."""
        live = list[Spectrum | None]()
        if self.position is not None and self.viewer.dims.ndisplay == 2:
            for layer in shown_cube_layers(self.viewer):
                pixel, cube = pixel_at(layer, self.position), cube_at(layer)
                spectrum = pixel and point_spectrum(
                    cube, *pixel, window, cube_name=name_of_cube(layer)
                )
                live.append(spectrum and placed(spectrum, cube))
        return tuple(live)


def restore(viewer: ViewerModel, spectra: Sequence[Spectrum]) -> list[Spectrum]:
    """Put *spectra* of the active cube back as picks and polygons, and return the others.

    A spectrum is put back only if the cube still has its values, so that the plot shows exactly
    the saved spectrum.
    """
    layer = active_cube_layer(viewer)
    if layer is None:
        return list(spectra)
    cube = cube_at(layer)
    # A dictionary keeps the order, and finds one of thousands quickly.
    there = dict.fromkeys(spectrum for spectrum in spectra if _is_of(cube, spectrum))
    for spectrum in there:
        if spectrum.origin.row is not None:
            _pin(viewer, layer, spectrum)
    drawn = [spectrum for spectrum in there if spectrum.origin.row is None]
    if drawn:
        with selection_kept(viewer):
            shapes = add_regions(viewer, layer)
        tints = [spectrum.colour or picks.PALETTE[0] for spectrum in drawn]
        outlines = [np.array(spectrum.origin.vertices) for spectrum in drawn]
        shapes.add_polygons(outlines, edge_color=tints)
        shapes.features = {"name": [spectrum.name for spectrum in drawn]}
    return [spectrum for spectrum in spectra if spectrum not in there]


def _is_of(cube: SpectralCube, spectrum: Spectrum) -> bool:
    """True if *cube* has the values of *spectrum* at the place where it was measured."""
    origin, shape = spectrum.origin, cube.shape[1:]
    if not np.array_equal(cube.wavelengths, spectrum.wavelengths):
        return False
    try:
        if origin.row is not None and origin.column is not None:
            region = Region.of_window(origin.row, origin.column, shape, origin.window)
        else:
            region = Region.of_polygon(origin.vertices, shape)
    except SpectrumError:  # off the image, or without a place
        return False
    there = region_spectrum(cube, region, spread="").values
    return np.allclose(there, spectrum.values, rtol=SAME, atol=SAME, equal_nan=True)


def _pin(viewer: ViewerModel, layer: Image, spectrum: Spectrum) -> None:
    origin: Any = spectrum.origin
    points = picks.picks_layer(viewer) or picks.add_picks(viewer, layer)
    pixel = (origin.row, origin.column)
    # The same file may be opened twice.
    is_added = picks.add(points, layer, pixel, origin.window, spectrum.name)
    if is_added and spectrum.colour:
        picks.recolour(points, len(points.data) - 1, spectrum.colour)
    picks.set_next(points, 1)
