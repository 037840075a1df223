"""What further photos of a scene bring: `python -m lab shots FOLDER`.

Each scene is photographed in daylight, and again in other light or through filters: with another
exposure, shading, a shift, noise or JPEG. One photo is what the default network makes of the first.
Filters are smooth curves like those of gels.
"""

import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.ndimage import map_coordinates

from napari_mst.arrays import Doubles, Floats
from napari_mst.cli.arguments import Command
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.metrics import core_mrae, core_pixels, mrae
from napari_mst.models import load_model
from napari_mst.photo.cameras import (
    GRID,
    SRGB,
    THROUGH,
    Acquisition,
    sensor_white,
    unbalanced_response,
)
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.intervals import prediction_intervals
from napari_mst.references.shots import Shot, add_shots
from napari_mst.training.scenes import Scene, read_scenes


def _bell(centre: float, width: float) -> Doubles:
    return np.exp(-0.5 * ((GRID - centre) / width) ** 2)


FILTERS: Mapping[str, Doubles] = {
    "orange": 0.02 + 0.9 / (1 + np.exp(-(GRID - 570) / 8)),
    "cyan": 0.05 + 0.8 * _bell(490, 55),
}
LIGHTS: Mapping[str, tuple[str, ...]] = {
    "F11": ("F11",),
    "LED-RGB1": ("LED-RGB1",),
    "LED-B3, flash": ("LED-B3",),
    "orange gel": ("D65 through orange",),
    "cyan and orange gels": ("D65 through cyan", "D65 through orange"),
    "A and F11": ("A", "F11"),
}


@dataclass(frozen=True)
class Faults:
    """How the photos differ from exact ones; *shade* is the logarithm at the edges.

    *noise* is the variance over the light, and *quality* that of JPEG, of all photos.
    """

    exposure: float = 1.0
    shade: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)
    noise: float = 0.0
    quality: int = 0


CASES: Mapping[str, Faults] = {
    "registered": Faults(),
    "other exposure, shading": Faults(0.7, 0.4),
    "and a shift of 3 pixels": Faults(0.7, 0.4, (2.0, -2.0)),
    "... of 2.3 and 1.9": Faults(0.7, 0.4, (2.3, -1.9)),
    "and noise 2e-4": Faults(0.7, 0.4, (2.0, -2.0), noise=2e-4),
    "and noise 1e-3": Faults(0.7, 0.4, (2.0, -2.0), noise=1e-3),
    "and JPEG 90": Faults(0.7, 0.4, (2.0, -2.0), quality=90),
}


def taken(cube: Floats, camera: str, light: str, faults: Faults, seed: int) -> Photo:
    """The photo of *cube* (31, H, W), with the white balance of daylight; nothing is clipped."""
    name, _, glass = light.partition(THROUGH)
    response = unbalanced_response(camera, name) / sensor_white(camera, "D65")
    response = response * FILTERS.get(glass, np.ones(31))[:, None]
    values = np.einsum("bhw,bc->chw", cube, response / response.sum(axis=0).max())
    rows, columns = np.indices(values.shape[1:])
    at = rows - faults.shift[0], columns - faults.shift[1]
    values = np.stack([map_coordinates(plane, at, order=3, mode="reflect") for plane in values])
    y, x = (2 * each / (len(each) - 1) - 1 for each in (rows, columns))
    shading = np.exp(faults.shade * (0.8 * x + 0.4 * y - 0.5 * x**2 + 0.3 * x * y))
    values *= faults.exposure * shading
    random = np.random.default_rng(seed)
    values += random.standard_normal(values.shape) * np.sqrt(faults.noise * values.clip(0))
    if camera != SRGB:
        codes = np.rint(values.clip(0, 1) * 65535).astype(np.uint16)
        return Photo.from_array(np.moveaxis(codes, 0, -1), encoding="linear", name=light)
    codes = np.rint(linear_to_srgb(values.clip(0, 1)) * 255).astype(np.uint8)
    codes = np.moveaxis(codes, 0, -1)
    if faults.quality:
        file = io.BytesIO()
        Image.fromarray(codes).save(file, "JPEG", quality=faults.quality)
        codes = np.asarray(Image.open(file))
    return Photo.from_array(np.ascontiguousarray(codes), name=light)


def score(cube: SpectralCube, truth: Floats) -> list[float]:
    """MRAE, core MRAE, and the share of the core values in the prediction interval."""
    lower, upper = prediction_intervals(cube)
    is_inside = (truth >= lower.data) & (truth <= upper.data)
    inside = float(is_inside[:, core_pixels(truth)].mean())
    return [mrae(cube.data, truth), core_mrae(cube.data, truth, GRID), inside]


def rows_of(
    scenes: Sequence[Scene], camera: str, lights: Sequence[str], faults: Faults, folder: Path
) -> Iterator[tuple[str, list[float]]]:
    """A label and the mean scores for one photo, and for it with those in each of *lights*."""
    acquisition = None if camera == SRGB else Acquisition(camera, "D65")
    model = load_model("mstpp-camera") if acquisition else load_model()
    reconstructor = Reconstructor(
        model, acquisition=acquisition, calibrated_by="rendered from spectra"
    )
    first = Faults(noise=faults.noise, quality=faults.quality)
    photos = [taken(scene.cube, camera, "D65", first, 1) for scene in scenes]
    cubes = [reconstructor.reconstruct(photo) for photo in photos]
    pairs = list(zip(scenes, photos, cubes, strict=True))
    yield "one photo", _mean([score(cube, scene.cube) for scene, _, cube in pairs])
    for label in lights:
        scores = []
        for scene, photo, cube in pairs:
            shots = []
            for number, light in enumerate(LIGHTS[label]):
                name, _, glass = light.partition(THROUGH)
                said = f"{name}{THROUGH}{folder / glass}.csv" if glass else name
                further = taken(scene.cube, camera, light, faults, 2 + number)
                shots.append(Shot(further, said))
            scores.append(score(add_shots(cube, photo, shots), scene.cube))
        yield label, _mean(scores)


def _mean(scores: list[list[float]]) -> list[float]:
    return [float(each) for each in np.mean(scores, axis=0)]


def shots(scenes: Path, *, camera: str = SRGB, lights: str = "", every: int = 1) -> None:
    """Print the error of one photo, and what further photos leave of it.

    Parameters
    ----------
    scenes : FOLDER
        reflectance cubes of real scenes, 31 bands
    camera : NAME
        sRGB, 8 bits; or one whose linear values have 16 bits (default: sRGB)
    lights : NAMES
        which further photos, with semicolons between them (default: all)
    every : N
        take each N-th scene only

    Examples
    --------
    python -m lab shots ../shared/data/cave --camera Nikon_D5100
    """
    chosen = list(read_scenes(scenes))[::every]
    print("scenes:", ", ".join(scene.name for scene in chosen), flush=True)
    print(f"{'photos':26}{'':24}   MRAE   left   core   left   bands", flush=True)
    labels = [each.strip() for each in lights.split(";")] if lights else list(LIGHTS)
    with tempfile.TemporaryDirectory() as folder:
        for glass, values in FILTERS.items():
            table = np.column_stack([GRID, values])
            path = Path(folder) / f"{glass}.csv"
            np.savetxt(path, table, delimiter=",", header="nm,transmittance", comments="")
        for case, faults in CASES.items():
            if faults.quality and camera != SRGB:
                continue
            one: list[float] = []
            for label, (error, core, inside) in rows_of(
                chosen, camera, labels, faults, Path(folder)
            ):
                one = one or [error, core]
                print(
                    f"{case:26}{label:24} {error:.4f}   {error / one[0]:.2f}  {core:.4f}   "
                    f"{core / one[1]:.2f}   {inside:.2f}",
                    flush=True,
                )


SHOTS = Command("shots", "judge cubes that further photos corrected", shots)
