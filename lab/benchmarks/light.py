"""Accuracy of the told light of a photo: `python -m lab.benchmarks.light WHAT [FOLDER]`.

FOLDER has reflectance cubes of real scenes, 31 bands (default: ../shared/data/cave). Every scene is
seen by cameras that training never saw.

white    angles between told and true whites, as the sensor sees them and in linear sRGB, the space
of the prototype:
         the 15 illuminants and 6 mixtures of them, and the lights never trained with
surfaces the same error, the light estimated with a grey, or with 4 or 16 pixels of the scene whose
spectra are known bands    what the 90 % prediction intervals hold, the light told, estimated, and
estimated with 4 spectra, also without its doubt penalty  relative error (MRAE) of the pixelwise
part of mstpp-camera with the light told, estimated and assumed,
         at every fourth pixel; a held-out light is not in the table of lights that the estimate may
         choose from
srgb     how often sRGB photos are warned of, by their light
time     a photo of 24 megapixels
"""

import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

import napari_mst as nm
from lab.benchmarks import common
from lab.camera_scenes import TRAINING_LIGHTS
from lab.fit_light import SIZE
from lab.lights import HELD_OUT_LIGHTS
from napari_mst.calibration.light import estimating
from napari_mst.calibration.light.seeing import common_response, light_table, sampled, to_common
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.metrics import core_pixels, mrae
from napari_mst.models.cards import NOISE
from napari_mst.photo.cameras import GRID, OF_SENSOR, light_power, unbalanced_response
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction import lighting
from napari_mst.reconstruction.model_intervals import half_widths, photo_interval
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.setup import set_up
from napari_mst.training.inputs import HELD_OUT_CAMERAS
from napari_mst.training.scenes import read_scenes

PENALTY_LIGHTS = ("D65", "A", "F11", "F2", "office-fluorescent", "horizon")
PENALTY_STEP = 4
PENALTY_CAMERAS = (HELD_OUT_CAMERAS[1], HELD_OUT_CAMERAS[4])


def sensor(cube, camera, light, random=None):
    """The linear values (3, H, W) of a sensor, with noise if it is to be drawn."""
    values = common.sensor(cube, camera, light)
    if random is not None:
        shot = 10 ** random.uniform(-4.5, -2.5)
        values = values + random.standard_normal(values.shape) * np.sqrt(shot * values.clip(0))
    return values.clip(0, 1)


def angle(first, second):
    """The angle in degrees between two colours."""
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.rad2deg(np.arccos(np.clip(cosine, -1, 1))))


def shades_of_grey(values, power=6):
    """The white (3,) by Finlayson & Trezzi (2004)."""
    return (values.reshape(3, -1) ** power).mean(axis=1) ** (1 / power)


def in_common(white, camera):
    """The white (3,) of a *camera* in the space in which all cameras are compared."""
    balanced = white / unbalanced_response(camera, "E").sum(axis=0)
    return balanced @ to_common(camera)


def errors(values, camera, light):
    """The errors in degrees of two estimates and of shades of grey, for the sensor and in sRGB.

    Then the same for the nearest of the candidates.
    """
    told = nm.light.estimate(common.sensor_photo(values), camera)
    true = unbalanced_response(camera, light).sum(axis=0)
    powers = [told.power, *(each.power for each in told.candidates)]
    whites = [unbalanced_response(camera, "E").T @ power for power in powers]
    grey = shades_of_grey(values)
    observer = common_response().astype(np.float64)
    of_sensor = [angle(each, true) for each in (*whites, grey)]
    seen = [power @ observer for power in powers]
    wanted = light_power(light) @ observer
    of_observer = [angle(each, wanted) for each in (*seen, in_common(grey, camera))]
    return [
        (found[0], found[1], found[-1], min(found[1:-1]) <= estimating.NEAR)
        for found in (of_sensor, of_observer)
    ]


def white(scenes):
    """Print the angles between told and true whites."""
    random = np.random.default_rng(77)
    found = {}
    for name, cube in scenes:
        for camera in HELD_OUT_CAMERAS:
            pairs = random.integers(len(TRAINING_LIGHTS), size=(6, 2))
            mixed = [f"0.5 {TRAINING_LIGHTS[a]} + 0.5 {TRAINING_LIGHTS[b]}" for a, b in pairs]
            for kind, lights in (
                ("15 lights and 6 mixtures", (*TRAINING_LIGHTS, *mixed)),
                ("never trained with", HELD_OUT_LIGHTS),
            ):
                for light in lights:
                    rows = errors(sensor(cube, camera, light, random), camera, light)
                    for space, row in zip(("sensor", "sRGB"), rows, strict=True):
                        found.setdefault((kind, space), []).append(row)
        print(name, *(np.mean(rows, axis=0).round(2) for rows in found.values()), flush=True)
    for (kind, space), rows in found.items():
        table = np.array(rows)
        labels = ("estimate", "first candidate", "shades of grey")
        for label, column in zip(labels, table.T, strict=False):
            worst = np.sort(column)[-len(column) // 4 :].mean()
            print(
                f"{kind}, {space}, {len(column)} photos, {label:16} mean {column.mean():5.2f}  "
                f"median {np.median(column):5.2f}  worst quarter {worst:5.2f}"
            )
        near = table[:, 3].mean()
        print(
            f"{kind}, {space}: one of the candidates within {estimating.NEAR:g} degrees {near:.3f}"
        )


def penalty(scenes):
    """Print what a wrong light costs the reconstruction."""
    network = nm.load_model("mstpp-camera").network.pixelwise.eval()
    print(f"MRAE at every {PENALTY_STEP}th pixel of a row and a column, one scale a photo")
    rows = {}
    for name, cube in scenes:
        for camera in PENALTY_CAMERAS:
            for kind, lights in (
                ("known", PENALTY_LIGHTS),
                ("never trained with", HELD_OUT_LIGHTS),
            ):
                for light in lights:
                    found = penalties(network, cube, camera, light)
                    for label, error in found.items():
                        rows.setdefault((kind, label), []).append(error)
        print(name, flush=True)
    for (kind, label), errors in rows.items():
        print(f"{kind:20} {label:30} MRAE {np.mean(errors):.4f}  median {np.median(errors):.4f}")


def penalties(network, cube, camera, light):
    """The error (MRAE) of a *cube* seen by a *camera* in a *light*, by what is told of the light."""
    told = estimated(common.sensor_photo(sensor(cube, camera, light)), camera, light)
    small = np.ascontiguousarray(cube[:, ::PENALTY_STEP, ::PENALTY_STEP])
    values = sensor(small, camera, light)
    true = unbalanced_response(camera, light).sum(axis=0)
    daylight = light_power("D65")

    def error(power, own_white=None):
        spectra = spectra_of(network, values, (camera, power, own_white), small)
        return mrae(spectra, small)

    candidates = [error(each.power) for each in told.candidates]
    return {
        "light told": error(light_power(light)),
        "light estimated": error(told.power),
        "light estimated, white told": error(told.power, true),
        "most likely candidate": candidates[0],
        "best of the candidates": min(candidates),
        "white told, D65 assumed": error(daylight, true),
        "shades of grey, D65 assumed": error(daylight, shades_of_grey(values)),
        "D65 assumed": error(daylight),
    }


def surfaces(scenes):
    """Print what known reflectances bring."""
    network = nm.load_model("mstpp-camera").network.pixelwise.eval()
    kinds = {"known": PENALTY_LIGHTS, "never trained with": HELD_OUT_LIGHTS}
    rows = {}
    for name, cube in scenes:
        for camera, (kind, lights) in product(PENALTY_CAMERAS, kinds.items()):
            for light in lights:
                for label, error in by_surfaces(network, cube, camera, light).items():
                    rows.setdefault((kind, label), []).append(error)
        print(name, flush=True)
    for (kind, label), errors in rows.items():
        print(f"{kind:20} {label:30} MRAE {np.mean(errors):.4f}")


def by_surfaces(network, cube, camera, light):
    """The error (MRAE) of a *cube* seen by a *camera* in a *light*, by what is known in it."""
    random = np.random.default_rng(5)
    photo = common.sensor_photo(sensor(cube, camera, light, random))
    small = np.ascontiguousarray(cube[:, ::PENALTY_STEP, ::PENALTY_STEP])
    values = sensor(small, camera, light)
    bright = np.argwhere(small.mean(axis=0) > 0.08)
    white = unbalanced_response(camera, light).sum(axis=0)
    references = {"nothing": None, "a grey": (np.ones((1, 31)), white[None])}
    for count in (4, 16):
        at = tuple(bright[random.integers(len(bright), size=count)].T)
        references[f"{count} spectra"] = small[:, *at].T, values[:, *at].T
    powers = {"light told": light_power(light)}
    for what, seen in references.items():
        powers[f"with {what}"] = estimated(photo, camera, light, random, seen).power
    return {
        label: mrae(spectra_of(network, values, (camera, power, None), small), small)
        for label, power in powers.items()
    }


def bands(scenes):
    """Print what the 90 % prediction intervals hold, by what tells the light, without its doubt and with it."""
    kinds = {"known": PENALTY_LIGHTS, "never trained with": HELD_OUT_LIGHTS}
    rows = {}
    for name, cube in scenes:
        for camera, (kind, lights) in product(PENALTY_CAMERAS, kinds.items()):
            for light in lights:
                for label, row in by_band(cube, camera, light).items():
                    rows.setdefault((kind, label), []).append(row)
        print(name, flush=True)
    for (kind, label), each in rows.items():
        held = np.array([held for held, _ in each])
        print(
            f"{kind:20} {label:34} {held.mean():.3f}  least band {held.mean(axis=0).min():.2f}  "
            f"least photo {held.mean(axis=1).min():.2f}  width {np.mean([width for _, width in each]):.2f}"
        )


def by_band(cube, camera, light):
    """The shares (31,) of the core of a *cube* in the prediction interval, and its width, by what tells the light."""
    model = nm.load_model("mstpp-camera")
    random = np.random.default_rng(5)
    photo = common.sensor_photo(sensor(cube, camera, light, random))
    small = np.ascontiguousarray(cube[:, ::PENALTY_STEP, ::PENALTY_STEP])
    values = sensor(small, camera, light)
    white = unbalanced_response(camera, light).sum(axis=0).max()
    bright = np.argwhere(small.mean(axis=0) > 0.08)
    at = tuple(bright[random.integers(len(bright), size=4)].T)
    spectra = estimated(photo, camera, light, random, (small[:, *at].T, values[:, *at].T))
    linear = (white * values).reshape(3, -1, 1).astype(np.float32)
    core, found = core_pixels(small), {}
    for label, told in {
        "told": None,
        "estimated": estimated(photo, camera, light),
        "with 4 spectra": spectra,
    }.items():
        name = light if told is None else told.illuminant
        response = unbalanced_response(camera, name)
        estimate = lighting._spectra(model.network.pixelwise, linear, response, None)
        estimate = estimate.reshape(small.shape)
        band = photo_interval(model.card, NOISE)
        doubts = {"": 0.0}
        if told is not None:
            acquisition = nm.Acquisition(camera, name, common.FULL / white, OF_SENSOR)
            options = RunOptions(device="cpu", acquisition=acquisition)
            doubts[" and its doubt"] = lighting._doubt(set_up(model, options), photo, told)
        for more, doubt in doubts.items():
            wide = {**band, "doubt": np.hypot(band["doubt"], doubt)}
            below, above = half_widths(estimate, wide, GRID)
            held = (small >= np.maximum(estimate - below, 0)) & (small <= estimate + above)
            width = (below + above)[:, core] / estimate[:, core].clip(0.01)
            found[label + more] = held[:, core].mean(axis=1), width.mean()
    return found


def estimated(photo, camera, light, random=None, seen=None):
    """The estimate for a *photo* whose *light*, if it was never trained with, is not known either.

    Reflectances (n, 31) and values (n, 3) of the sensor that were *seen* have 1 % of noise.
    """
    whole_table = estimating.light_table
    if light in HELD_OUT_LIGHTS:
        estimating.light_table = lambda: light_table(light)
    try:
        told = nm.light.estimate(photo, camera)
        if seen is None:
            return told
        reflectances, values = seen
        noisy = values * (1 + 0.01 * random.standard_normal(values.shape))
        _, likely, shares = estimating._likely(sampled(photo, SIZE), camera, reflectances, noisy)
        table = estimating.light_table()
        name = estimating._named_mixture(table, shares)
        candidates = estimating._candidates(camera, table, likely)
        return replace(told, illuminant=name, candidates=candidates)
    finally:
        estimating.light_table = whole_table


def spectra_of(network, values, acquisition, cube):
    """The spectra of a photo in a light of this power and white, scaled once to those of *cube*."""
    camera, power, own_white = acquisition
    response = unbalanced_response(camera, "E") * power[:, None]
    white = response.sum(axis=0)
    own = white if own_white is None else own_white
    gains = own[1] / own[:, None, None]
    return common.scaled_spectra(network, response / white, values * gains, cube)


def srgb(scenes):
    """Print how often sRGB photos of several lights are warned of."""
    warned = {}
    for _, cube in scenes:
        for light in ("D65", "D50", "D75", "F2", "F11", "A", "horizon"):
            values = sensor(cube, "sRGB", light)
            codes = np.rint(linear_to_srgb(values) * 255).astype(np.uint8)
            warned.setdefault(light, []).append(
                bool(estimating.warning_of(Photo.from_array(np.moveaxis(codes, 0, -1))))
            )
    for light, each in warned.items():
        print(f"{light:8} {sum(each)} of {len(each)} photos are warned of")


def duration(_):
    """Print how long a large photo takes."""
    codes = np.random.default_rng(0).integers(500, 60_000, (4000, 6000, 3), dtype=np.uint16)
    photo = Photo.from_array(codes, encoding="linear", full_scale=float(common.FULL))
    nm.light.estimate(photo, "Nikon_D5100")
    taken = []
    for _ in range(9):
        start, busy = time.perf_counter(), time.process_time()
        nm.light.estimate(photo, "Nikon_D5100")
        taken.append((time.perf_counter() - start, time.process_time() - busy))
    wall, busy = (np.array(taken) * 1000).T
    print(
        f"24 megapixels: fastest {wall.min():.0f} ms, median {np.median(wall):.0f} ms; of the "
        f"processor's time {np.median(busy):.0f} ms"
    )


if __name__ == "__main__":
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "../shared/data/cave")
    torch.set_num_threads(1)
    read = (
        () if sys.argv[1] == "time" else [(scene.name, scene.cube) for scene in read_scenes(folder)]
    )
    kinds = {"white": white, "penalty": penalty, "srgb": srgb, "time": duration}
    {**kinds, "surfaces": surfaces, "bands": bands}[sys.argv[1]](read)
