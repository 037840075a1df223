"""How a network is run: on which device, within which memory, exactly, with progress and cancel."""
