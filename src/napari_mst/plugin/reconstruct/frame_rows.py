"""The rows of a flat field: the photos of a white surface and of darkness by which one is divided.

They belong to the photo that is chosen, so napari does not remember them.
"""

from magicgui.types import FileDialogMode
from magicgui.widgets import FileEdit
from qtpy.QtWidgets import QDoubleSpinBox, QFormLayout, QHBoxLayout, QPushButton

from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.form import ReconstructionForm

PHOTOS = "Photos (*.dng *.nef *.cr2 *.cr3 *.arw *.raf *.rw2 *.orf *.tif *.tiff);;All files (*)"


class FrameRows:
    """Rows at the end of a layout, hidden until the model needs linear photos."""

    def __init__(self, layout: QFormLayout) -> None:
        self._layout = layout
        self.white = _file_edit(texts.WHITE_FRAME_HINT)
        self.dark = _file_edit(texts.DARK_FRAME_HINT)
        self.reflectance = QDoubleSpinBox(
            minimum=1, maximum=150, value=100, decimals=0, suffix=" %"
        )
        self.reflectance.setToolTip(texts.FRAME_REFLECTANCE_HINT)
        self.use = QPushButton("Divide", toolTip=texts.USE_FRAMES_HINT)
        self._use_row = QHBoxLayout()
        self._use_row.addWidget(self.reflectance, 1)
        self._use_row.addWidget(self.use)
        layout.addRow("White frame", self.white.native)
        layout.addRow("Dark frame", self.dark.native)
        layout.addRow("Reflects", self._use_row)

    def draw(self, form: ReconstructionForm) -> None:
        """Show what *form* says, or hide all rows."""
        for row in (self.white.native, self.dark.native, self._use_row):
            self._layout.setRowVisible(row, form.needs_camera)
        _show(self.white, form.white_frame)
        _show(self.dark, form.dark_frame)
        self.reflectance.setValue(form.frame_reflectance)


def _file_edit(tip: str) -> FileEdit:
    edit = FileEdit(mode=FileDialogMode.EXISTING_FILE, filter=PHOTOS, tooltip=tip)
    edit.native.layout().setContentsMargins(0, 0, 0, 0)
    for part in (edit.line_edit, edit.choose_btn):
        part.native.setToolTip(tip)
    return edit


def _show(edit: FileEdit, path: str) -> None:
    # Setting the same text would move the cursor of a user who is typing.
    if edit.line_edit.value != path:
        edit.line_edit.value = path
