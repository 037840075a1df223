"""A Gaussian process that predicts the errors of all pixels from reference spectra.

An error is the log of true over estimated reflectance. One part of it is the same all over the
scene, one drifts with colour and brightness, one belongs to a colour, and one to a colour at a
place. The kernel models these parts (Rasmussen & Williams, Gaussian Processes for Machine Learning,
MIT Press 2006, chapter 4). The colour of a pixel is that of its estimated spectrum instead of the
photo. On a clean photo the two agree to half a code, on a noisy photo the estimate is less noisy,
and a cube from a file needs no photo.

Every band is a process with the same kernel k and a separate variance s. Given known errors D
(n, B) at n spots, the error at a pixel p has the mean k(p) (K + N)^-1 D and the variance
s (k(p, p) - k(p) (K + N)^-1 k(p)'), where K is the kernel between the spots, k(p) that between p
and the spots, and N the noise of each spot. This is simple kriging (Matheron, Econ. Geol. 58 (1963)
1246, doi:10.2113/gsecongeo.58.8.1246); Rasmussen & Williams 2006, equations 2.25 and 2.26.

Up to `EXACT` spots, the equations are solved directly. More spots are represented by as many
inducing points, each chosen to lower the variance most: the projected process of Rasmussen &
Williams 2006, chapter 8.3.4. Both need only NumPy, and the cost per pixel is bounded.

The kernel is fitted to the reference spectra of one scene, starting from defaults. Letters: B
bands, n spots, m inducing points or other points, k pixels.
"""

from dataclasses import dataclass, replace

import numpy as np

from napari_mst.base.arrays import Doubles, Floats, Indices
from napari_mst.cube.colour import srgb_response

# Linear light of about one 8-bit code, below which ratios of channels are rounding.
_DARKEST = 0.003
_TINY = 1e-12  # added under the root, whose slope at 0 is infinite


def features_of_spectra(spectra: Floats, places: Floats, wavelengths: Doubles) -> Doubles:
    """Return features (n, 6) of *spectra* (n, B) at *places* (n, 2), shares of the longer side.

    The features are colour (logarithms of red, green and blue over their geometric mean),
    brightness (the logarithm of red + green + blue), and place.
    """
    light = np.maximum(spectra @ srgb_response(wavelengths), 0) + _DARKEST
    logs = np.log(light)
    brightness = np.log(light.sum(axis=1, keepdims=True))
    return np.hstack([logs - logs.mean(axis=1, keepdims=True), brightness, places])


@dataclass(frozen=True)
class Kernel:
    """The hyperparameters: variances in squared log reflectance, lengths in units of features.

    Attributes
    ----------
    everywhere
        Variance of the error that all pixels share.
    colour
        Variance of the error that pixels of one colour share, within `chroma_length` and
        `brightness_length`.
    place
        Variance of the error that similar colours share at one place, within `place_length`;
        colours count `place_colour` times less than in `colour`.
    noise
        Variance of the error that no two spots share.
    """

    everywhere: float
    colour: float
    place: float
    chroma_length: float
    brightness_length: float
    place_length: float
    place_colour: float
    noise: float

    def __call__(self, first: Doubles, second: Doubles) -> Doubles:
        """Return the covariance (m, n) of errors at features (m, 6) and (n, 6), without noise."""
        lengths = np.array([self.chroma_length] * 3 + [self.brightness_length])
        colour = _distance(first[:, :4] / lengths, second[:, :4] / lengths)
        place = _distance(first[:, 4:] / self.place_length, second[:, 4:] / self.place_length)
        near = colour / self.place_colour**2 + place
        covariance = self.everywhere + self.colour * np.exp(-colour / 2)
        covariance += self.place * np.exp(-np.sqrt(near + _TINY))
        return covariance

    def own(self, points: Doubles) -> Doubles:
        """Return the variance (n,) of the error at each of *points* (n, 6), without noise."""
        variance = self.everywhere + self.colour + self.place
        return np.where(np.isfinite(points).all(axis=1), variance, np.nan)


def _distance(first: Doubles, second: Doubles) -> Doubles:
    """Return squared distances (m, n), clipped at 0 against rounding."""
    squares = np.square(first).sum(axis=1)[:, None] + np.square(second).sum(axis=1)
    squares -= 2 * (first @ second.T)
    return np.maximum(squares, 0, out=squares)


# Hyperparameters from which every refinement starts. They were fitted to simulated scenes of
# measured reflectances, never to test scenes. `lab/benchmarks/fit_reference_spectra.py --scenes 60`
# draws the scenes and minimises the error with which 1 to 64 random spots predict all other pixels.
# Two values have other origins: the noise was raised by judgement, and the factor of the bands
# comes from 40 simulated scenes of 96 x 96 pixels.

KERNEL = Kernel(
    everywhere=0.00235,
    colour=0.00821,
    place=0.00302,
    chroma_length=0.303,
    brightness_length=1.65,
    place_length=0.3,
    place_colour=13.4,
    # 1 %, since simulated truths have hardly any noise, and no instrument is better.
    noise=1e-4,
)

OF_PHOTO = Kernel(
    everywhere=0.2,
    colour=0.02,
    place=0.01,
    chroma_length=0.5,
    brightness_length=1.65,
    place_length=0.3,
    place_colour=5.0,
    noise=0.02,
)
"""Hyperparameters for photos of unknown brightness: all pixels share an error of 45 %.

Round numbers, chosen on photos of `lab.benchmarks.knowledge` that are not test photos. A kernel
that `lab.benchmarks.fit_reference_spectra --photos` fits to simulated scenes was 0.01 worse, as its
noise is too low for single pixels of a JPEG.
"""

BAND_FACTOR = 2.06
"""Standard deviations to each side that enclose nine in ten values of simulated scenes."""

_OF_PHOTO_SCALE = 0.4  # chosen with the deviations of `refinement_record.CAMERA`

_BAND_SCALE = np.array(
    [
        *(2.76, 1.63, 1.04, 0.56, 0.21, 0.12, 0.24, 0.22, 0.25, 0.35, 0.48, 0.53, 0.51, 0.22, 0.11),
        *(0.12, 0.26, 0.51, 0.88, 0.49, 0.26, 0.21, 0.41, 0.82, 1.39, 1.39, 1.59, 2.08, 2.80, 3.64),
        4.92,
    ]
)


def band_scale(wavelengths: Doubles, kernel: Kernel = KERNEL) -> Doubles:
    """Return factors (B,) on the variance of a default *kernel*, constant beyond 400-700 nm.

    Unknown brightness affects all bands alike; `refinement_record` holds the differences between
    bands for single pixels of a camera photo.
    """
    if kernel is OF_PHOTO:
        return np.full(len(wavelengths), _OF_PHOTO_SCALE)
    return np.interp(wavelengths, np.arange(400.0, 701, 10), _BAND_SCALE)


OFFSET = 0.01
"""Added to reflectances before logarithms; below it, ratios are mostly instrument noise."""

EXACT = 1024
"""Largest number of spots solved exactly, with 0.1 s and 8 MB for their matrix."""

_FARTHEST = 2.0  # log reflectance, which limits corrections to a factor of 7
_JITTER = 1e-10  # share of the diagonal that stabilises an inverse


@dataclass(frozen=True, eq=False)
class Spots:
    """Errors of the estimate at spots where the truth is known.

    Attributes
    ----------
    features
        (n, 6), see `features_of_spectra`.
    errors
        (n, B) log of true over estimated reflectance, both plus `OFFSET`.
    noise
        (n,) variance of the measurement at each spot, in addition to the noise of the kernel.
    prior
        Kernel assumed before any error is known: `KERNEL` or `OF_PHOTO`.
    """

    features: Doubles
    errors: Doubles
    noise: Doubles
    prior: Kernel = KERNEL

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, chosen: Indices) -> "Spots":
        """Return the spots with these indices."""
        return Spots(self.features[chosen], self.errors[chosen], self.noise[chosen], self.prior)

    def covariance(self, kernel: Kernel) -> Doubles:
        """Return the covariance (n, n) of the known errors, including all noise."""
        return kernel(self.features, self.features) + np.diag(kernel.noise + self.noise)

    def sample(self, most: int) -> "Spots":
        """Draw at most *most* spots evenly from the whole list, reproducibly.

        The first spots would not do: blocks of a coarse cube start at the top of the image, and a
        kernel fitted there does not hold further down.
        """
        return self[drawn(len(self), most)]


def drawn(count: int, most: int) -> Indices:
    """Draw at most *most* of the indices below *count* evenly, in order and reproducibly."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior given the known spots: the `shift` of any pixel, and its variance.

    Attributes
    ----------
    kernel
        The hyperparameters.
    points
        (m, 6) features of the spots, or of the inducing points.
    weights
        (m, B): the kernel between a pixel and the points, times these, is the shift.
    precision
        (m, m): the quadratic form of the kernel between a pixel and the points in this matrix is
        the explained part of the variance.
    band_scale
        (B,) factors on the variance.
    """

    kernel: Kernel
    points: Doubles
    weights: Doubles
    precision: Doubles
    band_scale: Doubles

    def shift(self, features: Doubles) -> Doubles:
        """Return the mean error (k, B) at pixels with *features* (k, 6)."""
        shift = self.kernel(features, self.points) @ self.weights
        return np.clip(shift, -_FARTHEST, _FARTHEST, out=shift)

    def variance(self, features: Doubles) -> Doubles:
        """Return the remaining variance (k,) of the error at *features*, before `band_scale`."""
        across = self.kernel(features, self.points)
        explained = np.einsum("km,km->k", across @ self.precision, across)
        left = self.kernel.own(features) - explained
        return np.maximum(left, 0) + self.kernel.noise


def errors_of(true: Floats, estimate: Floats) -> Doubles:
    """Return the log of *true* over *estimate*, reflectances of one shape, both plus `OFFSET`."""
    return np.log((true + OFFSET) / (np.maximum(estimate, 0) + OFFSET))


def without_gaps(errors: Doubles) -> Doubles:
    """Fill gaps in *errors* (n, B) with the nearest known band; empty rows stay."""
    bands = np.arange(errors.shape[1])[:, None]
    filled = errors.copy()
    for row in filled:
        finite = np.flatnonzero(np.isfinite(row))
        if finite.size:
            row[:] = row[finite[np.abs(bands - finite).argmin(axis=1)]]
    return filled


def corrected(estimate: Floats, shift: Doubles) -> Floats:
    """Correct *estimate* by the errors *shift*, as the inverse of `errors_of`; never negative."""
    moved = (np.maximum(estimate, 0) + OFFSET) * np.exp(shift) - OFFSET
    return np.maximum(moved, 0)


def posterior(kernel: Kernel, spots: Spots, band_scale: Doubles) -> Posterior:
    """Return the posterior given *spots*, by inducing points if there are more than `EXACT`."""
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
    """Predict the error (n, B) of every spot from all others, with the variance (n,).

    Rasmussen & Williams 2006, equations 5.12, which avoid refitting without each spot.
    """
    inverse = _inverse(spots.covariance(kernel))
    variance = 1 / np.diag(inverse)
    predicted = spots.errors - (inverse @ spots.errors) * variance[:, None]
    return predicted, variance


def most_telling(kernel: Kernel, features: Doubles, count: int) -> Indices:
    """Return the indices of *count* points (n, 6), each the least certain given the previous ones.

    This is a pivoted Cholesky factorisation of their kernel: Harbrecht, Peters, Schneider, Appl.
    Numer. Math. 62 (2012) 428, doi:10.1016/j.apnum.2011.10.001. It computes only *count* columns of
    the kernel.
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
    """Invert a symmetric matrix; the result is exactly symmetric."""
    jitter = _JITTER * float(np.trace(matrix)) / max(len(matrix), 1)
    inverse = np.linalg.inv(matrix + jitter * np.eye(len(matrix)))
    return (inverse + inverse.T) / 2


MOST = 200
"""Largest number of spots used in a fit, which inverts their matrix about a hundred times."""

# A single spot cannot separate the error of the scene from that of its material, so it should
# influence fewer pixels. Factors on the defaults, chosen on six scenes of CAVE: no draw is 10 %
# worse.
_ALONE = {"everywhere": 0.25, "place": 0.25, "chroma_length": 0.8, "brightness_length": 0.4}

_FREE = (
    *("everywhere", "colour", "place", "noise"),
    *("chroma_length", "brightness_length", "place_length"),
)
# Standard deviation of the log hyperparameters around the defaults, by judgement.
_SPREAD = 0.7
# Number of independent values among the errors of all bands, which are smooth curves.
_OUTPUTS = 6
_STEPS = (0.7, 0.35, 0.17)  # of the search, in logarithms
_BAND_TRUST = 8.0  # weight of the default variance factors, in spots


def fitted_kernel(spots: Spots) -> Kernel:
    """Fit the most probable hyperparameters around the prior kernel, given *spots*.

    Rasmussen & Williams 2006, equation 2.30. The search follows one hyperparameter after the other,
    so its result depends only on the spots.
    """
    if len(spots) < 2:
        if spots.prior is OF_PHOTO:  # a single spot shows the brightness well
            return OF_PHOTO
        return replace(KERNEL, **{name: by * getattr(KERNEL, name) for name, by in _ALONE.items()})
    few = spots.sample(MOST)
    logs = np.zeros(len(_FREE))
    best = _objective(few, logs)
    for step in _STEPS:
        for place in range(len(_FREE)):
            for direction in (step, -step):
                # Continue in one direction while the result improves.
                while True:
                    tried = logs.copy()
                    tried[place] += direction
                    value = _objective(few, tried)
                    if value <= best:
                        break
                    logs, best = tried, value
    return _moved(spots.prior, logs)


def scaled_bands(kernel: Kernel, spots: Spots, scale: Doubles) -> Doubles:
    """Return factors (B,) on the variance: the default *scale*, moved towards that of the spots.

    The result is the mean of the inverse gamma distribution conjugate to a Gaussian.
    """
    few = spots.sample(MOST)
    solved = np.linalg.solve(few.covariance(kernel), few.errors)
    explained = np.einsum("nb,nb->b", few.errors, solved)
    return (_BAND_TRUST * scale + explained) / (_BAND_TRUST + len(few))


def misjudged(kernel: Kernel, spots: Spots, scale: Doubles, share: float) -> float:
    """Return a factor on the variance of all bands, by which left-out spots exceed it.

    Each spot is predicted from the others (Rasmussen & Williams 2006, section 5.4.2), with this
    *share* of the correction. The mean square of the remaining errors, over their variance with the
    factors *scale* (B,), is 1 if the kernel is right. For a wrong kernel it is more robust than the
    likelihood: Bachoc, Comput. Stat. Data Anal. 66 (2013) 55, doi:10.1016/j.csda.2013.03.016. The
    factor is shrunk towards 1, like the factors of the bands towards their defaults.
    """
    few = spots.sample(MOST)
    count = len(few)
    if count < 2:
        return 1.0
    predicted, variance = leave_one_out(kernel, few)
    left = few.errors - share * predicted
    squares = np.square(left) / (variance[:, None] * scale)
    return float((_BAND_TRUST + count * squares.mean()) / (_BAND_TRUST + count))


def _objective(spots: Spots, logs: Doubles) -> float:
    """Return the log posterior, up to a constant."""
    try:
        factor = np.linalg.cholesky(spots.covariance(_moved(spots.prior, logs)))
    except np.linalg.LinAlgError:
        return -np.inf
    whitened = np.linalg.solve(factor, spots.errors)
    log_determinant = 2 * np.log(np.diag(factor)).sum()
    # The variance of each band takes its most likely value.
    variances = np.square(whitened).mean(axis=0).clip(1e-12)
    likelihood = -(len(spots) * np.log(variances).mean() + log_determinant) / 2
    return float(_OUTPUTS * likelihood - np.square(logs / _SPREAD).sum() / 2)


def _moved(kernel: Kernel, logs: Doubles) -> Kernel:
    """Multiply the hyperparameters of *kernel* by the exponentials of *logs*."""
    factors = zip(_FREE, logs, strict=True)
    return replace(
        kernel, **{name: getattr(kernel, name) * float(np.exp(by)) for name, by in factors}
    )


_SHARES = np.linspace(0, 1, 21)  # of the correction, to try
_TRUST = 2.0
"""Weight of the full correction in spots: as many contradicting spots halve the correction."""


def reach(kernel: Kernel, spots: Spots) -> float:
    """Return the share of the correction, 0 to 1, at which the spots predict each other best.

    A single spot cannot tell, so its correction is applied in full.
    """
    if len(spots) < 2:
        return 1.0
    few = spots.sample(EXACT)
    predicted, _ = leave_one_out(kernel, few)
    size = np.abs(few.errors).mean()
    left = np.array([np.abs(few.errors - share * predicted).mean() for share in _SHARES])
    # The defaults were fitted to many scenes, so two unlucky spots should not undo them.
    prior = _TRUST * size * np.square(1 - _SHARES) / len(few)
    return float(_SHARES[np.argmin(left + prior)])
