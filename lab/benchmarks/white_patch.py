"""The error of the camera model by how its light became known: told, or from one grey click.

    python -m lab.benchmarks.white_patch FOLDER

Six lights, two cameras that were never trained with, and the scenes of FOLDER (31 bands of
reflectance). A grey patch of 50 % with the noise of a sensor stands in each photo. The
network is the pixelwise part of mstpp-camera, the exposure is free (one factor a photo), as in the
table that first showed what a wrong light costs.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from lab.benchmarks import common
from lab.benchmarks.common import Array
from napari_mst import load_model
from napari_mst.calibration import white_patch as white_module
from napari_mst.calibration.white_patch import GreyPatch, acquisition_from_patch
from napari_mst.cube.metrics import mrae
from napari_mst.photo.cameras import OF_SENSOR, Acquisition, load_illuminants
from napari_mst.photo.photo import Photo
from napari_mst.training.inputs import HELD_OUT_CAMERAS

LIGHTS = ("D65", "A", "F11", "F2", "office-fluorescent", "horizon")
CAMERAS = tuple(HELD_OUT_CAMERAS[index] for index in (1, 4))
PATCH = slice(0, 6)
GREY = 0.5
SHOT = 3e-4  # variance of the noise, as a share of the value


def photo_of(scene: Array, camera: str, light: str) -> Photo:
    """The photo of a scene with a grey patch in its corner."""
    with_patch = scene.copy()
    with_patch[:, PATCH, PATCH] = GREY
    raw = common.sensor(with_patch, camera, light)
    # Drawn pixel by pixel, in the order of the values of a file.
    noise = np.random.default_rng(0).standard_normal((*raw.shape[1:], 3))
    return common.sensor_photo(raw + np.moveaxis(noise, -1, 0) * np.sqrt(SHOT * raw))


def error(network: Any, raw: Array, acquisition: Acquisition, scene: Array) -> float:
    """The MRAE of what the network makes of sensor values, told *acquisition*."""
    balanced = raw * acquisition.gains[:, None, None] / (acquisition.white / common.FULL)
    return float(mrae(common.scaled_spectra(network, acquisition.response, balanced, scene), scene))


def acquisitions(photo: Photo, camera: str, light: str) -> dict[str, Acquisition]:
    """The acquisitions of *photo*, by the way in which its light became known."""
    patch = GreyPatch((2, 2), GREY)
    clicked = acquisition_from_patch(photo, patch, camera, start=OF_SENSOR)
    white, balance = clicked.white, clicked.balance
    references = load_illuminants()
    try:  # the same click where the true light is none of those that are known
        white_module.load_illuminants = lambda: {n: p for n, p in references.items() if n != light}
        white_module._FROM_LIGHTS = 90.0
        other = acquisition_from_patch(photo, patch, camera, start=OF_SENSOR)
    finally:
        white_module.load_illuminants = load_illuminants
    return {
        "light told": Acquisition(camera, light, white, OF_SENSOR),
        "one grey click": clicked,
        "one grey click, its light not in the list": other,
        "one grey click, told D65": Acquisition(camera, "D65", white, balance),
        "told D65, balanced for it": Acquisition(camera, "D65", white, OF_SENSOR),
    }


def main(folder: Path) -> None:
    """Print the table."""
    network = load_model("mstpp-camera").network.pixelwise.eval()
    rows: dict[str, list[float]] = {}
    hits = []
    for scene in common.coarse_scenes(folder):
        for camera in CAMERAS:
            for light in LIGHTS:
                raw = common.sensor(scene, camera, light).clip(0, 1)
                for name, acquisition in acquisitions(
                    photo_of(scene, camera, light), camera, light
                ).items():
                    rows.setdefault(name, []).append(error(network, raw, acquisition, scene))
                    if name == "one grey click":
                        hits.append(acquisition.illuminant == light)
    for name, errors in rows.items():
        print(f"{name:45} MRAE {np.mean(errors):.4f}  (n = {len(errors)})")
    print(f"the click finds the light: {np.mean(hits):.0%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
