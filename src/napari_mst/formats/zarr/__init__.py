"""OME-Zarr 0.5: folders of compressed chunks, for cubes larger than memory.

The first axis is `wavelength` (of type channel), with a scale where the bands are evenly spaced;
all wavelengths are in our record. Each chunk carries the checksum of Zstandard. Zarr files of other
programs, of format 2 and 3, are read as well.
Source: Open Microscopy Environment, "OME-Zarr specification" 0.5.
Letters: B bands, H rows, W columns.
"""
