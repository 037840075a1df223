"""The engine runs a network: the device, the memory, exactness, progress and cancel."""
