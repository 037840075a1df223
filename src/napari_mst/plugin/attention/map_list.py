"""The list of the maps of attention: a picture of each that was made, and its name."""

from typing import Any

import numpy as np
from napari.layers import Image
from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QIcon, QImage, QPixmap
from qtpy.QtWidgets import QListWidget, QListWidgetItem

from napari_mst.attention.overlays import DIFFERENCE, EFFECT, OVERLAYS

DIFFERENCE_HINT = (
    "Select two maps in napari's list of layers: the upper one less the lower one becomes a layer. "
    "They may be of two models, two photos of the same size, two heads or two parts."
)
FIRST = "attention"
"""The map that is listed first: what all heads of a block add to its features."""
SIDE = 32
"""Pixels of the picture of a map."""


class MapList(QListWidget):
    """Lists the maps; `chosen` carries the name of one that is clicked, which makes it."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setIconSize(QSize(SIDE, SIDE))
        self.setAccessibleName("Maps of attention")
        kinds = {kind.name: kind for kind in (*OVERLAYS.values(), EFFECT)}
        blank = QPixmap(SIDE, SIDE)
        blank.fill(Qt.GlobalColor.transparent)
        self.rows: dict[str, QListWidgetItem] = {}
        for kind in (kinds.pop(FIRST), *kinds.values(), DIFFERENCE):
            title = f"{kind.title} of two maps" if kind is DIFFERENCE else kind.title
            item = QListWidgetItem(QIcon(blank), title, self)
            item.setToolTip(DIFFERENCE_HINT if kind is DIFFERENCE else kind.tooltip)
            item.setData(Qt.ItemDataRole.UserRole, kind.name)
            self.rows[kind.name] = item
        self.itemClicked.connect(self._on_clicked)

    def enable(self, is_idle: bool, has_matrices: bool) -> None:
        """Have what can be made now be chosen, and show the rest in grey."""
        for name, item in self.rows.items():
            is_for_all = name in (EFFECT.name, DIFFERENCE.name)
            can_be = name == DIFFERENCE.name or (is_idle and (has_matrices or is_for_all))
            off = Qt.ItemFlag.NoItemFlags
            item.setFlags(Qt.ItemFlag.ItemIsEnabled if can_be else off)

    def show_picture(self, name: str, layer: Any) -> None:
        """Show the map *name* as napari's list shows its *layer*."""
        if name not in self.rows or not isinstance(layer, Image):
            return
        pixels = np.ascontiguousarray(layer.thumbnail)
        height, width = pixels.shape[:2]
        image = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGBA8888)
        # The pixmap is a copy: the image has no pixels of its own.
        self.rows[name].setIcon(QIcon(QPixmap.fromImage(image.copy())))

    def _on_clicked(self, item: QListWidgetItem) -> None:
        if item.flags() & Qt.ItemFlag.ItemIsEnabled:
            self.chosen.emit(item.data(Qt.ItemDataRole.UserRole))
