"""The parts of the attention dock, laid out: lists, schematic, channels, pages and progress."""

from napari.utils.theme import Theme
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QTabWidget, QVBoxLayout, QWidget

from napari_mst.plugin.attention.channels import ChannelBoxes
from napari_mst.plugin.attention.exploration import Exploration, RecordedHead
from napari_mst.plugin.attention.pages import MapPage, MatrixPage, StepsPage
from napari_mst.plugin.attention.pixel_page import PixelPage
from napari_mst.plugin.attention.runs import RunBox
from napari_mst.plugin.attention.schematic import Schematic
from napari_mst.plugin.jobs.bar import JobBar
from napari_mst.plugin.jobs.workspace import JobState

CANCEL_HINT = "Stop the run; nothing is left of it."


class AttentionPanel(QWidget):
    """Draws an `Exploration` and the state of the job; what the user does is told by its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.box = RunBox()
        self.schematic = Schematic()
        self.channels = ChannelBoxes()
        self.matrices = MatrixPage()
        self.maps = MapPage()
        self.steps = StepsPage()
        self.pixel = PixelPage()
        self.tabs = QTabWidget()
        self.bar = JobBar()
        self.cancel_button = QPushButton("Cancel", toolTip=CANCEL_HINT)
        self.text = QLabel(wordWrap=True)
        self._lay_out()

    def _lay_out(self) -> None:
        self.tabs.addTab(self.matrices, "Matrix")
        self.tabs.addTab(self.maps, "Maps")
        self.tabs.addTab(self.steps, "Step by step")
        self.tabs.addTab(self.pixel, "Pixel")
        progress = QHBoxLayout()
        progress.addWidget(self.bar, stretch=1)
        progress.addWidget(self.cancel_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.box)
        layout.addWidget(self.schematic)
        layout.addWidget(self.channels)
        layout.addWidget(self.tabs, stretch=1)
        layout.addLayout(progress)
        layout.addWidget(self.text)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a napari theme."""
        for part in (self.matrices, self.steps.plot, self.schematic):
            part.set_theme(theme)

    def draw_head(self, exploration: Exploration) -> None:
        """Draw the chosen head, and the one that it is compared with."""
        head = exploration.head
        if head is None:
            return
        self.matrices.set_heads([head, exploration.compared])
        self.pixel.draw_head(head)
        self.schematic.set_record(head.recording.record)
        self.schematic.choose(head.block, head.head, exploration.compared_in_run)
        self.draw_channels(exploration)

    def draw_channels(self, exploration: Exploration) -> None:
        """Mark the chosen channels, and draw the steps for them."""
        head = exploration.head
        if head is None:
            return
        key, query = exploration.key, exploration.query
        self.channels.show_channels(head.channels, key, query)
        self.matrices.set_cell(key, query)
        steps = exploration.steps
        if steps is not None:
            self.steps.plot.set_steps(steps, key or 0, query or 0)

    def show_state(self, state: JobState, *, head: RecordedHead | None) -> None:
        """Show how far the job is, and enable the buttons that can be used now."""
        has_head = head is not None
        has_matrices = head is not None and head.matrices is not None
        for button in (*self.maps.buttons.values(), self.steps.button):
            button.setEnabled(state.is_idle and has_matrices)
        self.box.record_button.setEnabled(state.is_idle)
        self.box.save_button.setEnabled(has_head)
        self.matrices.compare_button.setEnabled(has_matrices)
        self.channels.setEnabled(has_matrices)
        self.pixel.denoise_button.setEnabled(state.is_idle)
        self.bar.show_state(state)
        self.cancel_button.setVisible(not state.is_idle)
        # A job that is being cancelled is not idle yet, and is not cancelled twice.
        self.cancel_button.setEnabled(state.phase == "running")
