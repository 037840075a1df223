"""Which passes are one sweep, which maps share memory, and on which pixels a window depends."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch

from napari_mst.engine.fast_paths import native
from napari_mst.engine.schedule import REACH, Schedule, schedule, thrifty
from napari_mst.engine.steps import needs, precisions, steps_of
from napari_mst.engine.windows import Window, whole
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.network import PHOTO, Pass, Program

CPU = torch.device("cpu")
HALF = Fraction(1, 2)


def same(*maps: torch.Tensor) -> torch.Tensor:
    return maps[0]


def a_pass(writes: str, *reads: str, **fields: Any) -> Pass:
    return Pass(writes, reads, same, **{"channels": 4, **fields})


def added(values: torch.Tensor) -> torch.Tensor:
    return values.sum((2, 3))


def scheduled(*passes: Pass) -> Schedule:
    return schedule(Program(passes, multiple=4))


def sweeps(*passes: Pass) -> list[list[str]]:
    """The names of the passes of each sweep."""
    return [[each.writes for each in sweep.passes] for sweep in scheduled(*passes).sweeps]


@pytest.mark.parametrize(("halo", "count"), [(REACH // 2, 1), (REACH // 2 + 1, 2)])
def test_a_sweep_ends_where_its_halos_would_add_up_to_more_than_the_reach(
    halo: int, count: int
) -> None:
    passes = a_pass("a", PHOTO, halo=REACH // 2), a_pass("b", "a", halo=halo)
    assert len(sweeps(*passes)) == count


def test_halos_add_up_in_pixels_of_the_map_that_is_written() -> None:
    down = a_pass("a", PHOTO, halo=REACH, scale=HALF)
    assert sweeps(down, a_pass("b", "a", halo=REACH // 2)) == [["a", "b"]]
    assert sweeps(down, a_pass("b", "a", halo=REACH // 2 + 1)) == [["a"], ["b"]]
    assert scheduled(a_pass("a", PHOTO, halo=3), a_pass("b", "a", align=4)).reach == 3 + 4
    assert scheduled(a_pass("a", PHOTO, halo=3), a_pass("b", PHOTO, halo=1)).reach == 3


def test_what_is_not_kept_is_computed_again_rather_than_waited_for() -> None:
    cheap = a_pass("a", PHOTO, halo=REACH, is_kept=False)
    assert sweeps(cheap, a_pass("b", "a", halo=1)) == [["a", "b"]]
    twice = a_pass("b", PHOTO, statistic=added), a_pass("c", "a", "b", uses="b")
    assert sweeps(cheap, *twice) == [["a", "b"], ["a", "c"]]
    assert [sweep.keeps for sweep in scheduled(cheap, *twice).sweeps] == [("b",), ("c",)]
    assert sweeps(cheap, a_pass("b", PHOTO), a_pass("c", "a", "b", halo=1)) == [["a", "b", "c"]]


def test_what_is_not_kept_holds_only_those_together_that_read_it() -> None:
    cheap, kept = a_pass("a", PHOTO, is_kept=False), a_pass("b", "a", halo=1)
    assert sweeps(cheap, kept, a_pass("c", "b", halo=REACH)) == [["a", "b"], ["c"]]


def test_passes_that_are_computed_again_come_each_once_in_their_order() -> None:
    cheap = a_pass("a", PHOTO, is_kept=False), a_pass("b", "a", is_kept=False)
    rest = (
        a_pass("c", PHOTO, statistic=added),
        a_pass("d", "b", "a", uses="c"),
        a_pass("e", "b", "d"),
    )
    assert sweeps(*cheap, *rest) == [["a", "b", "c"], ["a", "b", "d", "e"]]


def test_a_pass_over_all_pixels_is_a_sweep_of_its_own() -> None:
    passes = a_pass("a", PHOTO), a_pass("b", "a", halo=None), a_pass("c", "b")
    assert sweeps(*passes) == [["a"], ["b"], ["c"]]
    assert [sweep.is_whole for sweep in scheduled(*passes).sweeps] == [False, True, False]


def test_regions_begin_at_whole_pixels_of_every_map_and_window_of_attention() -> None:
    down, deeper = a_pass("a", PHOTO, scale=HALF), a_pass("b", "a", scale=HALF)
    (sweep,) = scheduled(down, deeper).sweeps
    assert sweep.grain({PHOTO: Fraction(1), "a": HALF, "b": HALF * HALF}) == 4
    (sweep,) = scheduled(down, a_pass("b", "a", align=4)).sweeps
    assert sweep.grain({PHOTO: Fraction(1), "a": HALF, "b": HALF}) == 8


def slots(*passes: Pass) -> dict[str, tuple[int, int]]:
    """The slab and the offset of every map for a photo of 16 x 16, in floats."""
    _, slots = scheduled(*passes).storage(16, 16, 4, 4)
    return slots


def gathered(name: str, *reads: str, uses: str, **fields: object) -> Pass:
    """A pass that begins a sweep: it waits for the statistic of the map that it *uses*."""
    return a_pass(name, *reads, uses=uses, statistic=added, **fields)


def test_a_map_takes_the_place_of_the_one_that_is_read_pixel_by_pixel_for_the_last_time() -> None:
    first, last = a_pass("a", PHOTO, statistic=added), gathered("c", "b", uses="b")
    found = slots(first, gathered("b", "a", uses="a"), last)
    assert found["a"] == found["b"]
    other = a_pass("d", PHOTO, statistic=added)
    found = slots(first, a_pass("b", "a", uses="a"), other, gathered("c", "b", "d", uses="d"))
    assert found["a"] == found["b"] != found["d"]


def test_the_result_takes_the_place_of_no_map_that_it_is_made_of() -> None:
    found = slots(a_pass("a", PHOTO, statistic=added), a_pass("b", "a", uses="a"))
    assert found["a"] != found["b"]


def test_a_map_that_is_read_where_it_is_written_takes_the_place_of_no_other() -> None:
    first, second = a_pass("a", PHOTO, statistic=added), a_pass("b", "a", uses="a")
    found = slots(
        first, second, a_pass("c", "b", halo=1, statistic=added), gathered("d", "b", uses="c")
    )
    assert found["a"] != found["b"]


def test_maps_of_one_size_of_which_two_live_at_once_take_two_places() -> None:
    chain = [a_pass("m0", PHOTO, statistic=added)]
    chain += [
        gathered(f"m{index}", f"m{index - 1}", uses=f"m{index - 1}", halo=1)
        for index in range(1, 5)
    ]
    slabs, _ = scheduled(*chain).storage(16, 16, 4, 4)
    assert slabs == [16 * 16 * 4 * 4] * 2


@pytest.mark.parametrize(
    "writer",
    [{"halo": 1}, {"channels": 5}, {"channels": 3}, {"scale": HALF}],
    ids=["its neighbours are still to be read", "more channels", "fewer channels", "fewer pixels"],
)
def test_a_map_of_other_pixels_or_another_shape_takes_a_place_of_its_own(
    writer: dict[str, int | Fraction],
) -> None:
    first, last = a_pass("a", PHOTO, statistic=added), gathered("c", "b", uses="b")
    found = slots(first, gathered("b", "a", uses="a", **writer), last)
    assert found["a"] != found["b"]


def test_a_map_that_is_read_again_keeps_its_place() -> None:
    first, second = a_pass("a", PHOTO, statistic=added), gathered("b", "a", uses="a")
    later = slots(first, second, gathered("c", "a", "b", uses="b"))
    beside = slots(
        first, second, a_pass("d", "a", statistic=added), gathered("e", "b", "d", uses="d")
    )
    assert later["a"] != later["b"]
    assert beside["a"] != beside["b"]


def test_maps_that_live_at_once_never_overlap_and_others_fill_the_gap() -> None:
    passes = [a_pass("m0", PHOTO, channels=8, statistic=added)]
    for index in range(1, 6):
        reads = {f"m{index - 1}", f"m{max(index - 3, 0)}"}
        passes.append(
            gathered(f"m{index}", *sorted(reads), uses=f"m{index - 1}", channels=8 - index, halo=1)
        )
    plan = scheduled(*passes)
    slabs, placed = plan.storage(16, 16, 4, 4)
    size = {each.writes: 16 * 16 * 4 * each.channels for each in passes}
    slab_of = {name: slab for name, (slab, _) in placed.items()}
    start_of = {name: start for name, (_, start) in placed.items()}
    assert all(start_of[name] + size[name] <= slabs[slab_of[name]] for name in plan.kept)
    for name, (first, last) in plan.kept.items():
        for other, (start, stop) in plan.kept.items():
            if name < other and first <= stop and start <= last and slab_of[name] == slab_of[other]:
                low, high = sorted((name, other), key=start_of.__getitem__)
                assert start_of[low] + size[low] <= start_of[high]
    assert sum(slabs) < sum(size.values())


def u_shape(source: str) -> list[Pass]:
    """Maps that are halved twice and doubled twice, as a stage of MST++ makes them."""
    halved: dict[str, Any] = {"halo": 1, "scale": HALF, "channels": 8, "statistic": added}
    doubled: dict[str, Any] = {"scale": Fraction(2), "is_kept": False, "channels": 8}
    return [
        a_pass("a", source, uses=source, halo=1),
        a_pass("b", "a", **halved),
        a_pass("c", "b", uses="b", halo=1, channels=8),
        a_pass("d", "c", **halved),
        a_pass("up d", "d", uses="d", **doubled),
        a_pass("e", "up d", "c", channels=8, statistic=added),
        a_pass("up e", "e", uses="e", **doubled),
        a_pass("f", "up e", "a", statistic=added),
        a_pass("g", "f", source, uses="f", halo=1, statistic=added),
    ]


def u_network() -> list[Pass]:
    return [a_pass("start", PHOTO, statistic=added), *u_shape("start")]


def test_a_smaller_map_has_a_sweep_of_its_own_where_the_one_before_makes_room_for_it() -> None:
    found = sweeps(*u_network())
    assert ["d"] in found
    assert ["b"] not in found  # no map makes room for it
    full = 16 * 16 * 4 * 4
    assert sum(scheduled(*u_network()).storage(16, 16, 4, 4)[0]) == 3 * full


@pytest.mark.parametrize(("stages", "maps"), [(1, 2), (3, 3)])
def test_mst_plus_plus_keeps_no_more_than_a_few_maps_of_full_size(stages: int, maps: int) -> None:
    planned = schedule(MSTPlusPlus(stages=stages).program())
    assert planned.storage(64, 64, 4, 4)[0] == [31 * 64 * 64 * 4] * maps


def test_no_sweep_is_cut_where_a_map_would_have_to_be_computed_again() -> None:
    passes = u_network()
    cheap = a_pass("cheap", "b", uses="b", channels=8, is_kept=False)
    passes[3] = a_pass("c", "cheap", halo=1, channels=8)
    passes[4] = replace(passes[4], reads=("c", "cheap"))
    found = sweeps(*passes[:3], cheap, *passes[3:])
    assert ["cheap", "c", "d"] in found


def test_a_pass_computes_in_the_widest_that_it_reads_and_only_what_is_kept_is_narrow() -> None:
    passes = (
        a_pass("a", PHOTO),
        a_pass("b", "a", is_kept=False),
        a_pass("c", "a", PHOTO, is_kept=False),
    )
    found = precisions(Program((*passes, a_pass("d", "c"))), torch.bfloat16, torch.float32)
    narrow, wide = torch.bfloat16, torch.float32
    assert found == {PHOTO: wide, "a": narrow, "b": narrow, "c": wide, "d": wide}


def needed(written: Window, *passes: Pass) -> dict[str, Window]:
    """The windows of maps of 16 x 20 pixels, where the last pass has to write a window."""
    program = Program(passes)
    (sweep,) = schedule(program).sweeps
    steps = steps_of(sweep, CPU, precisions(program, torch.float32, torch.float32))
    return needs(steps, {program.output.writes: written}, program.sizes(16, 20))


def test_a_window_depends_on_its_halo_where_the_image_has_it() -> None:
    found = needed(Window(0, 4, 5, 20), a_pass("a", PHOTO, halo=2), a_pass("b", "a", PHOTO, halo=1))
    assert found == {"b": Window(0, 4, 5, 20), "a": Window(0, 5, 4, 20), PHOTO: Window(0, 7, 2, 20)}
    assert needed(Window(0, 1, 2, 3), a_pass("a", PHOTO, halo=None))[PHOTO] == whole((16, 20))


def test_a_window_is_written_in_whole_windows_of_attention_and_whole_pixels_of_smaller_maps() -> (
    None
):
    attention = needed(Window(5, 7, 8, 9), a_pass("a", PHOTO, align=4))
    assert attention[PHOTO] == Window(4, 8, 8, 12)
    larger = needed(Window(5, 7, 8, 9), a_pass("a", PHOTO, scale=Fraction(2)))
    assert (larger["a"], larger[PHOTO]) == (Window(4, 8, 8, 10), Window(2, 4, 4, 5))
    smaller = needed(Window(1, 2, 3, 5), a_pass("a", PHOTO, scale=HALF))
    assert smaller[PHOTO] == Window(2, 4, 6, 10)


def test_windows_are_scaled_outwards_clipped_to_the_map_and_joined_around_both() -> None:
    window = Window(3, 5, 7, 11)
    assert window.scaled(Fraction(1)) == window
    assert window.scaled(HALF) == Window(1, 3, 3, 6)
    assert window.scaled(Fraction(3, 2)) == Window(4, 8, 10, 17)
    assert window.aligned(1) == window
    assert window.aligned(4) == Window(0, 8, 4, 12)
    assert window.grown(4) == Window(-1, 9, 3, 15)
    assert window.grown(4).clipped((8, 12)) == Window(0, 8, 3, 12)
    assert window.grown(8).clipped((20, 30)) == Window(0, 13, 0, 19)
    assert (
        window.joined(Window(4, 6, 2, 8))
        == Window(3, 6, 2, 11)
        == Window(4, 6, 2, 8).joined(window)
    )
    assert window.grown(8).missing((9, 12)) == (5, 4, 1, 7)
    assert window.missing((9, 12)) == (0, 0, 0, 0)


@pytest.mark.parametrize(("work", "is_kept"), [(1, False), (9, True)], ids=["cheap", "dear"])
def test_a_dear_map_is_kept_for_torch_and_computed_again_where_kernels_are_quick(
    work: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "is_installed", lambda: True)
    first = a_pass("a", PHOTO, is_kept=False, work=work)
    second = a_pass("b", "a", halo=1, statistic=added, work=100)
    program = Program((first, second, a_pass("c", "b", "a", uses="b", work=100)))
    cpu = torch.device("cpu")
    wide = replace(program, dtype=torch.float64)
    assert thrifty(wide, cpu, torch.float64).writer("a").is_kept == is_kept
    assert thrifty(program, cpu, torch.float32) is program
    monkeypatch.setattr(native, "is_installed", lambda: False)
    assert thrifty(program, cpu, torch.float32).writer("a").is_kept == is_kept
    # A map of 16 bits has lost digits.
    assert thrifty(program, cpu, torch.bfloat16) is program


def test_programs_of_one_form_are_cut_alike_and_others_are_not() -> None:
    first, again = (schedule(MSTPlusPlus(stages=1).program()) for _ in range(2))
    other = schedule(MSTPlusPlus(stages=1, attention="none").program())
    names = [
        [each.writes for sweep in planned.sweeps for each in sweep.passes]
        for planned in (first, again, other)
    ]
    assert names[0] == names[1] != names[2]
    assert first.program is not again.program
