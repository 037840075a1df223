"""Any part of a cube, exactly, without the rest: from the photo around it and the statistics of a whole run.

Once the statistics of all passes are folded, nothing couples distant pixels any more: a pixel
depends on no more of the photo than the halos of the passes add up to.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from napari_mst.engine.run import PaddedPhoto, Source, exact_products
from napari_mst.engine.schedule import Sweep
from napari_mst.engine.steps import Executable, needs, precisions, steps_of
from napari_mst.engine.windows import Window
from napari_mst.networks.network import PHOTO, Folded, Program


def region(
    program: Program, folded: Folded, source: Source, window: Window, halo: int | None = None
) -> NDArray[np.floating]:
    """The pixels of *window* of the cube of the photo of *source*: (B, h, w), as a whole run gives them to rounding.

    Parameters
    ----------
    folded
        What `execute` returned for this photo, on the device of the weights.
    halo
        Pixels around the window that are read at most. Fewer than the passes ask for is faster, and no longer exact:
        32 are exact to 2e-7 of the largest value for the bundled default model. None: all that they ask for.
    """
    tensors = (value for value in folded.values() if isinstance(value, torch.Tensor))
    device = next((value.device for value in tensors), torch.device("cpu"))
    photo = PaddedPhoto(source, device, program)
    sizes = program.sizes(source.height, source.width)
    corner = Window(0, 0, 0, 0)
    if halo is not None:
        read = window.grown(halo).aligned(program.multiple).clipped(sizes[PHOTO])
        corner = Window(read.top, read.top, read.left, read.left)
        sizes = program.sizes(*read.size)
    dtypes = precisions(program, program.dtype, program.dtype)
    everything = Sweep(program.passes, (program.output.writes,), ())
    with exact_products(device), torch.inference_mode():
        steps = steps_of(everything, device, dtypes)
        needed = needs(steps, {program.output.writes: _moved(window, corner, -1)}, sizes)
        maps = {PHOTO: (needed[PHOTO], photo.read(_moved(needed[PHOTO], corner, 1)))}
        for step in steps:
            name = step.last.writes
            values = Executable.of(step, dtypes, folded).apply(maps, needed[name], sizes)
            maps[name] = needed[name], values
        return values[0].cpu().numpy()


def _moved(window: Window, by: Window, sign: int) -> Window:
    return Window(*(side + sign * start for side, start in zip(window, by, strict=True)))
