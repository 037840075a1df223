"""The two boxes that choose a key channel and a query channel."""

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHBoxLayout, QLabel, QSpinBox, QWidget

ALL = -1
"""Value of a box that stands for all channels."""
KEY_HINT = "Key channel i: a row of A, and the output channel that this row makes."
QUERY_HINT = "Query channel j: a column of A. A click on the matrix chooses both channels."


class ChannelBoxes(QWidget):
    """Two boxes in a row; `chosen` tells key and query, with None for all channels."""

    chosen = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self.key = QSpinBox(minimum=ALL, maximum=0, specialValueText="all", toolTip=KEY_HINT)
        self.query = QSpinBox(minimum=ALL, maximum=0, specialValueText="all", toolTip=QUERY_HINT)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for title, box in (("key i", self.key), ("query j", self.query)):
            layout.addWidget(QLabel(title, toolTip=box.toolTip()))
            layout.addWidget(box)
            box.valueChanged.connect(self._tell)
        layout.addStretch(1)

    def show_channels(self, count: int, key: int | None, query: int | None) -> None:
        """Show the choice among *count* channels, without a signal."""
        for box, channel in ((self.key, key), (self.query, query)):
            box.blockSignals(True)
            # The maximum comes first: Qt would cut the channel to the old one.
            box.setMaximum(count - 1)
            box.setValue(ALL if channel is None else channel)
            box.blockSignals(False)

    def _tell(self) -> None:
        self.chosen.emit(_channel(self.key), _channel(self.query))


def _channel(box: QSpinBox) -> int | None:
    return None if box.value() == ALL else int(box.value())
