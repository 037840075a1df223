"""`python -m lab COMMAND ...`: the command line of napari-mst, and what only the laboratory does.

Here `evaluate` has all baselines, and `train` needs no cubes.
"""

import sys

from lab import baselines
from lab.reference_spectra import KNOWN
from lab.retrain import RETRAIN
from lab.training import CALIBRATE, TRAIN
from napari_mst.cli.main import COMMANDS, main
from napari_mst.training.scoring import BASELINES

if __name__ == "__main__":
    BASELINES.update(baselines.BASELINES)
    COMMANDS[:] = [TRAIN if each.name == TRAIN.name else each for each in COMMANDS]
    COMMANDS.extend([RETRAIN, CALIBRATE, KNOWN])
    sys.exit(main())
