"""The `MAPS` table: every picture that can be made of a cube, and what each one needs.

The spectra dock, `napari-mst map` and Python all read it. A new map is one function and one row.
Letters: H rows, W columns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.denoising.photos import BEST_H
from napari_mst.errors import SpectrumError
from napari_mst.photo.photo import as_photo
from napari_mst.spectra import (
    classification,
    clustering,
    colours,
    components,
    cube_errors,
    denoised,
)
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
from napari_mst.watch import Watch


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


def _quotient(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> Map:
    result = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    # A tiny denominator can still overflow, and no map shows infinity.
    result[~np.isfinite(result)] = np.nan
    return result.astype(np.float32)


def _band(cube: SpectralCube, wavelength: float) -> NDArray[np.float64]:
    band = cube.data[band_near(cube, wavelength)]
    return np.asarray(band).astype(np.float64)


MOST_CLASSES = 250
"""Most spectra to classify by. Each costs time, and a layer of labels may have thousands."""


def _one_plane(pixels: NDArray[Any]) -> MapResult:
    return MapResult((MapPlane(pixels),))


def _classes(inputs: MapInputs, watch: Watch) -> MapResult:
    spectra = inputs.spectra
    if len(spectra) > MOST_CLASSES:
        raise SpectrumError(
            f"Expected at most {MOST_CLASSES} spectra to classify by, got more. Leave some out."
        )
    found = classification.classify(inputs.cube, spectra, inputs.number, watch=watch)
    names = tuple(spectrum.name for spectrum in spectra)
    tints = tuple(spectrum.colour for spectrum in spectra)
    return MapResult((MapPlane(found.labels),), names, tints)


def _clusters(inputs: MapInputs, watch: Watch) -> MapResult:
    found = clustering.cluster(inputs.cube, int(inputs.number), watch=watch)
    names = tuple(centre.name for centre in found.centres)
    return MapResult((MapPlane(found.labels),), names)


def _components(inputs: MapInputs, watch: Watch) -> MapResult:
    found = components.principal_components(inputs.cube, int(inputs.number), watch=watch)
    planes = []
    for number, (band, share) in enumerate(zip(found.bands, found.explained, strict=True), 1):
        planes.append(MapPlane(band, f"PC {number} ({share:.1%})"))
    return MapResult(tuple(planes))


def _anomalies(inputs: MapInputs, watch: Watch) -> MapResult:
    return _one_plane(components.anomalies(inputs.cube, watch=watch))


def _ratio(inputs: MapInputs, _: Watch) -> MapResult:
    a, b = inputs.wavelengths
    return _one_plane(band_ratio(inputs.cube, a, b))


def _normalised_difference(inputs: MapInputs, _: Watch) -> MapResult:
    a, b = inputs.wavelengths
    return _one_plane(normalised_difference(inputs.cube, a, b))


def _composite(inputs: MapInputs, watch: Watch) -> MapResult:
    return _one_plane(inputs.cube.composite(inputs.wavelengths, watch=watch))


def _true_colour(inputs: MapInputs, watch: Watch) -> MapResult:
    return _one_plane(colours.true_colour(inputs.cube, watch=watch))


def _photo_difference(inputs: MapInputs, watch: Watch) -> MapResult:
    if inputs.photo is None:
        raise SpectrumError(
            "Expected a photo of the size of the cube, got none. "
            "Open the photo that it was made from."
        )
    found = colours.colour_difference(inputs.cube, inputs.photo, watch=watch)
    return _one_plane(found)


def _denoised(inputs: MapInputs, watch: Watch) -> MapResult:
    return _as_bands(denoised.denoised(inputs.cube, inputs.number, watch))


def _guided(inputs: MapInputs, watch: Watch) -> MapResult:
    if inputs.photo is None:
        raise SpectrumError(
            "Expected a photo of the size of the cube, got none. Open the photo that shall guide."
        )
    photo = as_photo(inputs.photo)
    return _as_bands(denoised.denoised_by_photo(inputs.cube, photo, inputs.number, watch))


def _as_bands(found: denoised.DenoisedCube) -> MapResult:
    return MapResult(tuple(MapPlane(band) for band in found.values), note=found.note)


def _error(measure: cube_errors.Measure) -> Compute:
    """The function that maps one *measure* of the error against the reference."""

    def compute(inputs: MapInputs, watch: Watch) -> MapResult:
        if inputs.reference is None:
            raise SpectrumError("Expected a reference cube, got none. Choose one to compare with.")
        found = cube_errors.error_map(inputs.cube, inputs.reference, measure, watch=watch)
        return _one_plane(found)

    return compute


_H = Number("h", BEST_H, 0.1, 10.0, 1, "x noise")
_A_AND_B = (Line("A", "#4d8fea", 0.75), Line("B", "#f58231", 0.4))
_RED_GREEN_BLUE = (Line("R", "#e6194b", 0.8), Line("G", "#3cb44b", 0.5), Line("B", "#4d8fea", 0.2))

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
        compute=_anomalies,
        colormap="magma",
    ),
    MapKind(
        name="ratio",
        title="Ratio A / B",
        tip="Band A divided by band B.",
        compute=_ratio,
        lines=_A_AND_B,
        colormap="viridis",
    ),
    MapKind(
        name="normalised-difference",
        title="Normalised difference",
        tip="(A - B) / (A + B) of two bands.",
        compute=_normalised_difference,
        lines=_A_AND_B,
        colormap="PiYG",
        limits=(-1.0, 1.0),
        is_signed=True,
    ),
    MapKind(
        name="composite",
        title="Composite",
        tip="Three bands as red, green and blue, each stretched to its own contrast.",
        compute=_composite,
        content="rgb",
        lines=_RED_GREEN_BLUE,
        limits=(0.0, 255.0),
    ),
    MapKind(
        name="true-colour",
        title="True colour",
        tip="What an eye sees in daylight (CIE 1931, D65).",
        compute=_true_colour,
        content="rgb",
        limits=(0.0, 255.0),
    ),
    MapKind(
        name="photo-difference",
        title="Difference from the photo",
        tip="How far the true colour is from that of the photo "
        "(CIEDE2000; a difference of about 1 is just visible).",
        compute=_photo_difference,
        unit="CIEDE2000",
        needs="photo",
        colormap="magma",
    ),
    MapKind(
        name="denoised",
        title="Denoised",
        tip="A cube in which each pixel is the mean of those around it that look alike "
        "(non-local means). A photo that is selected is denoised as a photo.",
        compute=_denoised,
        content="cube",
        number=_H,
    ),
    MapKind(
        name="denoised-guided",
        title="Denoised, guided by the photo",
        tip="A cube in which each pixel is the mean of those around it that look alike in the "
        "photo (non-local means).",
        compute=_guided,
        content="cube",
        number=_H,
        needs="photo",
    ),
    MapKind(
        name="reference-difference",
        title="Difference from the reference",
        tip="Cube minus reference, averaged over the bands.",
        compute=_error("difference"),
        needs="reference",
        colormap="PiYG",
        is_signed=True,
    ),
    MapKind(
        name="reference-rmse",
        title="RMSE to the reference",
        tip="Root mean square error over the bands.",
        compute=_error("rmse"),
        needs="reference",
        colormap="magma",
    ),
    MapKind(
        name="reference-mrae",
        title="MRAE to the reference",
        tip="Mean relative error over the bands; dark pixels of the reference have none.",
        compute=_error("mrae"),
        needs="reference",
        colormap="magma",
    ),
    MapKind(
        name="reference-angle",
        title="SAM to the reference (deg)",
        tip="Spectral angle between each pixel and the reference.",
        compute=_error("angle"),
        unit="spectral angle, deg",
        needs="reference",
        colormap="magma",
    ),
)

MAPS: dict[str, MapKind] = {kind.name: kind for kind in _ROWS}
"""Every map, by name, in the order in which the window lists them.

Notes
-----
======  ===========================================
labels  (H, W) uint16, classes from 1 on; 0 is none
values  (H, W), in `MapKind.unit`
rgb     (H, W, 3) uint8 0-255, sRGB
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
