"""Estimates of the spectrum of one colour, made on a thread of their own for all docks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_mst.plugin.jobs.worker import sentence_of
from napari_mst.plugin.teaching.lesson import Codes
from napari_mst.spectra.spectrum import Spectrum

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor

MODEL = "pixelwise-srgb"
"""The network that sees one pixel at a time: there is nothing else to see of one colour."""


class Estimator(QObject):
    """Estimates the spectrum of the colour that was asked for last.

    `known` tells the codes and their spectrum, `failed` a sentence.
    """

    known = Signal(object, object)
    failed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[Codes, Spectrum] = {}
        self._wanted: Codes | None = None
        # Python waits for its thread at the end; Qt's pool would go on after PySide6 has taken all
        # objects apart.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="napari-mst metamers")

    def ask(self, codes: Codes) -> Spectrum | None:
        """Return the estimate for a photo's *codes*; None if it is to come by `known`."""
        self._wanted = codes
        if codes not in self._found:
            self._thread.submit(self._work, codes)
        return self._found.get(codes)

    def _work(self, codes: Codes) -> None:
        # Who goes through the chart with the arrow keys passes over most of it.
        if codes != self._wanted or codes in self._found:
            return
        try:
            self._found[codes] = estimated(codes)
        except Exception as error:  # noqa: BLE001 (the last place that can turn it into a sentence)
            # Python lets no engine start while the program ends, and nobody is left to be told.
            if threading.main_thread().is_alive():
                self.failed.emit(f"There is no estimate. {sentence_of(error)}")
        else:
            self.known.emit(codes, self._found[codes])


def estimated(codes: Codes) -> Spectrum:
    """Reconstruct a photo of one pixel. The first call is slow, as it imports torch."""
    cube = _reconstructor().reconstruct(np.array(codes, dtype=np.uint8)[None, None])
    return Spectrum(cube.wavelengths, cube.spectrum(0, 0), name=f"estimated by {MODEL}")


@cache
def _reconstructor() -> "Reconstructor":
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    return Reconstructor(load_model(MODEL), "cpu")


@cache
def estimator() -> Estimator:
    """Return the estimator of this process."""
    # A dock is the first to ask, on the thread of the window, so Qt delivers `known` there.
    return Estimator()
