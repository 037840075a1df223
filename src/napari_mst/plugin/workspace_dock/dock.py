"""The dock "Workspace": photo, spectra, maps and attention, and the next step from each."""

from typing import Any

from napari.components import ViewerModel
from qtpy.QtCore import QSize, Qt, QUrl
from qtpy.QtGui import QDesktopServices
from qtpy.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.spectra.bench_dock import SharedBench
from napari_mst.plugin.viewer.remembered import PLUGIN
from napari_mst.plugin.viewer.widgets import Paragraph
from napari_mst.plugin.workspace_dock.pages import (
    NO_STEP,
    PAGES,
    ScrolledPage,
    Step,
    new_page,
    next_step,
)

TITLE = "Workspace"
"""The name of this dock in `napari.yaml`."""
DOCUMENTATION = "https://github.com/napari-mst/napari-mst/blob/main/docs/window.md"
HELP_HINT = "Read about this page in the documentation, in your browser."
TEAR_HINT = "Open this page as a dock of its own, beside this one; both show the same."
SIZE = (400, 620)
"""Width and height, in pixels, that the dock asks for."""


class WorkspaceDock(Dock):
    """Shows one page at a time; all that the pages know is shared with the docks of their own."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.bench = SharedBench.of(self.viewer).bench
        self.pages: dict[str, ScrolledPage] = {}
        self.tabs = QTabBar(expanding=False, drawBase=False, usesScrollButtons=False)
        self.tear_button = _tool_button("\N{NORTH EAST ARROW}", TEAR_HINT)
        self.help_button = _tool_button("?", HELP_HINT)
        self.stack = QStackedWidget()
        # Else napari adds a space below it, and a larger one for each dock that was opened before.
        self.stack.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.step_text = Paragraph()
        self.step_button = QPushButton()
        self._step_row = QWidget()
        self._step = NO_STEP
        self._lay_out()
        self.tabs.currentChanged.connect(self._on_tab)
        self.tear_button.clicked.connect(self.tear_off)
        self.help_button.clicked.connect(self.open_help)
        self.step_button.clicked.connect(self._take_step)
        self.go_to("photo")

    def _lay_out(self) -> None:
        for page in PAGES.values():
            self.tabs.addTab(page.title)
            self.tabs.setTabToolTip(self.tabs.count() - 1, page.tip)
        head = QHBoxLayout()
        head.setSpacing(2)
        head.addWidget(self.tabs)
        head.addStretch()
        head.addWidget(self.tear_button)
        head.addWidget(self.help_button)
        next_row = QHBoxLayout(self._step_row)
        next_row.setContentsMargins(3, 0, 3, 0)
        next_row.addWidget(self.step_text, stretch=1)
        next_row.addWidget(self.step_button, alignment=Qt.AlignmentFlag.AlignVCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self.stack, stretch=1)
        layout.addWidget(self._step_row)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        return [
            (layers.inserted, self.refresh),
            (layers.removed, self.refresh),
            (attend(self.viewer).changed, self.refresh),
            (self.bench.changed, self.refresh),
            (self.workspace.state_changed, self.refresh),
            (self.workspace.recorded, self.refresh),
        ]

    def refresh(self, _: object = None) -> None:
        """Offer the next step, if it is another one."""
        step = next_step(self.page, self.viewer, self.bench, self.workspace)
        if step != self._step or self._step_row.isHidden() != (step is NO_STEP):
            self._offer(step)

    def _offer(self, step: Step) -> None:
        self._step = step
        self._step_row.setVisible(step is not NO_STEP)
        self.step_text.setText(step.text)
        if step.page:
            page = PAGES[step.page]
            self.step_button.setText(f"{page.title} \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")
            self.step_button.setToolTip(page.tip)

    # ------------------------------------------------------------------------ what the user does

    @property
    def page(self) -> str:
        """The page that is shown."""
        return list(PAGES)[self.tabs.currentIndex()]

    def go_to(self, name: str) -> None:
        """Show the page *name*, which is made when it is shown first."""
        self.tabs.setCurrentIndex(list(PAGES).index(name))
        if name not in self.pages:
            self.pages[name] = new_page(PAGES[name], self.viewer, self)
            self.stack.addWidget(self.pages[name])
        self.stack.setCurrentWidget(self.pages[name])
        self.refresh()

    def tear_off(self) -> Any:
        """Open the page that is shown as a dock of its own."""
        window = getattr(self.viewer, "window", None)
        if window is None:
            return None
        return window.add_plugin_dock_widget(PLUGIN, PAGES[self.page].dock)

    def open_help(self) -> None:
        """Open the documentation of the page that is shown."""
        QDesktopServices.openUrl(QUrl(f"{DOCUMENTATION}#{self.page}"))

    def _on_tab(self, _: int) -> None:
        self.go_to(self.page)

    def _take_step(self) -> None:
        self.go_to(self._step.page)


def _tool_button(text: str, tip: str) -> QToolButton:
    button = QToolButton(text=text, toolTip=tip, autoRaise=True)
    # By default a tool button takes the focus only from Tab, and on a Mac from nothing.
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button
