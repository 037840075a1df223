"""The ablation of attention: accuracy, parameters, work, memory and time of each kind.

`python -m lab.benchmarks.attention [--scenes FOLDER] [--steps 8000] [--kinds none,shifted] [--seeds
1]`

Every kind is trained alike: one stage around the bundled pixelwise network, as many steps, the same
scenes, in float32. The positions of windows and the queries and keys that "none" lacks are all by
which the numbers of parameters differ, but for "hybrid", which has those of two kinds. Accuracy is
on the middle 128 x 128 pixels of the scenes in FOLDER, without correction of colours; without a
FOLDER nothing is trained, and costs alone are measured.

With `--examples FOLDER` the network of each kind is written there with a card, as bundled ones are.

With `--keep FOLDER` a fit that was stopped goes on, one that is finished is not done again, and the
scenes are drawn once for all kinds. So several processes may train some kinds each, before one asks
for the table of all.

FLOPs are those of one forward, a multiplication and an addition counting as two. Time and memory
are those of the engine in this process, on one thread: the time of the processor in turns of all
kinds, so that other work on the machine disturbs it less, and what the plan of memory says.
"""

import argparse
import csv
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lab.cards import CARD
from lab.simulated import Simulated
from lab.training import calibrated
from napari_mst.base.arrays import Codes, Floats
from napari_mst.cube.colour import srgb_to_linear
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import PlannedRun, make_plan
from napari_mst.engine.run import execute
from napari_mst.networks.attention.kinds import ATTENTIONS
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.training.fit import Fit, FitOptions, pixelwise_network, save
from napari_mst.training.inputs import INPUTS, Input
from napari_mst.training.scenes import Scene, read_scenes
from napari_mst.training.scoring import ON_CPU, Method, ModelMethod, compared
from napari_mst.training.settings import FitSettings

CPU = torch.device("cpu")
JUDGED = ("clean", "noise 1e-3", "noise 4e-3", "JPEG 75")
START = "pixelwise"
START_MODEL = "pixelwise-srgb"
CROP = slice(64, 192)
MEASURED = 256  # side of the photo that is timed: the largest that global attention takes
PATCH, BATCH = 48, 3
REPORTED = 200  # steps from one report and checkpoint to the next
TURNS = 3
LONG = 10  # seconds


class Trained(NamedTuple):
    """A network to compare, and its MRAE and colour difference for each input."""

    attention: str
    seed: int
    network: Network
    accuracy: dict[str, tuple[float, float]]


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
        costs = f"{self.parameters:9,} {self.gflops:7.1f} {self.bytes_a_pixel:7.0f}"
        named = f"{self.attention:12} {self.seed:5} {_scores(self.accuracy)}"
        return f"{named} {costs} {self.us_a_pixel:7.1f}"


def main() -> int:
    """Print the table, and write it if asked."""
    options = _options()
    torch.set_num_threads(1)
    settings = FitSettings(
        steps=options.steps,
        batch=options.batch,
        size=options.size,
        learning_rate=1e-3,
        warm_up=min(FitSettings.warm_up, options.steps // 10 + 1),
        is_half=False,  # many processors take far longer for a step in 16 bits
        norm_before_attention=options.norm,
    )
    scenes = []
    if options.scenes:
        scenes = [_cropped(scene) for scene in read_scenes(options.scenes)]
    trained = _trained(options, settings, scenes)
    if options.examples:
        for each in trained[1:]:
            _write_example(options, each, settings)
    rows = _rows(trained)
    if scenes:
        print(
            f"{options.steps} steps of {options.batch} patches of {options.size} x {options.size}; "
            f"MRAE / dE of {len(scenes)} scenes"
        )
    names = "  ".join(f"{name:>13}" for name in rows[0].accuracy)
    print(f"{'attention':12}  seed {names}     param.  GFLOPs B/pixel us/pixel")
    for row in rows:
        print(row)
    if scenes:
        print(f"{'NL-Bayes before':12}       {_scores(_accuracy(_denoised(), scenes))}")
    if options.csv:
        _write(options.csv, rows)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=Path, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--size", type=int, default=PATCH, help="side of the patches to learn from")
    parser.add_argument("--batch", type=int, default=BATCH, help="patches in a step")
    parser.add_argument("--seeds", type=int, default=1, help="fits of each kind")
    parser.add_argument(
        "--kinds", default=",".join(["none", *[k for k in ATTENTIONS if k != "none"]])
    )
    parser.add_argument("--norm", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--csv", type=Path, help="write the table to this file as well")
    parser.add_argument("--examples", type=Path, metavar="FOLDER", help="write weights files here")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep fits and scenes here")
    options = parser.parse_args()
    if options.examples and not options.scenes:
        parser.error("--examples needs --scenes: cards give the accuracy")
    return options


def _trained(
    options: argparse.Namespace, settings: FitSettings, scenes: list[Scene]
) -> list[Trained]:
    """The pixelwise network, and those of all kinds and seeds."""
    start = pixelwise_network()
    trained = [Trained(START, settings.seed, start, _accuracy(_alone(start), scenes))]
    for kind in options.kinds.split(","):
        for seed in range(settings.seed, settings.seed + options.seeds):
            own = replace(settings, attention=kind, seed=seed)
            if not scenes:
                own = replace(own, steps=0)
            network = _fitted(own, options.keep)
            trained.append(Trained(kind, seed, network, _accuracy(_alone(network), scenes)))
            _report(kind, trained[-1].accuracy)
    return trained


def _fitted(settings: FitSettings, keep: Path | None) -> Network:
    """The network after all steps, averaged over the last ones; kept in the folder *keep*."""
    with TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        norm = {None: "", True: "-norm", False: "-no-norm"}[settings.norm_before_attention]
        name = f"{settings.attention}{norm}"
        told = FitOptions(
            source=Drawn(settings, keep and folder),
            report=lambda progress: _report(name, progress),
        )
        checkpoint = folder / f"{name}-{_setting(settings)}.checkpoint"
        fit = Fit(settings, checkpoint, told)
        fit.run(REPORTED)
    return fit.average.eval()


def _report(name: str, told: object) -> None:
    print(name, told, file=sys.stderr, flush=True)


def _setting(settings: FitSettings) -> str:
    """The part of a file name that tells fits of one kind, and their lessons, apart."""
    return f"{settings.steps}x{settings.batch}x{settings.size}-{settings.seed}"


class Drawn:
    """The lessons of a fit, kept in a *folder* for the next one with the same settings."""

    def __init__(self, settings: FitSettings, folder: Path | None) -> None:
        self._simulated = Simulated(settings.seed, settings.size)
        self.response = self._simulated.response
        self._folder = folder and folder / f"lessons-{_setting(settings)}"
        if self._folder:
            self._folder.mkdir(exist_ok=True)

    def draw(self, index: int, count: int, progress: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Photos and cubes to train on: read, or drawn and kept."""
        if self._folder is None:
            return self._simulated.draw(index, count, progress)
        path = self._folder / f"{index}.pt"
        if not path.exists():
            # Another process may be drawing the same lesson: each writes a file of its own.
            unfinished = path.with_suffix(f".{os.getpid()}")
            torch.save(self._simulated.draw(index, count, progress), unfinished)
            unfinished.replace(path)
        photos, cubes = torch.load(path, weights_only=True)
        return photos, cubes

    def held_out(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Photos and cubes that are never trained on."""
        return self._simulated.held_out()


def _scores(accuracy: dict[str, tuple[float, float]]) -> str:
    return " ".join(f"{a:.4f} / {d:4.2f} " for a, d in accuracy.values())


def _write_example(options: argparse.Namespace, trained: Trained, settings: FitSettings) -> None:
    """Write the network as float16, with a card that says how it was made."""
    network = cast("MSTPlusPlus", trained.network)
    judged = "middle 128 x 128 pixels, network alone"
    lessons = f"{settings.batch} patches of {settings.size} x {settings.size}"
    card = replace(
        CARD,
        name=f"mstpp-{trained.attention}",
        title=f"Example: {network.hyperparameters.title}, for sRGB photos",
        domain=f"{CARD.domain} An example of another attention, to look into.",
        training_data=f"{CARD.training_data} {settings.steps} steps of {lessons}.",
        accuracy={
            f"scenes of {options.scenes.name}, {judged}, {name}": {
                "MRAE": round(mrae, 4),
                "dE D65": round(difference, 4),
            }
            for name, (mrae, difference) in trained.accuracy.items()
        },
        reference=f"{CARD.reference}, by lab/benchmarks/attention.py, seed {trained.seed}",
        is_example=True,
    )
    path = options.examples / f"{card.name}.safetensors"
    save(network, path, card)
    calibrated(path)


def _rows(trained: list[Trained]) -> list[Row]:
    """The table: what is known of each network, and what it costs."""
    times = _seconds([each.network for each in trained])
    return [
        Row(
            attention=each.attention,
            seed=each.seed,
            parameters=_own_parameters(each.network),
            gflops=_flops(each.network) / 1e9,
            bytes_a_pixel=_bytes(each.network) / MEASURED**2,
            us_a_pixel=seconds / MEASURED**2 * 1e6,
            accuracy=each.accuracy,
        )
        for each, seconds in zip(trained, times, strict=True)
    ]


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


def _seconds(networks: list[Network]) -> list[float]:
    """Time of the processor of an exact run of each: medians of turns, but for those that last."""
    photo = _photo().numpy()
    source = PhotoRows(lambda top, bottom: photo[:, top:bottom], MEASURED, MEASURED)
    small = PhotoRows(source.rows, 64, MEASURED)
    times: list[list[float]] = []
    for network in networks:
        execute(network.program(), small, CPU)  # kernels are compiled, or loaded
        times.append([])
    for _ in range(TURNS):
        for network, own in zip(networks, times, strict=True):
            if sum(own) < LONG:
                started = time.process_time()
                execute(network.program(), source, CPU)
                own.append(time.process_time() - started)
    return [statistics.median(own) for own in times]


def _cropped(scene: Scene) -> Scene:
    cube = np.ascontiguousarray(scene.cube[:, CROP, CROP])
    return replace(scene, cube=cube, valid=scene.valid[CROP, CROP])


def _alone(network: nn.Module) -> Method:
    """The estimate of *network* on photos as they are."""

    def estimate(codes: Codes) -> Floats:
        light = torch.from_numpy(srgb_to_linear(codes / 255.0).astype(np.float32))[None]
        with torch.inference_mode():
            return network(light)[0].numpy()

    return estimate


def _denoised() -> Method:
    """The estimate of the pixelwise network on photos that are denoised if they are noisy."""
    return ModelMethod(START_MODEL, replace(ON_CPU, correct_colour=False))


def _accuracy(method: Method, scenes: list[Scene]) -> dict[str, tuple[float, float]]:
    """Mean MRAE and colour difference over the scenes, for each input."""
    if not scenes:
        return {}
    return {
        kind.name: tuple(np.mean([_errors(method, kind, scene) for scene in scenes], axis=0))
        for kind in INPUTS
        if kind.name in JUDGED
    }


def _errors(method: Method, kind: Input, scene: Scene) -> tuple[float, float]:
    estimate = method(kind.photograph(scene.cube, scene.name))
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
