"""Computes a crop: any part of a cube, exactly, without the rest.

A crop needs the photo around it, and the statistics of a whole run.

Once the statistics of all passes are folded, nothing couples distant pixels any more: a pixel
depends on no more of the photo than the halos of the passes add up to.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Floats
from napari_mst.engine.device import CPU
from napari_mst.engine.features import PaddedPhoto, PhotoRows, as_array, placed
from napari_mst.engine.run import settings_of
from napari_mst.engine.schedule import Sweep
from napari_mst.engine.steps import executable, needs, precisions, steps_of
from napari_mst.engine.windows import Window
from napari_mst.networks.network import PHOTO, Program

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Known(NamedTuple):
    """The results of a run over the whole photo that a crop needs.

    Attributes
    ----------
    folded
        The statistics that `execute` returned for this photo, on the device of the weights.
    maps
        Whole maps (C, H, W) by name that were computed before.
    device
        The device of the weights.
    """

    folded: Mapping[str, Any] = _NOTHING
    maps: Mapping[str, Floats] = _NOTHING
    device: Any = CPU


def execute_crop(program: Program, known: Known, source: PhotoRows, window: Window) -> Floats:
    """The pixels of *window* of the cube that a run makes of *source*: (B, h, w), to rounding.

    *known* are the statistics of this photo, and maps that were computed before.
    """
    device = known.device
    photo = PaddedPhoto(source, device, program)
    sizes = program.sizes(source.height, source.width)
    dtypes = precisions(program, program.dtype, program.dtype)
    output = program.output.writes
    # With all statistics known, no pass waits for another: one sweep computes all of them.
    everything = Sweep(program.needed_beside(known.maps), (output,), ())
    with settings_of(program, device):
        steps = steps_of(everything, device, dtypes)
        needed = needs(steps, {output: window}, sizes)
        maps = {}
        if PHOTO in needed:
            maps[PHOTO] = needed[PHOTO], photo.read(needed[PHOTO])
        for name in known.maps.keys() & needed.keys():
            part = known.maps[name][None, :, needed[name].rows, needed[name].columns]
            maps[name] = needed[name], placed(np.ascontiguousarray(part), device)
        for step in steps:
            name = step.last.writes
            values = executable(step, dtypes, known.folded)(maps, needed[name], sizes)
            maps[name] = needed[name], values
        return as_array(values[0])
