"""Layers, dims, mouse and points of the viewer, as the docks need them."""
