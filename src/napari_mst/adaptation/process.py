"""The posterior of a Gaussian process: known spectra predict all other pixels.

Every band is a process of the same kernel k and a variance s of its own. With the known errors D
(n, B) at n spots, the error at a pixel p has the mean k(p) (K + N)^-1 D and the variance s (k(p, p)
- k(p) (K + N)^-1 k(p)'), where K is the kernel between the spots, k(p) that between p and them, and
N the noise of each. This is simple kriging (Matheron, Econ. Geol. 58 (1963) 1246,
doi:10.2113/gsecongeo.58.8.1246); Rasmussen & Williams 2006, equations 2.25 and 2.26.

Up to `EXACT` spots it is solved as it stands. More go through that many inducing points,
chosen among them so that each lowers the variance most: the projected process of Rasmussen &
Williams 2006, chapter 8.3.4. Neither needs more than NumPy, and the cost of a pixel does not grow
any more. Letters: B bands, n spots, m inducing points, k pixels.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.adaptation.kernel import Kernel
from napari_mst.arrays import Doubles, Floats, Indices

OFFSET = 0.01
"""Added to reflectances before logarithms: below it a ratio is mostly noise of the instrument."""

EXACT = 1024
"""The most spots that are solved exactly: 0.1 s and 8 MB for their matrix."""

_FARTHEST = 2.0  # log reflectance: no correction goes beyond a factor of 7
_JITTER = 1e-10  # of the diagonal of a matrix, for its inverse


@dataclass(frozen=True, eq=False)
class Spots:
    """Errors of the estimate where the truth is known.

    Attributes
    ----------
    features
        (n, 6), see `kernel.features_of_spectra`.
    errors
        (n, B) log of true over estimated reflectance, both plus `OFFSET`.
    noise
        (n,) variance of the measurement of each spot, beside the noise of the kernel.
    """

    features: Doubles
    errors: Doubles
    noise: Doubles

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, chosen: Indices) -> "Spots":
        """The *chosen* ones, by their places in the list."""
        return Spots(self.features[chosen], self.errors[chosen], self.noise[chosen])

    def covariance(self, kernel: Kernel) -> Doubles:
        """Covariance (n, n) of the errors as they are known, with all noise."""
        return kernel(self.features, self.features) + np.diag(kernel.noise + self.noise)

    def sample(self, most: int) -> Indices:
        """Indices of at most *most* spots, drawn evenly from the whole list; always the same.

        The first ones would be the top of the image, where the spots are the blocks of a coarse
        cube: a kernel that is fitted to them does not hold further down.
        """
        return drawn(len(self), most)


def drawn(count: int, most: int) -> Indices:
    """At most *most* of the indices below *count*, in order, drawn evenly; always the same."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of the known spots: `shift` at any pixel, and how uncertain that is.

    Attributes
    ----------
    kernel
        The hyperparameters.
    points
        (m, 6) features of the spots, or of the inducing points.
    weights
        (m, B): the shift at a pixel is its kernel to the points, times these.
    precision
        (m, m): the variance at a pixel is what its kernel to the points, squared over this, leaves
        of its own.
    band_scale
        (B,) factors on the variance.
    """

    kernel: Kernel
    points: Doubles
    weights: Doubles
    precision: Doubles
    band_scale: Doubles

    def shift(self, features: Doubles) -> Doubles:
        """Mean of the error (k, B) at pixels with *features* (k, 6)."""
        shift = self.kernel(features, self.points) @ self.weights
        return np.clip(shift, -_FARTHEST, _FARTHEST, out=shift)

    def variance(self, features: Doubles) -> Doubles:
        """Variance of the error (k,) that is left at these *features*, before `band_scale`."""
        across = self.kernel(features, self.points)
        explained = np.einsum("km,km->k", across @ self.precision, across)
        left = self.kernel.own(features) - explained
        return np.maximum(left, 0) + self.kernel.noise


def errors_of(true: Floats, estimate: Floats) -> Doubles:
    """Log of *true* over *estimate*, reflectances of one shape, both plus `OFFSET`."""
    return np.log((true + OFFSET) / (np.maximum(estimate, 0) + OFFSET))


def without_gaps(errors: Doubles) -> Doubles:
    """*errors* (n, B), gaps filled with the nearest band that is known; rows without any stay."""
    bands = np.arange(errors.shape[1])[:, None]
    filled = errors.copy()
    for row in filled:
        finite = np.flatnonzero(np.isfinite(row))
        if finite.size:
            row[:] = row[finite[np.abs(bands - finite).argmin(axis=1)]]
    return filled


def corrected(estimate: Floats, shift: Doubles) -> Floats:
    """*estimate* moved by the errors *shift*: the inverse of `errors_of`, never negative."""
    moved = (np.maximum(estimate, 0) + OFFSET) * np.exp(shift) - OFFSET
    return np.maximum(moved, 0)


def posterior(kernel: Kernel, spots: Spots, band_scale: Doubles) -> Posterior:
    """The posterior of *spots*; more than `EXACT` of them go through inducing points."""
    if len(spots) <= EXACT:
        inverse = _inverse(spots.covariance(kernel))
        return Posterior(kernel, spots.features, inverse @ spots.errors, inverse, band_scale)
    chosen = most_telling(kernel, spots.features, EXACT)
    points = spots.features[chosen]
    across = kernel(points, spots.features)
    weighed = across / (kernel.noise + spots.noise)
    among = kernel(points, points)
    inner = _inverse(among + weighed @ across.T)
    weights = inner @ (weighed @ spots.errors)
    return Posterior(kernel, points, weights, _inverse(among) - inner, band_scale)


def leave_one_out(kernel: Kernel, spots: Spots) -> tuple[Doubles, Doubles]:
    """The error (n, B) of every spot as all others predict it, and the variance (n,) of that.

    Rasmussen & Williams 2006, equations 5.12: no spot has to be left out in fact.
    """
    inverse = _inverse(spots.covariance(kernel))
    variance = 1 / np.diag(inverse)
    predicted = spots.errors - (inverse @ spots.errors) * variance[:, None]
    return predicted, variance


def most_telling(kernel: Kernel, features: Doubles, count: int) -> Indices:
    """Indices of *count* points (n, 6), each the least certain one after those before.

    It is the pivoted Cholesky factorisation of their kernel: Harbrecht, Peters, Schneider, Appl.
    Numer. Math. 62 (2012) 428, doi:10.1016/j.apnum.2011.10.001. It needs *count* columns of the
    kernel, never all of it.
    """
    left = kernel.own(features)
    columns = np.empty((count, len(features)))
    chosen = np.empty(count, dtype=np.intp)
    for place in range(count):
        best = int(np.argmax(left))
        chosen[place] = best
        before = columns[:place]
        column = kernel(features[best : best + 1], features)[0] - before[:, best] @ before
        columns[place] = column / np.sqrt(max(left[best], _JITTER))
        left = left - np.square(columns[place])
        left[chosen[: place + 1]] = -np.inf
    return chosen


def _inverse(matrix: Doubles) -> Doubles:
    """Inverse of a symmetric matrix, itself exactly symmetric."""
    jitter = _JITTER * float(np.trace(matrix)) / max(len(matrix), 1)
    inverse = np.linalg.inv(matrix + jitter * np.eye(len(matrix)))
    return (inverse + inverse.T) / 2
