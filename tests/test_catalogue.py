"""Each kind of bad input has a number, 1 to 89, and a test that carries it: `[047-grey]`."""

from pathlib import Path

import pytest


def test_no_number_is_missing(request: pytest.FixtureRequest) -> None:
    """`pytest -m bad_input` runs them all."""
    if Path(__file__).parent not in {Path(each).resolve() for each in request.config.args}:
        pytest.skip("only a run of all tests collects all of them")
    marks = [item.get_closest_marker("bad_input") for item in request.session.items]
    assert sorted(set(range(1, 90)) - {mark.args[0] for mark in marks if mark}) == []
