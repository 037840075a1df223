"""The dialog that asks for a file of weights, and the files that it offers."""

from qtpy.QtWidgets import QFileDialog, QWidget

WEIGHTS_FILES = "Weights (*.pth *.pt *.ckpt *.safetensors)"


def ask_for_weights(parent: QWidget) -> str:
    """Return the path that the user chooses; "" if they cancel."""
    path, _ = QFileDialog.getOpenFileName(parent, "Open weights", filter=WEIGHTS_FILES)
    return str(path)
