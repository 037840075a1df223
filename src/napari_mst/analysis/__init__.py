"""Spectra of a cube, and everything made from them: regions, libraries, maps, comparisons."""
