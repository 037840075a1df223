"""Maps of a cube, one function each.

A function takes a cube and returns a `Map`, which has `data`, `plot()`, `write()`, `to_labels()`
and `to_cube()`. The window and `napari-mst map` list the functions in `MAPS`; to add a map, write a
function and decorate it with a `MapKind`. Letters: B bands, H rows, W columns.

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

from typing import Any

import numpy as np

from napari_mst.analysis.band_maps import (
    formula,
    index,
    normalised_difference,
    ratio,
    span,
    transformed,
)
from napari_mst.analysis.classification import abundances, classes, unmixed
from napari_mst.analysis.comparison import Measure, error_map
from napari_mst.analysis.map_kind import MAPS, Map, MapKind
from napari_mst.analysis.statistics import (
    anomalies,
    clusters,
    components,
    denoised,
    noise_fractions,
    without_noise,
)
from napari_mst.analysis.strips import strips
from napari_mst.base.errors import SpectrumError
from napari_mst.base.extensions import load_extensions
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.illuminants import DAYLIGHT
from napari_mst.cube.pictures import rendering
from napari_mst.photo.photo import PhotoLike, as_photo

__all__ = [
    "MAPS",
    "abundances",
    "anomalies",
    "classes",
    "clusters",
    "components",
    "denoised",
    "formula",
    "index",
    "noise_fractions",
    "normalised_difference",
    "photo_difference",
    "ratio",
    "reference_angle",
    "reference_difference",
    "reference_mrae",
    "reference_rmse",
    "span",
    "transformed",
    "unmixed",
    "without_noise",
]


@MapKind(
    "Difference from the photo",
    "How far the true colour is from that of the photo "
    "(CIEDE2000; a difference of about 1 is just visible).",
    unit="CIEDE2000",
    needs="photo",
    colormap="magma",
    quantity="reflectance",
)
def photo_difference(
    cube: SpectralCube,
    photo: PhotoLike,
    *,
    progress: ProgressLike = None,
) -> Map:
    """CIEDE2000 difference (H, W) between the true colour of *cube* and a *photo* of its size.

    A difference of about 1 is just visible. Both are clipped to sRGB; a pixel is NaN where either
    is not finite. ISO/CIE 11664-6:2022; computed by scikit-image.

    Raises
    ------
    CubeError
        If the wavelengths do not cover 450-650 nm.
    SpectrumError
        If the sizes differ, if *photo* does not have three channels, or if *cube* is not
        reflectance.
    Cancelled
        Soon after *progress* was cancelled.
    """
    from skimage import color

    recipe = rendering(cube, DAYLIGHT)
    source = as_photo(photo)
    channels = len(source.pixels)
    if source.shape != cube.shape[1:] or channels != 3:
        raise SpectrumError(
            f"Expected an RGB photo of {cube.shape[1]} x {cube.shape[2]} pixels, "
            f"got {channels} channels of {source.shape[0]} x {source.shape[1]}. "
            "Take the photo that the cube was made from."
        )
    result = np.empty(cube.shape[1:], dtype=np.float32)
    for rows, strip in strips(cube, as_progress(progress)):
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


def _error(measure: Measure, title: str, tip: str, **shown: Any) -> Any:
    """Add the map of one error *measure* against a reference to the table."""

    def compute(
        cube: SpectralCube, reference: SpectralCube, *, progress: ProgressLike = None
    ) -> Map:
        return Map(cube, error_map(cube, reference, measure, progress=progress))

    compute.__name__ = f"reference_{measure}"
    compute.__doc__ = f"{tip} See `comparison.error_map`."
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
