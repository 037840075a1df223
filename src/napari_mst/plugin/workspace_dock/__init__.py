"""The dock "napari-mst": photo, spectra, maps and attention on one page each."""
