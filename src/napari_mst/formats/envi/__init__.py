"""ENVI rasters and spectral libraries: numbers in one file, a text header beside it."""
