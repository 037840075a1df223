"""Units of the spectral axis: the words of `SpectralCube.unit`."""

NANOMETRES = "nm"
"""Unit of the spectral axis of a cube that has wavelengths."""

BAND_INDEX = "band"
"""Unit of the spectral axis of a cube that has no wavelengths: 0, 1, 2, ..."""
