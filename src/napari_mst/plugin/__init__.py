"""The napari plugin: the only place that knows napari and Qt."""
