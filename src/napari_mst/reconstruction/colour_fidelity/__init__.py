"""Colour fidelity: spectra are adjusted until they match the colours of the photo, and no further.

Each code value fixes the colour of a pixel to within half a code on either side: a cell. A spectrum
whose colour would round to another code is moved to the edge of its cell by the smallest possible
change. A spectrum within its cell stays unchanged, so rounding is not mistaken for colour (a dead
band). A clipped channel bounds the colour on one side only.

In a noisy photo or a JPEG, single pixels do not show their true colours, and the noise that the
network removed must not return. There, pixels are corrected together: a region becomes lighter,
darker or more colourful if the photo is so on average, but only by the share of the difference that
is not noise (the Wiener estimate). This share is nearly always zero.

`lab/training_log.md` ("What the correction of colours takes for noise") has the measurements behind
the limits.

`correction`   the whole correction, by pixel or by region, built on the modules below
`photo_noise`  decides whether a photo is noisy, how noisy it is, and whether it was a JPEG
`moving`       the smallest change that moves spectra into their cells, by the kernel of
               `engine.kernels.colours` if available
`code_cells`   the colours that a photo allows, compared with those of spectra, and blocks of rows
"""
