"""Settings of a training: data and schedule.

`napari-mst train --help` reads them, so this module does not import torch.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.base.errors import ModelError, shown
from napari_mst.formats.read_options import AS_THE_FILE_SAYS, ReadOptions
from napari_mst.photo.cameras import DAYLIGHT, SRGB, Acquisition, spelled

if TYPE_CHECKING:
    from napari_mst.networks.hyperparameters import AttentionParameters


@dataclass(frozen=True)
class TrainingPlan:
    """A training to run: initial model, data, and output file.

    Attributes
    ----------
    output : OUT
        the .safetensors file to write
    start : NAME|FILE
        MST++ model to continue from
    network : NAME
        a new network of another kind: mst-s, mst-m, mst-l, mst++ (as published), hdnet, edsr,
        hscnn+, hrnet, hinet, awan, or one that another package brings
    device
        auto, cuda, cuda:1, mps or cpu

    training data
    -------------
    cubes : FOLDER
        folder of reflectance cubes
    full_scale : VALUE
        stored value in the cubes that stands for reflectance 1
    camera : NAME|FILE
        sRGB, Nikon_D5100, ..., or a CSV file: nm, r, g, b
    light : NAME|FILE
        D65, A, E, ..., or a CSV file: nm, power

    how it learns
    -------------
    patience : N
        stop after N reports without improvement (default: never)
    report_every : STEPS
        steps between two reports
    loader_workers : N
        processes that draw the photos of later steps in advance (default: none)

    Raises
    ------
    ModelError
        If *output* is not named like a weights file, or a number is out of range.
    """

    output: Annotated[Path, "-o"] = Path("model.safetensors")
    start: Annotated[str, "--from"] = ""
    network: str = ""
    cubes: Path | None = None
    full_scale: float | None = None
    reading: ReadOptions = AS_THE_FILE_SAYS
    camera: Annotated[str, spelled] = SRGB
    light: Annotated[str, spelled, "--illuminant", "--light"] = DAYLIGHT
    device: str = "auto"
    patience: int = 0
    report_every: int = 500
    loader_workers: int = 0

    def __post_init__(self) -> None:
        check_weights_name(self.output)
        if self.start and self.network:
            raise ModelError("Expected --from or --network, got both. Leave one out.")
        if self.report_every < 1 or min(self.patience, self.loader_workers) < 0:
            raise ModelError(
                "Expected at least 1 step between reports, and a patience and loader workers of "
                "at least "
                f"0, got {self.report_every}, {self.patience} and {self.loader_workers}. Change "
                "them."
            )

    @property
    def acquisition(self) -> Acquisition | None:
        """Camera and light of the photos; None for sRGB in daylight."""
        is_srgb = (self.camera, self.light) == (SRGB, DAYLIGHT)
        return None if is_srgb else Acquisition(self.camera, self.light)


def check_weights_name(output: Path) -> None:
    """Check the name of a weights file before hours of work."""
    if output.suffix != ".safetensors":
        raise ModelError(
            f"Expected a name ending in .safetensors, got {shown(output.name)}. Add it."
        )


@dataclass(frozen=True)
class FitSettings:
    """Settings that determine the result of a fit; times are in steps, sizes in pixels.

    Attributes
    ----------
    is_half
        compute features in bfloat16 on devices with native support
    learns_cubes
        learn the cubes themselves instead of the pixelwise estimate for a perfect photo
    curriculum_start
        position in the curriculum at which the fit begins: 0 begins with noise, 1 is for a network
        that has completed it
    attention : KIND
        kind of attention in a new network: spectral (between channels, default), window, shifted,
        overlapping (between pixels of windows), hybrid (spectral and shifted windows), global
        (between all pixels), mixed (a different kind in each block), none
    window : N
        side of an attention window in pixels of its map, 1 to 64, for kinds with windows

    how it learns
    -------------
    batch
        photos per step and process
    size
        side of the photos in pixels
    stages
        stages of a new network
    learning_rate : RATE
        peak learning rate
    seed
        seed for scenes and weights
    norm_before_attention
        LayerNorm before attention (default: as published, for all kinds but spectral)

    Raises
    ------
    ModelError
        If a number is out of range.
    """

    steps: int = 26_000
    batch: int = 1
    size: int = 96
    stages: int = 1
    is_half: bool = True
    learns_cubes: bool = False
    learning_rate: float = 1.5e-3
    weight_decay: float = 1e-4
    warm_up: int = 300
    average_decay: float = 0.999
    curriculum_start: float = 0.0
    seed: int = 2026
    attention: str = "spectral"
    window: int = 8
    norm_before_attention: bool | None = None

    def __post_init__(self) -> None:
        # The network works on sides that are multiples of 8 and would pad others.
        if min(self.batch, self.stages) < 1 or self.size < 8 or self.size % 8:
            raise ModelError(
                "Expected a batch and stages of at least 1 and a size divisible by 8, got "
                f"{self.batch}, {self.stages} and {self.size}. Change them."
            )
        if self.steps < 0 or not 0 < self.learning_rate < math.inf:
            raise ModelError(
                "Expected no fewer than 0 steps and a learning rate above 0, got "
                f"{self.steps} and {self.learning_rate:g}. Change them."
            )

    @property
    def attention_parameters(self) -> "AttentionParameters":
        """Attention of the blocks of a new network. Raises `ModelError` for a misplaced window."""
        from napari_mst.networks.hyperparameters import Hyperparameters  # imports torch

        made = Hyperparameters(
            attention=self.attention,
            window=self.window,
            norm_before_attention=self.norm_before_attention,
        )
        if made.window != self.window:
            raise ModelError(
                f"Expected an attention with windows for a window of {self.window} pixels, got "
                f"{self.attention}. Add --attention shifted, or leave the window out."
            )
        return made.attention_parameters

    @property
    def attention_options(self) -> str:
        """Command-line options for the attention; "" for the default."""
        options = "" if self.attention == "spectral" else f" --attention {self.attention}"
        if self.window != FitSettings.window:
            options = f"{options} --window {self.window}"
        if self.norm_before_attention is None:
            return options
        return f"{options} --{'' if self.norm_before_attention else 'no-'}norm-before-attention"

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate: linear warm-up, then a cosine down to 1 % of the peak."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        progress = (step - self.warm_up) / max(self.steps - self.warm_up, 1)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))

    def tolerance_at(self, step: int) -> float:
        """Return the tolerance added to the error of the photo in the loss.

        A smaller tolerance gives clean photos more weight.
        """
        return 0.3 * (1 / 60) ** self.progress_at(step)

    def progress_at(self, step: int) -> float:
        """Return the share of the curriculum completed at a *step*."""
        return self.curriculum_start + (1 - self.curriculum_start) * step / max(self.steps, 1)
