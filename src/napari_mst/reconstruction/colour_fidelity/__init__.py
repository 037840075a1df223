"""Colour consistency: spectra are moved until they show the colours of the photo, and no further.

A photo fixes the colour of a pixel to within one code: a cell of half a code to each side. A
spectrum that a camera would have given another code is moved, by the smallest change that does it,
to the edge of the cell. A spectrum that lies within its cell stays as it is, so that rounding is
not taken for colour (a dead band). A clipped channel bounds the colour on one side only.

A noisy photo, or a JPEG, does not show its colours pixel by pixel, and what the network has
smoothed away must not come back. Its pixels show their colour together: a region becomes lighter,
darker or more colourful as the photo says in the mean, but only by the share of the difference that
is no noise (the Wiener estimate). Nearly always that share is zero.

`lab/training_log.md` ("What the correction of colours takes for noise") shows the measurements
behind the limits.

`correction`   the whole correction, pixel by pixel or region by region, which calls all below
`photo_noise`  decides whether a photo is noisy, and by how much, and whether it was a JPEG
`moving`       the smallest change that moves spectra into their cells, by the kernel of
               `engine.kernels.colours` where there is one
`code_cells`   the colours that the photo allows, its spectra beside them, and blocks of rows
"""
