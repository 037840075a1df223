"""The look of the band at the slider: contrast, colour bar, wavelength; the fitted view.

napari's own text of the slice (the overlay `current_slice`) is left alone: under software OpenGL it
crashes napari when the layers are cleared.
"""

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.components.overlays import TextOverlay
from napari.layers import Image
from napari.utils.colormaps import Colormap
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication, QLineEdit

from napari_mst.base.arrays import Doubles, doubles
from napari_mst.base.errors import shown
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.cube.colour import XYZ_TO_SRGB, colour_matching_functions, linear_to_srgb
from napari_mst.cube.layer import COLORMAP, METADATA_KEY, STACK_KEY, Stack, contrast_limits
from napari_mst.cube.lazy import coarse_of
from napari_mst.plugin.viewer.late_bands import LateBands
from napari_mst.plugin.viewer.layer_photos import page_shown
from napari_mst.plugin.viewer.layers import (
    UNIT_KEY,
    active_cube_layer,
    band_of,
    cube_at,
    cube_of,
    go_to,
)
from napari_mst.plugin.viewer.sharing import ViewerHelper, calling, picture_choices

VISIBLE = (380.0, 780.0)
"""nm; the eye sees no colour beyond."""
DARKEST = 1.0
"""Percentile of a band that is black where each band has its own contrast."""
DIM = 0.25
"""Share of the brightest wavelength below which a wavelength is drawn darker."""


class Bands(ViewerHelper):
    """Keeps the bands of its viewer true to its sliders: their page, contrast and label.

    At first each band has its own contrast: in the contrast of the whole cube, most bands are dim.
    Limits that the user sets are not touched again until the switch is turned. Bands are grey, or
    in the colour of their wavelength.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._limits = weakref.WeakKeyDictionary[Image, Any]()
        self._is_fit_due = False
        self._is_own = picture_choices().has_own_contrast
        self._is_tinted = picture_choices().has_tinted_bands
        viewer.layers.events.inserted.connect(self._on_inserted)
        viewer.dims.events.current_step.connect(self.update)
        viewer.layers.events.removed.connect(self.write)
        viewer.layers.selection.events.active.connect(self.write)
        # napari writes other labels when a layer is added.
        viewer.dims.events.axis_labels.connect(self.write)
        for layer in viewer.layers:
            self._know(layer)
        self.update()

    @property
    def is_own(self) -> bool:
        """True if each band has its own contrast, False if all bands share one."""
        return self._is_own

    @is_own.setter
    def is_own(self, is_own: bool) -> None:
        self._is_own = is_own
        # Turning the switch gives up the user's own limits.
        for layer in self.viewer.layers:
            if (cube := cube_of(layer)) is not None:
                self._set_limits(layer, cube.data)
        self.update()

    @property
    def is_tinted(self) -> bool:
        """True if a visible band has the colour of its wavelength, and not grey."""
        return self._is_tinted

    @is_tinted.setter
    def is_tinted(self, is_tinted: bool) -> None:
        self._is_tinted = is_tinted
        for layer in self.viewer.layers:
            if cube_of(layer) is not None:
                layer.colormap = COLORMAP
        self.update()

    def is_given(self, layer: Image) -> bool:
        """True if the limits of *layer* are not the user's."""
        return bool(self._limits.get(layer) == layer.contrast_limits)

    def renew(self, layer: Image) -> None:
        """Take the present contrast limits of *layer* as the limits of its cube, and dress it."""
        self._limits[layer] = layer.contrast_limits
        self.update()

    def _on_inserted(self, event: Any) -> None:
        bring_into_view(self.viewer, event.value)
        self._know(event.value)
        self.update()

    def _know(self, layer: Any) -> None:
        # A new cube layer has the limits of its cube, which need not be computed again.
        # A layer that becomes a cube later has the user's limits, until `renew` is called.
        if cube_of(layer) is not None:
            self._limits.setdefault(layer, layer.contrast_limits)

    def update(self, _: object = None) -> None:
        """Give the bands that are shown now their page, contrast, colour and label."""
        for layer in self.viewer.layers:
            if STACK_KEY in layer.metadata and layer.ndim == 4:
                self._turn(layer, layer.metadata[STACK_KEY])
            cube = cube_of(layer)
            # Limits that the user has set stay.
            if cube is not None and self._is_own and self.is_given(layer):
                self._dress(layer, cube)
            if cube is not None and self._is_tinted:
                self._tint(layer, cube)
        self.write()

    def _turn(self, layer: Image, stack: Stack) -> None:
        """Put the cube of the page that is shown where the docks and the writers look for it."""
        # A layer that the user has duplicated has separate numbers.
        if stack.data is not layer.data:
            pages = zip(stack.cubes, layer.data, strict=True)
            stack = Stack(layer.data, [replace(cube, data=page) for cube, page in pages])
        cube = stack.cubes[page_shown(layer, [len(stack.cubes)], self.viewer.dims.point)[0]]
        if layer.metadata[METADATA_KEY] is not cube:
            layer.metadata = {**layer.metadata, METADATA_KEY: cube, STACK_KEY: stack}

    def _dress(self, layer: Image, cube: SpectralCube) -> None:
        """Give *layer* the contrast of the band that is shown; in 3-D, all bands are."""
        if self.viewer.dims.ndisplay == 2:
            band = self._band_seen(layer)
            # All pages of a stack have one contrast, so that a change over time is seen.
            is_stack = layer.ndim > 3
            if isinstance(layer.data, LateBands):
                plane = layer.data.at_hand(band)
                of_band = None if plane is None else plane[None]
            else:
                of_band = layer.data[:, band] if is_stack else coarse_of(cube.data)[band : band + 1]
            if of_band is not None:
                self._set_limits(layer, of_band, DARKEST)

    def _tint(self, layer: Image, cube: SpectralCube) -> None:
        wavelength = float(cube.wavelengths[self._band_seen(layer)])
        if cube.has_wavelengths and VISIBLE[0] <= wavelength <= VISIBLE[1]:
            (tint,) = visible_spectrum(np.array([wavelength]))
            layer.colormap = Colormap([(0, 0, 0), tint / tint.max()], name=f"{wavelength:g} nm")
        else:
            layer.colormap = COLORMAP

    def _band_seen(self, layer: Image) -> int:
        """Return the band of *layer* on the screen; the last one stays until the next is read."""
        band, data = band_of(layer, self.viewer.dims.point), layer.data
        is_late = isinstance(data, LateBands) and data.at_hand(band) is None
        return band if not is_late or data.drawn is None else data.drawn

    def _set_limits(self, layer: Image, data: Any, darkest: float | None = None) -> None:
        layer.contrast_limits = contrast_limits(data, darkest)
        self._limits[layer] = layer.contrast_limits

    def write(self, _: object = None) -> None:
        """Label the slider with the wavelength or the number of the band of the active cube."""
        dims, layer = self.viewer.dims, active_cube_layer(self.viewer)
        if layer is None:
            return
        cube, band = cube_at(layer), self._band_seen(layer)
        is_counted = cube.unit == BAND_INDEX
        text = f"band {band}" if is_counted else f"{cube.wavelengths[band]:.4g} {cube.unit}"
        labels = (*dims.axis_labels[:-3], text, *dims.axis_labels[-2:])
        # Without this comparison, writing would call this method again, without end.
        if dims.axis_labels != labels:
            dims.axis_labels = labels
        if QApplication.instance() is not None and not self._is_fit_due:
            # Not at once: the sliders of a new layer are still to get their width.
            self._is_fit_due = True
            QTimer.singleShot(0, calling(self._fit_labels))

    def _fit_labels(self) -> None:
        """Have napari make the label of each slider as wide as its text."""
        self._is_fit_due = False
        window = getattr(self._viewer_ref(), "window", None)
        # Qt may have deleted the window meanwhile.
        with suppress(RuntimeError):
            main = None if window is None else window.main_menu.parentWidget()
            for label in () if main is None else main.findChildren(QLineEdit, "axis_label"):
                # napari 0.9 measures a label when it is typed, and not when the model sets it.
                label.textChanged.emit(label.text())


FIRST_BAND = 550.0
"""nm; the band that is shown first, where the eye is most sensitive."""


def bring_into_view(viewer: ViewerModel, layer: Any) -> None:
    """Move the slider to a band of the cube *layer*, if it stands beside all of them.

    The slider moves to `FIRST_BAND` if the cube covers it, else the middle band.
    """
    cube = cube_of(layer)
    # In 3-D napari draws all bands at once, and their axis has no slider.
    if cube is None or viewer.dims.ndisplay != 2:
        return
    band = float(layer.world_to_data(viewer.dims.point)[-3])
    if not -0.5 <= band <= len(cube.wavelengths) - 0.5:
        every = cube.wavelengths
        covers = cube.has_wavelengths and every.min() <= FIRST_BAND <= every.max()
        go_to(viewer, layer, FIRST_BAND if covers else float(every[len(every) // 2]))


def visible_spectrum(wavelengths: Doubles) -> Doubles:
    """Return the colours of monochromatic light at *wavelengths* (nm), (n, 3) sRGB of 0-1.

    Screens cannot show them, so negative values are clipped. Each colour is as bright as possible,
    except at the ends of the spectrum, where the eye sees little.
    """
    every = np.concatenate([wavelengths, np.arange(*VISIBLE)])
    rgb = np.clip(colour_matching_functions(every) @ XYZ_TO_SRGB.T, 0, None)
    rgb /= np.maximum(rgb.max(axis=1, keepdims=True), DIM * rgb.max())
    return doubles(linear_to_srgb(rgb[: len(wavelengths)]))


DELAY = 50
"""Milliseconds. Qt counts no delay as none: the work would come before the window is drawn."""
OVERLAY = "napari_mst_unit"
"""The name of the text among the overlays of a canvas."""
CORNER = "bottom_right"
"""The corner of colour bars, away from the bar on the image, which covered them above."""
UNKNOWN = "value"
_FILE_UNIT = "data units"  # the field of an ENVI header
_EVENTS = ("inserted", "removed", "reordered", "visible", "data", "metadata")
_LONGEST = 40


def unit_of(layer: Any) -> str:
    """Return the quantity of *layer* and its unit; "" if it is neither a band nor a map."""
    if not isinstance(layer, Image) or layer.rgb:
        return ""
    cube = cube_of(layer)
    known = [layer.metadata.get(UNIT_KEY, "")]
    if cube is not None:
        known = [cube.quantity or UNKNOWN, cube.metadata.get(_FILE_UNIT, "")]
    return ", ".join(shown(str(one), _LONGEST) for one in known if one)


class ColourBar(ViewerHelper):
    """Shows the colour bar of the topmost band or map of its viewer, unless a picture covers it.

    A bar that a person hides by napari's own menu stays hidden until another layer is seen.
    napari takes as long to make a bar as to add its layer, so the bar comes a moment later, once
    for all changes until then.

    Attributes
    ----------
    measured
        The layer that was given its bar last, which a person may have hidden; None without one.
    is_awaiting_picture
        Returns True if a picture is about to cover a layer for the first time, which makes its bar
        useless.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self.measured: Image | None = None
        viewer.canvas.overlays[OVERLAY] = TextOverlay(position=CORNER)
        self.is_awaiting_picture: Callable[[Image], bool] = lambda _: False
        # The list of layers passes on the events of each layer.
        viewer.layers.events.connect(self._on_layers)
        viewer.canvas.grid.events.enabled.connect(self._write)
        self.update()

    def update(self) -> None:
        """Show the bar of the layer that is seen now, and no other."""
        layer, before = _seen(self.viewer), self.measured
        if layer is not None and self.is_awaiting_picture(layer):
            layer = None
        self.measured = layer
        if before is not None and layer is not before:
            before.colorbar.events.visible.disconnect(self._write)
            before.colorbar.visible = False
        if layer is not None and layer is not before:
            layer.colorbar.position = CORNER
            layer.colorbar.visible = True
            layer.colorbar.events.visible.connect(self._write)
        self._write()

    def _write(self, _: object = None) -> None:
        """Write the unit beside the bar that is shown, or nothing."""
        canvas, layer = self.viewer.canvas, self.measured
        overlay = canvas.overlays[OVERLAY]
        overlay.text = unit_of(layer) if layer is not None and layer.colorbar.visible else ""
        # In a grid the bar is in the cell of its layer, where no text of the canvas follows it.
        overlay.visible = bool(overlay.text) and not canvas.grid.enabled

    def request_update(self) -> None:
        """Update a moment later; at once without a window."""
        if QApplication.instance() is None:
            self.update()
        else:
            QTimer.singleShot(DELAY, calling(self.update))

    def _on_layers(self, event: Any) -> None:
        if event.type in _EVENTS:
            self.request_update()


def _seen(viewer: ViewerModel) -> Image | None:
    """Return the topmost visible image, if it is a band or a map; None if that is a picture."""
    images = (one for one in reversed(viewer.layers) if isinstance(one, Image) and one.visible)
    topmost = next(images, None)
    return topmost if unit_of(topmost) else None


ALIKE = 0.1
"""Share of the zoom: the canvas may have changed a little since napari has fitted the layers."""


class FittedView(ViewerHelper):
    """Fits the view again when the canvas is resized, until the user moves the view."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        viewer.events.reset_view.connect(self._note)
        viewer.canvas.events.size.connect(self._on_size)
        before = self._camera
        viewer.reset_view(reset_camera_angle=False)
        centre, zoom = self._camera
        # A view that napari would fit otherwise is the user's.
        if before[0] != centre or abs(before[1] / zoom - 1) > ALIKE:
            viewer.scene.camera.center, viewer.scene.camera.zoom = before

    @property
    def _camera(self) -> tuple[Any, float]:
        camera = self.viewer.scene.camera
        return camera.center, camera.zoom

    def _note(self, _: object = None) -> None:
        """Remember the view to which napari has fitted the layers."""
        self._fitted = self._camera

    def _on_size(self, _: object = None) -> None:
        if self._camera == self._fitted:
            self.viewer.reset_view(reset_camera_angle=False)
