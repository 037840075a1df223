"""The row that says whether a photo is denoised before the network sees it, and how much."""

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QComboBox, QDoubleSpinBox, QHBoxLayout, QWidget

from napari_mst.plugin.reconstruct.form import DenoiseChoice, ReconstructionForm

DENOISE_HINT = (
    "Non-local means before the network. Automatic denoises photos that are noisy and were no "
    "JPEG, and leaves all others as they are."
)
H_HINT = (
    "The strength h, in units of the noise that is estimated from the photo; automatic takes 1.2. "
    "More averages pixels that are less alike."
)
CHOICES: dict[str, tuple[DenoiseChoice, str]] = {
    "automatic": ("auto", "Photos that are noisy and were no JPEG."),
    "off": ("off", "The network sees the photo as it is."),
    "every photo": ("always", "Also where it harms, as on clean photos."),
}
"""Title -> value in the form, and tooltip."""
MOST_H = 10.0


class DenoiseRow(QWidget):
    """Shows the choice, and beside it h where every photo is denoised."""

    def __init__(self) -> None:
        super().__init__()
        self.choices = QComboBox(toolTip=DENOISE_HINT)
        self.h = QDoubleSpinBox(
            minimum=0.1, maximum=MOST_H, singleStep=0.1, prefix="h = ", suffix=" \u03c3"
        )
        self.h.setToolTip(H_HINT)
        for index, (title, (choice, tip)) in enumerate(CHOICES.items()):
            self.choices.addItem(title, choice)
            self.choices.setItemData(index, tip, Qt.ItemDataRole.ToolTipRole)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.choices, stretch=1)
        layout.addWidget(self.h)

    def draw(self, form: ReconstructionForm) -> None:
        """Show what *form* says."""
        self.choices.setCurrentIndex(self.choices.findData(form.denoise))
        self.h.setValue(form.denoise_h)
        self.h.setVisible(form.denoise == "always")
