"""The options of a reconstruction: one record for the window, the command line and Python."""

import math
import os
from dataclasses import dataclass
from typing import Annotated, Literal

from napari_mst.photo.cameras import Acquisition
from napari_mst.photo.photo import Rectangle

Denoise = Literal["auto", "off"] | float
"""Denoising before the network: if the photo is noisy ("auto"), never ("off"), or with this h.

h is in units of the noise of the photo.
"""


def rectangle(text: str) -> Rectangle:
    """Parse rows and columns such as "100:300,0:512"."""
    try:
        rows, columns = text.split(",")
        (top, bottom), (left, right) = rows.split(":"), columns.split(":")
        return int(top), int(bottom), int(left), int(right)
    except ValueError:
        raise ValueError(f"expected a region like 100:300,0:512, got {text[:40]!r}") from None


def gigabytes(text: str) -> int:
    """Parse a size in GB and return bytes."""
    size = _positive(text)
    if not size:
        raise ValueError(f"Expected a size in GB, as 4 or 0.5, got {text[:40]!r}.")
    return int(size * 1e9)  # GB, not GiB


def denoising(text: str) -> Denoise:
    """Parse "auto", "off" or a strength such as "0.8"."""
    if text == "auto" or text == "off":
        return text  # type: ignore[return-value] # mypy does not narrow a str to a Literal
    strength = _positive(text)
    if not strength:
        raise ValueError(f"Expected auto, off or a number above 0, as 1.2, got {text[:40]!r}.")
    return strength


def _positive(text: str) -> float:
    """Parse a finite number above 0 from *text*; 0 for anything else."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0 < number < math.inf else 0.0


@dataclass(frozen=True)
class RunOptions:
    """Options of a reconstruction apart from the model, described in `Reconstructor`.

    `reconstruction.setup` checks that options and model fit together. Values of "auto" or None are
    chosen by the run. The fields are the arguments of `Reconstructor`, the flags of the command
    line, and rows in the window.

    Attributes
    ----------
    device
        auto, cuda, cuda:1, mps or cpu
    memory : GB
        memory of this computer to use at most (default: most of what is free)
    device_memory : GB
        memory of the GPU to use at most (default: most of what is free)
    precision
        float64 is the reference; bfloat16 and float16 keep features in half the memory, with an
        error that is measured on each photo
    denoise : auto|off|H
        denoise photos by non-local Bayes before the network: noisy photos that were no JPEG
        (auto), none (off), or all, as if they had this many times their noise (default: auto, with
        1)
    correct_colour
        adjust spectra whose colour differs from the photo's (default)
    calibrated_by : WHAT
        reason why the photos show exact colours, such as 'profile of a chart': prediction intervals
        are then narrower and say so
    region : ROW0:ROW1,COL0:COL1
        use these pixels only; attention is global, so results differ from those of the whole photo
    ensemble
        average over 8 flips and transposes, as published; takes 8 times as long
    """

    device: str = "auto"
    memory: Annotated[int, gigabytes] | None = None
    device_memory: Annotated[int, gigabytes] | None = None
    precision: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    denoise: Annotated[Denoise, denoising] = "auto"
    correct_colour: Annotated[bool, "--colour-correction"] = True
    acquisition: Acquisition | None = None
    calibrated_by: str = ""
    region: Annotated[Rectangle, rectangle] | None = None
    ensemble: bool = False


DEFAULTS = RunOptions()
"""The default options."""


def is_rank() -> bool:
    """True in one of several processes started by `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
