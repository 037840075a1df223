"""The one way that the dock, the command line and a notebook go: photo in, spectral cube out.

`pipeline` shows the whole walk on one screen. Its steps, from top to bottom, are functions of one
frozen `Job`:

`preparing`    a photo, or a part of it, read and described for the network
`denoising`    a noisy photo is denoised, before the network sees it
`running`      plan a run, run it, and run it again with less memory if need be
`correcting`   correct the colours of the result (`consistency` explains how)
`provenance`   say where the cube came from

What the steps share: `options` (what the user chose), `setup` (a model on its device, given the
camera), `job` (one photo on that setup) and `orientations` (its flips and transposes).

`reconstructor` holds the class that people call, `choosing` the functions for a notebook, and
`prediction_intervals` says how sure an estimate is.
"""
