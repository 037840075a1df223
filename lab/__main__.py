"""`python -m lab COMMAND ...`: the command line of napari-mst, and what only the laboratory does.

Here `evaluate` has all baselines.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lab import baselines
from lab.known_spectra import KNOWN
from lab.retrain import RETRAIN
from napari_mst.cli.arguments import DONE, Command
from napari_mst.cli.main import COMMANDS, main
from napari_mst.option import Option
from napari_mst.training.calibrate import calibrate
from napari_mst.training.tables import BASELINES


@dataclass(frozen=True)
class Calibrate:
    """Weights files whose cards get a measured error band."""

    files: Annotated[
        tuple[Path, ...],
        Option(
            "weights file with a card (.safetensors); its card is changed",
            "FILE",
            nargs="+",
            is_positional=True,
        ),
    ]

    examples = ("calibrate mine.safetensors",)

    def run(self) -> int:
        """Measure the error band of each model, and print it."""
        for file in self.files:
            card = calibrate(file)
            print(file.name, flush=True)
            for kind, numbers in card.error_band.items():
                by_band = " ".join(f"{number:.2f}" for number in numbers)
                print(f"  {kind:7} {by_band}", flush=True)
        return DONE


CALIBRATE = Command("calibrate", "measure the error band of a model, into its file", Calibrate)

if __name__ == "__main__":
    BASELINES.update(baselines.BASELINES)
    COMMANDS.extend([RETRAIN, CALIBRATE, KNOWN])
    sys.exit(main())
