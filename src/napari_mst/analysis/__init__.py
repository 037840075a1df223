"""Analysis of spectra: regions, labels, spectral libraries, maps and comparisons."""
