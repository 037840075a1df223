"""Estimates that any network has to beat: pixelwise ones, and those behind non-local Bayes.

Each takes 8-bit sRGB codes (3, H, W) to reflectance (31, H, W) at 400, 410, ..., 700 nm, and is a
row of `BASELINES`. Letters: n colours, k Gaussians, B bands.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from lab.simulated import SceneSimulator
from napari_mst.base.arrays import Codes, Doubles, Floats, Indices
from napari_mst.base.errors import ModelError
from napari_mst.cube.colour import measured_reflectances, srgb_response, srgb_to_linear
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.training.scoring import Method, matrix_method


def root_polynomial() -> Method:
    """Least squares on the 13 root-polynomial terms of degree 3, on the same reflectances.

    Finlayson, Mackiewicz, Hurlbert, IEEE Trans. Image Process. 24 (2015) 1460,
    doi:10.1109/TIP.2015.2405336.
    """
    spectra = measured_reflectances()
    terms = _root_terms((spectra @ srgb_response(GRID)).T)
    matrix, *_ = np.linalg.lstsq(terms.T, spectra, rcond=None)

    def estimate(codes: Codes) -> Floats:
        terms = _root_terms(srgb_to_linear(codes / 255))
        return np.einsum("tb,thw->bhw", matrix, terms, optimize=True)

    return estimate


def mallett_yuksel() -> Method:
    """The three spectral primaries of Mallett & Yuksel, as tabulated in colour-science.

    EGSR 2019, doi:10.2312/sr.20191216.
    """
    colour = _colour_science()
    basis = colour.recovery.MSDS_BASIS_FUNCTIONS_sRGB_MALLETT2019
    return matrix_method(basis.copy().align(colour.SpectralShape(400, 700, 10)).values)


def smits() -> Method:
    """The seven spectra of Smits, from colour-science: white, three mixtures and three primaries.

    J. Graph. Tools 4 (1999) 11, doi:10.1080/10867651.1999.10487511.
    """
    tables = _colour_science().recovery.SDS_SMITS1999
    # Each mixture stands at the place of the channel that it lacks: cyan at red, and so on.
    names = ("white", "cyan", "magenta", "yellow", "red", "green", "blue")
    spectra = np.stack(
        [np.interp(GRID, tables[name].wavelengths, tables[name].values) for name in names]
    )
    channels = np.arange(3)[:, None, None]

    def estimate(codes: Codes) -> Floats:
        """White as far as all channels go, the mixture of the upper two, the primary of the top."""
        linear = srgb_to_linear(codes / 255)
        order = linear.argsort(axis=0)
        low, middle, high = np.take_along_axis(linear, order, axis=0)
        mixed = (middle - low) * (order[0] == channels)
        pure = (high - middle) * (order[2] == channels)
        parts = np.concatenate([low[None], mixed, pure])
        return np.einsum("pb,phw->bhw", spectra, parts, optimize=True)

    return estimate


def jakob_hanika() -> Method:
    """The sigmoid of a quadratic in wavelength, fitted to each colour by damped Gauss-Newton steps.

    Jakob & Hanika, Comput. Graph. Forum 38 (2019) 147, doi:10.1111/cgf.13626.
    """
    response = srgb_response(GRID)
    x = np.linspace(-1, 1, len(GRID))
    basis = np.stack([np.ones_like(x), x, x**2])

    def estimate(codes: Codes) -> Floats:
        colours, index = np.unique(codes.reshape(3, -1), axis=1, return_inverse=True)
        # A sigmoid reaches neither 0 nor 1.
        target = np.clip(srgb_to_linear(colours.T / 255), 5e-4, 1 - 5e-4)
        # The fit starts as the grey of the same brightness: the sigmoid of a constant.
        grey = 2 * target.mean(axis=1) - 1
        factors = np.zeros((len(target), 3))
        factors[:, 0] = grey / np.sqrt(1 - grey**2)
        left = np.arange(len(target))
        for _ in range(_STEPS):
            residual = target[left] - _sigmoid(factors[left] @ basis) @ response
            is_far = np.abs(residual).max(axis=1) > _CLOSE
            left = left[is_far]
            factors[left] += _sigmoid_step(factors[left] @ basis, basis, response, residual[is_far])
        return _photo_of(_sigmoid(factors @ basis), index, codes.shape)

    return estimate


def gaussian_mixture() -> Method:
    """The mean of the spectra of a colour under 40 Gaussians.

    They are fitted to spectra that also train the pixelwise model, divided by the mean of their
    linear sRGB and described by 14 principal components. The Gaussians are the prior, and the
    colour, known to about an 8-bit code, is the measurement.
    """
    estimator = _ColourEstimator.fitted(_training_spectra(), srgb_response(GRID))

    def estimate(codes: Codes) -> Floats:
        colours, index = np.unique(codes.reshape(3, -1), axis=1, return_inverse=True)
        linear = srgb_to_linear(colours.T / 255)
        # A few thousand colours at a time: each takes memory for every Gaussian.
        parts = np.array_split(linear, 1 + len(linear) // _COLOURS)
        spectra = np.concatenate([estimator.spectra(part) for part in parts])
        return _photo_of(spectra, index, codes.shape)

    return estimate


def denoised_before(model: str) -> Method:
    """The estimate of a bundled *model* on photos that are all denoised first, noisy or not.

    The filter is that of `Reconstructor(denoise="auto")`, which denoises noisy photos only.
    """
    reconstructor = Reconstructor(load_model(model), "cpu", denoise=1.0)

    def estimate(codes: Codes) -> Floats:
        return reconstructor.reconstruct(np.moveaxis(codes, 0, -1)).data

    return estimate


def _photo_of(spectra: Floats, index: Indices, shape: tuple[int, ...]) -> Floats:
    """The cube (B, H, W) of the *spectra* (n, B) at *index*; *shape* is that of the photo."""
    return np.ascontiguousarray(spectra[index.ravel()].T).reshape(-1, *shape[1:])


_GAUSSIANS = 40
_COMPONENTS = 14
_COLOURS = 4096
_SPECTRA = 5_000
_ROUNDS = 200
# Mean reflectance below which a measured spectrum is mostly noise.
_DARK = 0.02
# Of linear sRGB over its mean: a code or so in the middle of the scale.
_COLOUR_VARIANCE = 1e-4


@dataclass(frozen=True, eq=False)
class _ColourEstimator:
    """The mean spectrum of a colour under Gaussians, each of which gives it by a linear map.

    Colours and spectra are those of unit brightness: divided by the mean of their linear sRGB.

    Attributes
    ----------
    means, inverses
        Mean colour (k, 3) of each Gaussian, and the inverse covariance (k, 3, 3) of colours.
    constants
        (k,): logarithm of the weight of each Gaussian over the spread of its colours.
    slopes, offsets
        (k, B, 3) and (k, B): the linear map of each Gaussian.
    """

    means: Doubles
    inverses: Doubles
    constants: Doubles
    slopes: Doubles
    offsets: Doubles

    @classmethod
    def fitted(cls, spectra: Doubles, response: Floats) -> "_ColourEstimator":
        """The estimator for *spectra* (n, B) seen with *response* (B, 3)."""
        spectra = spectra / (spectra @ response).mean(axis=1, keepdims=True)
        middle = spectra.mean(axis=0)
        components = np.linalg.svd(spectra - middle, full_matrices=False)[2][:_COMPONENTS]
        prior = _gaussians((spectra - middle) @ components.T)
        observed = components @ response
        means = prior.means_ @ observed + middle @ response
        measured = _COLOUR_VARIANCE * np.eye(3)
        spreads = observed.T @ prior.covariances_ @ observed + measured
        inverses = np.linalg.inv(spreads)
        slopes = components.T @ prior.covariances_ @ observed @ inverses
        centres = middle + prior.means_ @ components
        offsets = centres - np.einsum("kbc,kc->kb", slopes, means)
        constants = np.log(prior.weights_) - 0.5 * np.linalg.slogdet(spreads)[1]
        return cls(means, inverses, constants, slopes, offsets)

    def spectra(self, linear: Floats) -> Floats:
        """Linear sRGB (n, 3) -> reflectance (n, B)."""
        brightness = linear.mean(axis=1, keepdims=True) + 1e-6
        colours = linear / brightness
        shares = self._shares(colours)
        spectra = shares @ self.offsets + sum(
            colours[:, [channel]] * (shares @ self.slopes[..., channel]) for channel in range(3)
        )
        return np.asarray(spectra * brightness).clip(0)

    def _shares(self, colours: Floats) -> Floats:
        """The probability (n, k) of each Gaussian, given *colours* (n, 3)."""
        off = colours - self.means[:, None]
        likely = self.constants - 0.5 * ((off @ self.inverses) * off).sum(axis=2).T
        # The largest is taken away, so that no exponential overflows.
        shares = np.exp(likely - likely.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return np.asarray(shares)


def _training_spectra() -> Doubles:
    """Spectra that also train the pixelwise model, always the same ones, without the darkest."""
    _, drawn = SceneSimulator(0).draw_pixels(_SPECTRA)
    spectra = drawn.numpy().astype(np.float64)
    return np.asarray(spectra[spectra.mean(axis=1) > _DARK])


def _gaussians(scores: Doubles) -> Any:
    try:
        mixture = import_module("sklearn.mixture")
    except ImportError as error:
        raise ModelError(
            "Expected the package scikit-learn for this baseline, got none. "
            "Run: pip install scikit-learn"
        ) from error
    gaussians = mixture.GaussianMixture(
        _GAUSSIANS, init_params="k-means++", max_iter=_ROUNDS, random_state=0
    )
    return gaussians.fit(scores)


_STEPS = 30
# In linear sRGB: less than half a code.
_CLOSE = 1e-4
# Length of a Gauss-Newton step: the best fit of a saturated colour lies at infinity.
_LONGEST = 5.0


def _sigmoid(z: Doubles) -> Doubles:
    return np.asarray(0.5 + z / (2 * np.sqrt(1 + z**2)))


def _sigmoid_step(
    z: Doubles,
    basis: Doubles,
    response: Doubles,
    residual: Doubles,
) -> Doubles:
    """The damped Gauss-Newton step (n, 3) that removes *residual* (n, 3) of linear sRGB.

    *z* (n, B) are the arguments of the sigmoids.
    """
    slopes = 0.5 * (1 + z**2) ** -1.5
    jacobian = np.stack([(slopes * row) @ response for row in basis], axis=-1)
    transposed = jacobian.transpose(0, 2, 1)
    normal = transposed @ jacobian
    damping = 1e-6 * np.trace(normal, axis1=1, axis2=2)[:, None, None] + 1e-12
    step = np.linalg.solve(normal + damping * np.eye(3), transposed @ residual[..., None])[..., 0]
    length = np.linalg.norm(step, axis=1, keepdims=True)
    return np.asarray(step / np.maximum(length / _LONGEST, 1))


def _root_terms(linear: Floats) -> Floats:
    """The 13 root-polynomial terms of degree 3, (13, ...), of linear (3, ...)."""
    r, g, b = linear
    pairs = [np.sqrt(np.maximum(product, 0)) for product in (r * g, g * b, r * b)]
    products = (r * g * g, g * b * b, r * b * b, g * r * r, b * g * g, b * r * r, r * g * b)
    return np.stack([r, g, b, *pairs, *(np.cbrt(product) for product in products)])


def _colour_science() -> Any:
    try:
        with warnings.catch_warnings():
            # It warns of what it could do besides, with other packages.
            warnings.simplefilter("ignore")
            return import_module("colour")
    except ImportError as error:
        raise ModelError(
            "Expected the package colour-science for this baseline, got none. "
            "Run: pip install colour-science"
        ) from error


BASELINES: dict[str, Callable[[], Method]] = {
    "Mallett & Yuksel 2019": mallett_yuksel,
    "Smits 1999": smits,
    "Jakob & Hanika 2019": jakob_hanika,
    "root-polynomial 3": root_polynomial,
    "40 Gaussians": gaussian_mixture,
    "NL-Bayes + pixelwise": partial(denoised_before, "pixelwise-srgb"),
    "NL-Bayes + MST++": partial(denoised_before, "mstpp-srgb"),
}
