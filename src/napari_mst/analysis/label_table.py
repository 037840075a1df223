"""Table of labels, such as classes or cells, with their position, mean spectrum and indices.

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
"""Largest number of labels compared pair by pair; thousands of cells would have too many pairs."""

FEWEST_PIXELS = 3
"""Smallest number of pixels from which separability is measured."""

_LEAST_SHARE = 1e-6  # of the largest variance: smaller ones are rounding of float32

Table = dict[str, Sequence[Any]]
"""Columns of equal length, by title."""


def label_table(
    cube: SpectralCube,
    labels: LabelNumbers,
    names: Mapping[int, str] | None = None,
    *,
    pixel_area: PixelArea = IN_PIXELS,
    progress: ProgressLike = None,
) -> Table:
    """Measure every label but 0 of an (H, W) image; each gets a row of the table.

    The columns are the number and name of the label; its centre (row, column) in pixels; the number
    of averaged pixels, and of excluded ones without finite values; its area; mean and standard
    deviation of each band; the indices of the mean spectrum that the bands allow; and, for up to 20
    labels, their `separability`.

    Parameters
    ----------
    names
        Names by label, for labels that have one.
    pixel_area
        Area of one pixel, and its unit.

    Raises
    ------
    SpectrumError
        If *labels* is not an integer image of the size of the cube, or all labels are 0.
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
    # The means as a cube of one column.
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
    """Jeffries-Matusita distances (N, N) between the labels *numbers* (N,): 0 alike, 2 separate.

    Labels are treated as normal distributions: Richards, Remote Sensing Digital Image Analysis,
    section 10.2. They are compared along the directions in which pixels differ by more than
    rounding, of which an estimated cube has far fewer than bands, and along fewer directions than
    the smallest label has pixels. Bands marked as bad in the file are skipped.

    Raises
    ------
    SpectrumError
        If a label has fewer than two pixels with finite values in all good bands.
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
        # Squares of values far from zero would hide a small variance.
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
    """Save *table* as CSV, atomically. Raises `SaveError`, which leaves an older file intact."""
    rows = (tuple(table), *zip(*table.values(), strict=True))
    return write_text(Path(path), csv_text(rows), overwrite=overwrite)
