"""Work that is put off is done once, a moment later."""

from pytestqt.qtbot import QtBot

from napari_mst.plugin.viewer.soon import Soon


class Work:
    """Counts how often it is done."""

    def __init__(self) -> None:
        self.done = 0

    def do(self) -> None:
        self.done += 1


def test_many_requests_are_one_call_a_moment_later(qtbot: QtBot) -> None:
    work = Work()
    soon = Soon(work.do)
    soon.request()
    soon.request()
    assert work.done == 0
    qtbot.waitUntil(lambda: work.done == 1)
    soon.request()
    qtbot.waitUntil(lambda: work.done == 2)


def test_work_of_an_object_that_is_gone_is_dropped(qtbot: QtBot) -> None:
    work = Work()
    lost, kept = Soon(Work().do), Soon(work.do)
    lost.request()
    kept.request()
    qtbot.waitUntil(lambda: work.done == 1)
