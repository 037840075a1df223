"""The options of every command of the laboratory that makes a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from napari_mst.crash_safe import check_targets
from napari_mst.option import Option
from napari_mst.training.settings import check_weights_name


@dataclass(frozen=True)
class Order:
    """The file of a model that is made, and how."""

    output: Annotated[
        Path,
        Option(
            "the .safetensors file to write; a checkpoint lies beside it",
            "OUT",
            ("-o", "--output"),
            is_required=True,
        ),
    ]
    report_every: Annotated[int, Option("steps between two reports", "STEPS")] = 500
    scenes: Annotated[
        Path | None, Option("folder of real scenes: their accuracy goes into the card", "FOLDER")
    ] = None
    drawers: Annotated[int, Option("processes that draw photos ahead, for mstpp-srgb", "N")] = 0
    device: Annotated[str, Option("auto, cuda, cuda:1, mps or cpu")] = "cpu"

    def __post_init__(self) -> None:
        check_weights_name(self.output)
        check_targets([self.output], overwrite=True)
