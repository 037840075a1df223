"""The options of every command of the laboratory that makes a model."""

from dataclasses import dataclass
from pathlib import Path

from napari_mst.base.atomic_save import check_targets
from napari_mst.training.settings import check_weights_name


@dataclass(frozen=True)
class CommandOptions:
    """The file of a model that is made, and how."""

    output: Path
    report_every: int = 500
    scenes: Path | None = None
    loader_workers: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_weights_name(self.output)
        check_targets([self.output], overwrite=True)
