"""How a network is run: on which device, within which memory, exactly, with progress and cancel."""

from napari_mst.engine.device import DeviceChoice, available_devices, choose_device
from napari_mst.engine.run import run

__all__ = ["DeviceChoice", "available_devices", "choose_device", "run"]
