"""OME-Zarr 0.5: folders of compressed chunks, for cubes larger than memory.

The first axis is `wavelength`, with a scale where the bands are evenly spaced; all wavelengths are
in our record. Its type is `wavelength` as well, one of our own, which the specification allows: of
an axis of type `channel` viewers make a layer for each band. Beside the full size lie smaller
levels, each the 2 x 2 mean of the previous one, until a level fits on a screen. Each chunk carries
the checksum of Zstandard. Zarr files of other programs, of format 2 and 3, are read as well.
Source: Open Microscopy Environment, "OME-Zarr specification" 0.5. Letters: B bands, H rows, W
columns.
"""
