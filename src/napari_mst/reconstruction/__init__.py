"""The one way from a photo to a spectral cube, for the dock, the command line and a notebook.

`pipeline` shows the whole walk on one screen. Its steps, from top to bottom, are functions of one
frozen `Job`:

`preparing`        reads a photo, or a part of it, and describes it for the network
`denoising`        denoises a noisy photo before the network sees it
`running`          plans a run, runs it, and runs it again with less memory if need be
`colour_fidelity`  corrects the colours of the result
`cube_history`     records where the cube came from

The steps share `options` (the user's choices), `setup` (a model on its device, the camera and the
orientations) and `job` (one photo on that setup).

`reconstructor` holds the class that people call, `choosing` the functions for a notebook, and
`model_intervals` gives the prediction intervals of an estimate. `lazy_statistics` and `on_demand`
compute a cube where it is read, `ranks` on several machines, and `lighting` finds the light.
"""
