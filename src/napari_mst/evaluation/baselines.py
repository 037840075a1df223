"""Pixelwise estimates that any network has to beat: each takes 8-bit sRGB codes (3, H, W) to reflectance (31, H, W).

The bands are 400, 410, ..., 700 nm. A new one is one row of `BASELINES`, a function that makes it.
"""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_estimate, srgb_response, srgb_to_linear
from napari_mst.errors import ModelError
from napari_mst.simulation.scenes import SceneSimulator
from napari_mst.simulation.spectra import load_reflectances

Method = Callable[[NDArray[Any]], NDArray[np.floating]]
"""8-bit sRGB photo (3, H, W) -> reflectance (B, H, W)."""

GRID = np.arange(400.0, 701, 10)
"""Wavelengths (nm) of every estimate and every scene."""


def matrix_method(matrix: NDArray[np.floating]) -> Method:
    """The method that multiplies linear sRGB by *matrix*, (B, 3)."""
    return lambda codes: np.einsum(
        "bc,chw->bhw", matrix, srgb_to_linear(codes / 255), optimize=True
    )


def least_squares() -> Method:
    """Least squares 3 -> 31 on the measured reflectances that also train the bundled models."""
    return matrix_method(linear_estimate(measured_reflectances(), srgb_response(GRID)))


def root_polynomial() -> Method:
    """Least squares on the 13 root-polynomial terms of degree 3, on the same reflectances.

    Finlayson, Mackiewicz, Hurlbert, IEEE Trans. Image Process. 24 (2015) 1460, doi:10.1109/TIP.2015.2405336.
    """
    spectra = measured_reflectances()
    terms = _root_terms((spectra @ srgb_response(GRID)).T)
    matrix, *_ = np.linalg.lstsq(terms.T, spectra, rcond=None)
    return lambda codes: np.einsum(
        "tb,thw->bhw", matrix, _root_terms(srgb_to_linear(codes / 255)), optimize=True
    )


def mallett_yuksel() -> Method:
    """Spectral primaries of Mallett & Yuksel, EGSR 2019, doi:10.2312/sr.20191216, as tabulated in colour-science."""
    colour = _colour_science()
    basis = colour.recovery.MSDS_BASIS_FUNCTIONS_sRGB_MALLETT2019
    return matrix_method(basis.copy().align(colour.SpectralShape(400, 700, 10)).values)


def smits() -> Method:
    """Smits, J. Graph. Tools 4 (1999) 11, doi:10.1080/10867651.1999.10487511: his 7 spectra, from colour-science."""
    tables = _colour_science().recovery.SDS_SMITS1999
    spectra = {
        name: np.interp(GRID, table.wavelengths, table.values) for name, table in tables.items()
    }
    white, primaries = (
        spectra["white"],
        np.stack([spectra[name] for name in ("red", "green", "blue")]),
    )
    mixtures = np.stack([spectra[name] for name in ("cyan", "magenta", "yellow")])

    def estimate(codes: NDArray[np.uint8]) -> NDArray[np.floating]:
        """White as far as all three go, then the mixture of the upper two, then the primary of the largest."""
        linear = srgb_to_linear(codes / 255)
        order = linear.argsort(axis=0)
        low, middle, high = np.take_along_axis(linear, order, axis=0)
        mixed = (middle - low) * (order[0] == np.arange(3)[:, None, None])
        pure = (high - middle) * (order[2] == np.arange(3)[:, None, None])
        parts = np.concatenate([low[None], mixed, pure])
        return np.einsum(
            "pb,phw->bhw", np.concatenate([white[None], mixtures, primaries]), parts, optimize=True
        )

    return estimate


def jakob_hanika() -> Method:
    """Sigmoid of a quadratic in wavelength: Jakob & Hanika, Comput. Graph. Forum 38 (2019) 147, doi:10.1111/cgf.13626.

    Fitted to each colour of the photo by damped Gauss-Newton steps.
    """
    response, x = srgb_response(GRID), np.linspace(-1, 1, len(GRID))
    basis = np.stack([np.ones_like(x), x, x**2])

    def estimate(codes: NDArray[np.uint8]) -> NDArray[np.floating]:
        colours, index = np.unique(codes.reshape(3, -1), axis=1, return_inverse=True)
        target = np.clip(srgb_to_linear(colours.T / 255), 5e-4, 1 - 5e-4)
        grey = 2 * target.mean(axis=1) - 1
        factors = np.zeros((len(target), 3))
        factors[:, 0] = grey / np.sqrt(1 - grey**2)
        left = np.arange(len(target))
        for _ in range(_STEPS):
            residual = target[left] - _sigmoid(factors[left] @ basis) @ response
            is_far = np.abs(residual).max(axis=1) > _CLOSE
            left = left[is_far]
            factors[left] += _sigmoid_step(factors[left] @ basis, basis, response, residual[is_far])
        return np.ascontiguousarray(_sigmoid(factors @ basis)[index.ravel()].T).reshape(
            -1, *codes.shape[1:]
        )

    return estimate


def gaussian_mixture() -> Method:
    """Mean of the spectra of a colour under 40 Gaussians, fitted to spectra that also train the pixelwise model.

    Spectra are divided by the mean of their linear sRGB and described by 14 principal components. The Gaussians are the
    prior, and the colour, known to about an 8-bit code, is the measurement.
    """
    spectra, response = _training_spectra(), srgb_response(GRID)
    spectra = spectra / (spectra @ response).mean(axis=1, keepdims=True)
    middle = spectra.mean(axis=0)
    components = np.linalg.svd(spectra - middle, full_matrices=False)[2][:_COMPONENTS]
    prior = _gaussians((spectra - middle) @ components.T)
    observed, white = components @ response, middle @ response
    means = prior.means_ @ observed + white
    spreads = observed.T @ prior.covariances_ @ observed + _COLOUR_VARIANCE * np.eye(3)
    inverses = np.linalg.inv(spreads)
    slopes = components.T @ prior.covariances_ @ observed @ inverses
    offsets = middle + prior.means_ @ components - np.einsum("kbc,kc->kb", slopes, means)
    constants = np.log(prior.weights_) - 0.5 * np.linalg.slogdet(spreads)[1]

    def of_colours(linear: NDArray[np.floating]) -> NDArray[np.floating]:
        """Linear sRGB (n, 3) -> reflectance (n, B)."""
        brightness = linear.mean(axis=1, keepdims=True) + 1e-6
        colours = linear / brightness
        off = colours - means[:, None]
        likely = constants - 0.5 * ((off @ inverses) * off).sum(axis=2).T
        shares = np.exp(likely - likely.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        spectra = shares @ offsets + sum(
            colours[:, [c]] * (shares @ slopes[..., c]) for c in range(3)
        )
        return np.asarray(spectra * brightness).clip(0)

    def estimate(codes: NDArray[np.uint8]) -> NDArray[np.floating]:
        colours, index = np.unique(codes.reshape(3, -1), axis=1, return_inverse=True)
        linear = srgb_to_linear(colours.T / 255)
        found = np.concatenate(
            [of_colours(part) for part in np.array_split(linear, 1 + len(linear) // _COLOURS)]
        )
        return np.ascontiguousarray(found[index.ravel()].T).reshape(-1, *codes.shape[1:])

    return estimate


_GAUSSIANS, _COMPONENTS, _COLOURS = 40, 14, 4096
_SPECTRA, _ROUNDS = 5_000, 200
_DARK = 0.02  # mean reflectance below which a measured spectrum is mostly noise
_COLOUR_VARIANCE = 1e-4  # of linear sRGB over its mean: a code or so in the middle of the scale


def _training_spectra() -> NDArray[np.float64]:
    """Spectra that also train the bundled pixelwise model, always the same ones, without the darkest."""
    spectra = SceneSimulator(0).draw_pixels(_SPECTRA)[1].numpy().astype(np.float64)
    return np.asarray(spectra[spectra.mean(axis=1) > _DARK])


def _gaussians(scores: NDArray[np.float64]) -> Any:
    try:
        mixture = import_module("sklearn.mixture")
    except ImportError as error:
        raise ModelError(
            "Expected the package scikit-learn for this baseline, got none. pip install scikit-learn."
        ) from error
    return mixture.GaussianMixture(
        _GAUSSIANS, init_params="k-means++", max_iter=_ROUNDS, random_state=0
    ).fit(scores)


_STEPS = 30
_CLOSE = 1e-4  # in linear sRGB: less than half a code
_LONGEST = 5.0  # of a Gauss-Newton step: a saturated colour has no best fit, it lies at infinity


def _sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 + z / (2 * np.sqrt(1 + z**2)))


def _sigmoid_step(
    z: NDArray[np.float64],
    basis: NDArray[np.float64],
    response: NDArray[np.float64],
    residual: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The damped Gauss-Newton step (n, 3), at sigmoids of *z* (n, B), that removes *residual* (n, 3) of linear sRGB."""
    slopes = 0.5 * (1 + z**2) ** -1.5
    jacobian = np.stack([(slopes * row) @ response for row in basis], axis=-1)
    transposed = jacobian.transpose(0, 2, 1)
    normal = transposed @ jacobian
    damping = 1e-6 * np.trace(normal, axis1=1, axis2=2)[:, None, None] + 1e-12
    step = np.linalg.solve(normal + damping * np.eye(3), transposed @ residual[..., None])[..., 0]
    return np.asarray(step / np.maximum(np.linalg.norm(step, axis=1, keepdims=True) / _LONGEST, 1))


BASELINES: Mapping[str, Callable[[], Method]] = {
    "Mallett & Yuksel 2019": mallett_yuksel,
    "Smits 1999": smits,
    "Jakob & Hanika 2019": jakob_hanika,
    "least squares 3 to 31": least_squares,
    "root-polynomial 3": root_polynomial,
    "40 Gaussians": gaussian_mixture,
}


def measured_reflectances() -> NDArray[np.float64]:
    """All that ship with the package, (n, 31)."""
    return np.concatenate(list(load_reflectances()[1].values())).astype(np.float64)


def _root_terms(linear: NDArray[np.floating]) -> NDArray[np.floating]:
    """The 13 root-polynomial terms of degree 3, (13, ...), of linear (3, ...)."""
    r, g, b = linear
    pairs = [np.sqrt(np.maximum(product, 0)) for product in (r * g, g * b, r * b)]
    products = (r * g * g, g * b * b, r * b * b, g * r * r, b * g * g, b * r * r, r * g * b)
    return np.stack([r, g, b, *pairs, *(np.cbrt(product) for product in products)])


def _colour_science() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it could do besides, with other packages
            return import_module("colour")
    except ImportError as error:
        raise ModelError(
            "Expected the package colour-science for this baseline, got none. pip install colour-science."
        ) from error
