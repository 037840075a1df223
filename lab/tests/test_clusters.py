"""The simulation of a cluster, where it can be reckoned by hand."""

import pytest

from lab.clusters import Facts, simulate

FACTS = Facts(photo=2.0, dispatch=0.01, start=3.0, model=0, read=0, written=0)


def test_one_worker_takes_its_start_and_the_sum_of_its_photos() -> None:
    found = simulate(FACTS, workers=1, photos=50)
    assert found["seconds"] == pytest.approx(3 + 50 * 2.01)
    assert found["deaths"] == 0


@pytest.mark.parametrize(
    ("facts", "seconds"),
    [
        (FACTS, 3 + 0.01 * 1000),  # the scheduler: one photo after the other
        (Facts(photo=2, dispatch=0, start=3, model=0, read=0, written=5e8), 3 + 0.05 * 1000),
    ],
    ids=["scheduler", "storage"],
)
def test_many_workers_wait_for_what_all_of_them_share(facts: Facts, seconds: float) -> None:
    found = simulate(facts, workers=1000, photos=1000)
    assert found["seconds"] == pytest.approx(seconds + 2, rel=0.01)


def test_a_death_costs_a_part_of_a_photo_and_a_start() -> None:
    facts = Facts(photo=2, dispatch=0, start=3, model=0, read=0, written=0, deaths=0.01)
    found = simulate(facts, workers=1, photos=5000)
    assert found["deaths"] == pytest.approx(5000 * 2 * 0.01, rel=0.3)
    assert found["seconds_a_death"] == pytest.approx(3 + 1, rel=0.1)
    assert found["seconds"] == pytest.approx(3 + 5000 * 2 + found["deaths"] * 4, rel=0.01)
