"""The ablation of attention: accuracy, parameters, work, memory and time of each kind.

`python benchmarks/attention.py [--scenes FOLDER] [--steps 8000] [--kinds none,shifted] [--seeds 1]`

Every kind is trained alike: one stage around the bundled pixelwise network, as many steps, the same
scenes. The positions of windows and the queries and keys that "none" lacks are all by which the
numbers of parameters differ. Accuracy is on the middle 128 x 128 pixels of the scenes in FOLDER,
without correction of colours; without a FOLDER nothing is trained, and costs alone are measured.
FLOPs are those of one forward, a multiplication and an addition
counting as two. Time and memory are those of the engine in this process, on one thread: the time of
the processor, so that other work on the machine disturbs it less, and what the plan of memory says.
"""

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from napari_mst.colour import srgb_to_linear
from napari_mst.engine.photo_rows import PhotoRows
from napari_mst.engine.plan import PlannedRun, make_plan
from napari_mst.engine.run import execute
from napari_mst.evaluation.baselines import GRID
from napari_mst.evaluation.degradations import INPUTS
from napari_mst.evaluation.scenes import Scene, read_scenes
from napari_mst.evaluation.tables import compared
from napari_mst.networks.attention.kinds import ATTENTIONS
from napari_mst.networks.network import Network
from napari_mst.training.fit import Fit, FitSettings, pixelwise_network

CPU = torch.device("cpu")
JUDGED = ("clean", "noise 1e-3", "noise 4e-3", "JPEG 75")
START = "pixelwise"
CROP = slice(64, 192)
MEASURED = 256  # side of the photo that is timed: the largest that global attention takes
PATCH, BATCH = 48, 3
TURNS = 3
LONG = 10  # seconds


@dataclass
class Row:
    """One line of the table."""

    attention: str
    seed: int
    parameters: int
    gflops: float
    bytes_a_pixel: float
    us_a_pixel: float
    accuracy: dict[str, tuple[float, float]]

    def __str__(self) -> str:
        scores = " ".join(f"{a:.4f} / {d:4.2f} " for a, d in self.accuracy.values())
        costs = f"{self.parameters:9,} {self.gflops:7.1f} {self.bytes_a_pixel:7.0f}"
        return f"{self.attention:12} {self.seed:5} {scores} {costs} {self.us_a_pixel:7.1f}"


def main() -> int:
    """Print the table, row by row, and write it if asked."""
    options = _options()
    torch.set_num_threads(1)
    settings = FitSettings(
        steps=options.steps,
        batch=BATCH,
        size=options.size,
        learning_rate=1e-3,
        warm_up=min(FitSettings.warm_up, options.steps // 10 + 1),
    )
    scenes = []
    names = ""
    if options.scenes:
        scenes = [_cropped(scene) for scene in read_scenes(options.scenes)]
        names = "  ".join(f"{name:>13}" for name in JUDGED)
        print(
            f"{options.steps} steps, patches of {options.size}; MRAE / dE of {len(scenes)} scenes"
        )
    print(f"{'attention':12}  seed {names}     param.  GFLOPs B/pixel us/pixel", flush=True)
    rows = []
    for row in _rows(options, settings, scenes):
        print(row, flush=True)
        rows.append(row)
    if options.csv:
        _write(options.csv, rows)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=Path, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--size", type=int, default=PATCH, help="side of the patches to learn from")
    parser.add_argument("--seeds", type=int, default=1, help="fits of each kind")
    parser.add_argument(
        "--kinds", default=",".join(["none", *[k for k in ATTENTIONS if k != "none"]])
    )
    parser.add_argument("--norm", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--csv", type=Path, help="write the table to this file as well")
    return parser.parse_args()


def _rows(options: argparse.Namespace, settings: FitSettings, scenes: list[Scene]) -> Iterator[Row]:
    yield _row(START, settings, pixelwise_network(), scenes)
    for kind in options.kinds.split(","):
        for seed in range(settings.seed, settings.seed + options.seeds):
            own = replace(settings, attention=kind, norm_before_attention=options.norm, seed=seed)
            steps = own.steps if scenes else 0
            yield _row(kind, own, _fitted(replace(own, steps=steps)), scenes)


def _fitted(settings: FitSettings) -> Network:
    """The network after all steps, averaged over the last ones."""
    with TemporaryDirectory() as folder:
        fit = Fit(settings, Path(folder) / "checkpoint")
        while fit.step < settings.steps:
            fit.take_step()
    return fit.average.eval()


def _row(name: str, settings: FitSettings, network: Network, scenes: list[Scene]) -> Row:
    return Row(
        attention=name,
        seed=settings.seed,
        parameters=_own_parameters(network),
        gflops=_flops(network) / 1e9,
        bytes_a_pixel=_bytes(network) / MEASURED**2,
        us_a_pixel=_seconds(network) / MEASURED**2 * 1e6,
        accuracy=_accuracy(network, scenes),
    )


def _own_parameters(network: nn.Module) -> int:
    """Parameters that are trained here: those of the pixelwise network inside are not."""
    inner = getattr(network, "pixelwise", None)
    frozen = 0 if inner is None else sum(value.numel() for value in inner.parameters())
    return sum(value.numel() for value in network.parameters()) - frozen


def _photo() -> torch.Tensor:
    return torch.rand(3, MEASURED, MEASURED, generator=torch.Generator().manual_seed(0))


def _flops(network: nn.Module) -> float:
    """Floating-point operations of one forward over the photo that is timed."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        network(_photo()[None])
    return counter.get_total_flops()


def _bytes(network: Network) -> int:
    """Bytes that the plan of the engine needs for the photo that is timed."""
    return make_plan(PlannedRun(network.program(), MEASURED, MEASURED, CPU)).memory


def _seconds(network: Network) -> float:
    """Time of the processor of one exact run: the median of several, unless one takes long."""
    photo = _photo().numpy()
    source = PhotoRows(lambda top, bottom: photo[:, top:bottom], MEASURED, MEASURED)
    small = PhotoRows(source.rows, 64, MEASURED)
    execute(network.program(), small, CPU)  # kernels are compiled, or loaded
    times: list[float] = []
    while len(times) < TURNS and sum(times) < LONG:
        started = time.process_time()
        execute(network.program(), source, CPU)
        times.append(time.process_time() - started)
    return statistics.median(times)


def _cropped(scene: Scene) -> Scene:
    cube = np.ascontiguousarray(scene.cube[:, CROP, CROP])
    return replace(scene, cube=cube, valid=scene.valid[CROP, CROP])


def _accuracy(network: nn.Module, scenes: list[Scene]) -> dict[str, tuple[float, float]]:
    """Mean MRAE and colour difference over the scenes, for each input."""
    if not scenes:
        return {}
    return {
        kind.name: tuple(np.mean([_errors(network, kind, scene) for scene in scenes], axis=0))
        for kind in INPUTS
        if kind.name in JUDGED
    }


def _errors(network: nn.Module, kind: object, scene: Scene) -> tuple[float, float]:
    codes = kind.photograph(scene.cube, GRID, scene.name)
    light = torch.from_numpy(srgb_to_linear(codes / 255.0).astype(np.float32))[None]
    with torch.inference_mode():
        estimate = network(light)[0].numpy()
    values = compared(estimate, scene.cube, scene.valid)
    return values["MRAE"], values["dE D65"]


def _write(path: Path, rows: list[Row]) -> None:
    own = [field.name for field in fields(Row) if field.name != "accuracy"]
    judged = [f"{metric} {name}" for name in rows[0].accuracy for metric in ("MRAE", "dE")]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*own, *judged])
        for row in rows:
            plain = asdict(row)
            scores = [value for pair in row.accuracy.values() for value in pair]
            writer.writerow([*(plain[name] for name in own), *scores])


if __name__ == "__main__":
    sys.exit(main())
