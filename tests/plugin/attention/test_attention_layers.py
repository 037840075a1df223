"""Attention maps lie exactly on their photo, one is seen at a time, and their colours compare."""

from dataclasses import replace

import numpy as np
import pytest
from napari.components import ViewerModel
from numpy.testing import assert_allclose, assert_array_equal
from tests.plugin.attention.conftest import shown_map
from tests.plugin.attention.made_up import make_map, make_record

from napari_mst.attention.overlays import DESCRIPTIONS
from napari_mst.base.errors import AttentionError
from napari_mst.cube import Provenance
from napari_mst.plugin.attention.attention_layers import (
    map_layers,
    map_of,
    show_difference,
    summary,
)
from napari_mst.plugin.viewer.layer_photos import photo_layers


@pytest.mark.parametrize("pitch", [1, 2, 4])
def test_a_map_lies_exactly_on_a_photo_with_scale_rotation_shear_and_translation(
    viewer: ViewerModel, pitch: int
) -> None:
    photo = viewer.layers["photo"]
    layer = shown_map(viewer, make_map("score", pitch))
    rows, columns = layer.data.shape
    for row, column in ((0, 0), (rows - 1, 0), (0, columns - 1), (3, 2)):
        pixels = np.arange(pitch)
        covered = [
            photo.data_to_world((pitch * row + i, pitch * column + j))
            for i in pixels
            for j in pixels
        ]
        assert_allclose(layer.data_to_world((row, column)), np.mean(covered, axis=0), atol=1e-9)


def test_a_map_is_shown_alone_in_the_layer_of_its_kind_unless_that_was_kept(
    viewer: ViewerModel,
) -> None:
    first = shown_map(viewer, make_map("score", 2))
    assert shown_map(viewer, make_map("score", 4)) is first
    assert first.data.shape == (5, 8)
    first.name = "kept"
    second = shown_map(viewer, make_map("score", 1, factor=3))
    other = shown_map(viewer, make_map("attention", 1))
    assert map_layers(viewer) == [first, second, other]
    assert [layer.visible for layer in map_layers(viewer)] == [False, False, True]
    # Layers of a kind have the same limits, the widest of all.
    assert first.contrast_limits == second.contrast_limits
    assert first.contrast_limits[0] == -first.contrast_limits[1] < -1000
    assert other.contrast_limits[0] == 0
    assert shown_map(viewer, make_map("score", 1)) is second
    assert viewer.layers[-1] is second
    assert [layer.visible for layer in map_layers(viewer)] == [False, False, True]
    assert photo_layers(viewer) == [viewer.layers["photo"]]
    assert map_of(second).values is not None


@pytest.mark.parametrize("overlay", ["score", "share", "attention", "sensitivity"])
def test_a_map_that_was_made_is_summed_up_by_what_it_depends_on(overlay: str) -> None:
    text = summary(make_map(overlay, 2), make_record())
    assert text.startswith(f"{DESCRIPTIONS[overlay].title}, stage 1, encoder 5")
    assert ("head 0" in text) == (overlay in ("score", "share"))
    assert ("which is the logit" in text) == (overlay == "score")


def test_the_difference_of_two_selected_maps_is_a_signed_layer_on_their_photo(
    viewer: ViewerModel,
) -> None:
    first = shown_map(viewer, make_map("attention", 2))
    of_other = make_map("attention", 2, factor=3)
    other = shown_map(viewer, replace(of_other, provenance=Provenance(model="another")))
    assert other.name == "Effect of attention: photo, another"
    with pytest.raises(AttentionError, match="Select two maps"):
        show_difference(viewer)
    viewer.layers.selection = {first, other}
    show_difference(viewer)
    made = viewer.layers.selection.active
    assert made is map_layers(viewer)[-1]
    assert_array_equal(made.data, other.data - first.data)
    assert_allclose(made.data_to_world((3, 2)), first.data_to_world((3, 2)))
    assert made.contrast_limits[0] == -made.contrast_limits[1]
