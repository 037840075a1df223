"""`python -m lab COMMAND ...`: the command line of napari-mst, and what only the laboratory does.

Here `evaluate` has all baselines.
"""

import sys
from pathlib import Path

from lab import baselines
from lab.known_spectra import KNOWN
from lab.retrain import RETRAIN
from lab.two_photos import SHOTS
from napari_mst.cli.arguments import Command
from napari_mst.cli.main import COMMANDS, main
from napari_mst.training.calibrate import calibrate
from napari_mst.training.tables import BASELINES


def calibrate_files(files: tuple[Path, ...]) -> None:
    """Measure the error band of each model, into the card of its file, and print it.

    Parameters
    ----------
    files : FILE
        weights file with a card (.safetensors); its card is changed

    Examples
    --------
    napari-mst calibrate mine.safetensors
    """
    for file in files:
        card = calibrate(file)
        print(file.name, flush=True)
        for kind, numbers in card.error_band.items():
            by_band = " ".join(f"{number:.2f}" for number in numbers)
            print(f"  {kind:7} {by_band}", flush=True)


CALIBRATE = Command(
    "calibrate", "measure the error band of a model, into its file", calibrate_files
)

if __name__ == "__main__":
    BASELINES.update(baselines.BASELINES)
    COMMANDS.extend([RETRAIN, CALIBRATE, KNOWN, SHOTS])
    sys.exit(main())
