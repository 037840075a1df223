"""A cube of a large photo in the window: first an estimate, then exact where it is seen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from napari.layers import Image
from numpy.testing import assert_array_equal
from tests.plugin.conftest import Desk, make_cube
from tests.plugin.in_viewer import cube_in, picture_in

from napari_mst import Reconstructor, load_model
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import Lazy, cached
from napari_mst.cube.pictures import composite_of, paint
from napari_mst.engine.plan import Plan
from napari_mst.plugin.jobs import workspace
from napari_mst.plugin.jobs.task import Reports
from napari_mst.plugin.jobs.workspace import EXACT, Request, reconstruct_with_previews
from napari_mst.plugin.pictures.sharpening import Sharpener
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.plugin.viewer.picks import pixel_under
from napari_mst.reconstruction import lazy_statistics, on_demand

BAND = (15, slice(0, 20), slice(0, 30))


def opened(error: float = 0.0) -> SpectralCube:
    """A cube of 20 x 30 pixels that is read in tiles of 8 x 8, with a coarse one of 5 x 6."""
    cube = make_cube()
    numbers = cube.data + error

    def read(*ranges: range) -> Any:
        return numbers[tuple(slice(at.start, at.stop, at.step) for at in ranges)]

    lazy = cached(Lazy("a", cube.shape, np.float32, read), (31, 8, 8), 4)
    lazy.coarse = np.full((31, 5, 6), 0.5, np.float32)
    history = replace(cube.provenance, estimate_error=error)
    return replace(cube, data=lazy, provenance=history)


def drawn(layer: Image) -> Any:
    """The band of *layer* as napari draws it at its finest level."""
    level = layer.data[0]
    return np.asarray(level[:, BAND[1], BAND[2]][BAND[0], :, :])


@pytest.mark.usefixtures("as_pictures")
def test_an_estimate_is_drawn_refined_where_it_is_seen_and_replaced(
    desk: Desk,
) -> None:
    desk.job.previews = [opened(error=0.01)]
    Sharpener.of(desk.viewer)
    desk.begin(layers=3)
    layer: Image = desk.viewer.layers["photo (fake) (estimate ±1.0%)"]
    assert layer.data.shape == (31, 20, 30)
    assert_array_equal(drawn(layer), 0.5)
    exact = make_cube().data[BAND]
    desk.qtbot.waitUntil(lambda: bool((drawn(layer) == exact + np.float32(0.01)).all()))
    assert cube_in(layer).provenance.is_estimate
    # The picture is at first that of the coarse cube, and painted finely where it is seen.
    picture = picture_in(desk.viewer)
    cube = cube_in(layer)
    fine = paint(cube, composite_of(replace(cube, data=cube.data.coarse)))
    assert [level.shape[:2] for level in picture.data] == [(20, 30), (10, 15), (5, 6)]
    assert np.ptp(fine) > 0
    desk.qtbot.waitUntil(lambda: np.array_equal(picture.data[0][:, :, :], fine))
    sides = layer._extent_augmented.world[:, 1:]
    assert_array_equal(picture._extent_augmented.world, sides)
    assert pixel_under(desk.viewer, (550, 19.4, 29.4)) == (layer, 19, 29)
    request = desk.dock.workspace._request
    assert request is not None
    desk.dock.workspace.cube_ready.emit(opened(), request.source)
    assert layer.name == "photo (fake)"
    assert not cube_in(layer).provenance.is_estimate
    desk.qtbot.waitUntil(lambda: bool((drawn(layer) == exact).all()))


def test_a_cancel_leaves_the_estimate_which_says_so(desk: Desk) -> None:
    desk.job.previews = [opened(error=0.01)]
    desk.begin(layers=2)
    desk.dock.bar.cancel_button.click()
    desk.qtbot.waitUntil(lambda: not desk.dock.workspace.is_busy)
    assert desk.names == ["photo", "photo (fake) (estimate ±1.0%)"]


def test_the_job_estimates_then_makes_exact_what_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_demand, "COARSE_FROM", 1)
    monkeypatch.setattr(lazy_statistics, "SAMPLE", 90_000)
    previews, said, records = list[SpectralCube](), list[str](), list[Any]()
    reports = Reports(say=said.append, preview=previews.append, record=records.append)
    small = np.random.default_rng(2).integers(40, 216, (5, 5, 3), dtype=np.uint8)
    photo = np.kron(small, np.ones((64, 64, 1), np.uint8))
    request = Request(LayerPhoto.of(Image(photo, rgb=True), (0, 0)), "mstpp-srgb", extent="seen")
    cube = reconstruct_with_previews(request, reports)
    whole = Reconstructor(load_model("mstpp-srgb")).reconstruct(photo)
    off = np.abs(cube.data[:, 200, 17] - whole.data[:, 200, 17]).max() / whole.data.max()
    assert off < 5e-7
    (estimate,) = previews
    assert estimate.provenance.is_estimate
    assert not cube.provenance.is_estimate
    assert "Estimate, off by up to" in said[-1]
    assert request.lines(cube)[0] == EXACT
    assert len(records) == 1
    assert isinstance(cube.data, Lazy)
    assert cube.data.coarse is not None


@pytest.mark.parametrize(
    ("extent", "memory", "disk", "opens"),
    [
        ("auto", 3, 0, False),
        ("auto", 6, 0, True),
        ("auto", 1, 9, True),
        ("whole", 6, 9, False),
        ("seen", 1, 0, True),
    ],
)
def test_automatic_opens_what_would_take_half_of_the_memory(
    extent: Any, memory: int, disk: int, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "free_host_memory", lambda: 10)
    source: Any = None
    request = Request(source, "mstpp-srgb", extent=extent)
    assert request.opens(Plan(memory=memory, disk=disk)) == opens
