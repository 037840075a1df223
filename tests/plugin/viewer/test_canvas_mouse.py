"""Who hears of a click on the canvas."""

from functools import partial
from types import SimpleNamespace

from napari.components import ViewerModel
from napari.utils.interactions import mouse_press_callbacks, mouse_release_callbacks

from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.picks import Position


def test_a_click_is_for_everybody_unless_one_wants_it_alone() -> None:
    viewer, heard = ViewerModel(), list[str]()

    def hear(name: str, _: Position) -> None:
        heard.append(name)

    mice = {
        name: CanvasMouse(viewer, on_click=partial(hear, name), is_alone=alone)
        for name, alone in {"first": False, "alone": True, "second": False}.items()
    }
    for mouse in mice.values():
        mouse.connect()
    for expected in (["alone"], ["first", "second"]):
        heard.clear()
        event = SimpleNamespace(type="mouse_press", button=1, position=(3, 4), pos=(30, 40))
        event.modifiers, event.is_dragging = (), False
        mouse_press_callbacks(viewer, event)
        event.type = "mouse_release"
        mouse_release_callbacks(viewer, event)
        assert heard == expected
        mice["alone"].disconnect()
