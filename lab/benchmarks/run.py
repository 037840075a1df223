"""The table of this machine, in under five minutes: `python lab/benchmarks/run.py`.

Times are of the processor, of one thread, in microseconds a pixel, the least of some turns;
contenders take turns. The authors' form is the published forward as it is, with three stages. The
peak is that of `roofline.py`.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import torch

from lab.benchmarks.common import seconds
from lab.benchmarks.contender import published, published_network
from lab.benchmarks.memory import measured_apart
from lab.benchmarks.roofline import roofline
from napari_mst import Reconstructor, load_model, prediction_intervals
from napari_mst.base.arrays import Singles
from napari_mst.denoising.nl_bayes import NLBayes, denoised_pixels
from napari_mst.denoising.sensor_noise import SensorNoise
from napari_mst.engine.fast_paths import native
from napari_mst.engine.run import run
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import build_mst_plus_plus
from napari_mst.photo.photo import Photo

CPU = torch.device("cpu")
SIDE = 512
PIXELS = SIDE * SIDE
RUNS = """
import json, mmap, resource, sys
import numpy as np
import torch
from napari_mst import Reconstructor, load_model
torch.set_num_threads(1)
reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu", correct_colour=False, denoise="off")
generator = np.random.default_rng(0)
small, large = (generator.integers(0, 256, (side, side, 3), dtype=np.uint8) for side in (200, 1000))
reconstructor.reconstruct(small)  # libraries and kernels
if sys.argv[1] == "found":  # memory that the host has found before, and nobody uses
    pages = mmap.mmap(-1, 1 << 29)
    pages.madvise(mmap.MADV_HUGEPAGE)
    pages.write(bytes(1 << 29))
    pages.close()
used = []
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF)
    reconstructor.reconstruct(large)
    after = resource.getrusage(resource.RUSAGE_SELF)
    used.append([after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime])
print(json.dumps(used))
"""


def least(contenders: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """The least time of the processor of each, us a pixel, after one turn that does not count."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds + 1):
        for name, call in contenders.items():
            times[name] += seconds(call, clock=time.process_time)
    return {name: min(each[1:]) / PIXELS * 1e6 for name, each in times.items()}


def operations(network: Network) -> float:
    """Floating-point operations for each pixel."""
    program = network.program()
    scales = program.scales
    return sum(2 * each.cost * float(scales[each.writes]) ** 2 for each in program.passes)


def used_by(*arguments: str) -> float:
    """Seconds of the processor of one run of the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "napari_mst", *arguments]
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def streamed(network: Network, photo: Singles) -> Singles:
    """What the engine makes of a *photo*."""
    return run(network, lambda start, stop: photo[:, start:stop], *photo.shape[1:], CPU)


def networks(peak: float) -> None:
    """Speed against the authors' form, and the share of the peak."""
    photo = np.random.default_rng(0).random((3, SIDE, SIDE), dtype=np.float32)
    plain = published_network()
    three = build_mst_plus_plus(plain.state_dict())
    default = load_model("mstpp-srgb").network
    with torch.inference_mode():
        contenders = {"published": published(plain, CPU)}
        ours = {"three stages": three, "mstpp-srgb": default}
        contenders |= {name: partial(streamed, network) for name, network in ours.items()}
        times = least({name: partial(each, photo) for name, each in contenders.items()})
    for name, used in times.items():
        line = f"{name:28} {used:8.2f} us a pixel"
        if name in ours:
            share = operations(ours[name]) / (used * 1e-6) / peak
            ratio = times["published"] / used
            line += f", {ratio:.2f} times as fast as published, {share:.0%} of the peak"
        print(line, flush=True)


def first_and_later() -> None:
    """A run that meets new memory, and one whose memory the host has found, against later ones."""
    for memory in ("new", "found"):
        done = subprocess.run([sys.executable, "-c", RUNS, memory], capture_output=True, check=True)
        used = json.loads(done.stdout)
        totals = [sum(each) for each in used]
        later = float(np.median(totals[1:]))
        print(
            f"{f'first run, 1 MP, {memory}':28} {totals[0]:8.2f} us a pixel ({used[0][1]:.2f} in "
            "the "
            f"system), {totals[0] / later:.2f} times later ones",
            flush=True,
        )


def around_the_network() -> None:
    """The whole cube, its prediction intervals and denoising, in turns."""
    generator = np.random.default_rng(0)
    scene = generator.random((SIDE // 16, SIDE // 16, 3)).repeat(16, 0).repeat(16, 1)
    noisy = scene + generator.normal(0, 0.03, scene.shape)
    photo = Photo.from_array((255 * noisy.clip(0, 1)).astype(np.uint8))
    how = NLBayes(SensorNoise(1e-3, 1e-5))
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu", denoise="off")
    cube = reconstructor.reconstruct(photo)
    times = least(
        {
            "cube, with its colours": lambda: reconstructor.reconstruct(photo),
            "prediction intervals": lambda: prediction_intervals(cube),
            "denoising": lambda: denoised_pixels(photo, how),
        }
    )
    for name, used in times.items():
        share = used / times["cube, with its colours"]
        print(f"{name:28} {used:8.2f} us a pixel, {share:.2f} of the cube", flush=True)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    peaks = roofline(CPU)
    print(f"{native.description()}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {peaks}")
    networks(peaks.single)
    first_and_later()
    planned, peak = measured_apart("mstpp-srgb", "float32", 1_000_000, 1)
    print(f"{'memory, 1 MP':28} {peak / 1e6:8.0f} bytes a pixel, {planned / 1e6:.0f} planned")
    around_the_network()
    for command in ("--help", "models"):
        print(f"{f'napari-mst {command}':28} {used_by(command):8.2f} s", flush=True)


if __name__ == "__main__":
    main()
