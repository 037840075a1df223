"""Lists that several pages share: the source cube, and a value of its pixels."""

from collections.abc import Mapping

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import QComboBox, QCompleter, QHBoxLayout, QLabel

from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import LayerBox, dress_matches, fill, let_shrink

SOURCE = "The cube that this is made of: the one that you selected last, or choose here."


class SourceBox(LayerBox):
    """Lists the cubes that maps and scatters can be made of; `row` holds the list and its label."""

    def __init__(self, model: SpectraModel) -> None:
        super().__init__(SOURCE)
        let_shrink(self, 6)
        self.row = fill(QHBoxLayout(), QLabel("of"), self, stretched=self)
        self._model = model
        self.currentIndexChanged.connect(calling(self._choose))

    def draw(self) -> None:
        """List the present cubes."""
        layers = self._model.viewer.layers
        cubes = [layer for layer in reversed(layers) if cube_of(layer) is not None]
        with QSignalBlocker(self):
            self.set_layers(cubes, self._model.maps.source)

    def _choose(self) -> None:
        layer = self.currentData()
        self._model.maps.source = layer and layer()


class TextBox(QComboBox):
    """A line for a formula, with a list of values; `entered` carries the one that the user took."""

    entered = Signal(str)

    def __init__(self, tip: str) -> None:
        never = QComboBox.InsertPolicy.NoInsert
        super().__init__(editable=True, insertPolicy=never, toolTip=tip)
        let_shrink(self, 6)
        # A list below the line, as completing within the line would change a formula.
        self.completer().setCompletionMode(QCompleter.CompletionMode.PopupCompletion)
        self.completer().setFilterMode(Qt.MatchFlag.MatchContains)
        self.lineEdit().textEdited.connect(self._dress)
        self.textActivated.connect(self.entered)
        self.lineEdit().editingFinished.connect(self._on_finished)

    def draw(self, presets: Mapping[str, str], text: str) -> None:
        """List *presets*, each with its tooltip, and show *text* unless the user is typing."""
        with QSignalBlocker(self):
            if [self.itemText(row) for row in range(self.count())] != [*presets]:
                self.clear()
                for row, (preset, about) in enumerate(presets.items()):
                    self.addItem(preset)
                    self.setItemData(row, about, Qt.ItemDataRole.ToolTipRole)
            line = self.lineEdit()
            if self.currentText() == text:
                line.setModified(False)
            # The text that the user is typing and the cursor stay as they are.
            elif not (line.hasFocus() and line.isModified()):
                self.setCurrentText(text)

    def _dress(self) -> None:
        dress_matches(self)

    def _on_finished(self) -> None:
        """Take a text that is not in the list, which Qt does not report."""
        line = self.lineEdit()
        if line.isModified():
            line.setModified(False)
            self.entered.emit(line.text())
