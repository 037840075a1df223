"""Six attentions of a pixel: each has the weights that its keys have in its own equation."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from napari_mst import Photo, non_local_means
from napari_mst.attention.record import attention_figure
from napari_mst.attention.six_attentions import SideBySide, side_by_side
from napari_mst.base.errors import AttentionError, DenoisingError
from napari_mst.cli.main import main

H = 40.0
SIZE, FILLED = (40, 46), (40, 48)  # the photo does not fill its last windows
PHOTO = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
PIXELS = [(20, 30), (0, 0), (39, 45), (1, 45)]


def shown(row: int, column: int) -> SideBySide:
    return side_by_side(PHOTO, row, column, H)


def spans(title: str, place: tuple[int, int]) -> list[slice]:
    """Rows and columns of the keys of a pixel, on the filled photo."""
    if title == "all pixels of the part":
        return [slice(0, side) for side in FILLED]
    if title.startswith("single"):
        firsts = [min(max(i - 8, 0), side - 16) for i, side in zip(place, SIZE, strict=True)]
        return [slice(first, first + 16) for first in firsts]
    shift = 4 if title.startswith("shifted") else 0
    firsts = [(index - shift) // 8 * 8 + shift for index in place]
    return [
        slice(max(first, 0), min(first + 8, side))
        for first, side in zip(firsts, FILLED, strict=True)
    ]


@pytest.mark.parametrize("place", PIXELS)
@pytest.mark.parametrize(
    "title", ["single head, 16 x 16", "window, 8 x 8", "shifted window", "all pixels of the part"]
)
def test_weights_fall_with_the_squared_difference_over_the_keys(
    title: str, place: tuple[int, int]
) -> None:
    answer = next(each for each in shown(*place).answers if each.title == title)
    filled = np.pad(PHOTO.astype(float), ((0, 0), (0, 2), (0, 0)), mode="reflect")
    rows, columns = spans(title, place)
    keys = filled[rows, columns]
    powers = np.exp(-np.square(keys - filled[place]).mean(-1) / H**2)
    weights = np.zeros(FILLED)
    weights[rows, columns] = powers / powers.sum()
    assert answer.keys == powers.size
    assert_allclose(answer.weights, weights[:, :46], rtol=0, atol=1e-5)
    assert_allclose(answer.made, np.einsum("rc,rck->k", weights, filled), atol=0.01)
    assert answer.effective == pytest.approx(1 / np.square(weights).sum(), rel=1e-3)


def test_non_local_means_makes_the_denoised_pixel_and_overlapping_windows_see_more() -> None:
    _, non_local, window, _, overlapping, _, channels = shown(20, 30).answers
    denoised = non_local_means(PHOTO.transpose(2, 0, 1).astype(float), H)
    assert_allclose(non_local.made, denoised[:, 20, 30], atol=0.01)
    assert (window.keys, overlapping.keys) == (64, 144)
    assert_allclose(channels.weights.sum(1), 1)


def test_merging_keeps_every_pixel_and_embedding_is_the_mean_of_each_patch() -> None:
    side = shown(20, 30)
    codes = side.codes.transpose(1, 2, 0)
    assert_allclose(side.merged[:20, :23], codes[::2, ::2], atol=1)
    assert_allclose(side.merged[20:, 23:], codes[1::2, 1::2], atol=1)
    assert_allclose(side.embedded[1, 2], codes[8:16, 16:24].mean((0, 1)), atol=1)


def test_the_part_of_a_large_photo_changes_no_weight_within_windows() -> None:
    large = np.random.default_rng(1).integers(0, 256, (300, 320, 3), dtype=np.uint8)
    side = side_by_side(large, 150, 161, H)
    assert side.corner == (104, 120)
    assert side.codes.shape == (3, 88, 88)
    top, left = 148 - 104, 156 - 120  # of the shifted window
    near = large[148:156, 156:164].astype(float)
    powers = np.exp(-np.square(near - large[150, 161]).mean(-1) / H**2)
    shifted = side.answers[3].weights[top : top + 8, left : left + 8]
    assert_allclose(shifted, powers / powers.sum(), atol=1e-5)


def test_all_are_drawn_in_a_figure_which_the_command_line_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    figure = attention_figure(shown(20, 30))
    titles = [axis.get_title() for axis in figure.axes]
    assert [title.split("\n")[0] for title in titles][-2:] == ["patch merging", "patch embedding"]
    assert "of 64 keys count" in titles[2]
    photo = Path(__file__).parents[2] / "sample_data" / "coffee.jpg"
    target = tmp_path / "six.png"
    arguments = ["attention", str(photo), "--side-by-side", "143,211", "-o", str(target)]
    assert main(arguments) == 0
    assert Photo.read(target).shape > (500, 500)
    assert str(target) in capsys.readouterr().out
    assert main([*arguments[:-1], "six.tif"]) == 2
    assert "ends in .png" in capsys.readouterr().err


def test_a_pixel_beside_the_photo_and_an_impossible_h_are_refused() -> None:
    with pytest.raises(AttentionError, match="Expected a query within 40 x 46"):
        shown(40, 0)
    with pytest.raises(DenoisingError, match="Expected h above 0, got nan"):
        side_by_side(PHOTO, 1, 1, float("nan"))
