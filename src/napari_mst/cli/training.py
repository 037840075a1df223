"""The command `train`: a new model, or one tuned to the cubes of the user."""

from dataclasses import dataclass, field, replace
from typing import Annotated

from napari_mst.cli.arguments import DONE
from napari_mst.cli.console import note
from napari_mst.crash_safe import check_targets
from napari_mst.errors import ModelError
from napari_mst.option import Only, Option
from napari_mst.training.settings import FitSettings, TrainingPlan

TUNING_STEPS = 4_000
"""Steps for a model that is tuned: it knows most of its task already."""

FIRST = FitSettings(size=64, learning_rate=1e-3)
"""The settings of a fit for which the user chooses none."""


@dataclass(frozen=True)
class Train:
    """A training to run, and the settings of its fit."""

    plan: TrainingPlan = field(default_factory=TrainingPlan)
    steps: Annotated[
        int | None,
        Option(f"number of steps (default: {FIRST.steps}; {TUNING_STEPS} with --from)"),
    ] = None
    attention: Annotated[
        str | None,
        Option(
            "who attends to whom in a new network: spectral (channels, default), window, shifted, "
            "overlapping (pixels of windows), hybrid (spectral and shifted windows), global (all "
            "pixels), none",
            "KIND",
        ),
    ] = None
    settings: Annotated[
        FitSettings,
        Only("batch", "size", "stages", "norm_before_attention", "learning_rate", "seed"),
    ] = FIRST

    examples = (
        "train --cubes cubes/ --from mstpp-srgb -o mine.safetensors",
        "train --attention window --steps 8000 -o window.safetensors",
    )
    more = "Several GPUs or processes: torchrun --nproc-per-node 2 --no-python napari-mst train"

    def __post_init__(self) -> None:
        is_asked_for = (self.attention, self.settings.norm_before_attention) != (None, None)
        if self.plan.start and is_asked_for:
            raise ModelError(
                "Expected --attention or --norm-before-attention for a new network, got --from, "
                "whose model has its own. Leave one out."
            )

    def run(self) -> int:
        """Train the model, and print the path of its file."""
        from napari_mst.training.train import train  # imports torch

        settings = self._settings()
        self._note_padding(settings)
        # An older file is replaced; this only asks, before hours of work, if it can be written.
        check_targets([self.plan.output], overwrite=True)
        # Of several processes, only the first has written the file.
        if train(self.plan, settings) is not None:
            print(self.plan.output)
        return DONE

    def _settings(self) -> FitSettings:
        steps = self.steps
        if steps is None:
            steps = TUNING_STEPS if self.plan.start else FIRST.steps
        return replace(
            self.settings,
            steps=steps,
            attention=self.attention or FIRST.attention,
            # A short fit must not spend all its steps warming up.
            warm_up=min(FIRST.warm_up, steps // 10 + 1),
        )

    def _note_padding(self, settings: FitSettings) -> None:
        """Note that the photos of a new network are padded until windows divide them."""
        from napari_mst.networks.hyperparameters import Hyperparameters  # imports torch

        multiple = Hyperparameters(attention=settings.attention).multiple
        padded = -(-settings.size // multiple) * multiple
        if padded != settings.size and not self.plan.start:
            note(
                f"Windows do not divide photos of {settings.size} x {settings.size}, so the "
                f"network pads them to {padded} x {padded}. --size {padded} takes as long and "
                "shows it more."
            )
