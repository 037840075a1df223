"""The dock "Attention": which channels attend to which, in every block and at every pixel.

Its state is an `AttentionModel`. The dock forwards clicks to it and to the workspace, and draws
their state.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from napari.components import ViewerModel
from napari.utils.theme import Theme
from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.attention.overlays import DIFFERENCE, FEATURES
from napari_mst.attention.record_files import read_attention, write_attention
from napari_mst.attention.record_views import AttentionMap
from napari_mst.base.errors import AttentionError, NapariMstError, plain
from napari_mst.plugin.attention.attention_layers import (
    map_layers,
    map_of,
    show_difference,
    summary,
)
from napari_mst.plugin.attention.attention_model import (
    AttentionModel,
    features_order,
    map_order,
    recording_order,
    shares_order,
    steps_order,
)
from napari_mst.plugin.attention.drawings import steps_pictures, story_pictures
from napari_mst.plugin.attention.map_list import MapList
from napari_mst.plugin.attention.matrix_page import MatrixPage, Pictures
from napari_mst.plugin.attention.pixel_page import LETTERS, PixelPage
from napari_mst.plugin.attention.pixel_probe import PhotoPatches, PixelProbe
from napari_mst.plugin.attention.schematic import Schematic
from napari_mst.plugin.attention.what_if_model import WhatIf
from napari_mst.plugin.attention.what_if_page import WhatIfPage
from napari_mst.plugin.dock import Dock, JobBar, Link, reported
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.jobs.workspace import JobState, Recording, Request, extent
from napari_mst.plugin.reconstruct.dock import new_form
from napari_mst.plugin.reconstruct.form import NO_PHOTO, ReconstructionForm
from napari_mst.plugin.reconstruct.sections import RowsWidget
from napari_mst.plugin.reconstruct.setting_rows import MODEL_ROWS, PHOTO_ROW, Fold
from napari_mst.plugin.session import workspace_of
from napari_mst.plugin.viewer.full_screen import FullScreenButton
from napari_mst.plugin.viewer.sharing import calling, shared
from napari_mst.plugin.viewer.themed_plot import SUFFIXES
from napari_mst.plugin.viewer.widgets import (
    HelpButton,
    Paragraph,
    ScrolledPage,
    Tabs,
    fill,
    let_shrink,
)

RUNS_HINT = (
    "The recorded runs; every run of the page Photo is among them. A region has a separate "
    "attention. For the mean of eight flips and transposes, it is that of the photo as it is."
)
RECORD_HINT = "Run the photo once: the matrices of all blocks appear here."
OPEN_HINT = "Open saved matrices, to compare with them."
SAVE_HINT = "Save the run with its maps (.npz), its matrices (.csv), or this page (.png, .svg)."
FILE_HINT = "Save the matrices or the pictures of this run, or open saved matrices to compare."
CANCEL_HINT = "Stop the run; nothing is left of it."
STEPS_HINT = "Run the photo up to this block, and show what its head does, step by step."
FORMULAS_HINT = "Show each step with its formula, in place of the story in six pictures."
EFFECTS_HINT = (
    "Run the network once for each head, with equal weights in it. A bar in the box of the head "
    "shows how much the cube changes, by what equal weights in all heads change."
)
LAYERS_HINT = "A part of the network, by the name of the maps that it writes."
FOLD_HINT = "The photo and the model that Record takes."
NO_FIGURE = "This page has no pictures to save. Choose Matrix, Steps or Pixel."
HELP_HINT = "Read about attention in the documentation, with its formulas, in your browser."


def new_attention_model(viewer: ViewerModel) -> AttentionModel:
    """Make the model that the attention docks of *viewer* share; it follows the newest run."""
    model = AttentionModel()
    model.follow(workspace_of(viewer))
    return model


def new_form_of_attention(viewer: ViewerModel) -> ReconstructionForm:
    """Make the dock's own form, whose choices do not affect the page Photo."""
    return new_form(viewer)


def _button(title: str, tip: str, method: Callable[..., object], *arguments: object) -> QPushButton:
    button = QPushButton(title, toolTip=tip)
    button.clicked.connect(calling(method, *arguments))
    return button


class AttentionDock(Dock):
    """Shows the recordings of the workspace, and asks it for maps and steps."""

    SIZE = (460, 640)

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.form = shared(self.viewer, new_form_of_attention)
        self.model = shared(self.viewer, new_attention_model)
        self.probe = PixelProbe(self.viewer, self.workspace, self.model, self.form)
        self.rows = RowsWidget(self.form, PHOTO_ROW, *MODEL_ROWS)
        self.runs = QComboBox(toolTip=RUNS_HINT)
        self.record_button = _button("Record", RECORD_HINT, self.record)
        self.file_button = QPushButton("File", toolTip=FILE_HINT)
        files = QMenu(self.file_button, toolTipsVisible=True)
        files.addAction("Open ...", calling(self._ask_to_open)).setToolTip(OPEN_HINT)
        self.save_entry = files.addAction("Save ...", calling(self._ask_to_save))
        self.save_entry.setToolTip(SAVE_HINT)
        self.file_button.setMenu(files)
        self.text = Paragraph()
        self.schematic = Schematic()
        self.matrices = MatrixPage()
        self.maps = MapList()
        self.effects_button = _button(
            "What does each head do?", EFFECTS_HINT, self.start, shares_order
        )
        self.layers = QComboBox(toolTip=f"{LAYERS_HINT} {FEATURES.tooltip}")
        self.steps_button = _button("Show the steps", STEPS_HINT, self.start, steps_order)
        self.formulas_button = QPushButton("Formulas", checkable=True, toolTip=FORMULAS_HINT)
        self.steps = Pictures("The steps of attention", 190)
        self.what_if = WhatIfPage(WhatIf(self.viewer, self.model, partial(start, is_listed=False)))
        self.pixel = PixelPage()
        self.tabs = Tabs()
        self.form_fold = Fold(self.rows, FOLD_HINT, "Photo and model")
        self.full_button = FullScreenButton()
        self.bar = JobBar(self.workspace, CANCEL_HINT)
        self._lay_out()
        self._wire()

    def _lay_out(self) -> None:
        for box in (self.runs, self.layers):
            let_shrink(box, LETTERS)
        maps, steps = QWidget(), QWidget()
        part = fill(QHBoxLayout(), QLabel("Maps of the part"), self.layers, stretched=self.layers)
        fill(QVBoxLayout(maps), self.effects_button, self.maps, part, stretched=self.maps)
        scrolled = ScrolledPage(self.steps)
        above = fill(QHBoxLayout(), self.steps_button, self.formulas_button)
        fill(QVBoxLayout(steps), above, scrolled, stretched=scrolled)
        self.tabs.addTab(maps, "Maps")
        self.tabs.addTab(self.matrices, "Matrix")
        self.tabs.addTab(steps, "Steps")
        self.tabs.addTab(self.what_if, "What if")
        self.tabs.addTab(self.pixel, "Pixel")
        corner = QWidget()
        fill(QHBoxLayout(corner), self.full_button, HelpButton("attention.md", HELP_HINT))
        self.tabs.setCornerWidget(corner)
        content = QWidget()
        runs = self.record_button, self.runs, self.file_button
        fill(
            QVBoxLayout(content),
            self.form_fold,
            fill(QHBoxLayout(), *runs, stretched=self.runs),
            self.schematic,
            self.text,
            self.tabs,
            self.bar,
            stretched=self.tabs,
        ).setContentsMargins(3, 4, 3, 4)
        self._open_pages(has_run=False)
        self.page = self.full_button.page = ScrolledPage(content)
        fill(QVBoxLayout(self), self.page)

    def _wire(self) -> None:
        self.runs.currentIndexChanged.connect(self._choose_run)
        self.form_fold.button.toggled.connect(calling(self._show_form))
        self.maps.chosen.connect(self._make_map)
        # A refusal on one page says nothing about another.
        self.tabs.currentChanged.connect(calling(self._show_state))
        self.layers.textActivated.connect(calling(self.add_features))
        self.schematic.chosen.connect(self.model.choose)
        self.matrices.plot.clicked.connect(self.model.click)
        self.matrices.compare_button.toggled.connect(self.model.compare)
        self.steps.clicked.connect(self.model.choose_channels)
        self.formulas_button.toggled.connect(calling(self._draw_channels))
        pixel = self.pixel
        pixel.pick_button.toggled.connect(self.probe.turn)
        for changed in (pixel.by.currentIndexChanged, pixel.h.valueChanged):
            changed.connect(self._choose_kind)
        pixel.denoise_button.clicked.connect(self.probe.denoise)

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        return [
            (self.model.head_changed, self._draw_head),
            (self.model.head_changed, self.probe.follow_head),
            (self.model.channels_changed, self._draw_channels),
            (layers.inserted, self._show_photos),
            (layers.removed, self._show_photos),
            (layers.renamed, self._show_photos),
            (self.viewer.layers.selection.events.active, self._show_photos),
            (self.form.events, self.rows.draw),
            (self.form.events.photo, self._on_photo),
            (self.workspace.state_changed, self._show_state),
            (self.workspace.state_changed, self.probe.on_state),
            (self.probe.changed, self.pixel.show_view),
            (self.what_if.state.changed, self.what_if.show_view),
            (self.workspace.recorded, self._show_runs),
            (self.workspace.forgotten, self._show_runs),
            (self.workspace.made, self._show_made),
        ]

    def release(self) -> None:
        """See `Dock`."""
        if self._viewer_ref() is not None:
            self.pixel.pick_button.setChecked(False)
            self.probe.forget()
        self.full_button.end()

    def refresh(self) -> None:
        """See `Dock`."""
        self.rows.draw()
        self._show_photos()
        self._show_runs()
        self._draw_head()

    # ------------------------------------------------------------------------ what the user does

    def start(self, order: Callable[..., Request], *arguments: Any) -> bool:
        """Start the job of *order*. If there is none, show the reason and return False."""
        try:
            return self.workspace.run(order(self.viewer, self.model, *arguments))
        except NapariMstError as error:
            self._say(plain(error))
            return False

    def record(self) -> bool:
        """Start a recording of the chosen photo, and fold its form; False if nothing started."""
        is_started = self.start(recording_order, self.form)
        if is_started:
            self.form_fold.button.setChecked(False)
        return is_started

    def add_features(self) -> bool:
        """Add the maps of the chosen part of the network; False if nothing started."""
        return self.start(features_order, self.layers.currentText())

    def _make_map(self, name: str) -> None:
        self.subtract() if name == DIFFERENCE.name else self.start(map_order, name)

    def save_figure(self, path: str) -> None:
        """Save the pictures of the current page as `.png` or `.svg`.

        Raises
        ------
        AttentionError
            If that page has none.
        SaveError
            If the file cannot be written.
        """
        pictures = [part for part in self.findChildren(Pictures) if part.isVisible()]
        if not pictures or not pictures[0].pictures:
            raise AttentionError(NO_FIGURE)
        pictures[0].save(Path(path))

    def subtract(self) -> None:
        """Show the difference of the two selected maps."""
        try:
            show_difference(self.viewer)
        except AttentionError as error:
            self._say(plain(error))

    def save(self, path: str) -> None:
        """Save the chosen run in the format that *path* ends with; an existing file is replaced.

        `.npz` holds the matrices of the run and the maps of its photo in the viewer, `.csv` the
        matrices alone.

        Raises
        ------
        NapariMstError
            If there is no run, or the file cannot be written.
        """
        record = self.model.chosen.recording.record
        photo = record.provenance.source_sha256
        maps = [map_of(layer) for layer in map_layers(self.viewer)]
        of_photo = [made for made in maps if made.provenance.source_sha256 == photo]
        write_attention(path, record, of_photo, overwrite=True)

    def open(self, path: str) -> None:
        """Show the matrices of a file beside the runs. Raises `AttentionError`."""
        record = read_attention(path)
        photo = record.provenance.source + extent(record.provenance)
        self.workspace.keep(Recording(record, f"{Path(path).name}: {photo}"))

    def _choose_run(self, index: int) -> None:
        recordings = self.workspace.recordings
        if 0 <= index < len(recordings):
            self.model.choose_run(recordings[index])

    def _choose_kind(self) -> None:
        self.probe.choose(self.pixel.kind, self.pixel.h.value() or None)

    def _ask_to_open(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open attention", "", "Attention (*.npz)")
        if path:
            with reported():
                self.open(path)

    def _ask_to_save(self) -> None:
        kinds = "Attention (*.npz);;Table (*.csv);;Figure of this page (*.png *.svg)"
        path, _ = QFileDialog.getSaveFileName(self, "Save attention", "attention.npz", kinds)
        if path:
            is_figure = Path(path).suffix.lower() in SUFFIXES
            with reported():
                (self.save_figure if is_figure else self.save)(path)

    # ------------------------------------------------------------------------ what is drawn

    def _show_photos(self) -> None:
        self.rows.show_photos(self.viewer)
        self.what_if.show_photos(self.viewer)
        self._show_state()
        self.probe.begin()

    def _on_photo(self) -> None:
        """Release the prepared photo, and probe the newly chosen photo."""
        self.model.forget_photo()
        self._choose_kind()

    def _show_runs(self) -> None:
        head = self.model.head
        with QSignalBlocker(self.runs):
            self.runs.clear()
            for number, run in enumerate(self.workspace.recordings):
                model = run.record.provenance.model or "unknown model"
                self.runs.addItem(f"{number + 1}: {run.name}, {model}")
                if head is not None and run is head.recording:
                    self.runs.setCurrentIndex(number)

    def _draw_head(self) -> None:
        """Draw the chosen head and the head to compare with."""
        head = self.model.head
        self.pixel.draw_head(head)
        if head is None:
            # The drawings must not keep a released run alive.
            self.schematic.forget()
            self.matrices.forget()
            self.steps.draw([])
        else:
            layer = self.layers.currentText()
            self.layers.clear()
            self.layers.addItems(head.recording.record.layers)
            self.layers.setCurrentText(layer)
            self.schematic.choose(head.recording.record, (head.block, head.head), self.model.shares)
            self.what_if.show_photos(self.viewer)
            self._draw_channels()
        self._show_state()

    def _draw_channels(self) -> None:
        """Draw the matrices and the steps, for the chosen channels."""
        chosen = self.model
        key, query = chosen.key, chosen.query
        self.matrices.draw(chosen.chosen, chosen.compared, key, query)
        if chosen.steps is None:
            return
        if self.formulas_button.isChecked():
            self.steps.draw(list(steps_pictures(chosen.steps, key or 0, query or 0)))
        else:
            self.steps.draw(list(story_pictures(chosen.steps, key or 0)))

    def _show_made(self, made: object) -> None:
        if isinstance(made, AttentionMap):
            self.maps.show_picture(made.overlay, self.viewer.layers.selection.active)
            self._say(summary(made, self.model.chosen.recording.record))
        elif isinstance(made, PhotoPatches):
            # The page Pixel has its own sentence.
            self._say("")

    def _show_state(self) -> None:
        """Show the progress of the job, and enable the buttons that can be used now."""
        head, state = self.model.head, self.workspace.state
        has_run = head is not None
        has_matrices = head is not None and head.matrices is not None
        self.maps.enable(state.is_idle, has_matrices)
        self.steps_button.setEnabled(state.is_idle and has_matrices)
        buttons = self.effects_button, self.record_button, self.pixel.denoise_button
        for part in (*buttons, self.layers):
            part.setEnabled(state.is_idle)
        self.save_entry.setEnabled(has_run)
        self.matrices.compare_button.setEnabled(has_matrices)
        self.schematic.setVisible(has_run)
        self._show_form()
        if self.tabs.isTabVisible(0) != has_run:
            self._open_pages(has_run=has_run)
        self.bar.show_state(state)
        self._say(self._sentence(state))

    def _show_form(self) -> None:
        """Leave the list of past runs out while the form of another one is open."""
        has_run = self.model.head is not None
        self.runs.setVisible(has_run and not self.form_fold.button.isChecked())

    def _open_pages(self, *, has_run: bool) -> None:
        """Show the pages of a run. Without a run, show the form and the page Pixel alone."""
        # Once there are pictures, they need the room of the form.
        self.form_fold.button.setChecked(not has_run)
        for page in range(self.tabs.count() - 1):
            self.tabs.setTabVisible(page, has_run)
        self.tabs.setCurrentIndex(0 if has_run else self.tabs.count() - 1)

    def _say(self, text: str) -> None:
        """Show the first line of *text*; the other lines become its tooltip."""
        sentence, _, details = text.partition("\n")
        self.text.setText(sentence)
        self.text.setToolTip(details)
        self.text.setVisible(bool(text))

    def _sentence(self, state: JobState) -> str:
        """Return the sentence to show: the job's own, or what to do first."""
        # How a job ended is old news once its photo has left the viewer.
        is_news = bool(self.form.photos) or not state.is_idle
        if state.text and not state.is_of_photo and is_news:
            return state.text
        return "" if self.form.photos or self.model.head is not None else NO_PHOTO

    def set_theme(self, theme: Theme) -> None:
        """See `Dock`."""
        for part in (*self.findChildren(Pictures), self.schematic, self.what_if):
            part.set_theme(theme)
