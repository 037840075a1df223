"""OME-Zarr folders: compressed chunks, for cubes larger than memory."""
