"""The ground of the house, which knows no cube and no photo.

`errors`       the errors that are raised on purpose, and checks that raise them
`progress`     reports progress and cancels
`memory`       how much memory is free
`arrays`       types of arrays
`extensions`   packages of other people that add rows to our tables
`atomic_save`  files that are saved whole or not at all
`sandbox`      functions that read untrusted files in a process of their own
"""
