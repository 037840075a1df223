"""Mean spectra of all labels of an image, in one pass: the cells of a segmentation, by thousands.

NaN is treated as in `regions.region_spectrum`, label by label.
Letters: B bands, H rows, W columns; N labels.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from napari_mst.arrays import Doubles
from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.means import Numbers, Pixels, Spread, averages
from napari_mst.spectra.spectrum import STD, Origin, Spectrum
from napari_mst.watch import Watched, watching

T = TypeVar("T")


class Labelled(Mapping[int, T]):
    """The results for all labels, by number; each is made when it is asked for.

    Attributes
    ----------
    numbers
        (N,) the labels, rising.
    curves
        (N, B) their mean values.
    """

    def __init__(self, numbers: Numbers, curves: Doubles, make: Callable[[int], T]) -> None:
        self.numbers = numbers
        self.curves = curves
        self._make = make

    def __getitem__(self, number: int) -> T:
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            raise KeyError(number)
        return self._make(at)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)


def label_spectra(  # noqa: PLR0913 (public, its options by name)
    cube: SpectralCube,
    labels: Numbers,
    spread: Spread = STD,
    *,
    cube_name: str = "",
    pixel_area: float = 1.0,
    area_unit: str = "pixel",
    watch: Watched = None,
) -> Labelled[Spectrum]:
    """Return the mean spectrum of every label of an (H, W) image but 0, in one pass over the cube.

    Each is what `regions.region_spectrum` gives for the pixels of the label.

    Raises
    ------
    SpectrumError
        If *labels* is not an image of whole numbers of the size of the cube, or *spread* is
        unknown.
    Cancelled
        Soon after *watch* was cancelled.

    Notes
    -----
    =======  ===================================
    cube     any unit: reflectance, radiance
    labels   (H, W) whole numbers; 0 is no label
    returns  float64 in the unit of the cube
    =======  ===================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> labels = np.array([[0, 1, 1, 1], [0, 2, 2, 2], [2, 2, 2, 2]])
    >>> spectra = nm.label_spectra(cube, labels)
    >>> list(spectra), spectra[1].values
    ([1, 2], array([ 2., 14.]))
    """
    checked = _checked(np.ma.filled(np.asanyarray(labels), 0), cube)
    numbers = label_numbers(checked)
    statistics = averages(Pixels(checked, numbers, watch=watching(watch)), cube.data, spread)
    # The spectra are made later; they must not keep the cube alive until then.
    wavelengths = cube.wavelengths
    unit = cube.unit

    def made(at: int) -> Spectrum:
        name = f"label {numbers[at]}"
        origin = Origin(cube_name, region=name, area_unit=area_unit)
        fields = statistics.fields(at, origin, pixel_area)
        return Spectrum(wavelengths, unit=unit, name=name, **fields)

    return Labelled(numbers, statistics.mean, made)


def _checked(labels: Numbers, cube: SpectralCube) -> Numbers:
    if labels.shape != cube.shape[1:] or labels.dtype.kind not in "iub":
        raise SpectrumError(
            f"Expected an image of whole numbers of {cube.shape[1]} x {cube.shape[2]} pixels, "
            f"got {labels.dtype} of {' x '.join(map(str, labels.shape))}. "
            "Take the labels of this cube."
        )
    # A mask is an image of one label, 1.
    return labels.astype(np.uint8) if labels.dtype.kind == "b" else labels


def label_numbers(labels: Numbers) -> Numbers:
    """(N,) the values of an image of labels but 0, rising."""
    numbers = np.unique(labels)
    return numbers[numbers != 0]
