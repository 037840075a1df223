"""Fits the kernel to the known spectra of one scene, starting at the defaults.

Letters: B bands, n spots.
"""

from dataclasses import replace

import numpy as np

from napari_mst.adaptation.kernel import KERNEL, Kernel
from napari_mst.adaptation.process import Spots, leave_one_out
from napari_mst.arrays import Doubles

MOST = 200
"""Spots that are fitted to: their matrix is inverted about a hundred times."""

_ALONE = 0.25
"""Share of the error common to all colours that a single spot is believed to show."""

_FREE = (
    *("everywhere", "colour", "place", "noise"),
    *("chroma_length", "brightness_length", "place_length"),
)
# standard deviation of the logarithms of the hyperparameters around the defaults, by judgement
_SPREAD = 0.7
# independent ones among the errors of all bands, which are smooth curves
_OUTPUTS = 6
_STEPS = (0.7, 0.35, 0.17)  # of the search, in logarithms
_BAND_TRUST = 8.0  # spots that the default factors, of the bands and of all, count for


def fitted_kernel(spots: Spots) -> Kernel:
    """The default kernel with the most likely hyperparameters, given *spots* and a prior around it.

    Rasmussen & Williams 2006, equation 2.30. The search goes along one hyperparameter after the
    other, so that its result depends on nothing but the spots.
    """
    if len(spots) < 2:
        # one spot cannot separate the error of the scene from that of its own material
        return replace(KERNEL, everywhere=_ALONE * KERNEL.everywhere, place=_ALONE * KERNEL.place)
    few = spots[spots.sample(MOST)]
    logs = np.zeros(len(_FREE))
    best = _objective(few, logs)
    for step in _STEPS:
        for place in range(len(_FREE)):
            for direction in (step, -step):
                # on in one direction as long as that is better
                while True:
                    tried = logs.copy()
                    tried[place] += direction
                    value = _objective(few, tried)
                    if value <= best:
                        break
                    logs, best = tried, value
    return _moved(logs)


def scaled_bands(kernel: Kernel, spots: Spots, scale: Doubles) -> Doubles:
    """Factors (B,) on the variance: the default *scale*, moved towards the spots' own.

    The mean of the inverse gamma distribution that is conjugate to a Gaussian.
    """
    few = spots[spots.sample(MOST)]
    solved = np.linalg.solve(few.covariance(kernel), few.errors)
    explained = np.einsum("nb,nb->b", few.errors, solved)
    return (_BAND_TRUST * scale + explained) / (_BAND_TRUST + len(few))


def misjudged(kernel: Kernel, spots: Spots, scale: Doubles, share: float) -> float:
    """One more factor on the variance, common to all bands: how far left-out spots exceed it.

    Each spot is predicted by the others (Rasmussen & Williams 2006, section 5.4.2), by this *share*
    of the correction. The mean square of the errors that are left, over their variance with the
    factors *scale* (B,), is 1 if the kernel is right. If it is not, this holds better than the
    likelihood: Bachoc, Comput. Stat. Data Anal. 66 (2013) 55, doi:10.1016/j.csda.2013.03.016. It
    is shrunk towards 1 as the factors of the bands are towards their defaults.
    """
    few = spots[spots.sample(MOST)]
    count = len(few)
    if count < 2:
        return 1.0
    predicted, variance = leave_one_out(kernel, few)
    left = few.errors - share * predicted
    squares = np.square(left) / (variance[:, None] * scale)
    return float((_BAND_TRUST + count * squares.mean()) / (_BAND_TRUST + count))


def _objective(spots: Spots, logs: Doubles) -> float:
    """Log of the posterior, apart from a constant."""
    try:
        factor = np.linalg.cholesky(spots.covariance(_moved(logs)))
    except np.linalg.LinAlgError:
        return -np.inf
    whitened = np.linalg.solve(factor, spots.errors)
    log_determinant = 2 * np.log(np.diag(factor)).sum()
    # every band has a variance of its own, for which the most likely value stands
    variances = np.square(whitened).mean(axis=0).clip(1e-12)
    likelihood = -(len(spots) * np.log(variances).mean() + log_determinant) / 2
    return float(_OUTPUTS * likelihood - np.square(logs / _SPREAD).sum() / 2)


def _moved(logs: Doubles) -> Kernel:
    """The default kernel, multiplied by the exponentials of *logs*."""
    factors = zip(_FREE, logs, strict=True)
    return replace(
        KERNEL, **{name: getattr(KERNEL, name) * float(np.exp(by)) for name, by in factors}
    )
