"""Tells if the libraries of the extra `zarr` are there."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from napari_mst.errors import SaveError

HOW_TO_INSTALL = 'Run: pip install "napari-mst[zarr]"'


def check_installed() -> None:
    """Raise `SaveError` unless zarr 3 and dask are installed."""
    if not is_installed():
        raise SaveError(f"Expected zarr 3 for Zarr files, got none. {HOW_TO_INSTALL}")


def is_installed() -> bool:
    """True if zarr 3 and dask are installed."""
    try:
        return int(version("zarr").partition(".")[0]) >= 3 and find_spec("dask") is not None
    except PackageNotFoundError:
        return False
