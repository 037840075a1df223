"""Tells if the libraries of the extra `zarr` are there."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

HOW_TO_INSTALL = 'Run: pip install "napari-mst[zarr]"'


def is_installed() -> bool:
    """True if zarr 3 and dask are installed."""
    try:
        return int(version("zarr").partition(".")[0]) >= 3 and find_spec("dask") is not None
    except PackageNotFoundError:
        return False
