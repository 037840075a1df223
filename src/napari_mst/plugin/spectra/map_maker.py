"""Makes maps of a cube as layers: the choice of map, its number and formula, and its runs."""

import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from napari.layers import Image, Layer
from napari.utils.colormaps import DirectLabelColormap

from napari_mst.analysis.classification import MOST_CLASSES
from napari_mst.analysis.map_kind import ESTIMATED, Map, MapKind, regions_between
from napari_mst.analysis.maps import MAPS
from napari_mst.base.arrays import Array
from napari_mst.base.errors import SpectrumError, refusal
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import METADATA_KEY, LayerTuple
from napari_mst.cube.lazy import coarse_of
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.jobs.task import Latest, Start, Task, ignore
from napari_mst.plugin.spectra.resolve import Marker
from napari_mst.plugin.spectra.shown_spectra import ShownSpectra
from napari_mst.plugin.viewer.layer_photos import (
    MAP,
    LayerPhoto,
    hide_maps,
    is_made,
    photo_layers,
)
from napari_mst.plugin.viewer.layers import (
    MAP_CUBE_KEY,
    MAP_KEY,
    PHOTO_KEY,
    UNIT_KEY,
    active_cube_layer,
    cube_at,
    cube_layer,
    cube_layer_in,
    cube_of,
    name_of_cube,
    put_on_top,
    selection_kept,
    weak,
)
from napari_mst.plugin.viewer.placement import Placement

MISSING = {
    "spectra": "Keep a spectrum of each class first: click on the image.",
    "reference": "Choose a reference first: Compare, on the page Spectra.",
    "photo": "First open the photo that the cube was made from.",
}
"""Advice for a map that lacks something, by the name of its argument."""
ITSELF = "This cube is the reference itself. Choose another one."
NO_CUBE = "There is no cube to make a map of. Select the layer of one."
LABELS_OPACITY = 0.6
"""The image stays visible below labels."""

GREY = "#888888"
"""The colour of a class whose spectrum has none."""


LINES = (("A", "#4d8fea"), ("B", "#f58231"), ("C", "#3cb44b"), ("D", "#e6194b"), ("E", "#911eb4"))
"""Names and colours of the bands of a formula, in the order of the formula."""


COMPUTED = "The cube of a photo that was only opened is computed for this map, which takes a while."
"""The sentence shown while a map computes the whole cube of a photo that was only opened."""


class CubeLayer(NamedTuple):
    """The layer of a cube: its name, its place, and a reference that does not keep it alive."""

    name: str
    placement: Placement
    cube: "weakref.ref[Image]"


def make_map(
    kind: MapKind,
    cube: SpectralCube,
    asked: Mapping[str, Any],
    on: CubeLayer,
    progress: Progress,
) -> tuple[list[LayerTuple], str]:
    """Do the job: make the layers of a map *on* its cube, the topmost last, and its note.

    Each layer is a plane, as a stack would share the slider with the wavelengths.
    """
    # Photos are read here, on the thread of the job.
    read = {
        name: thing.cut(thing.read()) if isinstance(thing, LayerPhoto) else thing
        for name, thing in asked.items()
    }
    made = kind.make(cube, **read, progress=progress)
    if kind.content == "cube":
        layers = [cube_layer(made.to_cube(), f"{kind.title}: {on.name}", on.placement)]
    else:
        layers = [_layer(made, title, pixels, on) for title, pixels in made.planes]
    return layers[::-1], made.note


def _layer(made: Map, title: str, pixels: Array, on: CubeLayer) -> LayerTuple:
    """Return the layer of one plane."""
    kind = made.kind
    cube = replace(made, data=pixels, titles=(title,)).to_cube()
    metadata = {UNIT_KEY: kind.unit or title, MAP_KEY: on.cube, MAP_CUBE_KEY: cube}
    arguments = {
        "name": f"{title}: {on.name}",
        "metadata": {METADATA_KEY: MAP, **metadata},
        **on.placement.image_kwargs(),
    }
    pixels = cube.data[0]  # a copy, which the layer and its cube share
    if kind.content == "labels":
        return pixels, {**arguments, **_label_look(made)}, "labels"
    # Without limits napari would search the pixels for them, which is slow.
    arguments["contrast_limits"] = kind.limits_of(pixels)
    return pixels, {**arguments, "colormap": kind.colormap}, "image"


def _label_look(made: Map) -> dict[str, Any]:
    """Return the names of the labels 1, 2, ..., and their colours if the spectra have some."""
    names = {"index": list(range(len(made.names) + 1)), "name": ["", *made.names]}
    look: dict[str, Any] = {"features": names, "opacity": LABELS_OPACITY}
    if made.tints:
        table: dict[int | None, str] = {None: "transparent", 0: "transparent"}
        table |= {number: tint or GREY for number, tint in enumerate(made.tints, 1)}
        look["colormap"] = DirectLabelColormap(color_dict=table)
        # The first use makes napari compile the colour map, which takes seconds: here, on the
        # thread of the job.
        look["colormap"].map(made.data[:1, :1])
    return look


class MapMaker:
    """Makes the chosen map, and updates its layer when a band of its formula is moved.

    Attributes
    ----------
    kind
        The chosen map, a row of `MAPS`.
    number
        The number that the map asks for.
    progress
        The finished share of the run, 0-1.
    """

    def __init__(self, model: ShownSpectra, start: Start) -> None:
        self._model = model
        self._latest = Latest(start)
        # Each map keeps its own text.
        self._texts = dict[str, str]()
        # The notes of the chosen map, by the layers of its source cubes.
        self._notes = WeakKeyDictionary[Layer, str]()
        self._source_ref = self._selected_ref = weak(None)
        self._last: Any = None
        self.choose(next(iter(MAPS)))

    # ------------------------------------------------------------ choices

    def choose(self, name: str) -> None:
        """Choose the map *name* of `MAPS`, with its default number."""
        self.kind = MAPS[name]
        number = self.kind.number
        self.number = 0.0 if number is None else number.default
        self.progress = 0.0
        self._notes.clear()
        # The layers of another map do not follow the lines of this one. Weak, so that deleted maps
        # are freed.
        self._drawn: list[weakref.ref[Any]] = []
        self._is_moved = False
        self._model.publish(problem="")

    @property
    def source(self) -> Image | None:
        """The layer of the cube that maps are made of: the selected cube, or the chosen one.

        A cube that a map has made is selected to show it, but becomes the source of other maps only
        when the user chooses it.
        """
        chosen: Image | None = self._source_ref()
        is_there = self._model.has(chosen) and cube_of(chosen) is not None
        return chosen if is_there else active_cube_layer(self._model.viewer)

    @source.setter
    def source(self, layer: Image | None) -> None:
        self._source_ref = weak(layer)
        self._model.publish()

    def follow_selection(self) -> None:
        """Take the cube that the user has just selected as the source.

        A new picture of a cube is selected for a moment, which changes nothing. Neither do layers
        without a cube, such as picks, lines and maps.
        """
        active: Any = self._model.viewer.layers.selection.active
        selected = active and (cube_layer_in(active.metadata) or active)
        if cube_of(selected) is not None and selected is not self._selected_ref():
            self._selected_ref = self._source_ref = weak(selected)

    @property
    def _cube(self) -> SpectralCube | None:
        return cube_of(self.source)

    @property
    def presets(self) -> Mapping[str, str]:
        """The texts to choose from, each with a description; none without a cube."""
        cube, text = self._cube, self.kind.text
        return {} if cube is None or text is None else text.presets(cube)

    @property
    def text(self) -> str:
        """The text that the map asks for; by default the first preset."""
        chosen = self._texts.get(self.kind.name)
        return next(iter(self.presets), "") if chosen is None else chosen

    @text.setter
    def text(self, text: str) -> None:
        self._texts[self.kind.name] = text
        self._notes.clear()
        self._model.publish()

    def _bands(self) -> Mapping[str, float]:
        """Return the wavelength of each band of the formula; raises `SpectrumError`."""
        cube, text = self._cube, self.kind.text
        if cube is None or text is None or text.bands is None:
            return {}
        return text.bands(cube, self.text)

    @property
    def markers(self) -> list[Marker]:
        """The lines in the plot, one at each band of the formula."""
        with suppress(SpectrumError):
            places = zip(cycle(LINES), self._bands().values(), strict=False)
            return [Marker(*look, wavelength) for look, wavelength in places]
        return []

    @property
    def about(self) -> str:
        """Sentences about the index, its bands, and how far the map can be trusted."""
        layer, cube = self.source, self._cube
        if layer is None or cube is None:
            return ""
        sentences = []
        with suppress(SpectrumError):
            bands = (f"{name} at {at:.4g} {cube.unit}" for name, at in self._bands().items())
            if parts := ", ".join(filter(None, (self.presets.get(self.text, ""), *bands))):
                sentences.append(f"{parts}.")
        is_guess = self.kind.is_of_spectra and cube.provenance.model
        # The note of a finished map is more exact.
        sentences.append(self._notes.get(layer) or (ESTIMATED if is_guess else ""))
        if self.is_busy and coarse_of(cube.data) is not cube.data:
            sentences.append(COMPUTED)
        return " ".join(filter(None, sentences))

    def move_line(self, number: int, wavelength: float) -> None:
        """Move a band of the map; the layers of the last run follow it."""
        text = self.kind.text
        if self._cube is not None and text is not None and text.moved is not None:
            self.text = text.moved(self.text, number, wavelength)
        # The run for the previous place ends first; otherwise nothing would show during a move.
        self._is_moved = self.is_busy
        if not self._is_moved:
            self._start()

    # ------------------------------------------------------------ runs

    @property
    def is_live(self) -> bool:
        """True while the layers of the last run follow the lines."""
        return bool(self._drawn) and all(on() in self._model.viewer.layers for on in self._drawn)

    @property
    def lacks(self) -> str:
        """A sentence on what the chosen map lacks; "" if it can be made."""
        cube = self._cube
        if cube is None:
            return NO_CUBE
        return refusal(self._asked, cube)

    def run(self) -> None:
        """Make the chosen map as new layers. Raises `SpectrumError` if it `lacks` something."""
        # With no layer to follow, `_on_made` adds new ones. Enter and Run make one map.
        source = self.source
        asked = source and (weak(source), name_of_cube(source), self.text)
        if asked != self._last:
            self._last, self._drawn = asked, []
        self._start()

    @property
    def is_busy(self) -> bool:
        """True while a map is being made."""
        return self._latest.is_busy

    def cancel(self) -> None:
        """Cancel the run, if there is one."""
        if self.is_busy:
            self._is_moved = False
            self._latest.cancel()
            self._model.publish()

    def _start(self) -> None:
        if self.lacks:
            raise SpectrumError(self.lacks)
        layer: Any = self.source
        on = CubeLayer(name_of_cube(layer), Placement.of(layer), weakref.ref(layer))
        cube, kind = cube_at(layer), self.kind
        run = partial(make_map, kind, cube, self._asked(cube), on)
        # These layers are updated even if the user chooses another map during the run.
        on_made = partial(self._on_made, kind, on, self._drawn)
        self._model.intend(problem="")
        self._latest.run(Task(run, on_made, self._model.fail, self._on_end, self._on_progress))
        self._on_progress(0.0)

    def _on_end(self) -> None:
        is_moved, self._is_moved = self._is_moved, False
        self._start() if is_moved else self._model.publish()

    def _on_progress(self, share: float) -> None:
        self.progress = share
        self._model.publish()

    def _asked(self, cube: SpectralCube) -> dict[str, Any]:
        """Return the arguments for the map of *cube*, by name.

        Raises `SpectrumError` if something is missing.
        """
        kind = self.kind
        kind.check(cube)
        self._bands()  # refuses a formula that cannot be read
        asked: dict[str, Any] = {}
        if kind.number is not None:
            asked[kind.number.name] = self.number
        if kind.text is not None:
            asked[kind.text.name] = self.text
        if kind.needs == "spectra":
            asked[kind.needs] = self._spectra()
        elif kind.needs == "photo":
            asked[kind.needs] = self._photo_of(cube)
        elif kind.needs == "reference":
            if self._model.reference is self.source:
                raise SpectrumError(ITSELF)
            asked[kind.needs] = cube_of(self._model.reference)
        if kind.needs is not None and asked[kind.needs] is None:
            raise SpectrumError(MISSING[kind.needs])
        return asked

    def _photo_of(self, cube: SpectralCube) -> LayerPhoto | None:
        """Return the photo that *cube* was made from, else the topmost of its size.

        None if there is none.
        """
        viewer = self._model.viewer
        # An image made from the photo or the cube cannot serve as their photo.
        taken = [photo for photo in photo_layers(viewer) if photo.rgb and not is_made(photo)]
        photos = [LayerPhoto.of(photo, viewer.dims.point) for photo in taken]
        own = getattr(self.source, "metadata", {}).get(PHOTO_KEY, ignore)()
        # The slider may show another page by now, and another photo may have the same size.
        if own is not None and own.layer() in taken:
            photos.insert(0, own)
        return next((photo for photo in photos if photo.shape == cube.shape[1:]), None)

    def _spectra(self) -> list[Spectrum] | None:
        """Return the spectra on the selected cube by which pixels are classified."""
        shown = self._model.shown
        # Spectra of classes are left out, as classes come from such spectra.
        measured = [entry for entry in shown if entry.layer is None or not is_made(entry.layer)]
        # One more than the maximum is enough for a refusal; thousands would take seconds.
        entries = measured[: MOST_CLASSES + 1]
        return [entry.first for entry in entries if entry.spectra[0] is not None] or None

    # ------------------------------------------------------------ thresholds

    @property
    def measured(self) -> Image | None:
        """The selected map, an image with one value per pixel."""
        active = self._model.viewer.layers.selection.active
        is_map = isinstance(active, Image) and active.ndim == 2 and not active.rgb
        return active if is_map and not active.multiscale else None

    def number_above(self, least: float) -> None:
        """Number the regions of the selected map with values of at least *least*, as labels."""
        image = self.measured
        if image is not None:
            pixels, use = image.data, partial(self._on_numbered, weakref.ref(image))
            job = Task(
                lambda _: regions_between(np.asarray(pixels), least),
                use,
                self._model.fail,
                self._model.publish,
            )
            self._latest.run(job)

    def _on_numbered(self, on: "weakref.ref[Image]", labels: Array) -> None:
        image: Any = on()
        if not self._model.has(image):  # deleted meanwhile
            return
        viewer = self._model.viewer
        name = f"regions of {image.name}"
        if name in viewer.layers:
            viewer.layers[name].data = labels
            return
        with selection_kept(viewer):
            place = Placement.of(image).image_kwargs()
            viewer.add_labels(labels, name=name, opacity=LABELS_OPACITY, **place)

    def _on_made(
        self,
        kind: MapKind,
        on: CubeLayer,
        followed: Sequence[weakref.ref[Any]],
        result: tuple[list[LayerTuple], str],
    ) -> None:
        made, note = result
        # The user may have chosen another map during the run.
        is_chosen, layer = kind is self.kind, on.cube()
        if is_chosen and layer is not None:
            self._notes[layer] = note
        left: Sequence[Any] = [there() for there in followed]
        drawn = [layer for layer in left if layer in self._model.viewer.layers]
        # A line may have been moved on another cube, whose planes do not fit these layers.
        if [layer.data.shape for layer in drawn] == [data.shape for data, *_ in made]:
            for layer, (data, look, _) in zip(drawn, made, strict=True):
                title = layer.metadata[UNIT_KEY]
                layer.metadata, layer.data = look["metadata"], data
                layer.name = layer.name.replace(title, layer.metadata[UNIT_KEY])
                layer.contrast_limits = look["contrast_limits"]
            return
        added: list[weakref.ref[Any]] = []
        if kind.text is not None and kind.text.moved is not None and is_chosen:
            self._drawn = added
        self._add(made, on, added)

    def _add(
        self, made: Sequence[LayerTuple], on: CubeLayer, added: list[weakref.ref[Any]]
    ) -> None:
        """Add layers above all images, append them to *added*, and select the visible one.

        Each blocks the main thread for a tenth of a second, so they are added one by one.
        """
        first, *rest = made
        viewer = self._model.viewer
        source = on.cube()
        is_still_selected = self.source is source
        # Only the last of several layers, which shows the first plane, stays visible.
        hide_maps(viewer)
        with selection_kept(viewer):
            layer = viewer.add_layer(Layer.create(*first))
        put_on_top(viewer, layer)
        added.append(weakref.ref(layer))
        if rest:
            add_rest = partial(self._add, rest, on, added)
            idle = Task(ignore, lambda _: add_rest(), self._model.fail, self._on_end)
            self._latest.run(idle)
        elif is_still_selected:
            # napari scrolls to it, unless the user has selected another cube during the run.
            viewer.layers.selection.active = layer
            self.source = source
