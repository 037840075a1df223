"""Spectral Python, the library that computes maps: optional, and loaded on first use.

T. Boggs, Spectral Python, https://www.spectralpython.net.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from napari_mst.errors import SpectrumError


def import_spectral() -> Any:
    """The module `spectral`. Raises `SpectrumError` if it is not installed."""
    try:
        import spectral
    except ImportError:
        raise SpectrumError(
            'Expected spectral for maps, got none. Run: pip install "napari-mst[spectra]"'
        ) from None
    return spectral


@contextmanager
def quiet_spectral() -> Iterator[None]:
    """Silence the library: each call of `spectral.kmeans` writes two lines to standard error."""
    logger = logging.getLogger("spectral")
    level_before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level_before)
