"""MATLAB files: version 7.3 (HDF5) is read and written, versions up to 7 are only read.

`cube` is H x W x B in MATLAB, hence (B, W, H) in HDF5, as in the NTIRE, ARAD and ICVL cubes and in
files of the published MST++ toolbox; `bands` holds the wavelengths (nm).
Sources: MathWorks, "MAT-File Level 5 File Format" (the header); hdf5storage, "Storage Format" (the
attributes of 7.3). Letters: B bands, H rows, W columns.
"""
