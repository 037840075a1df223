"""Shared foundations, independent of cubes and photos.

`errors`       errors raised on purpose, and the checks that raise them
`progress`     reports progress and cancels
`memory`       free memory, and the check that a task fits into it
`arrays`       types of arrays
`extensions`   third-party packages that add rows to our tables
`atomic_save`  files that are saved whole or not at all
`sandbox`      untrusted files are decoded in a separate process
"""
