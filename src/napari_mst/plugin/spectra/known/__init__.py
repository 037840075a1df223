"""Known spectra in the window: a person says what is true at a pick, and the cube follows.

`preview`    the adapted cube at once, as coarse as a screen needs it
`layers`     the layers of the adapted cube and of the width of its band
`adapter`    finds the photo, and adapts the cube in the background when something else is known
`actions`    what a person does: mark, unmark, open, suggest, before and after; greys, pasted text
"""
