"""The dock "Hyperspectral reconstruction (MST++)": choose a photo, a model and a device, and run.

Its state is a `ReconstructionForm`, which all docks of a viewer share. The dock forwards clicks to
it and to the workspace, and draws what they say.
"""

from collections.abc import Callable

from napari.components import ViewerModel
from qtpy.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout

from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError, OutOfMemory
from napari_mst.photo.chart_kinds import CHARTS
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.files.saving import ask_to_save
from napari_mst.plugin.jobs.bar import JobBar
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.jobs.workspace import JobState
from napari_mst.plugin.keys import RUN, Act, Key
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.crop import draw
from napari_mst.plugin.reconstruct.devices import survey
from napari_mst.plugin.reconstruct.form import device_entries, resolve, status
from napari_mst.plugin.reconstruct.measuring import (
    CHART_MARKS,
    CLICK_CHART,
    CLICK_PATCH,
    chart_order,
    find_chart_order,
    frames_order,
    light_order,
    patch_order,
)
from napari_mst.plugin.reconstruct.remembering import new_form, recall, remembered
from napari_mst.plugin.reconstruct.rows import FormRows
from napari_mst.plugin.session import workspace_of
from napari_mst.plugin.viewer.layers import quality_layer
from napari_mst.plugin.viewer.marking import Places, ask_for_places
from napari_mst.plugin.viewer.paragraph import Paragraph
from napari_mst.plugin.viewer.photos import LayerPhoto, photo_layers
from napari_mst.plugin.viewer.sharing import shared
from napari_mst.reconstruction.options import RunOptions

DRAW = "Draw a rectangle on the photo, then press Run."
BUSY = "Another job is running. Wait for its end, then ask the photo again."


class OpenDocks:
    """Counts the docks of one viewer that show its job, which ends with the last of them."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._workspace = workspace_of(viewer)
        self._number = 0

    def add(self) -> None:
        """Count one more dock."""
        self._number += 1

    def remove(self) -> None:
        """Count one dock less."""
        self._number -= 1
        if not self._number:
            self._workspace.cancel()


class ReconstructDock(Dock):
    """Forwards clicks to the form and the workspace, and draws what they say."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.survey = survey()
        self.form = shared(self.viewer, new_form)
        self.rows = FormRows(self.form, self.viewer)
        self.run_button = QPushButton("Run", toolTip=RUN.added_to(texts.RUN_HINT))
        self.cancel_button = QPushButton("Cancel", toolTip=texts.CANCEL_HINT)
        self.save_button = QPushButton("Save cube ...", toolTip=texts.SAVE_HINT)
        self.cpu_button = QPushButton("Run on the CPU instead", toolTip=texts.CPU_HINT)
        self.bar = JobBar()
        self.text = Paragraph()
        self._lay_out()
        self._wire()

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        for button in (self.run_button, self.cancel_button, self.save_button):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.addWidget(self.rows)
        layout.addLayout(buttons)
        for widget in (self.bar, self.text, self.cpu_button):
            layout.addWidget(widget)
        # The dock is as high as its rows; the room that is left goes to the dock below.
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.cpu_button.hide()

    def _wire(self) -> None:
        self.run_button.clicked.connect(self.run)
        self.cancel_button.clicked.connect(self.workspace.cancel)
        self.save_button.clicked.connect(self.save_cube)
        self.cpu_button.clicked.connect(self._run_on_cpu)
        # `activated` comes only from the user: drawing the form must not begin a rectangle.
        self.rows.widgets["part"].activated.connect(self._draw_part)
        findings = self.rows.findings
        findings.light.clicked.connect(self.find_light)
        findings.patch.clicked.connect(self.find_patch)
        findings.chart.clicked.connect(self.find_chart)
        self.rows.use_frames.clicked.connect(self.use_frames)
        findings.search.clicked.connect(self.search_chart)
        docks = shared(self.viewer, OpenDocks)
        docks.add()
        # napari closes a dock without a `closeEvent` (napari#8071). A method, as here, PyQt calls
        # only while its object lives; a partial it would call when that is gone already.
        self.destroyed.connect(docks.remove)

    def acts(self) -> list[tuple[Key, Act]]:
        """See `Dock`."""
        return [(RUN, self.run)]

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        chosen = self.form.events
        # The other choices change nothing of what the sentence says.
        said = (chosen.photo, chosen.card, chosen.weights, chosen.devices)
        return [
            *self.rows.links(),
            *((changed, self._show_status) for changed in said),
            (chosen.options, self._on_options),
            (remembered().events, self._recall),
            (layers.inserted, self.refresh),
            (layers.removed, self.refresh),
            # The photos are listed as the layers lie, topmost first.
            (layers.reordered, self.refresh),
            (layers.renamed, self.refresh),
            (self.survey.ended, self._list_devices),
            (self.workspace.state_changed, self._show_state),
            (self.workspace.cube_ready, self._show_quality),
            (self.workspace.failed, self._offer_cpu),
            (attend(self.viewer).changed, self.refresh),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        # Another dock may have changed the form while this one was hidden.
        self.rows.draw()
        self.rows.show_photos(photo_layers(self.viewer))
        # The survey imports torch, so it waits until a dock is seen.
        self.survey.begin()
        self._list_devices()
        self._show_state(self.workspace.state)

    @property
    def is_ready(self) -> bool:
        """Tell whether the devices are known, so that a job can start."""
        return self.form.is_ready

    # ------------------------------------------------------------------------ what the user does

    def run(self) -> bool:
        """Start the reconstruction of the chosen photo; False if nothing started."""
        order = resolve(self.form, self.viewer)
        if isinstance(order, str):
            self.text.setText(order)
            return False
        self.cpu_button.hide()
        return self.workspace.run(order)

    def find_light(self) -> None:
        """Tell the light of the photo, from the photo itself."""
        self._look(light_order(self.form, self.viewer))

    def find_patch(self) -> None:
        """Measure the rectangle that is drawn, or the grey patch that the user clicks next."""
        order = patch_order(self.form, self.viewer)
        if order == CLICK_PATCH:
            self._ask("Grey patch", 1, CLICK_PATCH, self._on_patch)
        else:
            self._look(order)

    def find_chart(self) -> None:
        """Calibrate by the ColorChecker whose corner patches the user clicks next."""
        corners = CHARTS[self.form.chart].corners
        self._ask(CHART_MARKS, 4, f"{CLICK_CHART}: {corners}.", self._on_chart)

    def search_chart(self) -> None:
        """Calibrate by the ColorChecker that the photo shows, found without a click."""
        self._look(find_chart_order(self.form, self.viewer))

    def use_frames(self) -> None:
        """Have the photo divided by its white frame."""
        self._look(frames_order(self.form, self.viewer))

    def _ask(self, name: str, count: int, text: str, take: Callable[[Places], object]) -> None:
        layer = self.form.layer
        if layer is not None:
            ask_for_places(self.viewer, layer, name, count, take)
            self.text.setText(text)

    def _on_patch(self, places: Places) -> None:
        self._look(patch_order(self.form, self.viewer, places))

    def _on_chart(self, places: Places) -> None:
        self._look(chart_order(self.form, self.viewer, places))

    def _look(self, order: Request | str) -> None:
        """Start the job of *order*, or say why there is none."""
        if isinstance(order, str):
            self.text.setText(order)
        elif not self.workspace.run(order):
            self.text.setText(BUSY)

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
            self.text.setText(DRAW)

    # ------------------------------------------------------------------------ what is drawn

    def _recall(self) -> None:
        recall(self.form)

    def _list_devices(self) -> None:
        """List the devices, once they are known."""
        is_known = bool(self.survey.devices or self.survey.error)
        if is_known and not self.form.is_ready:
            self.form.devices = device_entries(self.survey.devices, self.survey.error)
            self._show_state(self.workspace.state)

    def _show_state(self, state: JobState) -> None:
        can_run = state.is_idle and self.form.is_ready and self.form.layer is not None
        self.run_button.setEnabled(can_run)
        self.cancel_button.setEnabled(state.phase == "running")
        self.bar.show_state(state)
        self.text.setText(status(self.form, state))

    def _show_status(self) -> None:
        """Say what another choice means, unless a job is speaking."""
        if not self.workspace.is_busy:
            self.text.setText(status(self.form, JobState()))

    def _on_options(self, options: RunOptions, before: RunOptions) -> None:
        if options.device != before.device:
            self._show_status()

    def _show_quality(self, cube: SpectralCube, photo: LayerPhoto) -> None:
        """Add the layer of how far the colours were off, hidden; what was selected stays so."""
        layer = quality_layer(cube, f"{photo.name} (colours off)", photo.placement_of(cube))
        if layer is None or not self.form.has_quality:
            return
        data, arguments, _ = layer
        selected = self.viewer.layers.selection.active
        self.viewer.add_image(data, **arguments, visible=False)
        self.viewer.layers.selection.active = selected

    def _offer_cpu(self, error: NapariMstError, request: Request) -> None:
        is_of_gpu = isinstance(error, OutOfMemory) and request.options.device != "cpu"
        self.cpu_button.setVisible(is_of_gpu and self.form.has_gpu)
