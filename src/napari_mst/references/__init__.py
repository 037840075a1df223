"""Refinement: the spectra that a person knows correct the estimate everywhere.

A few measured spectra, or a coarse cube of the same view, show how far the estimate is off where
they were taken. A Gaussian process spreads the correction over colour, brightness and place, and
says how sure it is.

`reference_spectrum`  the spectra that a person knows, checked and brought to the bands of a cube
`process`     how much the errors of two pixels have in common, and what reference spectra so
predict
              about all others
`checking`    compares reference spectra with the photo and each other, and leaves out, moves or
divides
              wrong ones
`parts`       moves a part of a cube, or all of it, and back to the colours of the photo
`refining`    the way from a cube and reference spectra to a better cube
`companion`   the same from a coarse cube of the view, whose pixels are blocks
`suggesting`  where a measurement would help most
`memory`      stores the reference spectra in the history of a cube, and reads them back
`bands`       prediction intervals of refined cubes
`calibrating` the colours of a photo from a chart in it
"""
