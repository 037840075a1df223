"""Buttons of the tool bar, and menus of which one entry is chosen."""

from collections.abc import Callable, Sequence
from typing import Any

from qtpy.QtGui import QAction, QActionGroup
from qtpy.QtWidgets import QMenu, QToolButton

from napari_mst.plugin.viewer.slots import calling


def button(text: str, tip: str, *, checkable: bool = False) -> QToolButton:
    """A flat button with a menu; one that can be checked has the menu at its arrow."""
    made = QToolButton(text=text, toolTip=tip, checkable=checkable, checked=checkable)
    made.setMenu(QMenu(made))
    modes = QToolButton.ToolButtonPopupMode
    made.setPopupMode(modes.MenuButtonPopup if checkable else modes.InstantPopup)
    return made


def choice(menu: QMenu, titles: Sequence[str], choose: Callable[[int], Any]) -> list[QAction]:
    """Actions of *menu* of which one is chosen, the first at the beginning."""
    group = QActionGroup(menu)
    actions = list[QAction]()
    for number, title in enumerate(titles):
        action = menu.addAction(title)
        action.setCheckable(True)
        action.setChecked(number == 0)
        # "triggered" comes from a person alone; "toggled" would also answer `show`.
        action.triggered.connect(calling(choose, number))
        group.addAction(action)
        actions.append(action)
    return actions


def check(actions: Sequence[QAction], values: Sequence[object], value: object) -> None:
    """Check the action of *value*; a script may have set one that the menu does not list."""
    for action, one in zip(actions, values, strict=True):
        action.setChecked(one == value)
