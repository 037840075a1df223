"""Calibrates the colours of a photo by its ColorChecker: `calibrate`.

For a linear photo, the chart gives the white level, the white balance, and the response of camera
and light together: the most probable mixture of principal components of 52 cameras under 15 lights.
Jiang et al., WACV 2013, doi:10.1109/WACV.2013.6475015, used principal components of the
sensitivities alone. For an sRGB photo, the chart gives a tone curve, channel gains and a
root-polynomial of the second degree, which correct the rendering of the camera: Finlayson,
Mackiewicz and Hurlbert, IEEE TIP 2015, doi:10.1109/TIP.2015.2405336.

Letters: n patches, H rows, W columns.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Doubles, Mask
from napari_mst.base.errors import PhotoError
from napari_mst.calibration.chart import CHARTS, Chart, chart_colours, check_exposure
from napari_mst.calibration.corrections import recoloured, sha256_after
from napari_mst.cube.colour import srgb_response
from napari_mst.cube.provenance import BY_CHART
from napari_mst.photo.cameras import GRID, Acquisition, chart_camera, chart_responses, white_text
from napari_mst.photo.photo import Photo, PhotoLike, as_photo

PatchColours = Doubles

# Fitted to two photos of charts, leaving out one patch at a time.
_RIDGE = 0.3
_DARK = 0.1
_GAMMAS = (0.6, 1.9)
_GAMMA_DOUBT = 0.3
_NOISE = 0.02  # of a patch in a linear photo, as a share
_ROUNDS = 12
_SMALL = 1e-5
_FLOOR = 0.01
_MOST_LEFT = {"srgb": 0.4, "linear": 0.2}
"""Largest accepted error of left-out patches: two real charts have 0.15 and 0.18 in sRGB. Linear
ones have up to 0.12 with 30 % vignetting, 6 % glare and 5 % noise, of 60 cameras and lights."""
_LEAST_ORDER = 0.85
"""Least rank correlation of lightness: charts have 0.93 and more, also with glare and noise, of 52
cameras under 24 lights, and 0.88 if all greys are covered. Frames beside them have 0.83 and less.
"""
_WORSE = 0.01
"""Share by which the errors of a photo with correct colours may grow."""

# For the agreement of patches: any quarter of them may be covered. Tested on two photos, each with
# two rows and columns of patches covered in 90 ways.
_MOST = 0.75
_STARTS = 10
_FAR = 3.5  # times the largest error among the `_MOST` best patches
_NEAR = 0.05  # weighted error below which no patch is left out


@functools.cache
def _true_colours(kind: str) -> PatchColours:
    """Return the patches (n, 3) of a *kind* of chart in linear sRGB."""
    return CHARTS[kind].reflectances @ srgb_response(GRID)


@dataclass(frozen=True)
class _Colours:
    """The correction of an sRGB photo by a *kind* of chart; its repr is part of a checksum.

    It consists of a tone curve, channel gains, and a root-polynomial (6 x 3).
    """

    kind: str
    gamma: float = 1.0
    gains: tuple[float, ...] = (1.0,) * 3
    matrix: tuple[tuple[float, ...], ...] = tuple(map(tuple, np.eye(6, 3).tolist()))

    @property
    def true(self) -> PatchColours:
        """True colours (n, 3) of the patches."""
        return _true_colours(self.kind)

    def __call__(self, colours: PatchColours) -> PatchColours:
        """Correct *colours* (n, 3)."""
        toned = np.maximum(colours, _SMALL) ** self.gamma * self.gains
        return _roots(toned) @ np.array(self.matrix)


@dataclass(frozen=True)
class _Response:
    """The response of a camera under a light, as *shares* of components, and its *white* (3,)."""

    kind: str
    shares: tuple[float, ...]
    white: tuple[float, ...]

    def __call__(self, colours: PatchColours) -> PatchColours:
        return colours / np.array(self.white)

    @property
    def true(self) -> PatchColours:
        """Colours (n, 3) of the patches to this camera."""
        return _seen(np.array(self.shares), self.kind)

    def acquisition(self, full_scale: float) -> Acquisition:
        """Return the acquisition of the photo for a `Reconstructor`."""
        white = np.array(self.white)
        camera = chart_camera(self.shares)
        return Acquisition(camera, BY_CHART, float(white[1] * full_scale), white_text(white))


PatchCorrection = _Colours | _Response
FitCorrection = Callable[[PatchColours, Mask, str], PatchCorrection]
"""Fits a correction to the colours of the patches in a mask, for a kind of chart."""


def _errors(correction: PatchCorrection, colours: PatchColours) -> Doubles:
    """Return the error (n,) of each patch after a *correction*, as a share."""
    off = np.abs(correction(colours) - correction.true).mean(axis=1)
    return off / correction.true.mean(axis=1)


class PatchReport(NamedTuple):
    """The colour error of a patch, as a share of its mean.

    The errors are *before* and *after* calibration, and *left_out*: after a calibration without the
    patch.
    """

    name: str
    before: float
    after: float
    left_out: float

    @property
    def hidden(self) -> float:
        """The part of *left_out* that *after* does not show; the two add in quadrature."""
        return min(math.sqrt(max(self.left_out**2 - self.after**2, 0.0)), 1.0)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The result of `calibrate`, used to correct a photo and then to `refine` its cube.

    Attributes
    ----------
    chart
        The chart, with its corners in the order that fits the colours.
    acquisition
        Camera, light and white of a linear photo; None for an sRGB photo.
    patches
        Errors of all patches.
    unused
        Index of a patch that is left out to judge the calibration; -1 for none.
    contradicting
        Indices of patches that contradict the others because they are covered or shaded. They are
        left out of everything, including `means` and the reference spectra of `refine`.

    Notes
    -----
    ===========  =======================================================
    corrected()  the photo as float32 0-1, sRGB; a linear photo as it is
    patches      shares of the mean of a patch: 0.05 is 5 % off
    ===========  =======================================================

    Examples
    --------
    >>> photo = nm.Photo.read("chart.png")
    >>> calibration = nm.calibrate(photo, nm.Chart(((5, 5), (5, 55), (35, 55), (35, 5))))
    >>> print(calibration.table().splitlines()[-1].expandtabs(8))
    mean    12.4%   0.6%    0.8%
    >>> better = calibration.corrected(photo)
    >>> better.sha256 == calibration.sha256_of(photo.sha256)
    True
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(better)
    >>> nm.refine(cube, better, calibration).shape
    (31, 40, 60)
    """

    chart: Chart
    acquisition: Acquisition | None
    patches: tuple[PatchReport, ...]
    correction: PatchCorrection
    unused: int = -1
    contradicting: tuple[int, ...] = ()

    @property
    def means(self) -> PatchReport:
        """Mean errors over all patches that do not contradict the others."""
        numbers = np.array([patch[1:] for patch in self.patches])
        means = np.delete(numbers, self.contradicting, axis=0).mean(axis=0)
        return PatchReport("mean", *means.tolist())

    @property
    def doubt(self) -> str:
        """A sentence that names the contradicting patches; "" if there are none."""
        names = ", ".join(self.chart.patches[number] for number in self.contradicting)
        return f"The other patches contradict {names}: left out." if names else ""

    def table(self) -> str:
        """Return a tab-separated table of errors in per cent: before, after and left out."""
        lines = ["patch\tbefore\tafter\tleft out"]
        for name, *numbers in (*self.patches, self.means):
            lines.append("\t".join([name, *(f"{number:.1%}" for number in numbers)]))
        return "\n".join([*lines, self.doubt] if self.doubt else lines)

    def corrected(self, photo: PhotoLike) -> Photo:
        """Correct the colours of *photo*, taken with the same camera, light and settings.

        A linear photo stays unchanged, since `acquisition` holds the whole result.
        """
        photo = as_photo(photo, "linear" if self.acquisition else None)
        if self.acquisition is not None:
            return photo
        means = self.means
        text = f"{means.before:.0%} off before, {means.after:.0%} after, {means.left_out:.0%}"
        text = f"{text} left out. {self.doubt}".rstrip(". ")
        note = f"The colours were calibrated with a chart: {text}."
        sha256 = self.sha256_of(photo.sha256)
        return recoloured(photo, self.correction, note, sha256, "calibrated with a chart")

    def sha256_of(self, photo_sha256: str) -> str:
        """Return the sha256 of a corrected photo, from the sha256 of the original."""
        if self.acquisition is not None:
            return photo_sha256
        return sha256_after(photo_sha256, repr(self.correction))


def calibrate(photo: PhotoLike, chart: Chart, unused: int = -1) -> Calibration:
    """Calibrate the colours of *photo* by its *chart*.

    The patch with the index *unused* is left out, so that it can judge the result. Patches that
    contradict the others are left out too; up to a quarter may be covered.

    Raises
    ------
    PhotoError
        If there is no such chart between the corners, if it is clipped or partly outside the photo,
        or if the colours would get worse.

    Notes
    -----
    =======  ===========================================================================
    photo    sRGB, uint8 0-255 or uint16 0-65535; or linear, uint16 0-65535 or float 0-1
    chart    pixels of the photo, (row, column)
    returns  errors of patches as shares
    =======  ===========================================================================

    Examples
    --------
    >>> chart = nm.Chart(((5, 5), (5, 55), (35, 55), (35, 5)))
    >>> calibration = nm.calibrate("chart.png", chart)
    >>> round(calibration.means.before, 2), round(calibration.means.after, 2)
    (0.12, 0.01)
    """
    photo = as_photo(photo)
    is_linear = photo.encoding == "linear"
    fit: FitCorrection = _fit_response if is_linear else _fit_colours
    arrangements = chart.arrangements
    seen = [np.maximum(chart_colours(photo, each), _SMALL) for each in arrangements]
    # Cyan lies outside sRGB: its red is below 0.
    logs = np.log(seen) - np.log(np.maximum(_true_colours(chart.kind), _FLOOR))
    # The likeliest arrangement at any exposure and balance. Covered patches would dominate means
    # and squares.
    off = np.abs(logs - np.median(logs, axis=1, keepdims=True))
    best = int(off.mean(axis=(1, 2)).argmin())
    check_exposure(photo, arrangements[best])
    colours = seen[best]
    every = np.arange(len(chart.patches))
    allowed = every != unused
    used = _agreeing(fit, colours, allowed, chart.kind)
    _check_order(colours, used, chart.kind)
    correction = fit(colours, used, chart.kind)
    first = _mean_camera(colours, chart.kind) if is_linear else _Colours(chart.kind)
    before = _errors(first, colours).tolist()
    after = _errors(correction, colours).tolist()
    left_out = [
        _errors(fit(colours, used & (every != patch), chart.kind), colours)[patch]
        for patch in every
    ]
    patches = tuple(map(PatchReport, chart.patches, before, after, left_out))
    contradicting = tuple(np.flatnonzero(allowed & ~used).tolist())
    acquisition = None
    if isinstance(correction, _Response):
        acquisition = correction.acquisition(photo.full_scale)
    calibration = Calibration(
        arrangements[best], acquisition, patches, correction, unused, contradicting
    )
    _check(calibration.means, CHARTS[chart.kind].title, photo.encoding)
    return calibration


def _missed(title: str, got: str) -> PhotoError:
    return PhotoError(
        f"Expected a {title} between the corners, got {got}. "
        "Give the middles of its corner patches, in their order around it."
    )


def _check_order(colours: PatchColours, used: Mask, kind: str) -> None:
    """Raise `PhotoError` if the *used* patches, once balanced, have another order of lightness.

    A fit finds some correction for any colours, but none would reorder light and dark patches.
    """
    order = 0.0
    if used.any():
        seen, true = colours[used], _true_colours(kind)[used]
        gains = np.exp(np.median(np.log(seen) - np.log(np.maximum(true, _FLOOR)), axis=0))
        ranks = [each.mean(axis=1).argsort().argsort() for each in (seen / gains, true)]
        order = np.corrcoef(ranks)[0, 1]
    if order < _LEAST_ORDER:
        raise _missed(CHARTS[kind].title, "patches in another order of light and dark")


def _check(means: PatchReport, title: str, encoding: str) -> None:
    """Raise `PhotoError` if the calibration missed the chart or makes colours worse."""
    off = max(means.after, means.left_out)
    if off > _MOST_LEFT[encoding]:
        raise _missed(title, f"colours {off:.0%} off")
    if means.left_out > means.before + _WORSE:
        raise PhotoError(
            f"Expected a {title} that betters the colours, got patches {means.before:.0%} off "
            f"before and {means.left_out:.0%} after. Uncover the chart, or leave it out."
        )


def _agreeing(fit: FitCorrection, colours: PatchColours, allowed: Mask, kind: str) -> Mask:
    """Return a mask of the *allowed* patches that agree with the majority.

    Least trimmed squares, started from all patches and from random halves: Rousseeuw and Van
    Driessen, Data Min. Knowl. Discov. 12 (2006) 29, doi:10.1007/s10618-005-0024-4.
    """
    true = _true_colours(kind).mean(axis=1)
    weights = true / (true + _DARK)
    count = math.ceil(_MOST * allowed.sum())

    def errors(chosen: Mask) -> Doubles:
        off = _errors(fit(colours, chosen, kind), colours) * weights
        return np.where(allowed, off, np.inf)

    def settled(chosen: Mask) -> Doubles:
        for _ in range(_ROUNDS):
            nearest = np.zeros_like(allowed)
            nearest[np.argsort(errors(chosen), kind="stable")[:count]] = True
            if (nearest == chosen).all():
                break
            chosen = nearest
        return errors(chosen)

    rng = np.random.default_rng(0)
    halves = [allowed & (rng.permutation(len(allowed)) % 2 == 0) for _ in range(_STARTS)]
    tried = [settled(start) for start in (allowed, *halves)]
    best = min(tried, key=lambda off: np.sort(off)[:count].sum())
    return best <= max(_FAR * np.sort(best)[count - 1], _NEAR)


def _fit_colours(colours: PatchColours, used: Mask, kind: str) -> _Colours:
    """Fit the curve and the polynomial that take the *used* patches to their true colours."""
    # Imported late, since the docks import this module and must open quickly.
    from scipy.optimize import minimize_scalar

    fit = functools.partial(_with_gamma, colours, used, kind)
    best = minimize_scalar(
        lambda log: fit(log)[0], bounds=np.log(_GAMMAS), method="bounded", options={"xatol": 1e-3}
    )
    return fit(best.x)[1]


def _with_gamma(
    colours: PatchColours, used: Mask, kind: str, logarithm: float
) -> tuple[float, _Colours]:
    """Return the cost of a gamma with this *logarithm*, and the best correction with it."""
    gamma = float(np.exp(logarithm))
    true = _true_colours(kind)
    greys = np.array(CHARTS[kind].greys)
    greys = greys[used[greys]] if used[greys].any() else np.flatnonzero(used)
    toned = colours**gamma
    gains = np.exp((np.log(true[greys]) - np.log(toned[greys])).mean(axis=0))
    # Relative errors, so that dark patches count, but limited against the noise of black.
    weights = 1 / (true[used].mean(axis=1, keepdims=True) + _DARK)
    terms = _roots(toned * gains)[used] * weights
    right = true[used] * weights
    identity = np.eye(6, 3)
    gram = terms.T @ terms + _RIDGE * np.eye(6)
    change = np.linalg.solve(gram, terms.T @ (right - terms @ identity))
    residual = ((terms @ (identity + change) - right) ** 2).sum()
    doubt = _RIDGE * (change**2).sum() + _GAMMA_DOUBT * np.log(gamma) ** 2
    matrix = tuple(map(tuple, (identity + change).tolist()))
    return float(residual + doubt), _Colours(kind, gamma, tuple(gains.tolist()), matrix)


def _roots(colours: PatchColours) -> PatchColours:
    """Return the root-polynomial terms (n, 6) of the second degree, which scale with exposure."""
    red, green, blue = colours.T
    mixed = [np.sqrt(red * green), np.sqrt(green * blue), np.sqrt(red * blue)]
    return np.stack([red, green, blue, *mixed], axis=1)


def _fit_response(colours: PatchColours, used: Mask, kind: str) -> _Response:
    """Fit the most probable response and white that explain the *used* patches."""
    patches = CHARTS[kind].reflectances[used]
    shown = colours[used]
    shares = np.zeros_like(chart_responses().spread)
    # White and response are fitted alternately, since either is linear given the other.
    for _ in range(_ROUNDS):
        seen = _seen(shares, kind)[used]
        weights = 1 / (seen + _NOISE)
        squares = weights**2
        white = (shown * seen * squares).sum(axis=0) / (seen**2 * squares).sum(axis=0)
        shares = _shares(patches, shown / white, weights)
    return _Response(kind, tuple(shares.tolist()), tuple(white.tolist()))


def _mean_camera(colours: PatchColours, kind: str) -> _Response:
    """Return the mean camera, with the exposure of the brightest grey."""
    mean = np.zeros_like(chart_responses().spread)
    brightest = CHARTS[kind].greys[0]
    white = colours[brightest] / _seen(mean, kind)[brightest]
    return _Response(kind, tuple(mean.tolist()), tuple(white.tolist()))


def _seen(shares: Doubles, kind: str) -> PatchColours:
    """Return the colours (n, 3) of the patches to a camera whose response has these *shares*."""
    return CHARTS[kind].reflectances @ chart_responses().response(shares).T


def _shares(patches: Doubles, shown: PatchColours, weights: PatchColours) -> Doubles:
    """Return the most probable shares of the components, normally distributed among cameras."""
    data = chart_responses()
    terms = np.einsum("pb,kcb->cpk", patches, data.components) * weights.T[..., None]
    missing = (shown - patches @ data.mean.T).T * weights.T
    stacked = terms.reshape(-1, len(data.components)) / _NOISE
    gram = stacked.T @ stacked + np.diag(data.spread**-2.0)
    return np.linalg.solve(gram, stacked.T @ missing.ravel() / _NOISE)
