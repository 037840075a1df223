"""The spectra workbench from a script: everything that the dock does, without Qt."""

import gc

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer import picks


@pytest.fixture
def model(cube_viewer: ViewerModel) -> SpectraModel:
    model = SpectraModel(cube_viewer)
    model.attach()
    return model


def shown(model: SpectraModel) -> list[str]:
    return [line.spectrum.name for line in model.finish().curves.lines]


def test_rows_of_a_layer_that_was_just_deleted_can_still_be_changed(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    model.pin((550, 5, 1))
    cube_viewer.add_shapes(np.array([[3, 4], [3, 9], [8, 9], [8, 4]]), shape_type="polygon")
    cube_viewer.add_labels(np.eye(20, 30, dtype=int), name="cells")
    model.finish()
    entries = model.entries
    assert [entry.first.name for entry in entries] == ["pick 1", "Shapes 1", "cells 1"]
    for name in ("Picks", "Shapes", "cells"):
        cube_viewer.layers.remove(name)
    gc.collect()
    for entry in entries:
        model.rename(entry, "other")
        model.recolour(entry, "#102030")
    model.show(entries, False)
    model.delete(entries)
    assert shown(model) == []


def test_an_error_is_shown_until_the_next_action(model: SpectraModel) -> None:
    for act in (lambda: model.set(window=3), lambda: model.pin((550, 4, 7))):
        with model.reported():
            model.over_pages()
        assert model.finish().problem.startswith("Select a pick on the cubes of a stack")
        with model.reported():
            act()
        assert model.finish().problem == ""


def test_a_click_pins_and_selects_while_it_is_meant_to(
    model: SpectraModel, cube_viewer: ViewerModel
) -> None:
    model.set(is_picking=False)
    model.click((550, 4, 7))
    assert picks.picks_layer(cube_viewer) is None
    model.set(is_picking=True)
    for number, row in enumerate((4, 5), 1):
        model.click((550, row, 7))
        # The newest pick is what the next command means.
        model.finish()
        assert [entry.first.name for entry in model.chosen] == [f"pick {number}"]
    model.point_at((550, 6, 7))
    assert model.pin_here()
    model.finish()
    assert [entry.first.name for entry in model.chosen] == ["pick 3"]
    assert not model.pin_here()
    model.click((550, 4, 7))  # again
    model.finish()
    assert [entry.first.name for entry in model.chosen] == ["pick 1"]
    assert shown(model) == ["pick 1", "pick 2", "pick 3"]
