"""The time until it is known what a pixel of a photo attends to, in every block and before them.

`python -m lab.benchmarks.pixel_weights [--size 3000x4000] [--kinds shifted,overlapping] [--run]`

Networks have random weights: the time does not depend on them. Maps that an explorer keeps of a run
are filled with zeros, for the same reason, unless *--run* makes them, which takes minutes for 12
megapixels. All times are those of the processor, of one thread, in milliseconds: the median of
several pixels. "click" is a job of the window, without the thread that it runs on: the photo is
compared with the one before, and the weights are computed. "layers" is what the main thread does.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from napari.components import ViewerModel
from safetensors.torch import save_file

from napari_mst.attention import explorer as network
from napari_mst.attention.head_steps import PixelWeights
from napari_mst.attention.pixels import PixelExplorer
from napari_mst.denoising.photo_denoising import denoising_to_look_at
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.run import Result
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.network import Program
from napari_mst.plugin.attention.attention_layers import put_map, show_weights
from napari_mst.plugin.attention.attention_model import AttentionModel
from napari_mst.plugin.attention.pixel_probe import PhotoPatches
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import Request
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.reconstruction.options import RunOptions

PIXELS = 7


def main() -> None:
    """Print a line for each block of each kind, and one for non-local means."""
    options = _options()
    torch.set_num_threads(1)
    height, width = map(int, options.size.split("x"))
    photo = _photo(height, width)
    viewer = ViewerModel()
    layer = viewer.add_image(photo, rgb=True, name="photo")
    source = LayerPhoto.of(layer, viewer.dims.point)
    print(f"{height} x {width} pixels, ms of the processor")
    _non_local(viewer, source)
    for kind in options.kinds.split(","):
        _network(kind, viewer, source, options.run)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="3000x4000", help="rows x columns of the photo")
    parser.add_argument("--kinds", default="window,shifted,overlapping")
    parser.add_argument("--run", action="store_true", help="make the maps by a run")
    return parser.parse_args()


def _photo(height: int, width: int) -> np.ndarray:
    """Ramps with noise of four codes."""
    random = np.random.default_rng(0)
    ramps = np.add.outer(np.arange(height), np.arange(width)) % 200
    noisy = ramps[..., None] + random.normal(0, 4, (height, width, 3))
    return noisy.clip(0, 255).astype(np.uint8)


def _places(shape: tuple[int, int]) -> list[tuple[int, int]]:
    random = np.random.default_rng(1)
    return [(int(r), int(c)) for r, c in random.integers(0, shape, (PIXELS, 2))]


def _median(*calls: Callable[[], object]) -> float:
    """Milliseconds of the processor that one of *calls* takes."""
    times = []
    for call in calls:
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return 1000 * statistics.median(times)


def _non_local(viewer: ViewerModel, source: LayerPhoto) -> None:
    photo = source.read()
    patches = PhotoPatches(photo, denoising_to_look_at(photo))

    def move(row: int, column: int) -> None:
        made, _ = patches.map(row, column)
        put_map(viewer, made, source)

    places = _places(photo.shape)
    move(*places[0])
    alone = _median(*[partial(patches.map, *place) for place in places])
    shown = _median(*[partial(move, *place) for place in places])
    print(f"non-local means: weights {alone:6.1f}, with the layer {shown:6.1f}", flush=True)


def _network(kind: str, viewer: ViewerModel, source: LayerPhoto, is_run: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.safetensors"
        torch.manual_seed(0)
        save_file(MSTPlusPlus(stages=1, attention=kind).state_dict(), path)
        request = Request(source, str(path), RunOptions(device="cpu"))
        model = AttentionModel()
        explorer = model.ready(request, Reports()).pixels
        before = _of_blocks(explorer)
        _keep(explorer, is_run)
        after = _of_blocks(explorer)
        for block in explorer.blocks:

            def weigh(row: int, column: int, block: str = block) -> PixelWeights:
                return model.ready(request, Reports()).pixels.weights(block, row, column)

            places = _places(explorer.shape)
            found = [weigh(*place) for place in places]
            click = _median(*[partial(weigh, *place) for place in places])
            shown = _median(*[lambda f=f: show_weights(viewer, f, source, 0) for f in found])
            print(
                f"{kind:12} {block:20} alone {before[block]:7.1f}, with kept maps "
                f"{after[block]:6.1f}, click {click:6.1f}, layers {shown:6.1f}",
                flush=True,
            )


def _of_blocks(explorer: PixelExplorer) -> dict[str, float]:
    """The time of a pixel in each block."""
    places = _places(explorer.shape)
    times = {}
    for block in explorer.blocks:
        explorer.weights(block, *places[0])
        times[block] = _median(*[partial(explorer.weights, block, *place) for place in places])
    return times


def _keep(explorer: PixelExplorer, is_run: bool) -> None:
    """Let *explorer* keep the maps of a run, or as many zeros."""
    if is_run:
        explorer.keep()
        return
    run, network.execute = network.execute, _zeros
    try:
        explorer.keep()
    finally:
        network.execute = run


def _zeros(program: Program, source: PhotoRows, *_: object) -> Result:
    """The numbers of a run that nobody waits for."""
    name = program.output.writes
    size = program.sizes(source.height, source.width)[name]
    return Result(np.zeros((program.channels(name), *size), np.float32), {})


if __name__ == "__main__":
    main()
