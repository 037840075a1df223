"""Calibration: the meaning of a photo's values under its light.

`white_patch`        white level and balance from a grey or white patch, or a white frame
`balancing`          estimated white balance of an sRGB photo
`grey_scale`         balance, exposure and tone curve of an sRGB photo from grey patches
`chart`              ColorCheckers: their patches, and finding them in a photo
`chart_calibration`  `calibrate`: colours, or camera and light, from a chart in a photo
`corrections`        flat fields, gains and colour corrections of photos
`light`              the light of a photo, estimated by a vision transformer; only this needs torch
"""
