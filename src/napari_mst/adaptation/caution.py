"""Caution: how far to go, and which known spectra contradict each other (B bands, n spots)."""

from collections.abc import Sequence

import numpy as np

from napari_mst.adaptation.kernel import Kernel
from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.adaptation.process import EXACT, Spots, leave_one_out
from napari_mst.arrays import Doubles

_STEPS = np.linspace(0, 1, 21)
"""Shares of the correction that are tried."""
_TRUST = 2.0
"""The defaults count for this many spots: as many that contradict the correction halve it."""

_ALIKE = 0.95
"""Correlation from which on two spots should have about the same error: they look the same in the
photo."""
APART = 4.0
"""Standard deviations between two errors beyond which they are not both those of one material."""
LEAST_APART = 0.15
"""Mean difference of log reflectance, 15 %, below which no contradiction is reported."""


class ContradictingSpectra(UserWarning):
    """Two spots look the same in the photo, or are the same, and their known spectra differ."""


def reach(kernel: Kernel, spots: Spots) -> float:
    """The share of the correction, 0 to 1, at which the spots predict each other best.

    One spot alone cannot say: its correction goes as far as the kernel says.
    """
    if len(spots) < 2:
        return 1.0
    few = spots[spots.sample(EXACT)]
    predicted, _ = leave_one_out(kernel, few)
    size = np.abs(few.errors).mean()
    left = np.array([np.abs(few.errors - share * predicted).mean() for share in _STEPS])
    # the defaults were fitted to many scenes, so that two spots by chance do not undo them
    prior = _TRUST * size * np.square(1 - _STEPS) / len(few)
    return float(_STEPS[np.argmin(left + prior)])


def contradictions(kernel: Kernel, spots: Spots, known: Sequence[KnownSpectrum]) -> list[str]:
    """A sentence for each pair of *known* spectra that contradict each other at their *spots*.

    The spots look the same, but their errors differ by more than noise.
    """
    chosen = spots.sample(EXACT)
    few = spots[chosen]
    covariance = kernel(few.features, few.features)
    variance = np.diag(covariance)
    noise = kernel.noise + few.noise
    expected = variance[:, None] + variance - 2 * covariance + noise[:, None] + noise
    squares = _mean_squares(few.errors)
    is_alike = covariance >= _ALIKE * np.sqrt(variance[:, None] * variance)
    is_apart = squares > np.maximum(APART**2 * expected, LEAST_APART**2)
    sentences = []
    for i, j in np.argwhere(np.triu(is_alike & is_apart, 1)):
        places = f"{known[chosen[i]].place} and {known[chosen[j]].place}"
        sentences.append(
            f"The known spectra at {places} differ by {np.sqrt(squares[i, j]):.0%}, but their "
            "spots look the same: if they are one material, one of them is wrong."
        )
    return sentences


def _mean_squares(errors: Doubles) -> Doubles:
    """Mean over the bands of the squared differences between all errors (n, n)."""
    squares = np.square(errors).mean(axis=1)
    products = errors @ errors.T / errors.shape[1]
    return np.maximum(squares[:, None] + squares - 2 * products, 0)
