"""Refinement: measured reference spectra correct a cube everywhere.

A few measured spectra, or a coarse cube of the same view, reveal the error of the estimate where
they were taken. A Gaussian process spreads the correction over colour, brightness and place, and
states its uncertainty.

`reference_spectrum`  reference spectra, checked and resampled to the bands of a cube
`process`             the Gaussian process: the covariance of two pixels' errors, and predictions
`contradictions`      drops, moves or rescales spectra that contradict the photo or each other
`colour_views`        corrects a cube, or a part of it, and preserves the colours of the photo
`refining`            `refine`: from a cube and reference spectra to a better cube
`coarse_cube`         `refine_with_cube`: the same from a coarse cube, whose pixels are blocks
`suggestions`         spots where a measurement would help most
`refinement_record`   stores the reference spectra in the history of a cube, and reads them back
`intervals`           prediction intervals of refined cubes
"""
