"""The error of the camera model by how its light became known: told, or from one grey click.

    python -m lab.benchmarks.white_patch FOLDER

Six lights, two cameras that were never trained with, and the scenes of FOLDER (`cube` in npz files,
31 bands of reflectance). A grey patch of 50 % with the noise of a sensor stands in each photo. The
network is the pixelwise part of mstpp-camera, the exposure is free (one factor a photo), as in the
table that first showed what a wrong light costs.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from napari_mst import load_model
from napari_mst.evaluation.inputs import HELD_OUT_CAMERAS
from napari_mst.metrics import mrae
from napari_mst.photo import white as white_module
from napari_mst.photo.cameras import OF_SENSOR, Capture, load_illuminants, unbalanced_response
from napari_mst.photo.photo import Photo
from napari_mst.photo.white import GreyPatch, capture_from_patch

LIGHTS = ("D65", "A", "F11", "F2", "office-fluorescent", "horizon")
CAMERAS = tuple(HELD_OUT_CAMERAS[index] for index in (1, 4))
PATCH = slice(0, 6)
GREY = 0.5
STEP = 4
SHOT = 3e-4  # variance of the noise, as a share of the value

Array = NDArray[Any]


def photo_of(scene: Array, camera: str, light: str) -> Photo:
    """The values of a sensor (rows, columns, 3) for a scene with a grey patch in its corner."""
    response = unbalanced_response(camera, light)
    response = response / response.sum(axis=0).max()
    with_patch = scene.copy()
    with_patch[:, PATCH, PATCH] = GREY
    raw = np.einsum("bhw,bc->hwc", with_patch, response)
    noise = np.random.default_rng(0).standard_normal(raw.shape) * np.sqrt(SHOT * raw)
    values = np.rint((raw + noise).clip(0, 1) * 65535).astype(np.uint16)
    return Photo.from_array(values, encoding="linear")


def clean_values(scene: Array, camera: str, light: str) -> Array:
    """The values of a sensor (3, rows, columns) without noise, white being 1 at most."""
    response = unbalanced_response(camera, light)
    return np.einsum("bhw,bc->chw", scene, response / response.sum(axis=0).max()).clip(0, 1)


def error(network: Any, raw: Array, capture: Capture, scene: Array) -> float:
    """The MRAE of what the network makes of sensor values, told *capture*."""
    network.see_with(torch.from_numpy(capture.response))
    balanced = raw * capture.gains[:, None, None] / (capture.white / 65535)
    with torch.inference_mode():
        numbers = network(torch.from_numpy(balanced.clip(0, 4)).float()[None])[0].numpy()
    bright = scene.min(axis=0) > 0.02
    scale = np.median(scene[:, bright] / np.maximum(numbers[:, bright], 1e-3))
    return float(mrae(numbers * scale, scene))


def captures(photo: Photo, camera: str, light: str) -> dict[str, Capture]:
    """The captures of *photo*, by the way in which its light became known."""
    patch = GreyPatch((2, 2), GREY)
    clicked = capture_from_patch(photo, patch, camera, start=OF_SENSOR)
    white, balance = clicked.white, clicked.balance
    known = load_illuminants()
    try:  # the same click where the true light is none of those that are known
        white_module.load_illuminants = lambda: {n: p for n, p in known.items() if n != light}
        white_module._FROM_LIGHTS = 90.0
        other = capture_from_patch(photo, patch, camera, start=OF_SENSOR)
    finally:
        white_module.load_illuminants = load_illuminants
    return {
        "light told": Capture(camera, light, white, OF_SENSOR),
        "one grey click": clicked,
        "one grey click, its light not in the list": other,
        "one grey click, told D65": Capture(camera, "D65", white, balance),
        "told D65, balanced for it": Capture(camera, "D65", white, OF_SENSOR),
    }


def main(folder: Path) -> None:
    """Print the table."""
    network = load_model("mstpp-camera").network.pixelwise.eval()
    rows: dict[str, list[float]] = {}
    hits = []
    for path in sorted(folder.glob("*.npz")):
        stored = np.load(path)["cube"][:, ::STEP, ::STEP]
        scale = 65535 if stored.dtype == np.uint16 else 1
        scene = stored.astype(np.float64) / scale
        for camera in CAMERAS:
            for light in LIGHTS:
                raw = clean_values(scene, camera, light)
                for name, capture in captures(
                    photo_of(scene, camera, light), camera, light
                ).items():
                    rows.setdefault(name, []).append(error(network, raw, capture, scene))
                    if name == "one grey click":
                        hits.append(capture.illuminant == light)
    for name, errors in rows.items():
        print(f"{name:45} MRAE {np.mean(errors):.4f}  (n = {len(errors)})")
    print(f"the click finds the light: {np.mean(hits):.0%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
