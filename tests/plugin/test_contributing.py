"""The dock of CONTRIBUTING.md is run as it stands there."""

import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from tests.test_contributing import PAGE, example

pytestmark = pytest.mark.skipif(
    not PAGE.exists(), reason="the package is installed without its page"
)


def test_a_dock_of_somebody_else_draws_what_its_state_says(
    cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    dock = example("A dock")["BandCountDock"](cube_viewer)
    qtbot.addWidget(dock)
    with qtbot.waitExposed(dock):
        dock.show()
    assert dock.text.text() == "0 bands"
    cube_viewer.layers.selection.active = cube_viewer.layers["cube"]
    dock.button.click()
    assert dock.text.text() == f"{len(cube_viewer.layers['cube'].data)} bands"
    dock.hide()
