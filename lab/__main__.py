"""`python -m lab COMMAND ...`: the command line of napari-mst, and what only the laboratory does.

Here `evaluate` has all baselines.
"""

import argparse
import sys
from pathlib import Path

from lab import baselines
from lab.retrain import RETRAIN
from napari_mst.cli.command import DONE, Command
from napari_mst.cli.main import COMMANDS, main
from napari_mst.evaluation.methods import BASELINES
from napari_mst.training.calibrate import calibrate


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="weights file with a card (.safetensors); its card is changed",
    )


def _calibrate(arguments: argparse.Namespace) -> int:
    for file in arguments.files:
        card = calibrate(file)
        print(file.name, flush=True)
        for kind, numbers in card.error_band.items():
            by_band = " ".join(f"{number:.2f}" for number in numbers)
            print(f"  {kind:7} {by_band}", flush=True)
    return DONE


CALIBRATE = Command(
    name="calibrate",
    help="measure the error band of a model and write it into its file",
    add_arguments=_add_arguments,
    run=_calibrate,
)

if __name__ == "__main__":
    BASELINES.update(baselines.BASELINES)
    COMMANDS.extend([RETRAIN, CALIBRATE])
    sys.exit(main())
