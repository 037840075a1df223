"""Colour consistency: the spectra of a cube are moved until they show the colours of the photo."""
