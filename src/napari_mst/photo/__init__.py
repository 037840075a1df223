"""Photos as they come in, and the cameras that took them.

`photo` holds the photo itself, `files` reads image files, `arrays` takes arrays of any layout,
`values` gives stored numbers their meaning, and `cameras` knows cameras and illuminants.
"""
