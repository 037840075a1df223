"""The list of attention maps, each with its picture, or with its colours until it is made."""

from typing import Any

import numpy as np
from napari.layers import Image
from napari.utils.colormaps import ensure_colormap
from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QIcon, QImage, QPixmap
from qtpy.QtWidgets import QListWidget, QListWidgetItem

from napari_mst.attention.overlays import DIFFERENCE, EFFECT, OVERLAYS
from napari_mst.base.arrays import Array
from napari_mst.plugin.attention.attention_layers import SIGNED, UNSIGNED

DIFFERENCE_HINT = (
    "Select two maps in napari's list of layers: the upper one less the lower one becomes a layer. "
    "They may be of two models, two photos of the same size, two heads or two parts."
)
FIRST = "attention"
"""The first map of the list: the contribution of all heads of a block to its features."""
SIDE = 32
"""Pixels of the picture of a map."""


def _colours(is_signed: bool) -> QIcon:
    """Draw the icon of a map that is not made yet: its colours, from low to high."""
    steps = np.linspace(0, 1, SIDE)
    colours = ensure_colormap(SIGNED if is_signed else UNSIGNED).map(steps)
    pixels = np.broadcast_to(np.rint(colours * 255).astype(np.uint8), (SIDE, SIDE, 4))
    return _icon(pixels)


def _icon(pixels: Array) -> QIcon:
    """Make an icon of RGBA *pixels* (H, W, 4)."""
    pixels = np.ascontiguousarray(pixels)
    height, width = pixels.shape[:2]
    image = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGBA8888)
    # The image borrows the pixels of the array.
    return QIcon(QPixmap.fromImage(image.copy()))


class MapList(QListWidget):
    """Lists the maps. A click emits `chosen` with the name of the map to make."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setIconSize(QSize(SIDE, SIDE))
        self.setAccessibleName("Maps of attention")
        kinds = {kind.name: kind for kind in (*OVERLAYS.values(), EFFECT)}
        colours = {is_signed: _colours(is_signed) for is_signed in (False, True)}
        self.rows: dict[str, QListWidgetItem] = {}
        for kind in (kinds.pop(FIRST), *kinds.values(), DIFFERENCE):
            title = f"{kind.title} of two maps" if kind is DIFFERENCE else kind.title
            item = QListWidgetItem(colours[kind.is_signed], title, self)
            item.setToolTip(DIFFERENCE_HINT if kind is DIFFERENCE else kind.tooltip)
            item.setData(Qt.ItemDataRole.UserRole, kind.name)
            self.rows[kind.name] = item
        self.itemClicked.connect(self._on_clicked)

    def enable(self, is_idle: bool, has_matrices: bool) -> None:
        """Enable the maps that can be made now, and show the others in grey."""
        for name, item in self.rows.items():
            is_for_all = name in (EFFECT.name, DIFFERENCE.name)
            can_be = name == DIFFERENCE.name or (is_idle and (has_matrices or is_for_all))
            off = Qt.ItemFlag.NoItemFlags
            item.setFlags(Qt.ItemFlag.ItemIsEnabled if can_be else off)

    def show_picture(self, name: str, layer: Any) -> None:
        """Show the thumbnail of *layer* beside the map *name*."""
        if name not in self.rows or not isinstance(layer, Image):
            return
        self.rows[name].setIcon(_icon(layer.thumbnail))

    def _on_clicked(self, item: QListWidgetItem) -> None:
        if item.flags() & Qt.ItemFlag.ItemIsEnabled:
            self.chosen.emit(item.data(Qt.ItemDataRole.UserRole))
