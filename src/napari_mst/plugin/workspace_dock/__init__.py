"""The dock "Workspace": photo, spectra, maps and attention on one page each."""
