"""The run of a pixelwise network: a few rows at a time. Letters: B bands, H rows, W columns."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from napari_mst.engine.features import Slab, sent
from napari_mst.engine.plan import Plan, gpu_rows, pixelwise_rows
from napari_mst.engine.regions import Region, tiles
from napari_mst.engine.workers import Workers
from napari_mst.models.pixelwise import PixelwiseNetwork


def run_pixelwise(
    network: PixelwiseNetwork,
    rows: Callable[[int, int], NDArray[np.float32]],
    height: int,
    width: int,
    device: torch.device,
    plan: Plan | None = None,
    progress: Callable[[float], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> NDArray[np.floating]:
    """What `napari_mst.engine.run.run` does, for a network without context."""
    bands, dtype = network.hyperparameters.out_bands, next(network.parameters()).dtype
    plan = plan or Plan()
    place = plan.place
    slab = Slab(bands * height * width, device if place == "device" else torch.device("cpu"), place == "file", dtype)
    result = slab.planes(bands, height, width, dtype)

    def compute(region: Region) -> None:
        span = region.rows.whole
        photo = sent(torch.from_numpy(rows(span.start, span.stop))[None], device).to(dtype)
        result[:, span] = network(photo)[0]

    at_once = pixelwise_rows(height, width) if device.type == "cpu" else gpu_rows(width, plan.pixels)
    with torch.inference_mode(), Workers(device, 1, progress, is_cancelled, threads=plan.threads) as workers:
        for _ in workers.each(compute, tiles(height, width, at_once, width), 1):
            pass
    return result.cpu().numpy()
