"""The picture that the network sees: relative to the photo's own white, and blank where clipped."""

import torch

from napari_mst.calibration.light.seeing import CHANNELS, CellColours, picture

COUNT, PLACES = 3, 40
OF_CELL = 5  # channels of the mean of a cell, and as many of its brightest part


def cells(seed: int = 0) -> CellColours:
    common = torch.rand(COUNT, 3, PLACES, generator=torch.Generator().manual_seed(seed))
    return CellColours(0.05 + common, torch.ones(COUNT, PLACES, dtype=torch.bool))


def test_exposure_does_not_change_what_is_seen() -> None:
    means, brightest = cells(0), cells(1)
    plain = picture(means, brightest)
    darker = picture(
        *(CellColours(0.3 * each.common, each.is_known) for each in (means, brightest))
    )
    assert plain[0].shape == (COUNT, CHANNELS, PLACES)
    torch.testing.assert_close(darker[0], plain[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(darker[1], plain[1], atol=1e-4, rtol=1e-4)


def test_a_tint_moves_the_first_guess_and_not_the_colours_relative_to_it() -> None:
    tint = torch.tensor([1.3, 1.0, 0.7])[:, None]
    means, brightest = cells(0), cells(1)
    plain = picture(means, brightest)
    tinted = picture(
        *(CellColours(tint * each.common, each.is_known) for each in (means, brightest))
    )
    moved = torch.tensor([1.3, 0.7]).log().expand(COUNT, 2)
    torch.testing.assert_close(tinted[1] - plain[1], moved, atol=1e-4, rtol=1e-4)
    colours = slice(OF_CELL, OF_CELL + 2)
    off = tinted[0][:, colours] - plain[0][:, colours]
    assert off.abs().max() < 0.03  # a dark pixel has a little grey added


def test_cells_that_are_not_known_look_black_and_grey_and_tell_nothing() -> None:
    is_known = torch.ones(COUNT, PLACES, dtype=torch.bool)
    is_known[:, :7] = False
    blue = cells(1).common.clone()
    blue[:, 2, :7] = 50.0
    seen = picture(CellColours(cells(0).common, is_known), CellColours(blue, is_known))
    same = picture(CellColours(cells(0).common, is_known), CellColours(cells(1).common, is_known))
    torch.testing.assert_close(seen[0], same[0])
    for start in (0, OF_CELL):
        blank = seen[0][:, start : start + OF_CELL, :7]
        expected = torch.tensor([0.0, 0, -1, 0, 0])[:, None].expand_as(blank)
        torch.testing.assert_close(blank, expected)


def test_a_small_highlight_moves_the_first_guess_to_its_colour() -> None:
    lamp = torch.tensor([1.0, 0.6, 0.3])[:, None]
    dull = CellColours(0.2 * cells(0).common, cells(0).is_known)
    shiny = dull.common.clone()
    shiny[:, :, :4] = lamp
    guess = picture(dull, CellColours(shiny, dull.is_known))[1]
    without = picture(dull, dull)[1]
    true = torch.tensor([1 / 0.6, 0.3 / 0.6]).log()
    assert ((guess - true).norm(dim=1) < 0.5 * (without - true).norm(dim=1)).all()
