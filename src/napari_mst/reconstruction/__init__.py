"""From a photo to a spectral cube: the one pipeline of the dock, the command line and notebooks.

`pipeline` shows the whole process on one screen. Its steps are functions of one frozen `Job`:

`preparing`        reads a photo, or a part of it, and describes it for the network
`denoising`        denoises a noisy photo before the network sees it
`running`          plans a run, runs it, and repeats it with less memory if necessary
`colour_fidelity`  corrects the colours of the result
`cube_history`     records where the cube came from

The steps share `options` (the user's choices), `setup` (a model on its device, the camera and the
orientations) and `job` (one photo on that setup).

`reconstructor` holds the public class, `choosing` a shortcut for notebooks. `model_intervals` gives
the prediction intervals of an estimate. `lazy_statistics` and `on_demand` compute a cube where it
is read, `ranks` computes it on several machines, and `lighting` estimates the light.
"""
