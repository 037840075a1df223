"""Calibration: the meaning of a photo's values under its light.

`white_patch`        a grey or white patch, or a white frame, gives white level and balance
`balancing`          the white balance of an sRGB photo, estimated
`grey_scale`         grey patches give balance, exposure and tone curve of an sRGB photo
`chart`              ColorCheckers: their patches, and finding them in a photo
`chart_calibration`  `calibrate`: a chart in a photo gives its colours, or camera and light
`corrections`        flat fields, and the gains and colours of a corrected photo
`light`              the light of a photo, estimated by a vision transformer; only this needs torch
"""
