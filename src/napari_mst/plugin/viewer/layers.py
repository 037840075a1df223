"""Between napari layers and the core: a photo out of an Image layer, a cube layer that lies exactly on it.

Letters: B bands, H rows, W columns. A cube layer holds (B, H, W); its `SpectralCube` stays in
`layer.metadata["napari_mst"]`, where the docks and the writers find wavelengths and provenance.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer, Points, Shapes
from napari.utils.transforms import Affine
from numpy.typing import ArrayLike, NDArray

from napari_mst.attention.record import AttentionMap
from napari_mst.cube import SpectralCube
from napari_mst.photo.files import georeference_in
from napari_mst.photo.photo import Encoding, Photo, Rectangle

METADATA_KEY = "napari_mst"
QUALITY_KEY = "napari_mst_quality"
"""Marks a layer that shows how far colours were off, which is no photo."""
COLORMAP = "inferno"
SUFFIX = "(MST++)"
UNEVEN = 0.01
"""Largest departure from equal steps, in steps, at which a linear wavelength axis is still true to the bands."""
MIXED = 1e-9
"""Share of one axis in another that is taken for rounding."""
SAMPLES = 1_000_000
"""About how many values are looked at for the contrast limits."""

LayerTuple = tuple[Any, dict[str, Any], str]


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the two image axes (rows, columns) of a layer lie in the world, in napari's terms."""

    scale: NDArray[np.float64]
    translate: NDArray[np.float64]
    rotate: NDArray[np.float64]
    shear: float
    affine: NDArray[np.float64]
    units: tuple[str, ...]

    @classmethod
    def of(cls, layer: Layer) -> "Placement":
        """The placement of the last two axes of *layer*."""
        return cls(
            scale=np.array(layer.scale[-2:]),
            translate=np.array(layer.translate[-2:]),
            rotate=np.array(layer.rotate[-2:, -2:]),
            shear=float(layer.shear[-1]),
            affine=np.array(layer.affine.affine_matrix[-3:, -3:]),
            units=tuple(str(unit) for unit in layer.units[-2:]),
        )

    @property
    def is_calibrated(self) -> bool:
        """Whether the image axes are measured in something other than pixels."""
        return any(unit != "pixel" for unit in self.units)

    def of_part(self, offset: Sequence[float], step: Sequence[float] = (1.0, 1.0)) -> "Placement":
        """The placement of an image whose first pixel is centred at *offset* and *step* wide.

        Both are (rows, columns), in pixels of this one.
        """
        return replace(
            self,
            scale=self.scale * step,
            translate=np.asarray(self._place()(offset), dtype=np.float64),
        )

    def pixels_at(self, positions: ArrayLike) -> NDArray[np.float64]:
        """World positions (n, 2) -> pixels (n, 2): row and column, not rounded."""
        to_world = Affine(affine_matrix=self.affine).compose(self._place())
        return np.asarray(
            [to_world.inverse(position) for position in np.asarray(positions)], dtype=np.float64
        )

    def _place(self) -> Affine:
        return Affine(
            scale=self.scale, rotate=self.rotate, shear=[self.shear], translate=self.translate
        )

    def image_kwargs(self) -> dict[str, Any]:
        """For a layer of two axes."""
        placed = {
            name: getattr(self, name)
            for name in ("scale", "translate", "rotate", "affine", "units")
        }
        return {**placed, "shear": [self.shear]}

    def cube_kwargs(self, start: float, step: float, unit: str) -> dict[str, Any]:
        """For a layer of three axes, the first of which begins at *start* and advances by *step*."""
        rotate, affine = np.eye(3), np.eye(4)
        rotate[1:, 1:] = self.rotate
        affine[1:, 1:] = self.affine
        return {
            "scale": [step, *self.scale],
            "translate": [start, *self.translate],
            "rotate": rotate,
            "shear": [0.0, 0.0, self.shear],
            "affine": affine,
            "units": (unit, *self.units),
        }


@dataclass(frozen=True, eq=False)
class LayerPhoto:
    """A photo that an Image layer shows, frozen when it was asked for, read when it is needed (see `Source`)."""

    name: str
    placement: Placement
    layer: "weakref.ref[Image]"
    pixels: Any
    index: tuple[int, ...]
    region: Rectangle | None = None
    path: str | None = None

    @classmethod
    def of(
        cls, layer: Image, point: Sequence[float], region: Rectangle | None = None
    ) -> "LayerPhoto":
        """The photo, or the page of a stack, that *layer* shows when the sliders stand at world *point*.

        Of a *region* of it only that part is asked for.
        """
        pixels = layer.data[0] if layer.multiscale else layer.data
        pages = pixels.shape[: pixels.ndim - _axes_of_a_photo(pixels.shape, layer.rgb)]
        at = np.round(layer.world_to_data(point)[: len(pages)]).astype(int)
        index = tuple(int(i) for i in np.clip(at, 0, np.array(pages, dtype=int) - 1))
        return cls(
            layer.name,
            Placement.of(layer),
            weakref.ref(layer),
            pixels,
            index,
            region,
            layer.source.path,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W) of the photo, or of the region of it."""
        if self.region is not None:
            top, bottom, left, right = self.region
            return bottom - top, right - left
        return image_shape(self.pixels.shape[len(self.index) :])

    def placement_of(self, cube: SpectralCube) -> Placement:
        """Where *cube*, of whatever size, covers the photo, or the region of it."""
        step = np.array(self.shape) / cube.shape[1:]
        first = np.array(self.region or (0, 0, 0, 0))[::2]
        return self.placement.of_part(first + (step - 1) / 2, step)

    def reference(self) -> "LayerReference":
        """What finds the photo again, without keeping its pixels."""
        return LayerReference(self.name, self.layer, self.index, self.region)

    def read(self, encoding: Encoding | None = None) -> Photo:
        """The photo; raises `PhotoError` if the layer holds something else."""
        pixels = np.asarray(self.pixels[self.index])
        photo = Photo.from_array(pixels, encoding=encoding, name=self.name)
        notes = [
            f"Only the current page ({', '.join(map(str, self.index))}) of the stack was used."
        ] * bool(self.index)
        notes += ["The 3 planes were taken as red, green and blue."] * _is_planar(pixels.shape)
        place = (
            georeference_in(Path(self.path), photo.shape) if self.path and not self.index else None
        )
        return replace(photo, assumptions=(*photo.assumptions, *notes), georeference=place)


@dataclass(frozen=True, eq=False)
class LayerReference:
    """A photo that a layer showed, or a region of it, for as long as there is the layer."""

    name: str
    layer: "weakref.ref[Image]"
    index: tuple[int, ...]
    region: Rectangle | None = None

    def photo(self) -> LayerPhoto | None:
        """The photo as the layer has it now; None if the layer is gone, or no longer has that page."""
        layer = self.layer()
        if layer is None:
            return None
        pixels = layer.data[0] if layer.multiscale else layer.data
        has_page = all(at < pages for at, pages in zip(self.index, pixels.shape, strict=False))
        if not has_page:
            return None
        placement, path = Placement.of(layer), layer.source.path
        return LayerPhoto(layer.name, placement, self.layer, pixels, self.index, self.region, path)


def _axes_of_a_photo(shape: tuple[int, ...], is_rgb: bool) -> int:
    """How many of the last axes make up one photo: (H, W, 3 or 4), planar (3, H, W), or grey (H, W)."""
    return 3 if is_rgb or _is_planar(shape) else 2


def image_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """(H, W) of one photo of *shape*: (H, W), (H, W, C) or planar."""
    rows, columns = shape[-2:] if len(shape) == 2 or _is_planar(shape) else shape[-3:-1]
    return rows, columns


def _is_planar(shape: tuple[int, ...]) -> bool:
    return len(shape) > 2 and shape[-3] == 3 and shape[-1] not in (3, 4)


def cube_layer(cube: SpectralCube, name: str, placement: Placement | None = None) -> LayerTuple:
    """The Image layer of *cube*, on *placement* (or from pixel (0, 0)): data, the arguments of `add_image`, "image"."""
    placement = placement or Placement(
        np.ones(2), np.zeros(2), np.eye(2), 0.0, np.eye(3), ("pixel", "pixel")
    )
    start, step, label, unit = spectral_axis(cube, placement.is_calibrated)
    arguments = {
        **placement.cube_kwargs(start, step, unit),
        "name": name,
        "axis_labels": (label, "y", "x"),
        "rgb": False,
        "contrast_limits": contrast_limits(cube.data),
        "colormap": COLORMAP,
        "metadata": {METADATA_KEY: cube},
    }
    return cube.data, arguments, "image"


def quality_layer(cube: SpectralCube, name: str, placement: Placement) -> LayerTuple | None:
    """The Image layer of how far the colours were off, in 8-bit codes; None if *cube* does not know."""
    if cube.quality is None:
        return None
    arguments = {
        **placement.image_kwargs(),
        "name": name,
        "rgb": False,
        "contrast_limits": (0.0, max(contrast_limits(cube.quality[None])[1], 1.0)),
        "colormap": COLORMAP,
        "metadata": {QUALITY_KEY: True},
    }
    return cube.quality, arguments, "image"


def spectral_axis(cube: SpectralCube, is_calibrated: bool) -> tuple[float, float, str, str]:
    """Start, step, label and unit of the first axis.

    napari converts every axis with a length unit to one unit: beside um, a wavelength axis in nm would drag the image
    along, so it then goes without a unit. Bands that are not evenly spaced are counted, as a slider is linear.
    """
    steps = np.diff(cube.wavelengths)
    step = float(steps.mean()) if steps.size else 1.0
    line = cube.wavelengths[0] + step * np.arange(len(cube.wavelengths))
    if (
        not cube.has_wavelengths
        or step <= 0
        or np.abs(cube.wavelengths - line).max() > UNEVEN * step
    ):
        return 0.0, 1.0, "band", "dimensionless" if is_calibrated else "pixel"
    start = float(cube.wavelengths[0])
    return (
        (start, step, "wavelength (nm)", "dimensionless")
        if is_calibrated
        else (start, step, "wavelength", "nm")
    )


def contrast_limits(data: NDArray[Any]) -> tuple[float, float]:
    """One range for all bands: from 0 (or the lowest value) to the 99.9th percentile, by a sample of the pixels."""
    stride = max(1, int(np.sqrt(data.size / SAMPLES)))
    sample = np.asarray(data[:, ::stride, ::stride], dtype=np.float32)
    values = sample[np.isfinite(sample)]
    if not values.size:
        return 0.0, 1.0
    low, high = min(0.0, float(values.min())), float(np.percentile(values, 99.9))
    return (low, high) if high > low else (low, low + 1.0)


def cube_of(layer: Layer | None) -> SpectralCube | None:
    """The cube that *layer* shows, with the layer's own data; None if it is no cube layer."""
    cube = layer.metadata.get(METADATA_KEY) if isinstance(layer, Image) else None
    if not isinstance(cube, SpectralCube) or layer is None:
        return None
    return cube_of_data(layer.data, layer.metadata)


def cube_of_data(data: Any, metadata: Mapping[str, Any]) -> SpectralCube | None:
    """The cube of a layer's *data* and *metadata*; None if there is none, or *data* no longer has its bands."""
    cube = metadata.get(METADATA_KEY)
    if (
        not isinstance(cube, SpectralCube)
        or np.ndim(data) != 3
        or len(data) != len(cube.wavelengths)
    ):
        return None
    return cube if data is cube.data else replace(cube, data=data)


def photo_layers(viewer: ViewerModel) -> list[Image]:
    """The Image layers that a photo can be read from, topmost first."""
    return [
        layer
        for layer in reversed(viewer.layers)
        if isinstance(layer, Image) and not _is_made(layer)
    ]


def _is_made(layer: Image) -> bool:
    """Whether *layer* shows a cube or a map of ours."""
    is_map = QUALITY_KEY in layer.metadata or isinstance(
        layer.metadata.get(METADATA_KEY), AttentionMap
    )
    return is_map or cube_of(layer) is not None


def active_cube_layer(viewer: ViewerModel) -> Image | None:
    """The selected cube layer, else the topmost visible one; None where there is none, or the selected is hidden."""
    active = viewer.layers.selection.active
    if cube_of(active) is not None:
        return active if active.visible else None
    shown = (
        layer for layer in reversed(viewer.layers) if layer.visible and cube_of(layer) is not None
    )
    return next(shown, None)


def shown_cube_layers(viewer: ViewerModel) -> list[Image]:
    """The active cube layer, then the other visible ones whose wavelengths have its unit, topmost first.

    Those that turn the axis of their bands into the image are left out: there, a point is no one pixel.
    """
    active = active_cube_layer(viewer)
    cube = cube_of(active)
    if active is None or cube is None:
        return []
    others = [layer for layer in reversed(viewer.layers) if layer.visible and layer is not active]
    same = [
        layer
        for layer in others
        if (other := cube_of(layer)) is not None and other.unit == cube.unit
    ]
    return [layer for layer in (active, *same) if image_matrix(layer) is not None]


def image_matrix(layer: Layer) -> NDArray[np.float64] | None:
    """(3, 3) matrix from (row, column, 1) of *layer* to the last two axes of the world; None if others mix in."""
    origin = np.array(layer.data_to_world(np.zeros(layer.ndim)))
    axes = (
        np.stack([layer.data_to_world(axis) for axis in np.eye(layer.ndim)], axis=1)
        - origin[:, None]
    )
    mixed = np.abs([*axes[:-2, -2:].ravel(), *axes[-2:, :-2].ravel(), 0.0]).max()
    if mixed > MIXED * np.abs(axes).max():
        return None
    matrix = np.eye(3)
    matrix[:2, :2], matrix[:2, 2] = axes[-2:, -2:], origin[-2:]
    return matrix


def to_pixels(source: Layer, target: Layer) -> NDArray[np.float64] | None:
    """(3, 3) matrix from (row, column, 1) of *source* to those of *target*; None as for `image_matrix`."""
    there, here = image_matrix(target), image_matrix(source)
    return (
        None
        if there is None or here is None
        else np.asarray(np.linalg.solve(there, here), dtype=np.float64)
    )


def pixel_at(layer: Layer, position: Sequence[float]) -> tuple[int, int] | None:
    """(row, column) of the pixel of *layer* under the world *position*; None outside the image."""
    row, column = np.floor(np.asarray(layer.world_to_data(position))[-2:] + 0.5)
    rows, columns = layer.data.shape[-2:]
    return (int(row), int(column)) if 0 <= row < rows and 0 <= column < columns else None


def band_of(layer: Image, point: Sequence[float]) -> int:
    """Index of the band of the cube *layer* that is shown when the sliders stand at world *point*."""
    band = round(float(layer.world_to_data(point)[0]))
    return min(max(band, 0), len(layer.data) - 1)


def go_to(viewer: ViewerModel, layer: Image, wavelength: float) -> None:
    """Move the slider to the band of the cube *layer* that is nearest to *wavelength* (in the unit of the cube)."""
    cube = cube_of(layer)
    if cube is not None:
        world = layer.data_to_world((cube.nearest_band(wavelength), 0, 0))
        viewer.dims.set_point(viewer.dims.ndim - 3, world[0])


def put_on_top(viewer: ViewerModel, layer: Layer) -> None:
    """Show *layer* above all images; what is drawn on them stays above it, and our own picks and regions come along."""
    layer.visible = True
    images = [
        index for index, other in enumerate(viewer.layers) if not isinstance(other, Points | Shapes)
    ]
    viewer.layers.move(viewer.layers.index(layer), images[-1] + 1)
    top = viewer.layers.index(layer)
    covered = [
        one
        for one in viewer.layers[:top]
        if isinstance(one, Points | Shapes) and METADATA_KEY in one.metadata
    ]
    for drawn in covered:
        viewer.layers.move(viewer.layers.index(drawn), len(viewer.layers))
