"""The dock that shows spectra: picks, regions, libraries, maps and comparisons."""
