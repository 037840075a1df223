"""The devices of this computer, listed once for all docks.

The list is made on a thread that outlives docks and windows.
"""

import threading
from collections.abc import Callable, Sequence
from functools import cache

from qtpy.QtCore import QObject, Signal

from napari_mst.plugin.reconstruct.form import Device


def list_devices() -> Sequence[Device]:
    """List the devices that torch finds; the first call is slow, as it imports torch.

    Where there is only a processor, its kernels are made ready, too.
    """
    from napari_mst.engine.device import available_devices
    from napari_mst.engine.forms import native

    devices = available_devices()
    if devices[0].name == "cpu":
        native.prepare_ahead()  # while the user still looks for a photo
    return devices


class DeviceSurvey(QObject):
    """Asks for the devices on a thread of its own; `ended` tells that it knows them, or the error.

    The thread is Python's, which waits for it at its end: Qt's pool would go on after PySide6 has
    taken all objects apart.
    """

    ended = Signal()

    def __init__(self, list_them: Callable[[], Sequence[Device]] = list_devices) -> None:
        super().__init__()
        self.devices: Sequence[Device] = ()
        self.error = ""
        self._list = list_them
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to list the devices, unless that has been done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="napari-mst devices")
            self._thread.start()

    def _work(self) -> None:
        try:
            self.devices = self._list()
        except Exception as error:  # noqa: BLE001 (a broken torch raises anything)
            self.error = f"The devices could not be listed: {error}"
        self.ended.emit()


@cache
def survey() -> DeviceSurvey:
    """Return the survey of this process."""
    # A dock is the first to ask, on the thread of the window, so Qt delivers `ended` there.
    return DeviceSurvey()
