"""Known spectra in the window: a person says what is true at a pick, and the cube follows.

`sources`    spectra that become known: a grey tile, pasted numbers, another cube
`preview`    the adapted cube at once, as coarse as a screen needs it
`photo`      finds the photo that a cube was made from
`layers`     the layers of the adapted cube and of the width of its band
`adapter`    adapts the cube in the background whenever something else is known
`actions`    what a person does: mark, unmark, open, suggest, before and after
"""
