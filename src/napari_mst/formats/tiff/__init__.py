"""TIFF stacks of bands in the flavours of GDAL, ImageJ and OME."""
