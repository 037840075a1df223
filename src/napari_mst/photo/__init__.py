"""Photos as they come in, and the cameras that took them.

`photo` holds the photo itself, `files` reads image files, `values` takes arrays of any layout and
gives stored numbers their meaning, `cameras` knows cameras, and `lights` illuminants.
"""
