"""The plan of memory against the measured peak: `python -m lab.benchmarks.memory [--pixels 60000 4000000] [--threads 1 2]`.

Each case is a process of its own: it reconstructs a small photo first (libraries, kernels), then
the photo, and reads from Linux by how much the memory of the process grew at its peak. Pages of a
file that the system can take back do not count. `python -m lab.benchmarks.memory one MODEL KIND
HEIGHT WIDTH THREADS` prints planned and measured bytes of one case.
"""

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from lab.benchmarks import common
from lab.benchmarks.contender import published_network
from napari_mst import load_model, write_cube
from napari_mst.base.progress import NO_PROGRESS
from napari_mst.batch.clips import reconstruct_clip, write_clip
from napari_mst.networks.mst_plus_plus import build_mst_plus_plus
from napari_mst.photo.frames import Frame
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.preparing import PREVIEW_PIXELS
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.intervals import intervals_in_files

KINDS = (
    *("float32", "bfloat16", "float64", "ensemble", "region", "preview", "file", "colours"),
    *("intervals", "lazy", "lazy-zarr", "clip", "steady"),
)
SAVED = ("intervals", "lazy", "lazy-zarr", "clip", "steady")
"""Kinds of which files are written as well."""
BUDGET = 250_000_000
"""Bytes that cubes may take which are computed where they are read."""
MODELS = ("mstpp-photo", "mstpp-srgb", "pixelwise-srgb", "published")


def main() -> None:
    """Command line."""
    if sys.argv[1:2] == ["one"]:
        model, kind, *numbers = sys.argv[2:]
        print(*measure(model, kind, *map(int, numbers)))
        return
    parser = common.parser(__doc__)
    parser.add_argument(
        "--pixels", nargs="+", type=int, default=[60_000, 120_000, 250_000, 1_000_000, 4_000_000]
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS[:3])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    cases = [
        (model, threads, kind)
        for model in options.models
        for threads in options.threads
        for kind in options.kinds
    ]
    print(f"{'plan / peak':35}" + "".join(f"{pixels / 1e6:9.2f} MP" for pixels in options.pixels))
    for model, threads, kind in cases:
        if model == "pixelwise-srgb" and kind == "bfloat16":
            continue
        print(f"{model:15} {threads} threads {kind:9}", end="", flush=True)
        for pixels in options.pixels:
            planned, peak = measured_apart(model, kind, pixels, threads)
            print(f"  {planned / peak:4.2f} {peak / pixels:5.0f}", end="", flush=True)
        print()


def measured_apart(model: str, kind: str, pixels: int, threads: int) -> tuple[int, int]:
    """Planned and measured bytes of one case, in a process of its own; photos are 3 by 4."""
    height = round((pixels * 3 / 4) ** 0.5)
    command = [
        sys.executable,
        "-m",
        "lab.benchmarks.memory",
        "one",
        model,
        kind,
        height,
        round(pixels / height),
        threads,
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    planned, peak = done.stdout.split()
    return int(planned), int(peak)


def measure(model: str, kind: str, height: int, width: int, threads: int) -> tuple[int, int]:
    """Planned and measured bytes of one case, in this process."""
    torch.set_num_threads(threads)
    reconstructor = build(model, kind)
    generator = np.random.default_rng(0)

    def photo(*size: int) -> Photo:
        return Photo.from_array(generator.integers(0, 256, (*size, 3), dtype=np.uint8))

    run = run_of(kind, reconstructor)
    large = photo(height, width)
    shapes = {"preview": large.reduced(PREVIEW_PIXELS).shape, "region": (height // 2, width)}
    planned = shapes.get(kind, large.shape)
    run(photo(64, 64))
    plan = reconstructor.plan(*planned, ensemble=kind == "ensemble")
    if kind in ("lazy", "lazy-zarr", "steady"):
        plan = replace(plan, memory=BUDGET)
        reconstructor = Reconstructor(
            reconstructor.model, "cpu", memory=BUDGET, correct_colour=False
        )
        run = run_of(kind, reconstructor)
    if kind == "file":
        # One byte too little sends the feature maps into a file.
        reconstructor = Reconstructor(
            reconstructor.model, "cpu", memory=plan.memory - 1, correct_colour=False
        )
        plan = reconstructor.plan(height, width)
        run = run_of(kind, reconstructor)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    field = "RssAnon" if kind in ("file", *SAVED) else "VmHWM"
    before, seen = kilobytes(field), [0]
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(field, seen, ended))
    watcher.start()
    run(large)
    ended.set()
    watcher.join()
    return plan.memory, 1024 * (max(seen) - before)


def run_of(kind: str, reconstructor: Reconstructor) -> Callable[[Photo], object]:
    """What a case of this kind makes of a photo."""

    def upper_half(photo: Photo) -> object:
        height, width = photo.shape
        return reconstructor.reconstruct(photo, region=(0, height // 2, 0, width))

    def saved(photo: Photo) -> None:
        with tempfile.TemporaryDirectory() as folder:
            if kind in ("clip", "steady"):
                frames = [Frame(photo)] * 3
                steady = kind == "steady"
                clip = reconstruct_clip(lambda: iter(frames), reconstructor, is_steady=steady)
                write_clip(Path(folder, "clip.zarr"), clip)
                return
            if kind in ("lazy", "lazy-zarr"):
                path = Path(folder, "cube.hdr" if kind == "lazy" else "cube.zarr")
                write_cube(path, reconstructor.reconstruct_lazy(photo))
                return
            cube = reconstructor.reconstruct(photo)
            for name, each in zip(
                ("cube", "lower", "upper"),
                (cube, *intervals_in_files(cube, NO_PROGRESS)),
                strict=True,
            ):
                write_cube(Path(folder, f"{name}.hdr"), each)

    runs: dict[str, Callable[[Photo], object]] = {
        "preview": reconstructor.preview,
        "ensemble": lambda photo: reconstructor.reconstruct(photo, ensemble=True),
        "region": upper_half,
        **dict.fromkeys(SAVED, saved),
    }
    return runs.get(kind, reconstructor.reconstruct)


def watch(field: str, seen: list[int], ended: threading.Event) -> None:
    """Note *field* every few milliseconds, and at the end."""
    while not ended.wait(0.005):
        seen.append(kilobytes(field))
    seen.append(kilobytes(field))


def kilobytes(field: str) -> int:
    """A field of the memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def build(model: str, kind: str) -> Reconstructor:
    """The reconstructor of this case; colours are corrected in two kinds only."""
    chosen = load_model("mstpp-srgb" if model == "published" else model)
    if model == "published":
        chosen = replace(chosen, network=build_mst_plus_plus(published_network().state_dict()))
    precision = kind if kind in ("bfloat16", "float64") else "float32"
    return Reconstructor(
        chosen, "cpu", precision=precision, correct_colour=kind in ("colours", "intervals")
    )


if __name__ == "__main__":
    main()
