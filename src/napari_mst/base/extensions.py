"""Table rows that other packages add.

A package names one of its modules in the entry-point group of a table: `napari_mst.networks`,
`napari_mst.attention`, `napari_mst.formats` or `napari_mst.maps`. The module is imported as soon as
the table exists, and adds its rows. Specification:
https://packaging.python.org/specifications/entry-points.
"""

import warnings
from functools import cache
from importlib import metadata

_entry_points = cache(metadata.entry_points)


def load_extensions(table: str) -> None:
    """Import the modules of other packages that add rows to *table*; warn of those that cannot."""
    for entry in _entry_points().select(group=f"napari_mst.{table}"):
        try:
            entry.load()
        # A third-party module may raise any error, or exit.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            warnings.warn(
                f"Expected the module {entry.value} to add rows to the {table} of napari-mst, got "
                f"{error!r:.100}. Update the package that has it, or uninstall it.",
                RuntimeWarning,
                stacklevel=2,
            )
