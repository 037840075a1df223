"""The page What if: the cube with other attention weights, as a slider moves."""

from collections.abc import Callable

import numpy as np
import pytest
from napari.components import ViewerModel
from numpy.testing import assert_allclose
from pytestqt.qtbot import QtBot
from tests.plugin.attention.conftest import done, photo_of
from tests.plugin.attention.made_up import BUNDLED, SHAPES

from napari_mst import Reconstructor, load_model
from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.attention.what_if import AttentionChange, HeadEffects
from napari_mst.plugin.attention import what_if_model
from napari_mst.plugin.attention.attention_model import AttentionModel, recording_order
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.attention.what_if_model import WhatIf, WhatIfView
from napari_mst.plugin.jobs.task import Cancel, Task, ignore, run_now
from napari_mst.plugin.jobs.workspace import Recording
from napari_mst.reconstruction.options import RunOptions

BLOCK = "stages.0.bottleneck"


SIDE = 64
"""Of the square whose pixels are at most computed, so that a small photo is a large one."""


@pytest.fixture
def _few_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if_model, "PIXELS", SIDE**2)
    monkeypatch.setattr(what_if_model, "ROUGH_PIXELS", SIDE**2 // 4)


def reconstructor() -> Reconstructor:
    return Reconstructor(load_model(BUNDLED), "cpu")


def exploration_of(viewer: ViewerModel) -> AttentionModel:
    pixels = viewer.layers["photo"].data
    record = AttentionExplorer(reconstructor(), pixels).record()
    model = AttentionModel()
    reference = photo_of(viewer).reference()
    model.choose_run(Recording(record, "photo", BUNDLED, reference, RunOptions("cpu")))
    model.choose(BLOCK, 2)
    return model


def seen_of(state: WhatIf) -> list[WhatIfView]:
    seen: list[WhatIfView] = []
    state.changed.connect(seen.append)
    return seen


@pytest.mark.parametrize(
    ("choices", "change"),
    [
        ({}, AttentionChange()),
        ({"temperature": 4.0}, AttentionChange(temperature=4)),
        ({"weights": "head equal"}, AttentionChange(equal={BLOCK: [2]})),
        ({"weights": "head silent"}, AttentionChange(silent={BLOCK: [2]})),
        (
            {"weights": "all equal"},
            AttentionChange(equal={f"stages.0.{name}": range(n) for name, n in SHAPES.items()}),
        ),
    ],
)
def test_the_spectra_are_those_of_the_network_with_the_change(
    viewer: ViewerModel, choices: dict[str, object], change: AttentionChange
) -> None:
    state = WhatIf(viewer, exploration_of(viewer), run_now)
    seen = seen_of(state)
    state.turn(True)
    state.choose(**choices)
    state.pick(3, 7)
    effects = HeadEffects(reconstructor(), viewer.layers["photo"].data)
    expected = [cube[:, 3, 7] for cube in (effects.unchanged(), effects.changed(change))]
    assert_allclose(seen[-1].spectra, expected, atol=2e-5)
    assert ("changes by 0.0%" in seen[-1].text) == (not choices)
    assert (np.ptp(seen[-1].spectra, axis=0).max() > 1e-4) == bool(choices)


@pytest.mark.usefixtures("_few_pixels")
def test_another_photo_lends_its_matrices_and_a_large_one_is_averaged_down(
    viewer: ViewerModel,
) -> None:
    other = viewer.add_image(np.full((150, 175, 3), (250, 60, 10), np.uint8), rgb=True)
    state = WhatIf(viewer, exploration_of(viewer), run_now)
    seen = seen_of(state)
    state.turn(True)
    state.choose(other=other)
    assert np.ptp(seen[-1].spectra, axis=0).max() > 1e-4
    viewer.layers.remove(other)
    state.choose(temperature=1.0, other=None)
    assert "changes by 0.0%" in seen[-1].text
    viewer.layers["photo"].data = np.full((150, 175, 3), 90, np.uint8)
    state.compute()
    rows, columns, _ = seen[-1].pictures[0].values.shape
    assert 0.9 * SIDE**2 < rows * columns < 1.1 * SIDE**2
    viewer.layers.clear()
    state.compute()
    assert "no longer in the viewer" in seen[-1].text


def test_of_the_choices_during_a_job_only_the_last_is_computed(viewer: ViewerModel) -> None:
    held: list[Task] = []

    def hold(job: Task) -> Cancel:
        held.append(job)
        return ignore

    state = WhatIf(viewer, exploration_of(viewer), hold)
    seen = seen_of(state)
    state.choose(temperature=2.0)
    assert not held  # nothing is computed for a page that is not shown
    state.turn(True)
    for temperature in (3.0, 4.0, 8.0):
        state.choose(temperature=temperature)
    assert len(held) == 1
    run_now(held[0])
    assert len(held) == 2
    state.turn(False)
    run_now(held[1])
    assert len(held) == 2
    assert [view.text.startswith("Computing") for view in seen] == [True, False]


@pytest.mark.usefixtures("_few_pixels")
def test_a_large_photo_is_looked_at_roughly_first_and_refined_when_nothing_else_is_chosen(
    viewer: ViewerModel,
) -> None:
    draw = np.random.default_rng(1)
    viewer.layers["photo"].data = draw.integers(0, 256, (75, 50, 3), dtype=np.uint8)
    held: list[Task] = []
    cancelled: list[Task] = []

    def hold(job: Task) -> Cancel:
        held.append(job)
        return lambda: cancelled.append(job)

    state = WhatIf(viewer, exploration_of(viewer), hold)
    seen = seen_of(state)
    state.turn(True)
    run_now(held.pop())
    assert "first look" in seen[-1].text
    # A choice does not wait until the last one is refined.
    (refining,) = held
    state.choose(temperature=8.0)
    assert cancelled == [refining]
    held.pop().on_end()
    run_now(held.pop())
    rough = seen[-1]
    run_now(held.pop())
    assert not held
    assert "first look" not in seen[-1].text
    assert rough.pictures[1].values.shape == seen[-1].pictures[1].values.shape == (75, 50, 3)
    fine = HeadEffects(reconstructor(), viewer.layers["photo"].data)
    exact = fine.changed(AttentionChange(temperature=8))[:, 37, 25]
    assert_allclose(seen[-1].spectra[1], exact, atol=2e-5)


def test_the_page_follows_the_slider_and_the_photos_that_lend_their_matrices(
    dock: AttentionDock, viewer: ViewerModel, qtbot: QtBot
) -> None:
    dock.form.card = BUNDLED
    assert dock.start(recording_order, dock.form)
    done(dock, qtbot)
    page = dock.what_if

    def until(found: Callable[[], bool]) -> None:
        qtbot.waitUntil(found, timeout=120_000)

    dock.tabs.setCurrentWidget(page)
    until(lambda: "changes by 0.0%" in page.text.text())
    page.temperature.setValue(page.temperature.maximum())
    until(lambda: "changes by 0.0%" not in page.text.text())
    assert len(page.pictures.pictures) == 2
    assert page.number.text() == "8.00"
    before, after = (curve.getData()[1] for curve in page.curves)
    assert not np.allclose(before, after, atol=1e-5)
    page.reset_button.click()
    until(lambda: "changes by 0.0%" in page.text.text())
    dock.tabs.setCurrentIndex(0)
    assert not page.state.is_on

    lent = np.full((20, 30, 3), (250, 60, 10), np.uint8)
    other = viewer.add_image(lent, rgb=True, name="sunset")
    own = [page.weights.itemText(index) for index in range(page.weights.count())]
    assert own[-1] == "those of sunset"
    assert "those of photo" not in own
    page.weights.setCurrentIndex(page.weights.count() - 1)
    assert (page.state.other, page.state.weights) == (other, "kept")
    # A photo that comes or goes leaves the choice as it is.
    viewer.add_image(lent, rgb=True, name="dune")
    assert page.weights.currentText() == "those of sunset"
    assert not page.temperature.isEnabled()
    page.weights.setCurrentIndex(1)
    viewer.layers.remove("dune")
    assert (page.state.other, page.state.weights) == (None, "all equal")
    page.weights.setCurrentIndex(page.weights.count() - 1)
    viewer.layers.remove("sunset")
    assert (page.state.other, page.state.weights) == (None, "kept")
