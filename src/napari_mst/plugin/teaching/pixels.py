"""The spectrum under a click on the image, and the estimate beside it."""

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.cube import SpectralCube
from napari_mst.cube.pictures import good_bands
from napari_mst.errors import SpectrumError
from napari_mst.messages import shown
from napari_mst.plugin.teaching.lesson import Subject
from napari_mst.plugin.viewer.layers import cube_of, shown_cube_layers
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.spectra.spectrum import Spectrum

SEEN = (380.0, 780.0)
"""nm; the smoothest waves would otherwise lie where no eye sees them."""
REFLECTANCE = "reflectance"


def subject_at(viewer: ViewerModel, position: Position) -> Subject | None:
    """Return the spectrum of the cubes of *viewer* at a world *position*; None outside them.

    Measured cubes come before reconstructed ones, which then give the estimate.

    Raises
    ------
    SpectrumError
        If the cube that is clicked holds no reflectance.
    """
    if viewer.dims.ndisplay != 2:
        return None
    there = [layer for layer in shown_cube_layers(viewer) if pixel_at(layer, position)]
    estimates = [layer for layer in there if _cube(layer).provenance.model]
    truths = [layer for layer in there if layer not in estimates]
    if truths:
        estimate = _spectrum(estimates[0], position) if estimates else None
        return Subject(_spectrum(truths[0], position), estimate)
    if estimates:
        return Subject(_spectrum(estimates[0], position), has_truth=False)
    return None


def _cube(layer: Image) -> SpectralCube:
    cube = cube_of(layer)
    if cube is None:
        raise SpectrumError("Expected a layer of a cube, got another one. Click on a cube.")
    return cube


def _spectrum(layer: Image, position: Position) -> Spectrum:
    """The visible bands of the pixel of *layer* at *position*, which lies on it."""
    cube = _cube(layer)
    if cube.quantity != REFLECTANCE:
        raise SpectrumError(
            f"Expected a cube of reflectance, got "
            f"{shown(cube.quantity, 40) or 'numbers of unknown meaning'} in "
            f"'{shown(layer.name, 40)}'. Metamers are spectra of things in a light."
        )
    row, column = pixel_at(layer, position) or (0, 0)
    good = good_bands(cube)
    at = cube.wavelengths[good]
    is_seen = (at >= SEEN[0]) & (at <= SEEN[1]) if cube.has_wavelengths else np.ones(len(at), bool)
    values = cube.spectrum(row, column)[good][is_seen]
    name = f"{layer.name}, row {row}, column {column}"
    return Spectrum(at[is_seen], values, unit=cube.unit, name=name)
