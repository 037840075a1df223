"""The `MAPS` table: every picture that can be made of a cube, and what each one needs.

The spectra dock, `napari-mst map` and Python all read it. A new map is one function and one row.
Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.arrays import Array, Doubles, Floats, Mask, Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.illuminants import DAYLIGHT
from napari_mst.cube.pictures import rendering
from napari_mst.denoising.photos import BEST_H, DISTANCE, PATCH
from napari_mst.denoising.streaming import Filter, averaged
from napari_mst.errors import DenoisingError, SpectrumError
from napari_mst.photo.photo import Photo, as_photo
from napari_mst.spectra import classification, statistics
from napari_mst.spectra.compare import Measure, error_map
from napari_mst.spectra.map_kind import (
    Compute,
    Line,
    MapInputs,
    MapKind,
    MapPlane,
    MapResult,
    Number,
)
from napari_mst.spectra.spectrum import Map
from napari_mst.spectra.strips import strips
from napari_mst.watch import Watch, Watched, watching


def band_ratio(cube: SpectralCube, numerator: float, denominator: float) -> Map:
    """Ratio of the bands nearest to two wavelengths, (H, W); NaN where the denominator is zero.

    The wavelengths are in the unit of *cube*. Raises `SpectrumError` if one is outside its range.
    """
    return _quotient(_band(cube, numerator), _band(cube, denominator))


def normalised_difference(cube: SpectralCube, first: float, second: float) -> Map:
    """(a - b) / (a + b) of the bands nearest to two wavelengths, (H, W); NaN where a + b is zero.

    The wavelengths are in the unit of *cube*. Raises `SpectrumError` if one is outside its range.
    """
    a = _band(cube, first)
    b = _band(cube, second)
    return _quotient(a - b, a + b)


def band_near(cube: SpectralCube, wavelength: float) -> int:
    """Index of the band nearest to *wavelength*.

    Raises `SpectrumError` outside the range of *cube*.
    """
    low = cube.wavelengths.min()
    high = cube.wavelengths.max()
    if not low <= wavelength <= high:
        raise SpectrumError(
            f"Expected a wavelength within {low:g}-{high:g} {cube.unit}, got {wavelength:g}."
        )
    return cube.nearest_band(wavelength)


def _quotient(numerator: Doubles, denominator: Doubles) -> Map:
    result = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    # A tiny denominator can still overflow, and no map shows infinity.
    result[~np.isfinite(result)] = np.nan
    return result.astype(np.float32)


def _band(cube: SpectralCube, wavelength: float) -> Doubles:
    band = cube.data[band_near(cube, wavelength)]
    return np.asarray(band).astype(np.float64)


def colour_difference(
    cube: SpectralCube,
    photo: Photo | str | PathLike[str] | ArrayLike,
    watch: Watched = None,
) -> Map:
    """CIEDE2000 difference of the true colour of *cube* from *photo* of the same size, (H, W).

    A difference of about 1 is just visible. Both are clipped to sRGB; a pixel is NaN where either
    is not a number. ISO/CIE 11664-6:2022; computed by scikit-image.

    Raises
    ------
    CubeError
        If the wavelengths do not cover 450-650 nm.
    SpectrumError
        If the sizes differ, or *photo* does not have three channels.
    Cancelled
        Soon after *watch* was cancelled.
    """
    from skimage import color

    recipe = rendering(cube, DAYLIGHT, full_scale=1.0)
    source = as_photo(photo)
    channels = len(source.pixels)
    if source.shape != cube.shape[1:] or channels != 3:
        raise SpectrumError(
            f"Expected an RGB photo of {cube.shape[1]} x {cube.shape[2]} pixels, "
            f"got {channels} channels of {source.shape[0]} x {source.shape[1]}. "
            "Take the photo that the cube was made from."
        )
    result = np.empty(cube.shape[1:], dtype=np.float32)
    for rows, strip in strips(cube, watching(watch)):
        seen = np.tensordot(recipe.weights, strip[recipe.bands], axes=(0, 0))
        shot = source.rows(rows.start, rows.stop, linear=True).astype(np.float64)
        labs = [
            color.rgb2lab(linear_to_srgb(np.clip(linear, 0, 1)), channel_axis=0)
            for linear in (seen, shot)
        ]
        result[rows] = color.deltaE_ciede2000(*labs, channel_axis=0)
        if source.valid is not None:
            result[rows][~source.valid[rows]] = np.nan
    return result


_MEDIAN_OF_NORMAL = 0.6745
"""The median of the magnitudes of numbers with a standard deviation of 1."""
_LEAST_NOISE = 1e-6  # a share of the largest noise: a band without any would outweigh all others


def denoised(cube: SpectralCube, h: float, watch: Watch) -> Singles:
    """Replace each pixel of *cube* by the mean of nearby pixels that look like it.

    *h* is in units of the noise of each band, by which patches are compared. Returns (B, H, W), NaN
    where the cube has no value.

    Raises
    ------
    DenoisingError
        If *h* is not above 0, or the cube has no measurable noise.
    Cancelled
        As soon as *watch* says so.
    """
    using = Filter(h, PATCH, DISTANCE, sigma=1.0)
    data = np.asarray(cube.data)
    is_known = np.isfinite(data).all(axis=0)
    noise = band_noise(data, is_known)
    if not noise.max() > 0:
        raise DenoisingError(
            "Expected a cube with noise, got one whose neighbouring pixels are equal. "
            "Leave it as it is."
        )
    scale = np.maximum(noise, _LEAST_NOISE * noise.max())[:, None, None]

    def image(start: int, stop: int) -> Doubles:
        scaled: Doubles = np.where(is_known[start:stop], data[:, start:stop], 0.0) / scale
        return scaled

    return averaged(image, data, is_known, using, watch)


def band_noise(data: Floats, is_known: Mask) -> Doubles:
    """Estimate the standard deviation of the noise of each band of *data* (B, H, W): (B,).

    It is that of differences along both diagonals of 2 x 2 pixels, which cancel slow
    changes, by their median, which texture hardly moves: Donoho & Johnstone, Biometrika 81 (1994)
    425, doi:10.1093/biomet/81.3.425.
    """
    if min(is_known.shape) < 2:
        return np.zeros(len(data))
    is_whole = is_known[:-1, :-1] & is_known[:-1, 1:] & is_known[1:, :-1] & is_known[1:, 1:]
    if not is_whole.any():
        return np.zeros(len(data))
    noise = np.empty(len(data))
    for index, band in enumerate(data.astype(np.float64, copy=False)):
        detail = (band[:-1, :-1] - band[:-1, 1:] - band[1:, :-1] + band[1:, 1:]) / 2
        noise[index] = np.median(np.abs(detail[is_whole])) / _MEDIAN_OF_NORMAL
    return noise


MOST_CLASSES = 250
"""Most spectra to classify by. Each costs time, and a layer of labels may have thousands."""


def _plane(compute: Callable[[MapInputs, Watch], Array]) -> Compute:
    """Return the function that makes a map of one plane, of the pixels that *compute* gives."""
    return lambda inputs, watch: MapResult((MapPlane(compute(inputs, watch)),))


def _classes(inputs: MapInputs, watch: Watch) -> MapResult:
    spectra = inputs.spectra
    if len(spectra) > MOST_CLASSES:
        raise SpectrumError(
            f"Expected at most {MOST_CLASSES} spectra to classify by, got more. Leave some out."
        )
    classes = classification.classify(inputs.cube, spectra, inputs.number, watch=watch)
    names = tuple(spectrum.name for spectrum in spectra)
    tints = tuple(spectrum.colour for spectrum in spectra)
    return MapResult((MapPlane(classes.labels),), names, tints)


def _clusters(inputs: MapInputs, watch: Watch) -> MapResult:
    labels, centres = statistics.cluster(inputs.cube, int(inputs.number), watch=watch)
    return MapResult((MapPlane(labels),), tuple(centre.name for centre in centres))


def _components(inputs: MapInputs, watch: Watch) -> MapResult:
    bands, explained = statistics.principal_components(inputs.cube, int(inputs.number), watch=watch)
    planes = []
    for number, (band, share) in enumerate(zip(bands, explained, strict=True), 1):
        planes.append(MapPlane(band, f"PC {number} ({share:.1%})"))
    return MapResult(tuple(planes))


def _photo_difference(inputs: MapInputs, watch: Watch) -> Array:
    if inputs.photo is None:
        raise SpectrumError(
            "Expected a photo of the size of the cube, got none. Open the one it was made from."
        )
    return colour_difference(inputs.cube, inputs.photo, watch)


def _denoised(inputs: MapInputs, watch: Watch) -> MapResult:
    values = denoised(inputs.cube, inputs.number, watch)
    note = (
        f"The cube was denoised by non-local means, h = {inputs.number:g} x the noise of its bands."
    )
    return MapResult(tuple(map(MapPlane, values)), note=note)


def _error(measure: Measure, title: str, tip: str, **shown: Any) -> MapKind:
    """Return the map of one *measure* of the error against the reference."""

    def compute(inputs: MapInputs, watch: Watch) -> Array:
        if inputs.reference is None:
            raise SpectrumError("Expected a reference cube, got none. Choose one to compare with.")
        return error_map(inputs.cube, inputs.reference, measure, watch=watch)

    look = {"colormap": "magma", **shown}
    return MapKind(f"reference-{measure}", title, tip, _plane(compute), needs="reference", **look)


_A_AND_B = (Line("A", "#4d8fea", 0.75), Line("B", "#f58231", 0.4))

_ROWS = (
    MapKind(
        name="classes",
        title="Spectral angle classes",
        tip="Each pixel gets the spectrum with the smallest spectral angle, "
        "if that angle is small enough.",
        compute=_classes,
        content="labels",
        number=Number("Largest angle", classification.LARGEST_ANGLE, 0.1, 90.0, 1, "deg"),
        needs="spectra",
    ),
    MapKind(
        name="clusters",
        title="k-means clusters",
        tip="Pixels with similar values are grouped into this many clusters.",
        compute=_clusters,
        content="labels",
        number=Number("Clusters", 6, 2, 200),
    ),
    MapKind(
        name="components",
        title="Principal components",
        tip="The directions in which the pixels differ most, with the share of the variance "
        "that each explains. Each component is a picture of its own.",
        compute=_components,
        number=Number("Components", 3, 1, 20),
    ),
    MapKind(
        name="anomalies",
        title="Anomalies (RX)",
        tip="How far each pixel is from all others, as RX measures it.",
        compute=_plane(lambda inputs, watch: statistics.anomalies(inputs.cube, watch)),
        colormap="magma",
    ),
    MapKind(
        name="ratio",
        title="Ratio A / B",
        tip="Band A divided by band B.",
        compute=_plane(lambda inputs, _: band_ratio(inputs.cube, *inputs.wavelengths)),
        lines=_A_AND_B,
        colormap="viridis",
    ),
    MapKind(
        name="normalised-difference",
        title="Normalised difference",
        tip="(A - B) / (A + B) of two bands.",
        compute=_plane(lambda inputs, _: normalised_difference(inputs.cube, *inputs.wavelengths)),
        lines=_A_AND_B,
        colormap="PiYG",
        limits=(-1.0, 1.0),
        is_signed=True,
    ),
    MapKind(
        name="photo-difference",
        title="Difference from the photo",
        tip="How far the true colour is from that of the photo "
        "(CIEDE2000; a difference of about 1 is just visible).",
        compute=_plane(_photo_difference),
        unit="CIEDE2000",
        needs="photo",
        colormap="magma",
    ),
    MapKind(
        name="denoised",
        title="Denoised",
        tip="A cube in which each pixel is the mean of those around it that look alike "
        "(non-local means).",
        compute=_denoised,
        content="cube",
        number=Number("h", BEST_H, 0.1, 10.0, 1, "x noise"),
    ),
    _error(
        "difference",
        "Difference from the reference",
        "Cube minus reference, averaged over the bands.",
        colormap="PiYG",
        is_signed=True,
    ),
    _error("rmse", "RMSE to the reference", "Root mean square error over the bands."),
    _error(
        "mrae",
        "MRAE to the reference",
        "Mean relative error over the bands; dark pixels of the reference have none.",
    ),
    _error(
        "angle",
        "SAM to the reference (deg)",
        "Spectral angle between each pixel and the reference.",
        unit="spectral angle, deg",
    ),
)

MAPS: dict[str, MapKind] = {kind.name: kind for kind in _ROWS}
"""Every map, by name, in the order in which the window lists them.

Notes
-----
======  ===========================================
labels  (H, W) uint16, classes from 1 on; 0 is none
values  (H, W), in `MapKind.unit`
======  ===========================================

Examples
--------
>>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [500, 550, 600])
>>> made = nm.MAPS["ratio"].make(nm.MapInputs(cube, wavelengths=(600, 500)))
>>> made.planes[0].pixels.shape
(4, 5)
>>> nm.MAPS["ratio"].title
'Ratio A / B'
"""
