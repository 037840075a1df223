"""Adapts a cube whenever something else is known: at once for the screen, then all of it.

marks on picks -> `follow` -> `look` -> a coarse cube in its layer -> `applied` -> the exact cube in
the same layer. A newer run takes the place of an older one, of which nothing is heard any more.

Until the whole cube is there, a coarse one lies on its place. Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from psygnal import Signal

from napari_mst.adaptation.adapting import Learnt, applied, learn, with_history
from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.adaptation.parts import Part, Parts, photo_of
from napari_mst.arrays import Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.errors import PhotoError
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.plugin.jobs.job import Job, Latest, Start
from napari_mst.plugin.spectra.known_layers import KnownLayers
from napari_mst.plugin.spectra.reader import Identity
from napari_mst.plugin.spectra.scene import SpectraScene
from napari_mst.plugin.spectra.snapshot import KnownState
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.photos import LayerPhoto, photo_layers
from napari_mst.watch import Watch

NOTHING_KNOWN = "Nothing is known any more: the cube is as it was."

PIXELS = 1 << 16
"""Pixels of a coarse cube for few known spectra; each costs as much as one of the whole cube."""
_BANDS = 32  # known spectra whose kernel takes about as long as all else that is done for a pixel


class Ground:
    """All that does not depend on what is known: a cube, its photo, and parts of both.

    The photo is one of *photos*, and is read when it is first needed, on the thread of a job.
    """

    def __init__(self, cube: SpectralCube) -> None:
        self.cube = cube
        self.photos: tuple[LayerPhoto, ...] = ()

    @cached_property
    def photo(self) -> Photo:
        """The photo of the cube. Raises `PhotoError` if there is none."""
        return photo_from(self.photos, self.cube)

    @cached_property
    def parts(self) -> Parts:
        """Parts of the cube. Raises `PhotoError` as well."""
        return Parts(self.cube, self.photo)


def look(
    ground: Ground, known: tuple[KnownSpectrum, ...], watch: Watch
) -> tuple[Learnt, SpectralCube]:
    """Learn from *known* spectra, and adapt as many pixels of the cube as can be had at once.

    They lie in the middle of the pixels of an image (h, w) that covers the cube.
    """
    cube, parts = ground.cube, ground.parts
    watch.check()
    learnt = learn(cube, known)
    pixels = PIXELS * _BANDS / (_BANDS + len(learnt.process.points))
    step = max(1, int(np.ceil(np.sqrt(cube.shape[1] * cube.shape[2] / pixels))))
    rows, columns = (range(min(step // 2, side - 1), side, step) for side in cube.shape[1:])
    numbers = parts.adapted(learnt.process, Part(rows, columns))
    preview = with_history(cube, numbers, learnt.adaptation, "")
    past = replace(preview.provenance, is_preview=True)
    return learnt, replace(preview, provenance=past, quality=None)


def width(cube: SpectralCube, watch: Watch) -> Singles:
    """Return the width (H, W) of the error band around *cube*."""
    # It may import torch, which takes seconds: here, where that happens on another thread.
    from napari_mst.adaptation.bands import band_width

    return band_width(cube, watch=watch)


class Adapter:
    """Keeps an adapted cube in *layers* that is true to what is known.

    `changed` is emitted when its state is another one.
    """

    changed = Signal()

    def __init__(self, layers: KnownLayers, start: Start, scene: SpectraScene) -> None:
        self._layers = layers
        self._latest = Latest(start)
        self._scene = scene
        self._ground: Ground | None = None
        self._asked: tuple[Any, ...] = ()
        self._tried: tuple[Identity, ...] | None = None
        self._is_width_wanted = False
        self._is_exact = False
        self._task = ""
        self._share = 0.0
        self._doubts: tuple[str, ...] = ()

    @property
    def state(self) -> KnownState:
        """The state of the adaptation."""
        progress = [f"{self._task}: {self._share:.0%}"] if self._latest.is_busy else []
        return KnownState(
            has_adapted=self._layers.adapted is not None,
            is_after=self._layers.is_after,
            has_width=self._is_width_wanted,
            is_busy=self._latest.is_busy,
            notes=(*progress, *self._doubts),
        )

    def ground_of(self, cube: SpectralCube, photos: Sequence[LayerPhoto]) -> Ground:
        """The ground of *cube*: the one that was prepared before, if it is still the same cube."""
        ground = self._ground
        if ground is None or ground.cube.data is not cube.data:
            ground = self._ground = Ground(cube)
        ground.photos = tuple(photos)
        return ground

    # ------------------------------------------------------------ adapting

    def follow(self, known: Mapping[str, KnownSpectrum], photos: Sequence[LayerPhoto]) -> None:
        """Adapt the cube to what is *known*, by the keys of the marks, unless that was done.

        The cube is from one of *photos*.
        """
        cube = cube_of(self._layers.base)
        adapted = self._layers.adapted
        if cube is None or (cube.provenance.is_preview and not known):
            return
        places = [(key, spot.row, spot.column, spot.window) for key, spot in known.items()]
        asked = (Identity(cube.data), *places)
        # A cube whose photo was not there waits for it: each photo that is opened may be it.
        tried = tuple(Identity(photo.pixels) for photo in photos)
        if asked == self._asked and self._tried in (None, tried):
            return
        was_known = len(self._asked) > 1 or adapted is not None
        self._asked = asked
        self._tried = tried
        if not (known or was_known):
            # Spots may be looked for while nothing is known: that goes on.
            return
        self.stop()
        if not known:
            if adapted is not None:
                self._scene.said.emit(NOTHING_KNOWN)
            self._doubts = ()
            self._is_width_wanted = False
            self._tried = None
            self._layers.end()
            return
        run = partial(look, self.ground_of(cube, photos), tuple(known.values()))
        self.run("Adapting the picture", run, self._on_look)

    def again(self) -> None:
        """Adapt again at the next `follow`, though nothing else is known."""
        self._asked = ()

    def stop(self) -> None:
        """Stop what is being computed; the cube stays as coarse as it is."""
        self._latest.cancel()
        self.changed.emit()

    def _on_look(self, look: tuple[Learnt, SpectralCube]) -> None:
        learnt, cube = look
        self._tried = None
        self._doubts = learnt.adaptation.doubts
        self._is_exact = False
        self._layers.show_cube(cube)
        ground = self._ground
        if ground is not None:
            run = partial(applied, ground.cube, ground.photo, learnt)
            self.run("Adapting the whole cube", run, self._on_exact)

    def _on_exact(self, cube: SpectralCube) -> None:
        self._is_exact = True
        self._layers.show_cube(cube)
        record = cube.provenance.adaptation
        self._scene.said.emit(f"Adapted to {record['source']}, {record['reach']:.0%} of the way.")
        if self._is_width_wanted:
            self._start_width(cube)

    def want_width(self, is_wanted: bool) -> None:
        """Keep a layer that shows the width of the error band, or take it away."""
        self._is_width_wanted = is_wanted
        adapted = self._layers.adapted
        if not is_wanted:
            self._layers.hide_width()
        elif adapted is None or self._is_exact:
            self._start_width(cube_of(adapted or self._layers.base))
        self.changed.emit()

    def _start_width(self, cube: SpectralCube | None) -> None:
        if cube is not None:
            task = "Computing the width of the error band"
            self.run(task, partial(width, cube), self._layers.show_width)

    def run(self, task: str, work: Callable[[Watch], Any], use: Callable[[Any], Any]) -> None:
        """Do *work* on the cube, and *use* its result; what runs is stopped."""
        self._task = task
        self._share = 0.0
        changed = self.changed.emit
        failed = self._scene.failed.emit
        self._latest.run(Job(work, use, failed, on_end=changed, on_progress=self._on_progress))
        changed()

    def _on_progress(self, share: float) -> None:
        self._share = share
        self.changed.emit()


def photos_for(viewer: ViewerModel, layer: Image, cube: SpectralCube) -> tuple[LayerPhoto, ...]:
    """Return the photos that *cube*, of *layer*, may be from: those of its name first, by size.

    A photo of another size may be one of which the cube shows a region.
    """

    def has_other_name(photo: LayerPhoto) -> bool:
        return photo.name != cube.provenance.source and not layer.name.startswith(photo.name)

    opened = (image for image in photo_layers(viewer) if METADATA_KEY not in image.metadata)
    photos = (LayerPhoto.of(image, viewer.dims.point) for image in opened)
    rows, columns = cube.shape[1:]
    fits = (photo for photo in photos if photo.shape[0] >= rows and photo.shape[1] >= columns)
    return tuple(sorted(fits, key=has_other_name))


def photo_from(photos: Sequence[LayerPhoto], cube: SpectralCube) -> Photo:
    """Read the one of *photos* that *cube* was made from, cut to what the cube shows.

    It is recognised by its pixels: they are the very ones, or have the colours of the cube.

    Raises
    ------
    PhotoError
        If there is none.
    """
    encoding: Encoding | None = "linear" if cube.provenance.camera else None
    others = ""
    for layer_photo in photos:
        photo = layer_photo.read(encoding)
        try:
            return photo_of(cube, photo)
        except PhotoError:
            others = f"; {layer_photo.name[:30]!r} is another one"
    rows, columns = cube.shape[1:]
    raise PhotoError(
        f"No layer shows the photo of the cube, {rows} x {columns} pixels{others}. "
        "Open the photo that the cube was made from."
    )
