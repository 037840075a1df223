"""Maps: every picture that can be made of a cube.

Each is a function that takes a cube and returns a `Map`, which has `data`, `plot()`, `write()`,
`to_labels()` and `to_cube()`. The window and `napari-mst map` list the functions by `MAPS`; a new
map is one more function with a `MapKind` above it. Letters: B bands, H rows, W columns.

Notes
-----
=============================================================  ====================================
classes(), clusters()                                          (H, W) uint16 labels; 0 is none
components(), anomalies()                                      (n, H, W); (H, W) float32, no unit
noise_fractions(), without_noise()                             (n, H, W) in noise; unit of the cube
abundances(), unmixed()                                        (n + 1, H, W) shares; residual last
formula(), index(), ratio(), normalised_difference()           (H, W) float32; wavelengths in nm
span()                                                         (3, H, W) float32; centre in nm
transformed()                                                  (B, H, W); unit by its *way*
photo_difference()                                             (H, W) CIEDE2000; photo 0-255 or 0-1
denoised()                                                     (B, H, W), unit of the cube
reference_difference(), reference_rmse()                       (H, W), unit of the cube
reference_mrae()                                               (H, W), a share: 0.1 is 10 %
reference_angle()                                              (H, W), degrees
=============================================================  ====================================

Examples
--------
>>> rng = np.random.default_rng(0)
>>> data = rng.uniform(0.2, 0.8, (3, 20, 30)).astype(np.float32)
>>> cube = nm.SpectralCube(data, [450, 550, 650])
>>> nm.maps.formula(cube, "(r650 - r550) / (r650 + r550)")
<Map of (r650 - r550) / (r650 + r550) (20, 30) float32>
>>> nm.maps.index(cube, "NGRDI"), nm.maps.ratio(cube, 650, 550).data.shape
(<Map of NGRDI (20, 30) float32>, (20, 30))
>>> nm.maps.normalised_difference(cube, 650, 550).facts["map bands"]
'r650 at 650 nm, r550 at 550 nm'
>>> nm.maps.span(cube, (450, 550)).titles[:2]
('mean of 450-550 nm', 'area of 450-550 nm')
>>> nm.maps.transformed(cube, "second derivative", 3).to_cube().quantity
'second derivative'
>>> nm.maps.classes(cube, [nm.point_spectrum(cube, 2, 3)], angle=5).data[2, 3]
np.uint16(1)
>>> nm.maps.clusters(cube, 4).data.max(), nm.maps.components(cube, 2).data.shape
(np.uint16(4), (2, 20, 30))
>>> nm.maps.noise_fractions(cube, 2).titles, nm.maps.without_noise(cube, 2).to_cube().shape
(('MNF 1 (SNR 0.0428)', 'MNF 2 (SNR -0.0188)'), (3, 20, 30))
>>> nm.maps.unmixed(cube, 2).titles[2], nm.maps.abundances(cube, nm.endmembers(cube, 2)).data.shape
('residual', (3, 20, 30))
>>> nm.maps.anomalies(cube).data.shape, nm.maps.denoised(cube, h=1).to_cube().shape
((20, 30), (3, 20, 30))
>>> bool(nm.maps.photo_difference(cube, cube.render()).data.max() < 1)
True
>>> darker = nm.SpectralCube(data / 2, [450, 550, 650])
>>> nm.maps.reference_mrae(darker, cube).data.max(), nm.maps.reference_angle(cube, cube)
(np.float32(0.5), <Map of SAM to the reference (deg) (20, 30) float32>)
>>> nm.maps.reference_rmse(cube, cube).data.max()
np.float32(0.0)
>>> nm.maps.reference_difference(cube, cube).data.max()
np.float32(0.0)
>>> nm.maps.MAPS["clusters"].title
'k-means clusters'
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.illuminants import DAYLIGHT
from napari_mst.cube.pictures import rendering
from napari_mst.cube.spectrum import Spectrum
from napari_mst.denoising.photos import BEST_H
from napari_mst.errors import SpectrumError
from napari_mst.extensions import load_extensions
from napari_mst.photo.photo import PhotoLike, as_photo
from napari_mst.spectra import classification, statistics
from napari_mst.spectra.band_maps import formula as formula
from napari_mst.spectra.band_maps import index as index
from napari_mst.spectra.band_maps import normalised_difference as normalised_difference
from napari_mst.spectra.band_maps import ratio as ratio
from napari_mst.spectra.band_maps import span as span
from napari_mst.spectra.band_maps import transformed as transformed
from napari_mst.spectra.compare import Measure, error_map
from napari_mst.spectra.map_kind import MAPS as MAPS
from napari_mst.spectra.map_kind import Map, MapKind, Number, Text
from napari_mst.spectra.strips import strips
from napari_mst.watch import Watched, watching

MOST_CLASSES = 250
"""Most spectra to classify by. Each costs time, and a layer of labels may have thousands."""


@MapKind(
    "Spectral angle classes",
    "Each pixel gets the spectrum with the smallest spectral angle, if that angle is small enough.",
    content="labels",
    number=Number("angle", "Largest angle", classification.LARGEST_ANGLE, 0.1, 90.0, 1, "deg"),
    needs="spectra",
)
def classes(
    cube: SpectralCube,
    spectra: Sequence[Spectrum],
    angle: float = classification.LARGEST_ANGLE,
    *,
    watch: Watched = None,
) -> Map:
    """Labels of the spectrum that each pixel is most like, up to *angle* degrees: see `classify`.

    Raises
    ------
    SpectrumError
        If there are no spectra or more than 250, they share fewer than two bands with the cube, or
        one is zero there.
    Cancelled
        Soon after *watch* was cancelled.
    """
    if len(spectra) > MOST_CLASSES:
        raise SpectrumError(
            f"Expected at most {MOST_CLASSES} spectra to classify by, got more. Leave some out."
        )
    labels, _ = classification.classify(cube, spectra, angle, watch=watch)
    names = tuple(spectrum.name for spectrum in spectra)
    tints = tuple(spectrum.colour for spectrum in spectra)
    return Map(cube, labels, names=names, tints=tints)


@MapKind(
    "k-means clusters",
    "Pixels with similar values are grouped into this many clusters.",
    content="labels",
    number=Number("count", "Clusters", 6, 2, 200),
)
def clusters(cube: SpectralCube, count: int = 6, *, watch: Watched = None) -> Map:
    """Labels of *count* clusters of pixels with similar values: see `statistics.cluster`."""
    labels, centres = statistics.cluster(cube, int(count), watch=watch)
    return Map(cube, labels, names=tuple(centre.name for centre in centres))


@MapKind(
    "Principal components",
    "The directions in which the pixels differ most, with the share of the variance that each "
    "explains. Each component is a picture of its own.",
    number=Number("count", "Components", 3, 1, 20),
    is_of_spectra=True,
)
def components(cube: SpectralCube, count: int = 3, *, watch: Watched = None) -> Map:
    """The first *count* principal components: see `statistics.principal_components`."""
    bands, explained = statistics.principal_components(cube, int(count), watch=watch)
    titles = (f"PC {number} ({share:.1%})" for number, share in enumerate(explained, 1))
    return Map(cube, bands, tuple(titles))


@MapKind(
    "Minimum noise fraction",
    "The directions in which the signal is largest beside the noise, with that ratio.",
    number=Number("count", "Components", 3, 1, 20),
    is_of_spectra=True,
)
def noise_fractions(cube: SpectralCube, count: int = 3, *, watch: Watched = None) -> Map:
    """The first *count* components of signal over noise: see `statistics.noise_fractions`.

    The note says how many HySime finds.
    """
    bands, ratios, dimensions = statistics.noise_fractions(cube, int(count), watch=watch)
    titles = (f"MNF {number} (SNR {ratio:.3g})" for number, ratio in enumerate(ratios, 1))
    note = f"HySime finds {dimensions} dimensions in this cube."
    return Map(cube, bands, tuple(titles), note=note)


@MapKind(
    "Denoised by MNF",
    "A cube of its first components of the minimum noise fraction alone. 0 takes as many as HySime "
    "finds.",
    content="cube",
    number=Number("count", "Components; 0: as many as HySime finds", 0, 0, 1000),
)
def without_noise(cube: SpectralCube, count: int = 0, *, watch: Watched = None) -> Map:
    """*cube* of its first *count* components alone: see `statistics.noise_fractions`."""
    values, ratios, _ = statistics.noise_fractions(cube, int(count), is_back=True, watch=watch)
    note = f"The cube has the {len(ratios)} components of its largest signal over noise (MNF)."
    return Map(cube, values, note=note)


_CONSTRAINTS = {
    "sum to one": "Shares of 0 or more that add up to 1.",
    "non-negative": "Shares of 0 or more.",
    "free": "Any numbers, as least squares give them.",
}


@MapKind(
    "Abundances",
    "How much of each kept spectrum a pixel is mixed of, and what the mixture leaves (residual).",
    needs="spectra",
    text=Text("constraint", "Constraint", lambda _: _CONSTRAINTS),
    is_of_spectra=True,
    colormap="viridis",
)
def abundances(
    cube: SpectralCube,
    spectra: Sequence[Spectrum],
    constraint: classification.Constraint = "sum to one",
    *,
    watch: Watched = None,
) -> Map:
    """The shares of *spectra* in each pixel, and the residual: see `classification.abundances`."""
    shares, residual = classification.abundances(cube, spectra, constraint, watch)
    names = (spectrum.name or f"spectrum {number}" for number, spectrum in enumerate(spectra, 1))
    return Map(cube, np.stack([*shares, residual]), (*names, "residual"))


@MapKind(
    "Endmembers and abundances",
    "The purest pixels (N-FINDR), how much of each a pixel is mixed of, and the residual.",
    number=Number("count", "Endmembers", 3, 2, 20),
    is_of_spectra=True,
    colormap="viridis",
)
def unmixed(cube: SpectralCube, count: int = 3, *, watch: Watched = None) -> Map:
    """The shares of the *count* purest pixels in each, adding up to 1: see `endmembers`."""
    watch = watching(watch)
    found = classification.endmembers(cube, int(count), watch.part(0, 0.3))
    made = abundances(cube, found, watch=watch.part(0.3, 1))
    return Map(cube, made.data, made.titles)


@MapKind(
    "Anomalies (RX)", "How far each pixel is from all others, as RX measures it.", colormap="magma"
)
def anomalies(cube: SpectralCube, *, watch: Watched = None) -> Map:
    """The distance of each pixel from all others: see `statistics.anomalies`."""
    return Map(cube, statistics.anomalies(cube, watch))


@MapKind(
    "Difference from the photo",
    "How far the true colour is from that of the photo "
    "(CIEDE2000; a difference of about 1 is just visible).",
    unit="CIEDE2000",
    needs="photo",
    colormap="magma",
)
def photo_difference(
    cube: SpectralCube,
    photo: PhotoLike,
    *,
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
    return Map(cube, result)


@MapKind(
    "Denoised",
    "A cube in which each pixel is the mean of those around it that look alike (non-local means).",
    content="cube",
    number=Number("h", "h", BEST_H, 0.1, 10.0, 1, "x noise"),
)
def denoised(cube: SpectralCube, h: float = BEST_H, *, watch: Watched = None) -> Map:
    """*cube* with each pixel as the mean of those that look alike: see `statistics.denoised`."""
    note = f"The cube was denoised by non-local means, h = {h:g} x the noise of its bands."
    return Map(cube, statistics.denoised(cube, h, watching(watch)), note=note)


def _error(measure: Measure, title: str, tip: str, **shown: Any) -> Any:
    """Enter the map of one *measure* of the error against a reference."""

    def compute(cube: SpectralCube, reference: SpectralCube, *, watch: Watched = None) -> Map:
        return Map(cube, error_map(cube, reference, measure, watch=watch))

    compute.__name__ = f"reference_{measure}"
    compute.__doc__ = f"{tip} See `compare.error_map`."
    look = {"colormap": "magma", **shown}
    return MapKind(title, tip, needs="reference", **look)(compute)


reference_difference = _error(
    "difference",
    "Difference from the reference",
    "Cube minus reference, averaged over the bands.",
    colormap="PiYG",
    is_signed=True,
)
reference_rmse = _error("rmse", "RMSE to the reference", "Root mean square error over the bands.")
reference_mrae = _error(
    "mrae",
    "MRAE to the reference",
    "Mean relative error over the bands; dark pixels of the reference have none.",
)
reference_angle = _error(
    "angle",
    "SAM to the reference (deg)",
    "Spectral angle between each pixel and the reference.",
    unit="spectral angle, deg",
)


load_extensions("maps")
