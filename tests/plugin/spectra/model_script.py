"""All that a person does with the spectra workbench, as a script.

It is imported by an interpreter that cannot import Qt.
"""

import tempfile
from pathlib import Path

import numpy as np
from napari.components import ViewerModel
from numpy.typing import NDArray
from tests.plugin.in_viewer import add_cube

from napari_mst.analysis.library import read_spectra
from napari_mst.cube import SpectralCube
from napari_mst.plugin.spectra.spectra_model import SpectraModel

BAND, ROW, COLUMN = np.indices((31, 20, 30), dtype=np.float32)
VALUES = (BAND * 10_000 + ROW * 100 + COLUMN) / 310_000


def pin_move_undo_and_save() -> None:
    """The whole way of a person, as a script without Qt."""
    viewer = ViewerModel()
    add_cube(viewer, SpectralCube(VALUES, np.arange(400.0, 701.0, 10.0)))
    model = SpectraModel(viewer)
    model.attach()
    pin_move_and_undo(model, viewer)
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder))


def drawn(model: SpectraModel) -> list[NDArray[np.float64]]:
    return [line.spectrum.values for line in model.finish().curves.lines]


def pin_move_and_undo(model: SpectraModel, viewer: ViewerModel) -> None:
    assert model.pin((550, 4, 7))
    model.set(window=3)
    assert model.pin((550, 9, 9))
    np.testing.assert_allclose(drawn(model)[0], VALUES[:, 4, 7])
    mean = VALUES[:, 8:11, 8:11].mean(axis=(1, 2))
    np.testing.assert_allclose(drawn(model)[1], mean, rtol=1e-6)
    assert [entry.first.name for entry in model.entries] == ["pick 1", "pick 2"]
    viewer.layers["Picks"].data = [[5, 8], [9, 9]]
    np.testing.assert_allclose(drawn(model)[0], VALUES[:, 5, 8])
    model.undo()
    np.testing.assert_allclose(drawn(model)[0], VALUES[:, 4, 7])


def save(model: SpectraModel, folder: Path) -> None:
    model.rename(model.entries[0], "leaf")
    model.finish()
    model.save_spectra(folder / "spectra.csv")
    saved = read_spectra(folder / "spectra.csv")
    assert [spectrum.name for spectrum in saved] == ["leaf", "pick 2"]
    np.testing.assert_allclose(saved[0].values, VALUES[:, 4, 7], rtol=1e-5)
    assert model.snapshot.text == "2 spectra saved as spectra.csv."
