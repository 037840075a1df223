"""Non-local Bayes and means: their time, and the noise that is estimated on real scenes.

`python -m lab.benchmarks.denoising [--megapixels 1] [--threads 2] [--scenes FOLDER]`

Means are of a window of 19 and patches of 5 on three channels. With `--numpy` also without numba,
on a hundredth of the pixels. With `--scenes`, a folder of reflectance cubes, each is photographed
clean and with three strengths of noise: estimated over true standard deviation at middle grey, and
whether the photo would be denoised. With `--ordinary N` instead, N photos of each scene by held-out
cameras (see `lab.ordinary_photos`), with two strengths of noise and with JPEG or without, go to
`mstpp-photo` as they are and denoised: the errors of `lab.benchmarks.ordinary`, and how often the
denoised one is better, without and with one gain.
"""

import os
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import psutil
import torch

from lab.benchmarks import common
from lab.benchmarks.ordinary import SEED, Tally, estimator
from lab.ordinary_photos import draw_processing, photograph_scene
from napari_mst import Reconstructor, load_model
from napari_mst.base.arrays import Doubles
from napari_mst.denoising.kernel import CompiledTile
from napari_mst.denoising.nl_bayes import NLBayes, denoised_pixels
from napari_mst.denoising.numpy_kernel import ImageBlock, Tile, attend
from napari_mst.denoising.sensor_noise import SensorNoise, estimated_noise
from napari_mst.denoising.streaming import Filter, working_bytes
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.denoising import decided
from napari_mst.reconstruction.preparing import prepared_job
from napari_mst.training.inputs import INPUTS
from napari_mst.training.scenes import read_scenes

USING = Filter(1.2, 5, 9, sigma=1.0)
TILE = Tile(0, 32, 0, 124)


def block() -> ImageBlock:
    """A tile of 32 x 124 pixels with all that it looks at."""
    generator = np.random.default_rng(0)
    image, values = generator.random((3, 54, 146)), generator.random((4, 50, 142))
    return ImageBlock(image, values, USING.taps, USING.distance, -1.0, 0.0)


def seconds(
    attend: Callable[[Tile], Doubles], megapixels: float, threads: int
) -> tuple[float, float]:
    """Wall time and processor time of so many megapixels."""
    area = (TILE.bottom - TILE.top) * (TILE.right - TILE.left)
    tiles = max(round(megapixels * 1e6 / area), threads)
    attend(TILE)  # compiled
    wall, processor = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: attend(TILE), range(tiles)))
    done = tiles * area / 1e6
    return (time.perf_counter() - wall) / done, (time.process_time() - processor) / done


def seconds_of_photo(megapixels: float) -> tuple[float, float]:
    """Wall time and processor time of a megapixel of a whole photo, by non-local Bayes."""
    side = round((megapixels * 1e6) ** 0.5)
    generator = np.random.default_rng(0)
    waves = 0.3 + 0.2 * np.sin(np.arange(side) / 20)[:, None, None] * np.ones((1, side, 3))
    noisy = waves + generator.normal(0, 0.02, waves.shape)
    photo = Photo.from_array((255 * noisy.clip(0, 1)).astype(np.uint8))
    wall, processor = time.perf_counter(), time.process_time()
    denoised_pixels(photo, NLBayes(SensorNoise(1e-3, 1e-5)))
    spent = time.perf_counter() - wall, time.process_time() - processor
    return spent[0] / side**2 * 1e6, spent[1] / side**2 * 1e6


def print_noise(folder: Path) -> None:
    """A line for each scene and kind of photo."""
    reconstructor = Reconstructor(load_model("pixelwise-srgb"), "cpu")
    for scene in read_scenes(folder):
        for kind in INPUTS[:4]:
            photo = kind.photo(scene.cube, scene.name)
            noise = estimated_noise(photo)
            if noise is None:
                continue
            true = SensorNoise(kind.noise, 0.0).sigma()
            ratio = f"{noise.sigma() / true:5.2f}" if true else "    -"
            is_denoised = decided(prepared_job(reconstructor.setup, photo)).denoising is not None
            print(
                f"{scene.name:24} {kind.name:12} {noise.codes:6.2f} codes, x {ratio}, whiteness "
                f"{noise.whiteness:6.2f}, {'denoised' if is_denoised else 'as it is'}"
            )


def print_ordinary(folder: Path, draws: int) -> None:
    """Two lines for each kind of photo: as they are, and denoised."""
    estimates = [estimator("mstpp-photo", "off"), estimator("mstpp-photo", 1.0)]
    for shot, quality in product((1e-3, 4e-3), (0, 90)):
        tallies = [Tally(), Tally()]
        for scene in read_scenes(folder):
            random = torch.Generator().manual_seed(SEED + zlib.crc32(scene.name.encode()))
            drawn = draw_processing(draws, random, held_out=True, kind="camera")
            plain = {
                "shot": torch.full((draws,), shot),
                "quality": torch.full((draws,), quality),
                "is_half": torch.zeros(draws, dtype=torch.bool),
                **dict.fromkeys(("read", "sharpening"), torch.zeros(draws)),
            }
            for index in range(draws):
                one = replace(drawn, **plain).of(index)
                codes, truth = photograph_scene(scene.cube, one, random)
                photo = Photo.from_array(np.moveaxis(codes, 0, -1))
                for tally, estimate in zip(tallies, estimates, strict=True):
                    spectra, sides, shape = estimate(photo)
                    tally.add(spectra, truth, sides, shape)
        better = np.sum(np.less(tallies[1].rows, tallies[0].rows), axis=0)
        print(f"noise {shot:g}, JPEG {quality}, of {len(tallies[0].rows)} better: {better[:2]}")
        print(f"  as they are {tallies[0]}\n  denoised    {tallies[1]}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = common.parser(__doc__)
    parser.add_argument("--megapixels", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--scenes", type=Path)
    parser.add_argument("--ordinary", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.ordinary:
        print_ordinary(arguments.scenes, arguments.ordinary)
        return
    load = psutil.getloadavg()[0]
    print(f"load {load:.1f} on {os.cpu_count()} cores; seconds a megapixel, wall and processor:")
    wall, processor = seconds(CompiledTile(block()).attend, arguments.megapixels, arguments.threads)
    print(f"means, numba, {arguments.threads} threads: {wall:.2f}, {processor:.2f}")
    seconds_of_photo(0.01)  # compiled
    wall, processor = seconds_of_photo(arguments.megapixels)
    print(f"Bayes, a whole photo, all threads: {wall:.2f}, {processor:.2f}")
    if arguments.numpy:
        wall, processor = seconds(partial(attend, block()), arguments.megapixels / 100, 1)
        print(f"means, NumPy, 1 thread: {wall:.1f}, {processor:.1f}")
    for width in (1000, 4000):
        print(
            f"memory at {width} columns: {working_bytes(width, 3, 3, USING) / 1e6:.0f} MB and a "
            "copy of the photo"
        )
    if arguments.scenes:
        print_noise(arguments.scenes)


if __name__ == "__main__":
    main()
