"""Refines a cube whenever its references change: coarsely at once, then in full.

marks on picks -> `follow` -> `refined` -> a coarse cube in its layer, and then the exact one. A
newer run replaces an older one, which then reports nothing.

Letters: B bands, H rows, W columns.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.base.arrays import Singles
from napari_mst.base.errors import PhotoError
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import METADATA_KEY, contrast_limits
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.plugin.jobs.task import Latest, Reports, Start, Task, ignore
from napari_mst.plugin.spectra.reader import Identity
from napari_mst.plugin.spectra.resolve import ReferenceState
from napari_mst.plugin.spectra.shown_spectra import ShownSpectra
from napari_mst.plugin.viewer.layer_photos import MAP, LayerPhoto, photo_layers
from napari_mst.plugin.viewer.layers import (
    ALIKE_KEY,
    UNIT_KEY,
    composites_of,
    cube_at,
    cube_layer,
    cube_layer_in,
    is_cube_shown,
    is_picture_shown,
    put_cube,
    put_on_top,
    selection_kept,
)
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import ViewerHelper
from napari_mst.references.colour_views import Part, Parts, photo_of, spread, view_of
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refining import applied, learn, with_history

ADAPTED = " refined"
"""Ends the name of the layer of a refined cube."""
RELATIVE_WIDTH = "relative width"
WIDTH = "Prediction interval width: "
"""Begins the name of the layer that shows the width of the interval."""

_LEAST_WIDTH = 0.1  # of the contrast limits, so that rounding does not look like a difference


class KnownLayers(ViewerHelper):
    """The layers of a cube, of the refined cube, and of the width of its prediction interval.

    All references are weak, as the user may delete each layer at any time.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._layers = weakref.WeakValueDictionary[str, Image]()
        self._has_added = False  # a refined layer, whose deletion is not noticed yet
        self._is_picture = True  # a picture is shown rather than a band

    @property
    def base(self) -> Image | None:
        """The layer of the cube before it was refined."""
        return self._there("base")

    @property
    def refined(self) -> Image | None:
        """The layer of the refined cube."""
        return self._there("refined")

    def _there(self, role: str) -> Image | None:
        layer = self._layers.get(role)
        # A removed layer lives on until it is garbage-collected.
        return layer if self.has(layer) else None

    def set_base(self, layer: Image) -> None:
        """Refine *layer* from now on; cubes refined from another layer stay."""
        if layer not in (self.base, self.refined):
            self._layers.clear()
            self._layers["base"] = layer
            self._has_added = False

    def show_cube(self, cube: SpectralCube) -> None:
        """Show the refined *cube*, of any size, in place of the previous one."""
        base, layer = self.base, self.refined
        if base is None:
            return
        # The width is that of the previous cube.
        self.remove("width")
        step = np.array(base.data.shape[-2:]) / cube.shape[1:]
        # The first pixel of a coarse cube is centred between the pixels that it covers.
        place = Placement.of(base).of_part((step - 1) / 2, step)
        data, arguments, _ = cube_layer(cube, base.name + ADAPTED, place)
        if layer is not None:
            put_cube(layer, data, arguments)
            return
        self._note_look(base)
        arguments["metadata"] |= {ALIKE_KEY: weakref.ref(base)}
        # The same colours for the same numbers, so that before and after compare.
        look = {"contrast_limits": base.contrast_limits, "colormap": base.colormap}
        self._add("refined", cube.data, {**arguments, "multiscale": False, **look})
        self._has_added = True
        self.show_after(True)

    def _add(self, role: str, data: Any, arguments: dict[str, Any]) -> None:
        """Add a layer above all images; the selection is kept."""
        with selection_kept(self.viewer):
            self._layers[role] = self.viewer.add_image(data, **arguments)
            put_on_top(self.viewer, self._layers[role])

    def remove(self, role: str) -> None:
        """Remove the layer of the refined cube, or the layer of the width."""
        layer = self._there(role)
        if layer is not None:
            self.viewer.layers.remove(layer)

    @property
    def is_after(self) -> bool:
        """True while the bands or the picture of the refined cube are shown."""
        layer = self.refined
        return layer is not None and is_cube_shown(self.viewer, layer)

    @property
    def is_selected(self) -> bool:
        """True if the refined cube or the cube before is selected, even while it is hidden."""
        active = self.viewer.layers.selection.active
        layer = active and (cube_layer_in(active.metadata) or active)
        return layer is not None and layer in (self.base, self.refined)

    def show_after(self, is_after: bool) -> None:
        """Show the refined cube, or the cube before: its picture, if a picture was shown."""
        base, refined = self.base, self.refined
        if base is None or refined is None:  # gone with the viewer
            return
        selection = self.viewer.layers.selection
        self._note_look(refined if self.is_after else base)
        shown, hidden = (refined, base) if is_after else (base, refined)
        was_active = self.is_selected
        # In this order there is always a cube, so curves do not disappear and come back.
        self._show(shown, True)
        if was_active:
            selection.active = shown
        self._show(hidden, False)

    def notice_deletion(self) -> None:
        """Show the cube before again, if the user has deleted the refined one."""
        base = self.base
        if self._has_added and self.refined is None:
            self._has_added = False
            if base is not None:
                self._show(base, True)

    def end(self) -> None:
        """Remove the refined cube, and show the cube before."""
        self.show_after(False)
        self.remove("refined")
        self.remove("width")
        self._has_added = False

    def show_width(self, width: Singles) -> None:
        """Show the *width* (H, W) of the prediction interval, in place of the previous layer."""
        base = self.base
        self.remove("width")
        if base is not None:
            _, high = contrast_limits(width[None])
            arguments: dict[str, Any] = {
                **Placement.of(base).image_kwargs(),
                "name": WIDTH + base.name,
                "rgb": False,
                "colormap": "viridis",
                "contrast_limits": (0.0, max(high, _LEAST_WIDTH)),
                "metadata": {METADATA_KEY: MAP, UNIT_KEY: RELATIVE_WIDTH},
            }
            self._add("width", width, arguments)

    def _note_look(self, layer: Image) -> None:
        """Remember whether *layer* shows its picture; without a picture, nothing is known."""
        if composites_of(self.viewer, layer):
            self._is_picture = is_picture_shown(self.viewer, layer)

    def _show(self, cube_layer: Image, is_shown: bool) -> None:
        """Show or hide *cube_layer*, and its pictures if they were shown last."""
        cube_layer.visible = is_shown
        for picture in composites_of(self.viewer, cube_layer):
            picture.visible = is_shown and self._is_picture


NO_REFERENCE = "Nothing is known any more: the cube is as it was."

PIXELS = 1 << 16
"""Pixels of a coarse cube if there are few references; each costs as much as in the full cube."""
_BANDS = (
    32  # reference spectra whose kernel takes about as long as all else that is done for a pixel
)


@dataclass(eq=False)
class Ground:
    """Everything that does not depend on the references: a cube, its photo, and parts of both.

    The photo is one of *photos*. It is read on first use, on the thread of a job.
    """

    cube: SpectralCube
    photos: Sequence[LayerPhoto] = ()

    @cached_property
    def photo(self) -> Photo:
        """The photo that the cube was made from, cropped to the cube.

        It is recognised by its pixels, which are identical or have the colours of the cube. Raises
        `PhotoError` if none of *photos* matches.
        """
        encoding: Encoding | None = "linear" if self.cube.provenance.camera else None
        others = ""
        for photo in self.photos:
            try:
                return photo_of(self.cube, photo.read(encoding))
            except PhotoError:
                others = f"; {photo.name[:30]!r} is another one"
        rows, columns = self.cube.shape[1:]
        raise PhotoError(
            f"No layer shows the photo of the cube, {rows} x {columns} pixels{others}. "
            "Open the photo that the cube was made from."
        )

    @cached_property
    def parts(self) -> Parts:
        """The parts of the cube. Raises `PhotoError`, too."""
        return Parts(self.cube, self.photo)


def refined(
    ground: Ground, references: Sequence[ReferenceSpectrum], progress: Reports
) -> tuple[tuple[str, ...], SpectralCube]:
    """Return the doubts about *references*, and the cube refined to them.

    A coarse preview comes first, of as many pixels as take no noticeable time. If no spectrum can
    be used, the result is the cube of *ground* itself.
    """
    cube, parts = ground.cube, ground.parts
    progress.check()
    learnt = learn(cube, references, view_of(cube, ground.photo))
    refinement = learnt.refinement
    if not refinement.references:
        return refinement.doubts, cube
    pixels = PIXELS * _BANDS / (_BANDS + len(learnt.process.points))
    step = max(1, int(np.ceil(np.sqrt(cube.shape[1] * cube.shape[2] / pixels))))
    rows, columns = (range(min(step // 2, side - 1), side, step) for side in cube.shape[1:])
    part = Part(rows, columns)
    is_moved = not refinement.is_by_camera  # the same choice as in `applied`
    process = learnt.process
    numbers = parts.refined(process, part) if is_moved else spread(cube, process, part=part)
    preview = with_history(cube, numbers, refinement, "")
    past = replace(preview.provenance, is_preview=True)
    progress.preview(replace(preview, provenance=past, colour_error=None))
    return refinement.doubts, applied(cube, ground.photo, learnt, progress)


class Refiner:
    """Keeps a refined cube in a layer, up to date with the references."""

    def __init__(self, model: ShownSpectra, start: Start) -> None:
        self._layers = KnownLayers(model.viewer)
        self._latest = Latest(start)
        self._model = model
        self._ground: Any = None
        self._asked: list[Any] = []
        self._progress = ""
        self._doubts: tuple[str, ...] = ()

    @property
    def state(self) -> ReferenceState:
        """The state of the refinement."""
        is_busy = self._latest.is_busy
        return ReferenceState(
            has_refined=self._layers.refined is not None,
            is_after=self._layers.is_after,
            is_busy=is_busy,
            notes=((self._progress,) if is_busy else ()) + self._doubts,
            doubts=self._doubts,
        )

    def ground_of(self, cube: SpectralCube) -> Ground:
        """Return the ground of *cube*, prepared once and reused while the cube is the same."""
        if self._ground is None or self._ground.cube.data is not cube.data:
            self._ground = Ground(cube)
        ground: Ground = self._ground
        ground.photos = photos_for(self._model.viewer, cube)
        return ground

    # ------------------------------------------------------------ refining

    def refine_to(
        self, cube: SpectralCube, references: Mapping[ReferenceSpectrum, ReferenceSpectrum]
    ) -> None:
        """Refine *cube* to *references*, given by mark, unless it is refined to them already."""
        # Photos count, too: a cube without its photo waits for it, and any opened photo may be it.
        ground = self.ground_of(cube)
        grounds = (Identity(cube.data), *(Identity(photo.pixels) for photo in ground.photos))
        asked = [(mark, spot.row, spot.column, grounds) for mark, spot in references.items()]
        # A search for spots, which needs no references, goes on.
        if asked == self._asked:
            return
        self._asked = asked
        self.stop()
        if references:
            run = partial(refined, ground, tuple(references.values()))
            self.run("Refining the cube", run, self._on_refined, self._layers.show_cube)
            return
        if self._layers.refined is not None:
            self._model.say(NO_REFERENCE)
        self._doubts = ()
        self._layers.end()

    def stop(self) -> None:
        """Stop the running job; the cube stays as coarse as it is."""
        self._latest.cancel()
        self._model.publish()

    def _on_refined(self, result: tuple[tuple[str, ...], SpectralCube]) -> None:
        self._doubts, cube = result
        if cube is self._ground.cube:
            self._layers.end()
            return
        self._layers.show_cube(cube)
        record = cube.provenance.refinement
        self._model.say(f"Refined to {record['source']}, {record['reach']:.0%} of the way.")

    def show_width(self) -> None:
        """Show the width of the prediction interval as a layer, until the cube is refined again."""
        layer: Any = self._layers.refined or self._layers.base
        cube = cube_at(layer)

        def width(progress: Progress) -> Singles:
            # May import torch, which takes seconds: here, on another thread.
            from napari_mst.references.intervals import interval_width

            return interval_width(cube, progress=progress)

        self.run("Computing the width of the prediction interval", width, self._layers.show_width)

    def run(
        self,
        task: str,
        work: Callable[[Reports], Any],
        use: Callable[[Any], Any],
        preview: Callable[[SpectralCube], None] = ignore,
    ) -> None:
        """Do *work* on the cube, and pass its result to *use*; a running job is stopped."""

        def on_progress(share: float) -> None:
            self._progress = f"{task}: {share:.0%}"
            self._model.publish()

        model = self._model
        self._latest.run(
            Task(work, use, model.fail, model.publish, on_progress, on_preview=preview)
        )
        on_progress(0.0)


def photos_for(viewer: ViewerModel, cube: SpectralCube) -> tuple[LayerPhoto, ...]:
    """Return the photos that *cube* may come from; photos with the name of its source come first.

    The cube may show a region of a larger photo.
    """
    opened = (image for image in photo_layers(viewer) if METADATA_KEY not in image.metadata)
    photos = (LayerPhoto.of(image, viewer.dims.point) for image in opened)
    rows, columns = cube.shape[1:]
    fits = (photo for photo in photos if photo.shape[0] >= rows and photo.shape[1] >= columns)
    return tuple(sorted(fits, key=lambda photo: photo.name != cube.provenance.source))
