"""The worth of a ColorChecker in the photo: simulated lights, and two real photos.

    python -m lab.benchmarks.charts simulated CAVE_FOLDER
    python -m lab.benchmarks.charts real CHARTS_FOLDER

Simulated: a photo of the chart tells what to do with photos of the scenes of CAVE_FOLDER in the
same light. Real: each patch in turn is left out of everything, and judges.
"""

import sys
from pathlib import Path

import numpy as np

from lab.benchmarks import common
from lab.benchmarks.common import Array
from napari_mst import (
    Acquisition,
    Chart,
    Photo,
    Reconstructor,
    calibrate,
    load_model,
    prediction_intervals,
    refine,
    region_spectrum,
)
from napari_mst.analysis.regions import Region
from napari_mst.calibration.chart import CHARTS
from napari_mst.cube.colour import illuminant, linear_to_srgb, measured_reflectances, srgb_response
from napari_mst.cube.metrics import mrae
from napari_mst.photo.cameras import GRID, light_power, unbalanced_response
from napari_mst.training.inputs import HELD_OUT_CAMERAS

CORNERS = Chart(((10.0, 10.0), (10.0, 110.0), (70.0, 110.0), (70.0, 10.0)))
CASES = (("D65", 1.0), ("A", 1.0), ("F2", 1.0), ("F11", 1.0), ("D65", 0.5))
REAL = {
    "colorchecker-classic-mini.jpg": ((380.0, 69.0), (91.0, 69.0), (91.0, 240.0), (380.0, 240.0)),
    "classic.png": ((58.0, 225.0), (330.0, 225.0), (330.0, 58.0), (58.0, 58.0)),
}


def chart_scene() -> Array:
    """The chart on a dark wall: (31, 80, 120)."""
    cube = np.full((31, 80, 120), 0.05)
    for spectrum, (row, column) in zip(
        CHARTS["classic"].reflectances, CORNERS.centres, strict=True
    ):
        top, left = round(row) - 8, round(column) - 8
        cube[:, top : top + 16, left : left + 16] = spectrum[:, None, None]
    return cube


def linear_photo(cube: Array, camera: str, light: str, exposure: float) -> Photo:
    """The values of a sensor in 16 bits, white being 90 % of full scale in its brightest channel."""
    return common.sensor_photo(common.sensor(cube, camera, light, 0.9 * exposure))


def encoded_photo(cube: Array, light: str, exposure: float, is_balanced: bool = False) -> Photo:
    """An 8-bit sRGB photo: its camera takes every light for D65, and the scene is a little dark.

    If it *is_balanced*, white is 1 in all channels instead.
    """
    power = light_power(light) / illuminant("D65", GRID)
    response = srgb_response(GRID) * power[:, None]
    white = response.sum(axis=0)
    response /= white if is_balanced else white.max() / (0.9 * exposure)
    codes = linear_to_srgb(np.einsum("bhw,bc->hwc", cube, response).clip(0, 1))
    return Photo.from_array(np.rint(codes * 255).astype(np.uint8))


def linear_errors(cubes: list[Array], light: str, exposure: float) -> tuple[float, float]:
    """MRAE with the chart, and told everything, of a camera that was never trained with."""
    camera = HELD_OUT_CAMERAS[1]
    model = load_model("mstpp-camera")
    told = calibrate(linear_photo(chart_scene(), camera, light, exposure), CORNERS).acquisition
    white = unbalanced_response(camera, light).sum(axis=0)
    level = 0.9 * exposure * 65535 * white[1] / white.max()
    exact = Acquisition(camera, light, level, "by the sensitivities")
    errors = []
    for acquisition in (told, exact):
        reconstructor = Reconstructor(model, "cpu", acquisition=acquisition)
        photos = (linear_photo(cube, camera, light, exposure) for cube in cubes)
        pairs = zip(photos, cubes, strict=True)
        errors.append([mrae(reconstructor.reconstruct(photo).data, cube) for photo, cube in pairs])
    return float(np.mean(errors[0])), float(np.mean(errors[1]))


def terms(colours: Array) -> Array:
    """(n, 6): those of a root-polynomial of the second degree, of linear *colours* (n, 3)."""
    red, green, blue = np.maximum(colours, 1e-5).T
    mixed = np.sqrt([red * green, green * blue, red * blue])
    return np.stack([red, green, blue, *mixed], axis=1)


def best_polynomial(shown: Array, true: Array) -> Array:
    """(6, 3): the one that takes the colours *shown* (n, 3) to the *true* ones, as shares."""
    weights = 1 / (true.mean(axis=1, keepdims=True) + 0.03)
    found: Array = np.linalg.lstsq(terms(shown) * weights, true * weights, rcond=None)[0]
    return found


def with_polynomial(photo: Photo, polynomial: Array) -> Photo:
    """*photo* with the colours of the *polynomial*, in floats."""
    light = linear_colours(photo)
    codes = linear_to_srgb((terms(light) @ polynomial).clip(0, 1))
    return Photo.from_array(codes.reshape(*photo.shape, 3).astype(np.float32))


def linear_colours(photo: Photo) -> Array:
    """The colours (n, 3) of all pixels, in linear light."""
    values: Array = photo.rows(linear=True).reshape(3, -1).T
    return values.astype(np.float64)


def taught_polynomial(light: str, exposure: float) -> Array:
    """The best one for all measured reflectances of the package, under a *light* that is known.

    No chart tells more, however many patches it has.
    """
    spectra = measured_reflectances().clip(0, 1).T[:, :, None]
    shown = encoded_photo(spectra, light, exposure)
    daylight = np.einsum("bhw,bc->hwc", spectra, srgb_response(GRID)).reshape(-1, 3)
    return best_polynomial(linear_colours(shown), daylight)


def encoded_errors(cubes: list[Array], light: str, exposure: float) -> list[float]:
    """MRAE of sRGB photos: see `simulated` for the rows."""
    # The photos have no noise, but so few pixels that some textures pass for it.
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu", denoise="off")
    taught = taught_polynomial(light, exposure)
    calibration = calibrate(encoded_photo(chart_scene(), light, exposure), CORNERS)
    rows = []
    for cube in cubes:
        photo = encoded_photo(cube, light, exposure)
        balanced = encoded_photo(cube, light, exposure, is_balanced=True)
        daylight = encoded_photo(cube, "D65", 1.0, is_balanced=True)
        own = best_polynomial(linear_colours(photo), linear_colours(daylight))
        bounds = (with_polynomial(photo, polynomial) for polynomial in (own, taught))
        tried = (calibration.corrected(photo), balanced, daylight, photo, *bounds)
        rows.append([mrae(reconstructor.reconstruct(one).data, cube) for one in tried])
    means: list[float] = np.mean(rows, axis=0).tolist()
    return means


def simulated(folder: Path) -> None:
    """Print the errors under each light, as shares of those of the exactly balanced photo."""
    cubes = common.coarse_scenes(folder)
    for light, exposure in CASES:
        with_chart, exact = linear_errors(cubes, light, exposure)
        ratio = with_chart / exact
        print(
            f"linear {light:4} x {exposure}: chart {with_chart:.4f}, exact {exact:.4f}: {ratio:.3f}"
        )
        with_chart, exact, daylight, as_it_is, own, taught = encoded_errors(cubes, light, exposure)
        print(
            f"sRGB   {light:4} x {exposure}: chart {with_chart:.4f}, in daylight {daylight:.4f}: "
            f"{with_chart / daylight:.3f}; balanced {exact:.4f}, without {as_it_is:.4f}; best "
            f"polynomial for all reflectances {taught / daylight:.3f}, for the scene itself "
            f"{own / daylight:.3f}",
            flush=True,
        )


def real(folder: Path) -> None:
    """Print the errors of patches that were left out of everything, and whether bands hold them."""
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu")
    truth = CHARTS["classic"].reflectances
    for name, corners in REAL.items():
        photo = Photo.read(folder / name)
        rows = []
        for patch, true in enumerate(truth):
            calibration = calibrate(photo, Chart(corners), unused=patch)
            chart = calibration.chart
            row, column = np.rint(chart.centres[patch]).astype(int)
            place = Region.of_window(row, column, photo.shape, min(chart.window, 19))
            corrected = calibration.corrected(photo)
            plain = reconstructor.reconstruct(corrected)
            cube = refine(plain, corrected, calibration)
            low, high = (region_spectrum(side, place).values for side in prediction_intervals(cube))
            found = [region_spectrum(one, place).values for one in (plain, cube)]
            errors = [float(np.abs(one / true - 1).mean()) for one in found]
            held = ((true >= low) & (true <= high)).mean()
            rows.append([*errors, float(held), float(((high - low) / found[1]).mean())])
        plain_error, error, holds, width = np.mean(rows, axis=0)
        print(
            f"{name}: calibrated {plain_error:.3f}, and refined {error:.3f}, "
            f"bands hold {holds:.3f}, width {width:.2f}"
        )


if __name__ == "__main__":
    {"simulated": simulated, "real": real}[sys.argv[1]](Path(sys.argv[2]))
