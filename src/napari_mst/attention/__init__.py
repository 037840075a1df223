"""The spectral attention of a run.

`blocks` hears it while the network runs, `record` keeps it, `probe` and `overlays` make maps of
it over the photo, `sensitivity` asks which pixels a spectrum depends on, `explorer` brings all of
this together for one photo.
"""
