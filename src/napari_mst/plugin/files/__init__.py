"""Opening and saving in napari: readers, writers, dialogs and samples."""
