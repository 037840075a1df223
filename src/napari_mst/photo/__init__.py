"""Photos as stored, and the cameras that took them.

`photo` holds the photo itself, `files` reads image files, `values` accepts arrays of any layout and
interprets stored numbers, `cameras` has the cameras, and `lights` the illuminants.
"""
