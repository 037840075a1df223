"""Refinement: reference spectra that somebody measured correct a cube everywhere.

A few measured spectra, or a coarse cube of the same view, show how far the estimate is off where
they were taken. A Gaussian process spreads the correction over colour, brightness and place, and
says how sure it is.

`reference_spectrum`  reference spectra, checked and resampled to the bands of a cube
`process`             the Gaussian process: the covariance of two pixels' errors, and predictions
`contradictions`      leaves out, moves or divides spectra that contradict the photo or each other
`colour_views`        corrects a part of a cube, or all of it, and keeps the colours of the photo
`refining`            `refine`: from a cube and reference spectra to a better cube
`coarse_cube`         `refine_with_cube`: the same from a coarse cube, whose pixels are blocks
`suggestions`         where a measurement would help most
`refinement_record`   stores the reference spectra in the history of a cube, and reads them back
`intervals`           prediction intervals of refined cubes
"""
