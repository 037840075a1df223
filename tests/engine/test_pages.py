"""Memory of maps goes back to the system by whole pages, and only what nobody reads any more."""

import numpy as np
import pytest

from napari_mst.engine.pages import HAS_PAGES, LargePages

pytestmark = pytest.mark.skipif(not HAS_PAGES, reason="only Linux gives parts of memory back")

PAGE = 2 << 20


@pytest.mark.parametrize(
    ("start", "stop", "lost"),
    [
        (0, 4 * PAGE, range(4)),
        (1, 3 * PAGE - 1, [1]),  # parts of pages belong to neighbours
        (PAGE + 1, 2 * PAGE, []),
    ],
    ids=["all", "inner pages", "none"],
)
def test_whole_pages_are_given_back_and_no_byte_beside_them(
    start: int, stop: int, lost: list[int]
) -> None:
    pages = LargePages(4 * PAGE)
    pages.values[:] = 1
    pages.release(start, stop)
    left = [page for page in range(4) if page not in lost]
    expected = np.zeros((4, PAGE), np.uint8)
    expected[left] = 1
    np.testing.assert_array_equal(pages.values.reshape(4, PAGE), expected)
