"""A scene with its truth, photo and estimate in a viewer, and what a person does there.

It is imported by an interpreter that cannot import Qt.
"""

from dataclasses import replace

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from tests.plugin.in_viewer import add_cube, cube_in, picks_in

from napari_mst.analysis.library import colour_checker
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.colour import linear_to_srgb, render_srgb, srgb_response
from napari_mst.photo.photo import Photo
from napari_mst.plugin.spectra.rows import curve_of
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer.picks import marks_of
from napari_mst.reconstruction.colour_fidelity.correction import correct_colours
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refining import refine

WAVELENGTHS = np.arange(400.0, 701.0, 10.0)
SIZE = (24, 32)
SPOTS = ((4, 5), (18, 6), (11, 25))


def true_data() -> np.ndarray:
    """Some materials side by side, under light that falls off; (31, 24, 32)."""
    spectra = np.stack([one.values for one in colour_checker()[:12]])
    rows, columns = np.indices(SIZE)
    materials = spectra[(rows // 8) * 4 + columns // 8]
    light = 1 - 0.01 * (rows / 2 + columns / 3)
    return np.moveaxis(materials * light[..., None], -1, 0).astype(np.float32)


def estimated(truth: np.ndarray) -> SpectralCube:
    """An estimate that is off by a smooth curve, with the colours of the photo of the truth."""
    off = 1 + 0.25 * np.sin(WAVELENGTHS / 35)
    data = (truth * off[:, None, None]).astype(np.float32)
    correct_colours(data, Photo.from_array(photo_of(truth)), srgb_response(WAVELENGTHS))
    past = Provenance(model="fake", correction="colours corrected", source="photo")
    return SpectralCube(data, WAVELENGTHS, provenance=past)


def photo_of(truth: np.ndarray) -> np.ndarray:
    """The photo (24, 32, 3) of the truth."""
    linear = np.clip(render_srgb(truth, WAVELENGTHS), 0, 1)
    return np.moveaxis(np.rint(255 * linear_to_srgb(linear)).astype(np.uint8), 0, -1)


def with_scene() -> ViewerModel:
    """A viewer with the truth (hidden), the photo, and the estimate, which is selected."""
    viewer = ViewerModel()
    truth = SpectralCube(true_data(), WAVELENGTHS)
    add_cube(viewer, truth, "truth").visible = False
    viewer.add_image(photo_of(truth.data), rgb=True, name="photo")
    add_cube(viewer, estimated(truth.data), "estimate")
    return viewer


def model_of(viewer: ViewerModel) -> SpectraModel:
    model = SpectraModel(viewer)
    model.attach()
    model.finish()
    return model


def pin(model: SpectraModel, *spots: tuple[int, int]) -> None:
    for row, column in spots:
        assert model.pin((550, row, column))
    model.finish()


def error(layer: Image) -> float:
    truth = true_data()
    return float(np.abs(np.asarray(layer.data) / truth - 1).mean())


def mark_refine_suggest_and_undo() -> None:
    """The whole way of a person, as a script without Qt."""
    viewer = with_scene()
    model = model_of(viewer)
    estimate, truth = viewer.layers["estimate"], viewer.layers["truth"]
    model.references.suggest(3)
    snapshot = model.finish()
    assert snapshot.text == "Measure 3 numbered spots, then say what they are."
    assert [entry.first.name for entry in model.chosen] == ["spot 1", "spot 2", "spot 3"]
    assert np.ravel(picks_in(viewer).text.values).tolist() == ["1", "2", "3"]

    model.references.mark(model.chosen, truth)
    snapshot = model.finish()
    refined = viewer.layers["estimate refined"]
    assert error(refined) < 0.6 * error(estimate)
    assert snapshot.text.startswith("Refined to 3 reference spectra, ")
    assert (refined.visible, estimate.visible) == (True, False)
    assert [str(symbol) for symbol in picks_in(viewer).symbol] == ["diamond"] * 3
    assert not any(np.ravel(picks_in(viewer).text.values))
    expected = refine(cube_in(estimate), viewer.layers["photo"].data, references_in(model, viewer))
    np.testing.assert_array_equal(refined.data, expected.data)

    model.references.show_after(False)
    assert not model.finish().references.is_after
    assert viewer.layers.selection.active is estimate
    model.references.show_after(True)
    assert model.finish().references.is_after

    model.undo()
    snapshot = model.finish()
    assert refined not in viewer.layers
    assert estimate.visible
    assert not snapshot.references.has_refined
    model.undo()
    model.finish()
    assert len(picks_in(viewer).data) == 0


def marks_in(viewer: ViewerModel) -> list[str]:
    """The names of what is known of the picks; "" where nothing is."""
    marks = marks_of(picks_in(viewer))
    return ["" if mark is None else curve_of(mark).name for mark in marks]


def references_in(model: SpectraModel, viewer: ViewerModel) -> list[ReferenceSpectrum]:
    """What is known of the picks, as the Python function takes it."""
    places = picks_in(viewer).data.astype(int).tolist()
    pairs = zip(places, model.entries, strict=True)
    return [
        replace(entry.mark, row=row, column=column)
        for (row, column), entry in pairs
        if entry.mark is not None
    ]
