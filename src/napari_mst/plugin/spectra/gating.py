"""Gating without a window: the scatter of two values of a cube, and the labels drawn in it.

    gating = model.gating
    gating.x, gating.y = "r550", "PC 1"
    gating.gate([(0.1, 0.2), (0.4, 0.2), (0.3, 0.6)])  # these pixels become a label

Letters: H rows, W columns; N cells along an axis of the scatter.
"""

import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Image, Labels
from napari.utils.colormaps import CyclicLabelColormap
from numpy.typing import ArrayLike, NDArray

from napari_mst.analysis.regions import Region
from napari_mst.analysis.scatter import Scatter, scatter
from napari_mst.base.arrays import Array, Mask
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.jobs.task import Latest, Start, Task
from napari_mst.plugin.spectra.map_maker import LABELS_OPACITY, MapMaker
from napari_mst.plugin.spectra.reader import Identity, Reader, Reading
from napari_mst.plugin.spectra.shown_spectra import ShownSpectra
from napari_mst.plugin.viewer.layers import MAP_KEY, cube_at, cube_layer_in, selection_kept
from napari_mst.plugin.viewer.picks import COLOURS, hexes
from napari_mst.plugin.viewer.placement import Placement

ROLE = "gates"
"""Marks the layer of the labels in its metadata."""
MOST_GATES = 255
"""Labels that fit into the 8 bits of their layer."""
MOST_LABELS = 50
"""Most labels of a layer that get colours in the scatter; a segmentation may have thousands."""
STEPS = 10
"""Most gates that can be taken back."""
TINTS = np.vstack([np.zeros(4), np.roll(COLOURS, -3, axis=0)])
"""The colours of labels 0, 1, 2, ...: the colours of picks, shifted by three."""
COMPONENT = "A principal component of the cube"
COMPONENTS = ("PC 1", "PC 2", "PC 3")
SHARES = (0.4, 0.75)
"""Places of the first two bands within the wavelengths."""
NO_SCATTER = "There is no scatter yet. Wait for it, or choose other axes."


class Highlight(NamedTuple):
    """The pixels of a pick or a region in the scatter: their colour, and their density (N, N)."""

    colour: str
    density: NDArray[np.int_]


class Gating:
    """Keeps the scatter of the source cube up to date with the chosen axes.

    Attributes
    ----------
    scatter
        The scatter; None while it is being computed, and without a cube.
    """

    def __init__(self, model: ShownSpectra, maps: MapMaker, start: Start) -> None:
        self.scatter: Scatter | None = None
        self._model, self._maps = model, maps
        self._latest, self._gate = Latest(start), Latest(start)
        self._reader = Reader(start)
        self._reader.read_more.connect(model.publish)
        self._texts: dict[int, str] = {}
        self._key: Any = None
        self._past: list[tuple[weakref.ref[Labels], Array]] = []

    # ------------------------------------------------------------ choices

    @property
    def presets(self) -> Mapping[str, str]:
        """The values to choose from, each with a description; none without a cube."""
        return dict.fromkeys(COMPONENTS, COMPONENT) | self._model.layers.presets_of(
            self._maps.source
        )

    def _text(self, number: int) -> str:
        source = self._maps.source
        text = self._texts.get(number, "")
        if text or source is None:
            return text
        every = np.sort(cube_at(source).wavelengths)
        return f"r{every[round(SHARES[number] * (len(every) - 1))]:g}"

    @property
    def x(self) -> str:
        """The value along the horizontal axis: a formula, an index, or a component."""
        return self._text(0)

    @x.setter
    def x(self, text: str) -> None:
        self._texts[0] = text
        self.update()

    @property
    def y(self) -> str:
        """The value along the vertical axis."""
        return self._text(1)

    @y.setter
    def y(self, text: str) -> None:
        self._texts[1] = text
        self.update()

    # ------------------------------------------------------------ the scatter

    @property
    def is_busy(self) -> bool:
        """True while the scatter or the pixels of a gate are being computed."""
        return self._latest.is_busy or self._gate.is_busy

    def update(self) -> None:
        """Compute the scatter again if its cube or its axes have changed."""
        source = self._maps.source
        cube = None if source is None else cube_at(source)
        key = None if cube is None else (Identity(cube.data), self.x, self.y)
        if key == self._key:
            return
        self._key, self.scatter = key, None
        self._latest.cancel()
        if cube is not None:
            run = partial(_scatter, cube, self.x, self.y)
            model = self._model
            use = partial(setattr, self, "scatter")
            self._latest.run(Task(run, use, model.fail, model.publish))

    def forget(self) -> None:
        """Release all results."""
        self._latest.cancel()
        self._reader.forget()
        self._key = self.scatter = None

    @property
    def highlights(self) -> list[Highlight]:
        """The visible picks and regions, in their colours; more may follow after `publish`."""
        found, source = self.scatter, self._maps.source
        if found is None or source is None:
            return []
        reading = Reading(
            source,
            ("scatter", Identity(found.cells)),
            found.density,
            partial(_densities, found),
        )
        viewer = self._model.viewer
        tasks = {rows: rows.tasks(reading, viewer) for rows in self._model.layers.shown_rows()}
        self._reader.ask([task for each in tasks.values() for task in each.values()])
        highlights: list[Highlight] = []
        for rows, each in tasks.items():
            # Sorted by number, as the colours are.
            read = sorted(rows.found(self._reader.latest, each).items())
            numbers = np.array([number for number, _ in read], dtype=int)
            colours = hexes(np.asarray(rows.rgba(numbers), float).reshape(-1, 4))
            densities = (density for _, density in read)
            highlights += map(Highlight, colours, densities)
        return highlights

    @property
    def pointed(self) -> tuple[float, float] | None:
        """The place of the pixel under the mouse in the scatter; None if there is none."""
        pixel = self._model.layers.pixel_on(self._maps.source)
        return None if pixel is None or self.scatter is None else self.scatter.place(*pixel)

    # ------------------------------------------------------------ gates

    def gate(self, outline: ArrayLike) -> None:
        """Make a label of the pixels inside an *outline* (n, 2) of (x, y) in the scatter.

        Raises
        ------
        SpectrumError
            If there is no scatter, or the layer is full.
        """
        found, source = self.scatter, self._maps.source
        if found is None or source is None:
            raise SpectrumError(NO_SCATTER)
        layer = self._layer_on(source)
        if layer is not None and layer.data.max() >= MOST_GATES:
            raise SpectrumError(f"Expected at most {MOST_GATES} gates. Remove their layer first.")
        use = partial(self._on_gate, weakref.ref(source))
        job = Task(lambda _: found.inside(outline), use, self._model.fail, self._model.publish)
        self._gate.run(job)

    def take_back(self) -> None:
        """Undo the last gate."""
        while self._past:
            on, before = self._past.pop()
            layer = on()
            if layer is not None and self._model.has(layer):
                layer.data = before
                return

    @property
    def can_take_back(self) -> bool:
        """True if there is a gate to undo."""
        return any(self._model.has(on()) for on, _ in self._past)

    def _layer_on(self, source: Image) -> Labels | None:
        """Return the layer of the gates of the cube *source*; None if there is none."""
        for layer in self._model.viewer.layers:
            is_gates = layer.metadata.get(METADATA_KEY) == ROLE
            if is_gates and cube_layer_in(layer.metadata, MAP_KEY) is source:
                return layer if layer.data.shape == cube_at(source).shape[1:] else None
        return None

    def _on_gate(self, on: "weakref.ref[Image]", inside: Mask) -> None:
        source: Any = on()
        if not self._model.has(source):  # deleted meanwhile
            return
        layer = self._layer_on(source)
        before = np.zeros(inside.shape, np.uint8) if layer is None else layer.data
        gates, number = before.copy(), int(before.max()) + 1
        np.putmask(gates, inside, number)
        if layer is not None:
            layer.data = gates
        else:
            viewer = self._model.viewer
            with selection_kept(viewer):
                layer = viewer.add_labels(
                    gates,
                    name=f"Gates: {shown(source.name, 40)}",
                    opacity=LABELS_OPACITY,
                    colormap=CyclicLabelColormap(colors=TINTS),
                    metadata={METADATA_KEY: ROLE, MAP_KEY: weakref.ref(source)},
                    **Placement.of(source).image_kwargs(),
                )
        self._past = [*self._past, (weakref.ref(layer), before)][-STEPS:]
        count = int(np.count_nonzero(inside))
        self._model.say(
            f"Label {number}: {count:,} pixels, {count / inside.size:.1%} of the image."
        )


def _scatter(cube: SpectralCube, x: str, y: str, progress: Progress) -> Scatter:
    found = scatter(cube, x, y, progress=progress)
    # Counted here, as counting 12 million pixels would block the main thread.
    _ = found.whole_density
    return found


def _densities(found: Scatter, labels: Array, progress: Progress) -> dict[int, NDArray[np.int_]]:
    """Return the density of each of the first labels except 0."""
    sizes = np.bincount(np.maximum(labels, 0).ravel())
    numbers = np.flatnonzero(sizes[1:])[:MOST_LABELS] + 1
    densities = {}
    for number in numbers.tolist():
        progress.check()
        densities[number] = found.density(Region.of_label(labels, number))
    return densities
