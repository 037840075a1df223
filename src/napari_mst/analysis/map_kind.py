"""The `Map` of a cube, for display and for files, and the table of map kinds.

Letters: H rows, W columns, n planes.
"""

import colorsys
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec

import numpy as np
from numpy.typing import NDArray

from napari_mst.base import atomic_save
from napari_mst.base.arrays import Array, Brief, Codes
from napari_mst.base.errors import SaveError, SpectrumError, shown
from napari_mst.base.progress import ProgressLike
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.cube.gaps import usable
from napari_mst.cube.georeference import FIELD
from napari_mst.cube.showing import new_figure
from napari_mst.formats import check_target, write_cube
from napari_mst.formats.picture_files import PICTURE, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT_PIXELS = 2**20
"""Approximate number of pixels sampled for contrast limits."""

UNCLASSIFIED = "unclassified"
"""Name of label 0."""

GOLDEN_TURN = 0.618034
"""Golden section of the colour circle: hues this far apart stay distinct in any number."""

ESTIMATED = (
    "The bands of this cube are estimated from a photo, about three numbers a pixel, "
    "so this map shows no more than the colours do."
)
"""Note on a map that needs more independent values per pixel than a photo has."""

Content = Literal["values", "labels", "cube"]
"""Pixels of a map: measured values, class labels from 1 on, or the bands of another cube."""

Need = Literal["spectra", "photo", "reference"]
"""Input that a map needs besides the cube."""

Limits = tuple[float, float]
"""Values displayed darkest and brightest."""

P = ParamSpec("P")


class Number(NamedTuple):
    """A numeric parameter of a map: the name of the argument, and its range."""

    name: str
    label: str
    default: float
    low: float
    high: float
    decimals: int = 0
    unit: str = ""


class Text(NamedTuple):
    """A text parameter of a map.

    Attributes
    ----------
    name
        Name of the argument.
    label
        Its label in the window.
    presets
        Suggested texts for a cube, each with a description; the first is the default.
    bands
        Wavelengths that a text names, drawn as lines in the plot; None if only presets are allowed.
    moved
        Moves one of these bands to another wavelength and returns the new text.
    is_span
        True if the bands are the ends of a range.
    """

    name: str
    label: str
    presets: Callable[[SpectralCube], Mapping[str, str]]
    bands: Callable[[SpectralCube, str], Mapping[str, float]] | None = None
    moved: Callable[[str, int, float], str] | None = None
    is_span: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class MapKind(Brief):
    """One row of `MAPS`. As a decorator, it adds a function that makes a map to the table.

    Attributes
    ----------
    title
        Name in the window.
    tip
        One or two sentences about what the map shows.
    content
        Kind of pixels.
    unit
        Meaning and unit of the values; "" if the title says it.
    needs, number, text
        Further input of the map.
    is_of_spectra
        True if the map needs more than the three independent values per pixel of an estimated cube.
    colormap
        Name of the colour map that suits the values, in napari and in matplotlib.
    limits
        Full range of the values, if known; None derives it from the values.
    is_signed
        True if zero belongs in the middle of the colours.
    quantity
        Quantity that the cube must have; "" for any.
    name
        Name on the command line, from the name of the function.
    make
        The function; it takes a cube, the further input, and *progress*.
    """

    title: str
    tip: str
    content: Content = "values"
    unit: str = ""
    needs: Need | None = None
    number: Number | None = None
    text: Text | None = None
    is_of_spectra: bool = False
    colormap: str = "gray"
    limits: Limits | None = None
    is_signed: bool = False
    quantity: str = ""
    name: str = ""
    make: Callable[..., "Map"] = field(default=lambda *_, **__: None)  # type: ignore[assignment]

    def __call__(self, function: "Callable[P, Map]") -> "Callable[P, Map]":
        """Return the public form of *function*, whose maps record their kind and arguments."""
        signature = inspect.signature(function)

        @wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> Map:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            for name, value in given.arguments.items():
                if isinstance(value, SpectralCube):
                    kind.check(value)
                    given.arguments[name] = usable(value)
            made = function(*given.args, **given.kwargs)
            facts = {
                f"map {name}": value
                for name, value in given.arguments.items()
                if isinstance(value, int | float | str)
            }
            is_guess = kind.is_of_spectra and bool(made.cube.provenance.model)
            note = " ".join(filter(None, (made.note, ESTIMATED * is_guess)))
            return replace(made, kind=kind, facts={**facts, **made.facts}, note=note)

        name = function.__name__.replace("_", "-")
        kind = replace(self, name=name, make=make)
        MAPS[name] = kind
        return make

    def check(self, cube: SpectralCube) -> None:
        """Raise `SpectrumError` if *cube* does not have the quantity that this map needs."""
        if self.quantity and cube.quantity != self.quantity:
            raise SpectrumError(
                f"Expected a cube of {self.quantity} for this map, "
                f"got {shown(cube.quantity, 40) or 'numbers of unknown meaning'}. "
                f"Choose a cube of {self.quantity}."
            )

    def limits_of(self, pixels: Array) -> Limits:
        """Return contrast limits for *pixels* of this map."""
        if self.limits is not None:
            return self.limits
        sample = pixels.reshape(-1)[:: max(1, pixels.size // LIMIT_PIXELS)]
        sample = sample[np.isfinite(sample)]
        ends = np.percentile(sample, (1, 99)) if sample.size else (0, 0)
        low, high = map(float, ends)
        # napari refuses equal limits, which a constant map would have.
        high = high if high > low else low + 1.0
        largest = max(abs(low), abs(high))
        return (-largest, largest) if self.is_signed else (low, high)


class _Maps(dict[str, MapKind]):
    def __repr__(self) -> str:
        return f"<{len(self)} maps: {shown(', '.join(self), 280)}>"


MAPS: dict[str, MapKind] = _Maps()
"""All kinds of maps by name, in the order of the window's list."""


@dataclass(frozen=True, eq=False, repr=False)
class Map:
    """A map of a cube: one plane, or several of equal size.

    Attributes
    ----------
    cube
        The mapped cube.
    data
        (H, W), or (n, H, W) for several planes. Labels are integers from 1 on; 0 means none.
    titles
        Titles of the planes; empty if the title of the kind is enough.
    names, tints
        Names and colours ("#4d8fea") of the labels 1, 2, ...; empty if there are none. A tint of ""
        stands for any colour.
    facts
        Parameters and sources of the map, for files.
    note
        A sentence on how far to trust the map, or for the history of a cube.
    kind
        The kind of map, which says how to display it.

    Notes
    -----
    ============  ==========================================================
    cube          as given
    data, planes  in `kind.unit`, or in the unit of the cube; labels whole
    to_cube()     the planes as bands, in the same numbers
    to_labels()   (H, W) int32: 1, 2, ... for regions that touch; 0 for none
    ============  ==========================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [500, 550, 600])
    >>> made = nm.maps.ratio(cube, 600, 500)
    >>> made, made.data.shape, made.facts["map bands"]
    (<Map of r600 / r500 (4, 5) float32>, (4, 5), 'r600 at 600 nm, r500 at 500 nm')
    >>> made.to_labels(above=0.9).max(), made.to_cube().shape
    (np.int32(1), (1, 4, 5))
    >>> made.write("ratio.tif").name, made.plot().axes[0].get_title()
    ('ratio.tif', 'r600 / r500')
    """

    cube: SpectralCube
    data: Array
    titles: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    tints: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    kind: MapKind = field(default_factory=lambda: MapKind("Map", ""))

    def __repr__(self) -> str:
        """One line: kind, shape and type."""
        title = self.titles[0] if len(self.titles) == 1 else self.kind.title
        return f"<Map of {shown(title, 60)} {self.data.shape} {self.data.dtype}>"

    @property
    def planes(self) -> list[tuple[str, Array]]:
        """Title and pixels (H, W) of each plane."""
        pixels = self.data if self.data.ndim == 3 else self.data[None]
        titles = self.titles or (self.kind.title,) * len(pixels)
        return list(zip(titles, pixels, strict=True))

    def plot(self) -> "Figure":
        """Draw the planes side by side, each with its scale, as a matplotlib figure.

        Raises
        ------
        SpectrumError
            If matplotlib is missing.
        """
        size = (4.5 * len(self.planes), 4)
        figure = new_figure(SpectrumError, figsize=size, layout="constrained")
        every_axes = figure.subplots(1, len(self.planes), squeeze=False)[0]
        for axes, (title, pixels) in zip(every_axes, self.planes, strict=True):
            axes.set_title(title)
            if self.kind.content == "labels":
                axes.imshow(_label_picture(pixels, self.tints), interpolation="nearest")
                continue
            low, high = self.kind.limits_of(pixels)
            image = axes.imshow(pixels, cmap=self.kind.colormap, vmin=low, vmax=high)
            figure.colorbar(image, ax=axes, label=self.kind.unit)
        return figure

    def to_labels(self, above: float, below: float = np.inf) -> Array:
        """Label the regions of pixels with values from *above* to *below*: (H, W).

        Pixels that touch, even at a corner, belong to one region. Only the first plane is used.
        """
        _, pixels = self.planes[0]
        return regions_between(pixels, above, below)

    def to_cube(self) -> SpectralCube:
        """Return the map as a cube of numbered bands, (n, H, W), with the history of its source.

        A map that is a cube keeps the wavelengths of its source.
        """
        source, kind = self.cube, self.kind
        facts = {"map": kind.name, **self.facts}
        if kind.unit:
            facts["map unit"] = kind.unit
        # Without the checksum of the photo, a batch never mistakes the map for the cube itself. A
        # map has no prediction interval either.
        past = source.provenance
        if self.note:
            past = replace(past, assumptions=(*past.assumptions, self.note))
        past = replace(past, source_sha256="", error_band={})
        data = np.stack([pixels for _, pixels in self.planes])
        if kind.content == "cube":
            entries = {**source.metadata, **facts}
            return replace(source, data=data, provenance=past, metadata=entries, colour_error=None)
        titles = [title for title, _ in self.planes]
        metadata = {"description": kind.tip, "band names": titles, **facts}
        if self.names:
            # ENVI and GDAL read these as the names of the values 0, 1, 2, ...
            metadata["class names"] = [UNCLASSIFIED, *self.names]
        if FIELD in source.metadata:
            metadata[FIELD] = source.metadata[FIELD]
        bands = np.arange(len(data), dtype=np.float64)
        return SpectralCube(data, bands, BAND_INDEX, kind.title, past, metadata)

    def write(
        self, path: str | PathLike[str], *, overwrite: bool = False, progress: ProgressLike = None
    ) -> Path:
        """Save the map atomically: as a picture (.png), or its values in any cube format.

        Raises
        ------
        SaveError
            If the suffix is unknown, if the target exists (without *overwrite*), or if a map of
            several planes is saved as a picture.
        """
        path = Path(path)
        if path.suffix.lower() != PICTURE:
            return write_cube(path, self.to_cube(), overwrite=overwrite, progress=progress)
        if len(self.planes) > 1:
            raise SaveError(
                f"Expected one picture for {shown(path.name)}, got {len(self.planes)}. "
                "Save a .tif or .hdr, which holds them all."
            )
        _, pixels = self.planes[0]
        facts = {"map": self.kind.name, **self.facts}
        if self.kind.content == "labels":
            picture = _label_picture(pixels, self.tints)
        else:
            low, high = self.kind.limits_of(pixels)
            codes = 255 * np.clip((pixels.astype(np.float64) - low) / (high - low), 0, 1)
            alpha = np.where(np.isfinite(pixels), 255, 0)
            picture = np.dstack([np.rint(np.nan_to_num(codes)), alpha]).astype(np.uint8)
            facts |= {"black": low, "white": high}
        write_picture(path, picture, self.kind.title, facts, overwrite=overwrite)
        return path


def regions_between(pixels: Array, above: float, below: float = np.inf) -> NDArray[np.int32]:
    """Label the regions of *pixels* (H, W) from *above* to *below*, as `Map.to_labels` does."""
    from skimage.measure import label

    labels: Array = label((pixels >= above) & (pixels <= below), connectivity=2)
    return labels.astype(np.int32)


def check_map_target(path: Path, *, overwrite: bool = False) -> None:
    """Raise the `SaveError` of `Map.write` for *path* before the map is computed."""
    if path.suffix.lower() == PICTURE:
        atomic_save.check_targets([path], overwrite=overwrite)
    else:
        check_target(path, overwrite=overwrite)


def _label_picture(labels: Array, tints: tuple[str, ...]) -> Codes:
    """Return *labels* in their colours (H, W, 4); label 0 is transparent."""
    table = np.zeros((int(labels.max()) + 1, 4), dtype=np.uint8)
    for number in range(1, len(table)):
        tint = tints[number - 1] if number <= len(tints) else ""
        # A label without a colour gets a hue that differs from those of the labels before it.
        hue = np.array(colorsys.hsv_to_rgb(number * GOLDEN_TURN % 1, 0.65, 0.95))
        table[number] = (*(bytes.fromhex(tint[1:7]) if tint else np.rint(255 * hue)), 255)
    return table[labels]
