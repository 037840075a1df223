"""The one way that the dock, the command line and a notebook go: photo in, spectral cube out.

Its steps, from top to bottom, are functions of one frozen `Job`:

`setup`       a model on its device, told the camera
`job`         a photo, or a part of it, read and prepared for the network
`precision`   how far 16 bits will be off, measured on a sample
`running`     plan, run, and run again with less memory if need be
`correcting`  the colours of the cube
`history`     where it came from

`preparing` waits for what is compiled once on a machine; `reconstructor` is the class that people call.
"""
