"""A slot that calls a method with arguments of ours: the same under every binding of Qt.

PyQt6 leaves out what a slot does not take. PySide6 does not, where the slot is a
`functools.partial`: a button's "clicked" then hands its state to a method that does not expect it,
or hands nothing to one that does. PySide6 also keeps a lambda or a partial, with all that it holds,
for as long as the widget that it is connected to: a widget that is held by such a slot of its own
is never freed.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod


def calling(method: Callable[..., object], *arguments: Any) -> Callable[..., None]:
    """Make a slot that calls *method* with *arguments*, and ignores those of the signal.

    It does not keep the object of *method* alive, and does nothing once that is gone.
    """
    reference = WeakMethod(method)

    def slot(*_: object) -> None:
        present = reference()
        if present is not None:
            present(*arguments)

    return slot
