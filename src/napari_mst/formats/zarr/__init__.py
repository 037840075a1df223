"""OME-Zarr 0.5: folders of compressed chunks, for cubes larger than memory.

The first axis is `wavelength`, with a scale if the bands are evenly spaced; all wavelengths are in
our record. Its type is also `wavelength`, a custom type that the specification allows, because
viewers show every band of a `channel` axis as a separate layer. Smaller levels follow the full
size, each the 2 x 2 mean of the previous one, down to a level that fits on a screen. Each chunk has
a Zstandard checksum. Zarr files from other programs, of formats 2 and 3, are read as well.
Source: Open Microscopy Environment, "OME-Zarr specification" 0.5. Letters: B bands, H rows, W
columns.
"""
