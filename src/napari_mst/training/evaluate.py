"""How well a model does on real scenes: `python -m napari_mst.training.evaluate SCENES [MODEL ...]`.

A scene is a reflectance cube from a multispectral camera (`.npz` with `cube` (B, H, W), integers at full scale or
floats, and `wavelengths` in nm). Its photo is rendered to 8-bit sRGB under D65, reconstructed, and compared with it.
Letters: B bands, H rows, W columns.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_estimate, linear_to_srgb, render_srgb, srgb_response, srgb_to_linear
from napari_mst.metrics import mrae, psnr, rmse, spectral_angle
from napari_mst.models import MODELS, load_model
from napari_mst.reconstruction import Reconstructor
from napari_mst.training.simulate import load_reflectances

METRICS: Mapping[str, Callable[[NDArray[np.floating], NDArray[np.floating]], float]] = {
    "MRAE": mrae,
    "RMSE": rmse,
    "PSNR (dB)": psnr,
    "SAM (deg)": spectral_angle,
}

Method = Callable[[NDArray[np.uint8]], NDArray[np.floating]]
"""8-bit sRGB photo (3, H, W) -> reflectance (B, H, W)."""


def read_scenes(folder: Path) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float64]]]:
    """Reflectance (B, H, W) and wavelengths (nm) of every `.npz` scene in *folder*, by name."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as archive:
            cube, wavelengths = archive["cube"], archive["wavelengths"].astype(np.float64)
        full_scale = np.iinfo(cube.dtype).max if cube.dtype.kind == "u" else 1
        yield (cube / full_scale).astype(np.float32), wavelengths


def photograph(cube: NDArray[np.floating], wavelengths: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The 8-bit sRGB photo (3, H, W) of a reflectance cube under D65."""
    linear = render_srgb(cube, wavelengths).clip(0, 1)
    return np.rint(linear_to_srgb(linear) * 255).astype(np.uint8)


def evaluate(method: Method, folder: Path) -> dict[str, float]:
    """Mean of each metric over the scenes in *folder*.

    Raises
    ------
    FileNotFoundError
        If there is no scene.
    """
    rows = []
    for cube, wavelengths in read_scenes(folder):
        estimate = method(photograph(cube, wavelengths))
        rows.append([metric(estimate, cube) for metric in METRICS.values()])
    if not rows:
        raise FileNotFoundError(f"Expected .npz scenes in {folder}, got none.")
    return dict(zip(METRICS, np.mean(rows, axis=0).tolist(), strict=True))


def matrix_method(matrix: NDArray[np.floating]) -> Method:
    """The method that multiplies linear sRGB by *matrix*, (B, 3)."""
    return lambda codes: np.einsum("bc,chw->bhw", matrix, srgb_to_linear(codes / 255), optimize=True)


def least_squares() -> Method:
    """Least squares 3 -> 31 on the measured reflectances that also train the bundled model."""
    wavelengths, sources = load_reflectances()
    return matrix_method(linear_estimate(np.concatenate(list(sources.values())), srgb_response(wavelengths)))


def mallett_yuksel() -> Method:
    """Spectral primaries of Mallett & Yuksel, EGSR 2019, doi:10.2312/sr.20191216, as tabulated in colour-science."""
    import colour

    basis = colour.recovery.MSDS_BASIS_FUNCTIONS_sRGB_MALLETT2019
    return matrix_method(basis.copy().align(colour.SpectralShape(400, 700, 10)).values)


def model_method(name: str) -> Method:
    """A model by its name in `MODELS` or its file, on the CPU."""
    reconstructor = Reconstructor(load_model(name), device="cpu")
    return lambda codes: reconstructor.reconstruct(codes).data


def main(arguments: list[str] | None = None) -> None:
    """Command line: print one row of metrics for each baseline and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", type=Path, help="folder of .npz scenes")
    parser.add_argument("models", nargs="*", default=[next(iter(MODELS))], help="names or weights files")
    options = parser.parse_args(arguments)
    methods = {"Mallett & Yuksel 2019": mallett_yuksel(), "least squares 3 -> 31": least_squares()}
    methods |= {name: model_method(name) for name in options.models}
    print(f"{'method':28}" + "".join(f"{metric:>11}" for metric in METRICS))
    for name, method in methods.items():
        values = evaluate(method, options.scenes).values()
        print(f"{name[-27:]:28}" + "".join(f"{value:11.4f}" for value in values))


if __name__ == "__main__":
    main()
