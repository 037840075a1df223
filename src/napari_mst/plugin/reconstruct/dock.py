"""The form of the page "Photo": choose a photo, a model and a device, and run.

Its state is a `ReconstructionForm`, which all docks of a viewer share. The dock forwards clicks to
it and to the workspace, and draws what they say.
"""

import gc
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari.components import ViewerModel
from napari.utils.notifications import show_warning
from qtpy.QtWidgets import QFileDialog, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout

from napari_mst.base.errors import NapariMstError, OutOfMemory, plain
from napari_mst.calibration.chart import CHARTS, Corners
from napari_mst.calibration.white_patch import OFF_DAYLIGHT
from napari_mst.cube import SpectralCube
from napari_mst.plugin.dock import RUN, Act, Dock, JobBar, Key, Link
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.files.saving import ask_to_save
from napari_mst.plugin.jobs.folder import Folder, folder_request
from napari_mst.plugin.jobs.worker import Inquirer
from napari_mst.plugin.jobs.workspace import JobState, Request
from napari_mst.plugin.reconstruct.form import (
    DeviceEntry,
    ReconstructionForm,
    device_entries,
    status,
)
from napari_mst.plugin.reconstruct.photo_marks import Marks, draw
from napari_mst.plugin.reconstruct.requests import (
    CLICK_PATCH,
    DRAG_FRAME,
    chart_order,
    light_order,
    patch_order,
    request_of,
    resolve,
    search_order,
)
from napari_mst.plugin.reconstruct.sections import FormRows
from napari_mst.plugin.reconstruct.setting_rows import SETTINGS, Fold
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.plugin.viewer.layers import active_cube_layer
from napari_mst.plugin.viewer.sharing import calling, section, shared
from napari_mst.plugin.viewer.widgets import Paragraph, fill

if TYPE_CHECKING:
    from napari_mst.engine.device import DeviceChoice


def list_devices() -> "Sequence[DeviceChoice]":
    """List the devices that torch finds; the first call is slow, as it imports torch.

    Where there is only a processor, its kernels are made ready, too.
    """
    from napari_mst.engine.device import available_devices
    from napari_mst.engine.fast_paths import native

    devices = available_devices()
    if devices[0].name == "cpu":
        native.prepare_ahead()  # while the user still looks for a photo
    return devices


def survey_of(list_them: "Callable[[], Sequence[DeviceChoice]]" = list_devices) -> Inquirer:
    """Return an inquirer that lists the devices; where *list_them* fails, it gives the reason."""

    def entries(_: object) -> tuple[DeviceEntry, ...]:
        is_collecting = gc.isenabled()
        # The many objects of torch would set off full collections, for which every thread waits:
        # the window stood still for up to 0.9 s.
        gc.disable()
        try:
            return device_entries(list_them())
        except Exception as error:  # noqa: BLE001 (a broken torch raises anything)
            about = f"the automatic device; others could not be listed: {error}"
            return (DeviceEntry("automatic", "auto", about),)
        finally:
            # Together they put all objects among the old ones, without looking at them.
            gc.freeze()
            gc.unfreeze()
            if is_collecting:
                gc.enable()

    return Inquirer(entries)


@cache
def survey() -> Inquirer:
    """Return the survey of this process."""
    # A dock is the first to ask, on the thread of the window, so Qt delivers `ready` there.
    return survey_of()


def remembered() -> Any:
    """Return the settings that napari remembers: an evented record, written when it changes."""
    return section("reconstruction")


def new_form(_: ViewerModel) -> ReconstructionForm:
    """Make a form with the settings of the last session, whose changes are remembered."""
    form = ReconstructionForm()
    recall(form)
    for changed in (form.events.options, form.events.scheduler):
        changed.connect(partial(_remember, form))
    return form


def recall(form: ReconstructionForm) -> None:
    """Give *form* the settings that are remembered, which Preferences may have changed."""
    kept = remembered()
    for row in SETTINGS:
        try:
            form.choose(row.field, row.to_field(getattr(kept, row.field)))
        except ValueError as error:
            show_warning(plain(error))


def _remember(form: ReconstructionForm, *_: object) -> None:
    # All at once: each write goes to a file, and a dock recalls what is kept after it.
    remembered().update({row.field: row.to_widget(form.value(row.field)) for row in SETTINGS})


Order = Callable[..., Request]
"""Orders a job from the form, the viewer and perhaps a clicked place, or says why it cannot."""
FOLDER_HINT = (
    "Make cubes of all photos in a folder, with the settings above. They go into its folder cubes; "
    "those that are there from the same settings stay."
)
SAVE_HINT = (
    "Save the cube that is selected or shown, with its wavelengths, its history, "
    "and the picks on it."
)
DRAW = "Draw a rectangle on the photo, then press Run."
CROWDED = 5
"""Rows of a photo and its model that leave the button Folder to the settings."""
DEVICES = "devices"
"""The question of the survey."""
BUSY = "Another job is running. Wait for its end, then ask again."


class ReconstructDock(Dock):
    """Forwards clicks to the form and the workspace, and draws what they say."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.survey = survey()
        self.form = shared(self.viewer, new_form)
        self.marks = shared(self.viewer, Marks, self.form)
        self.rows = FormRows(self.form, self.viewer)
        self.run_button = QPushButton("Run")
        self.run_button.setToolTip(f"Reconstruct the chosen photo, or its part ({RUN.text}).")
        self.save_button = QPushButton("Save cube ...")
        self.folder_button = QPushButton("Folder ...", toolTip=FOLDER_HINT)
        self.cpu_button = QPushButton(
            "Run on the CPU instead",
            toolTip="Run again on the processor: slower, with the memory of the whole computer.",
        )
        self.fit_button = QPushButton(toolTip="Take the model for photos of this kind.")
        self.bar = JobBar(self.workspace, "Stop the run; at most its estimate is left.")
        self.text, self.details = Paragraph(), Paragraph()
        self.more = Fold(
            self.details,
            "What the run has assumed, and what else there is to know about it.",
            "Details",
        )
        self._lay_out()
        self._wire()

    def _lay_out(self) -> None:
        buttons = fill(QHBoxLayout(), self.run_button, self.folder_button, self.save_button)
        said = (self.text, self.fit_button, self.cpu_button, self.more)
        fill(QVBoxLayout(self), self.rows, buttons, self.bar, *said)
        # The dock is as high as its rows; the room that is left goes to the dock below.
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.cpu_button.hide()
        self._old: JobState | None = None

    def _wire(self) -> None:
        self.run_button.clicked.connect(self.run)
        self.save_button.clicked.connect(self.save_cube)
        self.folder_button.clicked.connect(self.ask_for_folder)
        self.cpu_button.clicked.connect(self._run_on_cpu)
        self.fit_button.clicked.connect(self.form.use_fitting_card)
        self.rows.settings.button.toggled.connect(calling(self._make_room))
        # `activated` comes only from the user: drawing the form must not begin a rectangle.
        self.rows.widgets["part"].activated.connect(self._draw_part)
        orders = {
            "light": light_order,
            # Without a package that finds charts, the frame lies in the middle of the photo.
            "chart": search_order,
            "read": chart_order,
        }
        for name, order in orders.items():
            self.rows.asks[name].clicked.connect(calling(self._start, order))
        self.rows.asks["patch"].clicked.connect(self.find_patch)
        # napari closes a dock without a `closeEvent` (napari#8071). A method, as here, PyQt calls
        # only while its object lives; a partial it would call when that is gone already.
        self.destroyed.connect(self.workspace.cancel)

    def acts(self) -> list[tuple[Key, Act]]:
        """See `Dock`."""
        return [(RUN, self.run)]

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        chosen = self.form.events
        # Other choices do not change the sentence.
        said = (
            chosen.photo,
            chosen.card,
            chosen.weights,
            chosen.devices,
            chosen.options,
            chosen.is_linear,
        )
        return [
            (chosen, self.rows.draw),
            (chosen, self._make_room),
            *((changed, self._show_status) for changed in said),
            (chosen.corners, self._show_frame),
            (remembered().events, self._recall),
            (layers.inserted, self.refresh),
            (layers.removed, self.refresh),
            # Photos are listed in layer order, topmost first.
            (layers.reordered, self.refresh),
            (layers.renamed, self.refresh),
            (self.viewer.layers.selection.events.active, self._show_photos),
            (self.survey.ready, self._list_devices),
            (self.workspace.state_changed, self._show_state),
            (self.workspace.cube_ready, self._on_cube),
            (self.workspace.failed, self._on_failed),
            (self.workspace.cancelled, self.marks.drop_click),
            (attend(self.viewer).changed, self.refresh),
        ]

    def _show_photos(self) -> None:
        self.rows.top.show_photos(self.viewer)

    def refresh(self) -> None:
        """See `Dock`."""
        # Another dock may have changed the form while this one was hidden.
        self.rows.draw()
        self._show_photos()
        has_cube = active_cube_layer(self.viewer) is not None
        self.save_button.setEnabled(has_cube)
        self.save_button.setToolTip(
            SAVE_HINT if has_cube else "There is no cube yet: press Run first."
        )
        # The survey imports torch, so it waits until a dock is seen.
        self._list_devices(DEVICES, self.survey.ask(DEVICES))
        self._show_state(self.workspace.state)

    # ------------------------------------------------------------------------ what the user does

    def run(self) -> bool:
        """Start the reconstruction of the chosen photo; False if nothing started."""
        self.cpu_button.hide()
        return self._start(resolve)

    def ask_for_folder(self) -> None:
        """Ask for a folder of photos, and make their cubes."""
        path = QFileDialog.getExistingDirectory(self, "Folder of photos")
        if path:
            self.run_folder(Path(path))

    def run_folder(self, folder: Path) -> None:
        """Make the cubes of all photos in *folder*, or say why that cannot be."""

        def order(form: ReconstructionForm, _: ViewerModel) -> Request:
            source: Any = Folder(folder)
            return folder_request(request_of(form, source), form.is_linear, form.scheduler)

        self.cpu_button.hide()
        self._start(order)

    def find_patch(self) -> None:
        """Measure the grey patch that the user clicks next."""
        layer = self.form.layer
        if layer is not None:
            self.marks.ask_for_click(layer, partial(self._start, patch_order))
            self._write(CLICK_PATCH)

    def _start(self, order: Order, *places: tuple[float, float]) -> bool:
        """Start the job of *order*, or say why there is none; False if nothing started."""
        try:
            is_started = self.workspace.run(order(self.form, self.viewer, *places))
        except NapariMstError as error:
            self._write(plain(error))
            self.marks.drop_click()
            return False
        if not is_started:
            self._write(BUSY)
        return is_started

    def _show_frame(self, corners: Corners | None) -> None:
        if corners is not None:
            self._write(f"{DRAG_FRAME}: {CHARTS[self.form.chart].corners}.")

    def save_cube(self) -> None:
        """Ask for a file, and save the cube that is shown."""
        ask_to_save(self.viewer)

    def _run_on_cpu(self) -> None:
        self.form.choose("device", "cpu")
        self.run()

    def _draw_part(self) -> None:
        """Let the user draw a rectangle, if that is the part they have chosen."""
        layer = self.form.layer
        if self.form.part == "drawn" and layer is not None:
            draw(self.viewer, layer)
            self._write(DRAW)

    # ------------------------------------------------------------------------ what is drawn

    def _recall(self) -> None:
        recall(self.form)

    def _list_devices(self, _: str, entries: tuple[DeviceEntry, ...] | None) -> None:
        """List the devices, once they are known."""
        if entries and not self.form.is_ready:
            self.form.devices = entries
            self._show_state(self.workspace.state)

    def _show_state(self, state: JobState) -> None:
        can_run = state.is_idle and self.form.is_ready and self.form.layer is not None
        self.run_button.setEnabled(can_run)
        self.folder_button.setEnabled(state.is_idle and self.form.is_ready)
        # Its button is not in the place of Run, where the second click of two would cancel.
        self.bar.show_state(state)
        self._say(state)

    def _say(self, state: JobState) -> None:
        """Show the sentence under the form, and the button that does what it asks for."""
        if state is self._old:
            state = JobState()
        self._write(status(self.form, state))
        self.fit_button.setVisible(bool(self.form.misfit))
        self.fit_button.setText(f"Use {self.form.fitting_card}")

    def _write(self, text: str) -> None:
        """Show the first line of *text*, and fold the others away."""
        sentence, _, details = text.partition("\n")
        self.text.setText(sentence)
        self.text.setToolTip(details)
        self.details.setText(details)
        self._make_room()

    def _make_room(self, _: object = None) -> None:
        """Show Details and Folder where the page still has ten controls at most with them."""
        has_settings = self.rows.settings.button.isChecked()
        is_over = bool(self.details.text()) and self.workspace.state.is_idle
        # Those of a RAW photo or a stack leave no room for Folder, those of an ONNX file for none.
        rows = self.rows.top.count
        self.more.setVisible(is_over and not has_settings and rows <= CROWDED)
        self.folder_button.setVisible(has_settings or rows < CROWDED)

    def _show_status(self) -> None:
        """Say what another choice means, unless a job is speaking."""
        if not self.workspace.is_busy:
            # The end of a job is old news for another photo, and when layers come and go.
            self._old = self.workspace.state
            self._say(self._old)

    def _on_cube(self, cube: SpectralCube, photo: LayerPhoto) -> None:
        notes = cube.provenance.assumptions
        if photo.layer() is self.form.layer:
            self.form.is_far_off = any(note.startswith(OFF_DAYLIGHT) for note in notes)

    def _on_failed(self, error: NapariMstError, request: Request) -> None:
        self.marks.drop_click()
        is_of_gpu = isinstance(error, OutOfMemory) and request.options.device != "cpu"
        has_gpu = {entry.name for entry in self.form.devices} > {"auto", "cpu"}
        self.cpu_button.setVisible(is_of_gpu and has_gpu)
