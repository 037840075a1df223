"""Progress grows to the end, and a cancel acts at every stage."""

import threading
import time
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from tests.reconstruction.conftest import PHOTO, small_model

from napari_mst import load_model
from napari_mst.base.errors import Cancelled
from napari_mst.base.progress import Progress
from napari_mst.engine.fast_paths import native
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction import setup
from napari_mst.reconstruction.colour_fidelity.correction import correct_colours
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.reconstruction.setup import Setup


@pytest.mark.parametrize("compilers", [0, 1])
def test_preparing_is_said_once_and_only_where_kernels_are_compiled(
    compilers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow machine takes seconds to load them, each time."""
    slow = [0.1]
    monkeypatch.setattr(native, "is_ready", lambda: time.sleep(slow.pop() if slow else 0))
    monkeypatch.setattr(setup, "PATIENCE", 0.01)
    monkeypatch.setattr(native, "_compilers", [Mock(poll=lambda: None)] * compilers)
    told: list[str] = []
    Reconstructor(small_model(), "cpu").warm_up(told.append)
    assert told == [setup.PREPARING] * compilers


def test_cancelled_run_raises_and_leaves_the_model_usable() -> None:
    reconstructor = Reconstructor(small_model(), "cpu")
    with pytest.raises(Cancelled):
        reconstructor.reconstruct(PHOTO, progress=Progress(is_cancelled=lambda: True))
    assert reconstructor.reconstruct(Photo.from_array(PHOTO)).shape == (31, 20, 13)


def test_cancel_acts_while_the_engine_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler cannot be stopped: it goes on alone, and no program waits for it at its end."""
    ended, before = threading.Event(), set(threading.enumerate())
    monkeypatch.setattr(native, "is_ready", lambda: ended.wait(20))
    with pytest.raises(Cancelled):
        Reconstructor(small_model(), "cpu").warm_up(print, Progress(is_cancelled=lambda: True))
    preparing = [
        t for t in set(threading.enumerate()) - before if not isinstance(t, threading.Timer)
    ]
    assert [thread.daemon for thread in preparing] == [True]
    ended.set()


def test_cancel_acts_while_a_photo_is_reduced_for_its_preview(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("napari_mst.reconstruction.pipeline.run", Mock())
    asked = [False, False, True]
    with pytest.raises(Cancelled):
        Reconstructor(small_model(), "cpu").preview(
            PHOTO, Progress(is_cancelled=lambda: asked.pop(0))
        )
    assert asked == []


def test_cancel_acts_while_the_mean_of_an_ensemble_is_added_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One band after the other: all of them take seconds on a large photo."""
    asked = [False, False, True]
    monkeypatch.setattr(Setup, "cube_of", lambda *_: np.zeros((31, 13, 20), np.float32))
    with pytest.raises(Cancelled):
        Reconstructor(small_model(), "cpu").reconstruct(
            PHOTO, progress=Progress(is_cancelled=lambda: asked.pop(0)), ensemble=True
        )
    assert asked == []


@pytest.mark.parametrize(
    ("name", "ensemble", "low", "high"),
    [
        ("mstpp-srgb", False, 0.85, 0.98),
        ("mstpp-srgb", True, 0.98, 0.998),
        ("pixelwise-srgb", False, 0.55, 0.85),
    ],
)
def test_the_correction_of_the_colours_has_its_share_of_the_progress(
    monkeypatch: pytest.MonkeyPatch, name: str, ensemble: bool, low: float, high: float
) -> None:
    """It takes as long after a network of any cost, and after eight runs, as after a short one."""
    shares, begun = [0.0], []

    def correct(*arguments: Any, **options: Any) -> Any:
        begun.append(shares[-1])
        return correct_colours(*arguments, **options)

    monkeypatch.setattr("napari_mst.reconstruction.running.correct_colours", correct)
    Reconstructor(load_model(name), "cpu").reconstruct(PHOTO, shares.append, ensemble=ensemble)
    assert low < begun[0] < high
    assert (shares, shares[-1]) == (sorted(shares), 1)
