"""A table of labels, such as classes or cells: where each is, its mean spectrum, its indices.

Letters: B bands, H rows, W columns; N labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from napari_mst.analysis import formulas
from napari_mst.analysis.label_means import IN_PIXELS, LabelNumbers, PixelArea, Pixels, averages
from napari_mst.analysis.library import csv_text, write_text
from napari_mst.analysis.regions import labelled_pixels
from napari_mst.analysis.strips import check_enough
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import NO_PROGRESS, ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.gaps import usable
from napari_mst.cube.spectrum import STD

MOST_COMPARED = 20
"""Most labels for which the separability of pairs is measured: thousands of cells have too many."""

FEWEST_PIXELS = 3
"""Fewest pixels that a label needs for a separability."""

_LEAST_SHARE = 1e-6  # of the largest variance: smaller ones are rounding of float32

Table = dict[str, Sequence[Any]]
"""Columns of equal length, by their titles."""


def label_table(
    cube: SpectralCube,
    labels: LabelNumbers,
    names: Mapping[int, str] | None = None,
    *,
    pixel_area: PixelArea = IN_PIXELS,
    progress: ProgressLike = None,
) -> Table:
    """A row for each label of an (H, W) image but 0.

    The columns are its number and its name; its centre, (row, column) in pixels; its pixels, and
    how many more are not numbers; its area; the mean and the standard deviation of each band; each
    index that the bands allow, of the mean spectrum; and for up to 20 labels their `separability`.

    Parameters
    ----------
    names
        Names by label, for the labels that have a name.
    pixel_area
        The area that one pixel covers, and its unit.

    Raises
    ------
    SpectrumError
        If *labels* is not an image of whole numbers of the size of the cube, or all are 0.
    Cancelled
        Soon after *progress* was cancelled.

    Examples
    --------
    >>> from napari_mst.analysis.label_table import label_table
    >>> cube = nm.SpectralCube(np.arange(24.0).reshape(2, 3, 4), [500, 600])
    >>> table = label_table(cube, np.array([[0, 1, 1, 1], [0, 2, 2, 2], [2, 2, 2, 2]]))
    >>> table["row"], table["pixels"], table["mean 500 nm"]
    ([0.0, 1.57...], [3, 7], [2.0, 8.0])
    """
    from scipy.ndimage import center_of_mass

    progress = as_progress(progress)
    pixels = labelled_pixels(cube, labels, progress.part(0, 0.5))
    numbers = pixels.numbers
    if not numbers.size:
        raise SpectrumError("Expected an image with labels, got only 0. Draw some.")
    found = averages(pixels, cube, STD)
    centres = np.transpose(center_of_mass(pixels.labels != 0, pixels.labels, numbers)).tolist()
    table: Table = {
        "label": numbers.tolist(),
        "name": [(names or {}).get(number, "") for number in numbers.tolist()],
        "row": centres[0],
        "column": centres[1],
        "pixels": found.pixels.astype(int).tolist(),
        "excluded": (found.sizes - found.pixels).astype(int).tolist(),
        f"area ({pixel_area[1]})": (found.sizes * pixel_area[0]).tolist(),
    }
    for kind, values in (("mean", found.mean), ("sd", found.deviation)):
        for at, column in zip(cube.wavelengths, np.transpose(values).tolist(), strict=True):
            table[f"{kind} {at:g} {cube.unit}"] = column
    # A cube of one column, whose pixels are the means.
    means = replace(cube, data=found.mean.T[..., None])
    for name in formulas.indices_of(cube):
        table[name] = formulas.evaluated(means, name, NO_PROGRESS)[:, 0].tolist()
    large = np.flatnonzero(found.pixels >= FEWEST_PIXELS)
    if 1 < len(large) <= MOST_COMPARED:
        apart = np.full((len(large), len(numbers)), np.nan)
        apart[:, large] = separability(cube, pixels.labels, numbers[large], progress.part(0.5, 1))
        titles = (f"JM to {number}" for number in numbers[large])
        table |= dict(zip(titles, apart.tolist(), strict=True))
    progress.reach(1.0)
    return table


def separability(
    cube: SpectralCube, labels: LabelNumbers, numbers: LabelNumbers, progress: ProgressLike = None
) -> Doubles:
    """The Jeffries-Matusita distances of the labels *numbers* (N,), (N, N): 0 alike, 2 apart.

    Labels are taken as normal distributions: Richards, Remote Sensing Digital Image Analysis,
    section 10.2. They are compared along the directions in which their pixels differ by more than
    rounding, as an estimated cube has far fewer of these than bands, and along fewer of them than
    the smallest label has pixels. Bands that the file calls bad do not count.

    Raises
    ------
    SpectrumError
        If fewer than two pixels of a label are numbers in all good bands.
    Cancelled
        Soon after *progress* was cancelled.
    """
    from spectral import GaussianStats, bdist

    data = usable(cube).data
    counts, totals = np.zeros(len(numbers)), np.zeros((len(numbers), len(data)))
    squares, origin = np.zeros((len(numbers), len(data), len(data))), np.zeros(())
    chosen = np.where(np.isin(labels, numbers), labels, 0)
    for _, groups, (values,) in Pixels(chosen, numbers, progress=as_progress(progress)).blocks(
        data
    ):
        good = np.isfinite(values.sum(axis=0))
        groups, values = groups.only(good), values[:, good]
        # The squares of numbers far from zero would hide a small variance.
        origin = origin if counts.any() else values.mean(axis=1, keepdims=True)
        parts = np.split(values - origin, groups.starts[1:], axis=1)
        for at, part in zip(groups.labels, parts, strict=False):
            counts[at] += part.shape[1]
            totals[at] += part.sum(axis=1)
            squares[at] += part @ part.T
    check_enough(int(counts.min()))
    means = totals / counts[:, None]
    squares -= np.einsum("nb,nc->nbc", totals, means)
    powers, axes = np.linalg.eigh(squares.sum(axis=0))
    most = max(1, int(counts.min()) - 2)
    axes = axes[:, powers > _LEAST_SHARE * powers[-1]][:, -most:].T
    seen = [
        SimpleNamespace(stats=GaussianStats(axes @ mean, axes @ square @ axes.T / (count - 1)))
        for mean, square, count in zip(means, squares, counts, strict=True)
    ]
    distances = [[float(np.squeeze(bdist(one, other))) for other in seen] for one in seen]
    return 2 - 2 * np.exp(-np.array(distances))


def write_table(path: str | PathLike[str], table: Table, *, overwrite: bool = False) -> Path:
    """Save *table* as CSV, crash-safe. Raises `SaveError`, and an older file is then intact."""
    rows = (tuple(table), *zip(*table.values(), strict=True))
    return write_text(Path(path), csv_text(rows), overwrite=overwrite)
