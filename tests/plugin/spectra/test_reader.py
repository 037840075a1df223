"""The reader of cubes, with work that is done when the test says so."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.plugin.spectra.later import Later

from napari_mst.base.progress import Progress
from napari_mst.plugin.spectra.reader import Reader, ReadTask


def task(key: str, read: Callable[[], Any] | None = None, *, is_large: bool = False) -> ReadTask:
    def run(_: Progress) -> Any:
        return f"spectrum of {key}" if read is None else read()

    return ReadTask(key, slot=key[0], run=run, is_large=is_large)


def test_a_result_is_kept_as_long_as_somebody_asks_for_it() -> None:
    reader = Reader()
    reader.ask([task("a1")])
    assert reader.results == {"a1": "spectrum of a1"}
    reader.ask([task("a1"), task("b1")])
    assert reader.results == {"a1": "spectrum of a1", "b1": "spectrum of b1"}
    reader.ask([task("b1")])
    assert reader.results == {"b1": "spectrum of b1"}


def test_while_a_slot_is_read_anew_its_last_result_stays() -> None:
    later = Later()
    reader = Reader(later)
    reader.ask([task("a1")])
    later.do()
    reader.ask([task("a2")])
    assert reader.is_busy
    assert reader.latest == {"a": "spectrum of a1"}
    # A region that is dragged faster than it is read shows what was read last.
    reader.ask([task("a3")])
    later.do()
    assert reader.latest == {"a": "spectrum of a2"}
    reader.ask([task("a3")])
    later.do()
    assert reader.latest == {"a": "spectrum of a3"}
    assert not reader.is_busy


def test_a_result_of_before_a_forget_is_dropped() -> None:
    later = Later()
    reader = Reader(later)
    told: list[None] = []
    reader.read_more.connect(lambda: told.append(None))
    reader.ask([task("a1")])
    reader.forget()
    reader.ask([task("b1")])
    later.do()
    assert (reader.results, reader.latest, told) == ({}, {}, [])
    later.do()
    assert reader.results == {"b1": "spectrum of b1"}
    assert len(told) == 1


def test_what_is_large_makes_way_for_what_is_not() -> None:
    later = Later()
    reader = Reader(later)
    large = task("labels", is_large=True)
    reader.ask([large])
    reader.ask([large, task("a1")])
    later.do()
    assert reader.results == {}
    later.do()
    assert reader.results == {"a1": "spectrum of a1"}
    reader.ask([large, task("a1")])
    later.do()
    assert reader.results["labels"] == "spectrum of labels"


def test_what_cannot_be_read_is_not_tried_again() -> None:
    later = Later()
    reader = Reader(later)

    def broken() -> None:
        raise OSError("the disk is gone")

    reader.ask([task("a1", broken)])
    with pytest.raises(OSError, match="the disk is gone"):
        later.do()
    assert reader.results == {"a1": None}
    reader.ask([task("a1", broken)])
    assert not reader.is_busy
