"""The spectral cube: (B, H, W) numbers, their wavelengths, and their history.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from napari_mst.base.arrays import Array, Codes, Singles
from napari_mst.base.errors import CubeError, check_pixel, shown
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube.gaps import in_all_bands, usable
from napari_mst.cube.illuminants import DAYLIGHT, Light
from napari_mst.cube.labelled import as_data_array, as_signal, parts_of, parts_of_signal
from napari_mst.cube.layer import (
    METADATA_KEY,
    LayerTuple,
    layer_arguments,
    layer_data,
    spectral_axis,
)
from napari_mst.cube.lazy import part_of
from napari_mst.cube.parts import (
    PlainCube,
    Span,
    checked_span,
    cropped_metadata,
    metadata_of_bands,
)
from napari_mst.cube.pictures import WHOLE, composite_of, paint, rendering
from napari_mst.cube.showing import cube_figure, cube_page
from napari_mst.cube.spectrum import Origin, Spectrum

if TYPE_CHECKING:
    from hyperspy.signal import BaseSignal
    from hyperspy.signals import Signal1D
    from matplotlib.figure import Figure
    from xarray import DataArray


_FUNCTIONS = {
    "save": "write_cube(path, cube)",
    "write": "write_cube(path, cube)",
    "resample": "resample(cube, wavelengths)",
    "refine": "refine(cube, photo, references)",
    "prediction_intervals": "prediction_intervals(cube)",
    "to_netcdf": "write_cube('cube.nc', cube)",
}
"""Functions that people look for as methods of a cube."""


@dataclass(frozen=True, eq=False)
class SpectralCube(PlainCube):
    """A cube of spectra: (B, H, W) numbers, their wavelengths, and their history.

    NumPy treats a cube as an array: `np.asarray(cube)` is `cube.data`, read into memory if needed,
    and `cube[0]` is the plane of the first band. A cube has no length. Looping over it raises an
    error, since bands or pixels could be meant: loop over `cube.data`.

    The methods of a cube return parts and pictures. Functions such as `write_cube` read, write,
    measure, compare and correct cubes.

    Attributes
    ----------
    data
        (B, H, W), any numeric type; float32 from a reconstruction. The data of a large file are
        `Lazy`: an index reads only its part, and `np.asarray` reads everything if memory allows. A
        tensor (DLPack) becomes an array that shares its memory. Masked values become NaN.
    wavelengths
        (B,) float64, centres of the bands in *unit*.
    unit
        "nm"; without usable wavelengths "band" (0, 1, 2, ...), or the file's own word.
    quantity
        The meaning of the numbers: "reflectance", "radiance", or "" if unknown.
    metadata
        Further fields of the file by name (`fwhm`, `band names`, ...). `georeference` is the place
        of the image on earth, as text of `georeference.Georeference`.
    colour_error
        (H, W) float32: distance of the network's colour from the photo's, in 8-bit codes; NaN where
        unknown. None for cubes that are not fresh from a reconstruction; not stored in files.

    Raises
    ------
    CubeError
        If *data* is not three-dimensional or has a side of zero, *wavelengths* does not have B
        finite values, or a tensor is on a GPU, needs gradients, or has a type that NumPy lacks.

    Notes
    -----
    ==========================  ==================================================================
    data                        reflectance, 0 to about 1; or others in the unit of the file
    wavelengths                 nm, where `unit` says so
    colour_error                8-bit codes of colour, 0 or more
    sel(), crop()               as `data`
    spectrum()                  float64 in the unit of `data`
    to_xarray(), from_xarray()  as `data`; wavelengths in nm
    from_hyperspy()             as `data`; wavelengths in nm
    to_layer_data()             as `data`; the first axis in nm where the bands are evenly spaced
    render(), composite()       (H, W, 3) uint8 0-255, sRGB
    ==========================  ==================================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [450, 550, 650])
    >>> cube
    <SpectralCube (3, 4, 5) float32, 450-650 nm, reflectance>
    >>> cube.nearest_band(560), cube.spectrum(row=1, column=2).values
    (1, array([0.5, 0.5, 0.5]))
    >>> np.asarray(cube).shape, cube[0, 1:3].shape
    ((3, 4, 5), (2, 5))
    """

    colour_error: Singles | None = None

    def __repr__(self) -> str:
        """One line: shape, type, wavelengths, quantity and model."""
        facts = [f"{self.shape} {self.data.dtype}", self._axis_text()]
        if self.quantity:
            facts.append(shown(self.quantity, 40))
        if self.provenance.refinement:
            facts.append("refined")
        if self.provenance.model:
            facts.append(f"by {shown(self.provenance.model, 40)}")
        return f"<SpectralCube {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        """The page of the cube in a notebook: its picture and its history."""
        return cube_page(repr(self), self)

    def plot(self, pixels: Sequence[tuple[int, int]] = ()) -> "Figure":
        """A figure with the picture of the cube and the spectra of some *pixels* beside it.

        Parameters
        ----------
        pixels
            (row, column) each; the picture marks them in the colours of their curves.

        Raises
        ------
        CubeError
            If matplotlib is missing, or a pixel lies outside the image.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.full((31, 4, 5), 0.5, np.float32), np.arange(400, 701, 10))
        >>> cube.plot([(0, 0), (3, 4)]).axes[1].get_xlabel()
        'wavelength (nm)'
        """
        spectra = {pixel: self.spectrum(*pixel).values for pixel in pixels}
        return cube_figure(self, spectra)

    def spectrum(self, row: int, column: int) -> Spectrum:
        """The spectrum of one pixel, as from `point_spectrum`.

        Raises
        ------
        CubeError
            If the pixel lies outside the image; negative numbers do not count from the end.
        """
        check_pixel(CubeError, row, column, self.shape[1:])
        values = in_all_bands(self, usable(self).data[:, row, column])
        count = int(np.isfinite(values).any())
        origin = Origin(row=row, column=column, pixels=count, excluded=1 - count, area=1.0)
        name = f"row {row}, column {column}"
        return Spectrum(self.wavelengths, values, self.unit, name, origin=origin)

    def crop(self, rows: Span, columns: Span) -> "SpectralCube":
        """The cube of some rows and columns, as a view of the data.

        The georeference and the region in the history move with the corner, and the history marks
        the cube as a cut. Data in a file are not read. Metadata that refer to pixels, such as saved
        picks, are left out.

        Parameters
        ----------
        rows, columns
            (start, stop) or a slice, in pixels from the first row or column; `slice(None)` for all.
            Negative numbers do not count from the end.

        Raises
        ------
        CubeError
            If the part is empty, reaches beyond the image, or has a step.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
        >>> cube.crop(rows=(10, 20), columns=slice(30, None)).shape
        (3, 10, 20)
        """
        _, height, width = self.shape
        down = checked_span(rows, height, "rows")
        across = checked_span(columns, width, "columns")
        if down == slice(0, height) and across == slice(0, width):
            return self
        return replace(
            self,
            data=part_of(self.data, slice(None), down, across),
            provenance=self.provenance.cropped(down, across),
            metadata=cropped_metadata(self.metadata, down.start, across.start),
            colour_error=None if self.colour_error is None else self.colour_error[down, across],
        )

    @overload
    def sel(self, *, wavelength: float) -> Array: ...

    @overload
    def sel(self, *, wavelength: slice | Sequence[float]) -> "SpectralCube": ...

    def sel(self, *, wavelength: float | slice | Sequence[float]) -> "Array | SpectralCube":
        """The plane at a wavelength, or the cube of a range or a list of wavelengths.

        Parameters
        ----------
        wavelength
            In nm. A number gives the plane (H, W) of the nearest band. A slice gives the cube of
            all bands within it, both ends included; either end may be omitted. A list gives the
            cube of the nearest bands, each once, in the order of the cube.

        Raises
        ------
        CubeError
            If the cube has no wavelengths in nm, the number lies outside them, or no band lies
            within the slice.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
        >>> cube.sel(wavelength=560).shape
        (40, 50)
        >>> cube.sel(wavelength=slice(520, 600)).shape, cube.sel(wavelength=[500, 590]).shape
        ((2, 40, 50), (2, 40, 50))
        """
        if not self.has_wavelengths:
            raise CubeError(
                f"Expected a cube with wavelengths in nm, got {self._axis_text()}. "
                "Take a band by its index, as in `cube[0]`."
            )
        if isinstance(wavelength, slice):
            return self._of_bands(self._bands_within(wavelength))
        bands = [self._band_at(each) for each in np.atleast_1d(wavelength).tolist()]
        if np.ndim(wavelength):
            return self._of_bands(sorted(set(bands)))
        return self[bands[0]]

    def render(
        self,
        illuminant: Light = DAYLIGHT,
        *,
        adapted: bool = True,
        full_scale: float | None = None,
        progress: ProgressLike = None,
    ) -> Codes:
        """The colours that an eye sees under a light: (H, W, 3), 8-bit sRGB.

        CIE 1931 2 degree observer. Colours outside sRGB are clipped, and NaN pixels are black. The
        data are read a few rows at a time.

        Parameters
        ----------
        illuminant
            One of `illuminant_names` ("D65", ...), a CSV file of nm and power, or a `Spectrum`.
        adapted
            True keeps white white, as for eyes adapted to the light (Bradford). False shows the
            colour of the light relative to D65, darkened just enough that white is not clipped.
        full_scale
            The stored value of reflectance 1; required unless `quantity` is "reflectance".

        Raises
        ------
        CubeError
            If the cube is not reflectance and *full_scale* is missing, or its wavelengths do not
            cover 450-650 nm.
        CameraError
            If the light is unknown, or does not cover 400-700 nm.
        Cancelled
            Soon after *progress* is cancelled.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.full((31, 4, 5), 0.5, np.float32), np.arange(400, 701, 10))
        >>> cube.render()[0, 0]
        array([188, 188, 188], dtype=uint8)
        """
        recipe = rendering(
            self, illuminant, is_chromatically_adapted=adapted, full_scale=full_scale
        )
        return paint(self, recipe, WHOLE, as_progress(progress))

    def composite(
        self,
        wavelengths: Sequence[float] | None = None,
        *,
        progress: ProgressLike = None,
    ) -> Codes:
        """The best picture of any cube, or of three of its bands: (H, W, 3), 8-bit sRGB.

        The default is the CIE colour under D65 if the cube covers 450-650 nm; else the default
        bands of its header; else a false colour of near-infrared, red and green, or of three bands
        that divide its range.

        Colours of reflectance are true, as in `render`, unless they are too dark or too bright to
        see. Everything else is stretched between the 1st and the 99th percentile of each channel,
        to a median brightness of .2 to .8. Pixels that are NaN, ignored or zero do not count, and
        are black.

        Parameters
        ----------
        wavelengths
            Wavelengths to show as red, green and blue, in `unit`; the nearest bands are used.

        Raises
        ------
        CubeError
            If *wavelengths* are not three values within the range of the cube.
        Cancelled
            Soon after *progress* is cancelled.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.full((31, 4, 5), 0.5, np.float32), np.arange(400, 701, 10))
        >>> cube.composite()[0, 0]
        array([188, 188, 188], dtype=uint8)
        >>> cube.composite((650, 550, 450)).shape
        (4, 5, 3)
        """
        recipe = composite_of(self, wavelengths)
        return paint(self, recipe, WHOLE, as_progress(progress))

    def to_xarray(self) -> "DataArray":
        """The cube as an xarray array with the axes wavelength, y and x.

        Wavelengths have CF names and units; a cube without wavelengths has the axis band. y and x
        are coordinates on earth if these are known and not rotated. The data are not copied.
        `to_netcdf` of the array keeps the provenance and all metadata that JSON can hold.

        Raises
        ------
        CubeError
            If xarray is not installed.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
        >>> cube.to_xarray().sel(wavelength=550).shape
        (40, 50)
        """
        return as_data_array(self)

    @classmethod
    def from_xarray(cls, array: "DataArray") -> "SpectralCube":
        """The cube of an xarray *array* with three axes in any order; data are not copied.

        The spectral axis is called wavelength, band or similar, or has a CF name for wavelengths.
        Wavelengths in any unit of length become nm; without wavelengths, bands are numbered.

        Raises
        ------
        CubeError
            If *array* is not an xarray array, does not have three axes, its spectral axis is
            unclear, or its wavelengths have no unit.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
        >>> nm.SpectralCube.from_xarray(cube.to_xarray().transpose("y", "x", "wavelength")).shape
        (3, 40, 50)
        """
        return cls(**vars(parts_of(array)))

    def to_hyperspy(self) -> "Signal1D":
        """The cube as a HyperSpy signal with y and x to navigate and wavelengths as signal axis.

        Evenly spaced wavelengths become a uniform axis. The data are not copied. The provenance and
        all metadata that JSON can hold go into `original_metadata`, which HyperSpy saves.

        Raises
        ------
        CubeError
            If HyperSpy is not installed, or the wavelengths neither rise nor fall.

        Examples
        --------
        >>> signal = cube.to_hyperspy()  # doctest: +SKIP
        """
        return as_signal(self)

    @classmethod
    def from_hyperspy(cls, signal: "BaseSignal") -> "SpectralCube":
        """The cube of a HyperSpy *signal* with one signal axis and two navigation axes.

        Wavelengths in any unit of length become nm; an axis called band without a unit numbers the
        bands.

        Raises
        ------
        CubeError
            If *signal* is not a signal, has other axes, or its signal axis has no unit.

        Examples
        --------
        >>> cube = nm.SpectralCube.from_hyperspy(signal)  # doctest: +SKIP
        """
        return cls(**vars(parts_of_signal(signal)))

    def to_layer_data(self, name: str = "") -> LayerTuple:
        """The cube as a napari layer: data, arguments and "image", as a reader returns them.

        The bands lie along the first axis, in wavelengths if these are evenly spaced. A cube that
        is computed on demand becomes a pyramid. napari itself is not needed.

        Parameters
        ----------
        name
            Name of the layer; by default the name of the photo.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
        >>> data, arguments, kind = cube.to_layer_data("leaf")
        >>> arguments["scale"], arguments["axis_labels"], kind
        ((50.0, 1.0, 1.0), ('wavelength (nm)', 'y', 'x'), 'image')
        """
        name = name or PurePath(self.provenance.source).stem or "cube"
        arguments = layer_arguments(self.data, spectral_axis(self.wavelengths, self.unit), name)
        return layer_data(self.data), {**arguments, "metadata": {METADATA_KEY: self}}, "image"

    # With this method, type checkers would accept any attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            advice = f" Use nm.{_FUNCTIONS[name]}." if name in _FUNCTIONS else ""
            raise AttributeError(f"A SpectralCube has no attribute {name!r}.{advice}")

    def _of_bands(self, bands: list[int]) -> "SpectralCube":
        """The cube of *bands*, in ascending order; a view if the bands are neighbours."""
        if len(bands) == len(self.wavelengths):
            return self
        first, last = bands[0], bands[-1]
        key: Any = slice(first, last + 1) if last - first + 1 == len(bands) else bands
        part = replace(
            self,
            data=part_of(self.data, key),
            wavelengths=self.wavelengths[bands],
            metadata=metadata_of_bands(self.metadata, bands, len(self.wavelengths)),
        )
        return replace(part, provenance=self.provenance.with_cut(part._axis_text()))
