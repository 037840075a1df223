"""Spectra of a cube, and what is made from them: regions, transforms, libraries, matches, maps and comparisons."""
