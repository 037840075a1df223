"""Six attention mechanisms for one pixel of a photo, side by side, without any training.

All mechanisms between pixels use the single head of non-local means, whose matrices are known (see
`denoising.as_attention`). For a pixel with the colour t, in 8-bit sRGB codes, the features are
Xi(t) = [|t|^2, t, 1], and the score of two pixels is -|t_p - t_q|^2 / (3 h^2), minus the mean
squared difference over h^2. The mechanisms differ in the keys that a query sees. Between channels,
red, green and blue attend to each other over the whole part of the photo.

Letters: C channels, h rows and w columns of the part.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from napari_mst.attention.head_steps import COLOURS, filter_head
from napari_mst.attention.record import grid_figure
from napari_mst.base.arrays import Brief, Codes, Doubles, Pixel, doubles
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.denoising.as_attention import embedding
from napari_mst.denoising.non_local_means import non_local_weights
from napari_mst.denoising.photo_denoising import DISTANCE, PATCH, denoising_to_look_at
from napari_mst.denoising.streaming import Filter
from napari_mst.networks.attention.heads import HeadOptions, Heads
from napari_mst.networks.attention.overlapping import OverlappingAttention
from napari_mst.networks.attention.patches import PatchAttention
from napari_mst.networks.attention.query import check_query
from napari_mst.networks.attention.spectral import SpectralAttention, gram
from napari_mst.networks.attention.window_attention import (
    ShiftedWindowAttention,
    WindowAttention,
    filled_up,
)
from napari_mst.networks.network import pad
from napari_mst.photo.photo import PhotoLike, as_photo

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WINDOW = 8
"""Side in pixels of a window, and of a patch that becomes one token."""

MARGIN = 5
"""Windows shown on each side of the pixel's window."""

PATCH_SIDE = 16
"""Side in pixels of the patch of a single head, centred on the pixel."""

_COLUMNS = 3
_INCHES = 3.2
_DIM, _LIT = 0.4, 0.55  # brightness of pixels without and with weight
_YELLOW = np.array([255.0, 215.0, 60.0])
_MERGING = "2 x 2 pixels become one of 4 C,\nof which a matrix makes 2 C"
_EMBEDDING = f"{WINDOW} x {WINDOW} pixels become\none token: here their mean"
_FEATURES = COLOURS + 2
_PLAIN = HeadOptions(has_bias=False, has_projection=False)


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Brief):
    """The result of one mechanism: the weights of a pixel, and the resulting colour.

    Attributes
    ----------
    title, equation
        Name and equation of the mechanism.
    weights
        (h, w) over the part of the photo, adding up to 1 together with keys beyond the photo; for
        attention between channels (3, 3), where each row adds up to 1.
    keys, effective
        Number of keys, and effective number of keys: 1 / sum of the squared weights.
    made
        Resulting red, green and blue (3,) of the pixel, in 8-bit codes.
    """

    title: str
    equation: str
    weights: Doubles
    keys: int
    effective: float
    made: Doubles

    @property
    def lines(self) -> str:
        """Two lines with the effective number of keys and the resulting colour."""
        colour = ", ".join(f"{code:.0f}" for code in self.made)
        return f"{self.effective:.1f} of {self.keys:,} keys count\nmakes {colour}"


class AttentionPicture(NamedTuple):
    """A picture of an answer or of a token embedding, with its title, equation and lines."""

    title: str
    equation: str
    lines: str
    image: Codes


@dataclass(frozen=True, eq=False, repr=False)
class SideBySide(Brief):
    """Six attention mechanisms and non-local means, their ancestor, on a part of a photo.

    Attributes
    ----------
    pixel
        Row and column in the photo.
    corner
        Row and column of the photo at which the part begins.
    codes
        The part (3, h, w) in 8-bit sRGB codes.
    h
        Difference in codes up to which pixels count as similar.
    answers
        Results of the mechanisms; the last one attends between channels, the others between pixels.
    """

    pixel: Pixel
    corner: Pixel
    codes: Doubles
    h: float
    answers: tuple[Answer, ...]

    @property
    def place(self) -> Pixel:
        """Row and column of the pixel in the part."""
        return self.pixel[0] - self.corner[0], self.pixel[1] - self.corner[1]

    @property
    def sentence(self) -> str:
        """A sentence with the pixel's colour and h."""
        row, column = self.place
        before = ", ".join(f"{code:.0f}" for code in self.codes[:, row, column])
        return f"Pixel {self.pixel} is {before}; h is {self.h:.3g} codes."

    def picture(self, answer: Answer) -> Codes:
        """Return the part lit by the weights, (h, w, 3) uint8; (3, 3, 3) for channels."""
        weights = (answer.weights / answer.weights.max())[..., None]
        shine = weights * _YELLOW
        if answer is self.answers[-1]:
            return shine.astype(np.uint8)
        brightness = np.where(weights > 0, _LIT, _DIM)
        return (brightness * self.codes.transpose(1, 2, 0) + 0.45 * shine).astype(np.uint8)

    @property
    def merged(self) -> Codes:
        """Patch merging of the part: the four sub-images (h / 2, w / 2) side by side, uint8.

        Each pixel of the merged map has the values of all four, 4 C channels, which a matrix
        reduces to 2 C. The part is padded with zeros.
        """
        filled = filled_up(torch.from_numpy(self.codes)[None], 2)[0]
        rows = [
            torch.cat([filled[:, row::2, column::2] for column in (0, 1)], dim=2) for row in (0, 1)
        ]
        return torch.cat(rows, dim=1).permute(1, 2, 0).numpy().astype(np.uint8)

    @property
    def embedded(self) -> Codes:
        """Patch embedding of the part: the mean colour of each token of 8 x 8 pixels, uint8."""
        means = F.avg_pool2d(torch.from_numpy(self.codes)[None], WINDOW, ceil_mode=True)
        return means[0].permute(1, 2, 0).numpy().astype(np.uint8)

    @property
    def pictures(self) -> list[AttentionPicture]:
        """Pictures of all answers, then of patch merging and embedding."""
        return [
            *(
                AttentionPicture(one.title, one.equation, one.lines, self.picture(one))
                for one in self.answers
            ),
            AttentionPicture("patch merging", "", _MERGING, self.merged),
            AttentionPicture("patch embedding", "", _EMBEDDING, self.embedded),
        ]

    def plot(self) -> "Figure":
        """Draw all pictures as a figure. Raises `AttentionError` if matplotlib is missing."""
        pictures = self.pictures
        figure, axes = grid_figure(len(pictures), _COLUMNS, _INCHES)
        for axis, (*words, image) in zip(axes, pictures, strict=True):
            axis.imshow(image, interpolation="nearest")
            axis.set_title("\n".join(filter(None, words)), fontsize=7)
            axis.axis("off")
        row, column = self.place
        for axis in axes[: len(self.answers) - 1]:
            axis.plot(column, row, "s", markersize=4, markerfacecolor="none", color="#3df0ff")
        figure.suptitle(self.sentence, fontsize=9)
        return figure


def side_by_side(photo: PhotoLike, row: int, column: int, codes: float | None = None) -> SideBySide:
    """Apply six attention mechanisms and non-local means to one pixel of *photo*.

    *codes* is h, in 8-bit codes; by default the larger of 1.2 times the noise of the photo and 8.
    The part of the photo around the pixel is made of whole windows, cut at the end of the photo.

    Raises
    ------
    AttentionError
        If the pixel does not lie on the photo.
    DenoisingError
        If *codes* is not above 0.
    PhotoError
        If *photo* cannot be read as a photo.

    Notes
    -----
    =======  ==============================================================
    photo    a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3)
    codes    above 0, in 8-bit sRGB codes
    returns  weights 0-1; colours in 8-bit sRGB codes
    =======  ==============================================================

    Examples
    --------
    >>> photo = np.random.default_rng(0).integers(0, 256, (64, 72, 3), np.uint8)
    >>> shown = nm.attention.side_by_side(photo, 20, 30, codes=40)
    >>> [answer.keys for answer in shown.answers]
    [256, 361, 64, 64, 144, 4608, 3]
    """
    image = as_photo(photo)
    check_query((row, column), image.shape)
    if codes is None:
        codes = denoising_to_look_at(image).codes
    Filter(codes)  # refuses an impossible one
    top, bottom = _span(row, image.shape[0])
    left, right = _span(column, image.shape[1])
    light = doubles(image.cropped((top, bottom, left, right)).rows(linear=True))
    seen = doubles(255 * linear_to_srgb(light.clip(0, 1)))
    place = row - top, column - left
    answers = (
        _single_head(seen, place, codes),
        _non_local(seen, place, codes),
        *(_of_mechanism(seen, place, codes, name) for name in list(_MECHANISMS)[1:]),
        _channels(seen, place),
    )
    return SideBySide((row, column), (top, left), seen, codes, answers)


def _span(index: int, length: int) -> tuple[int, int]:
    """Return the first pixel of the part along an axis, and one past its last."""
    window = index // WINDOW
    return max(window - MARGIN, 0) * WINDOW, min((window + MARGIN + 1) * WINDOW, length)


def _answer(title: str, equation: str, weights: Doubles, codes: Doubles, keys: int) -> Answer:
    """Return the answer with *weights* over the part."""
    effective = float(1 / np.square(weights).sum())
    return Answer(title, equation, weights, keys, effective, (weights * codes).sum((1, 2)))


def _single_head(codes: Doubles, place: Pixel, h: float) -> Answer:
    """Apply one head to the pixels of a patch, centred on the pixel."""
    top, left = (
        min(max(index - PATCH_SIDE // 2, 0), max(side - PATCH_SIDE, 0))
        for index, side in zip(place, codes.shape[1:], strict=True)
    )
    patch = slice(top, top + PATCH_SIDE), slice(left, left + PATCH_SIDE)
    near = place[0] - top, place[1] - left
    answer = _of_mechanism(codes[:, *patch], near, h, next(iter(_MECHANISMS)))
    weights = np.zeros(codes.shape[1:])
    weights[patch] = answer.weights
    return replace(answer, weights=weights)


def _non_local(codes: Doubles, place: Pixel, h: float) -> Answer:
    distance = min(DISTANCE, max(codes.shape[1:]) - 1)
    near = non_local_weights(codes, *place, h, patch=PATCH, distance=distance)
    equation = f"exp(-d / h^2), d of patches of {PATCH} x {PATCH}"
    rows, columns = near.weights.shape
    return _answer(
        f"non-local means, {rows} x {columns}",
        equation,
        near.over(*codes.shape[1:]),
        codes,
        near.weights.size,
    )


_MECHANISMS: dict[str, tuple[str, Callable[[], Heads]]] = {
    f"single head, {PATCH_SIDE} x {PATCH_SIDE}": (
        "softmax of a column of K^T Q / sqrt(d)",
        lambda: PatchAttention(_FEATURES, 1, 1, _PLAIN),
    ),
    f"window, {WINDOW} x {WINDOW}": (
        "softmax(q k^T / sqrt(d) + B)",
        lambda: WindowAttention(_FEATURES, 1, WINDOW, _PLAIN),
    ),
    "shifted window": (
        "softmax(q k^T / sqrt(d) + B + M)",
        lambda: ShiftedWindowAttention(_FEATURES, 1, WINDOW, options=_PLAIN),
    ),
    "overlapping windows": (
        "the same, keys of 12 x 12",
        lambda: OverlappingAttention(_FEATURES, 1, WINDOW, options=_PLAIN),
    ),
    "all pixels of the part": (
        "softmax(q k^T / sqrt(d))",
        lambda: PatchAttention(_FEATURES, 1, 1, _PLAIN),
    ),
}
"""Mechanisms between pixels: equation and constructor. The first one sees only a patch."""


def _of_mechanism(codes: Doubles, place: Pixel, h: float, title: str) -> Answer:
    """Apply a mechanism whose only head computes non-local means between pixels."""
    equation, make = _MECHANISMS[title]
    head = make().double().requires_grad_(False)
    filtering = filter_head(h)
    values = F.pad(filtering.value.weight, (0, 0, 1, 1))
    head.to_qkv.weight.copy_(torch.cat([filtering.query.weight, filtering.key.weight, values]))
    columns = embedding(codes.reshape(COLOURS, -1).T).T
    features = torch.from_numpy(columns.reshape(-1, *codes.shape[1:]))[None]
    # The end of the photo is reflected until windows fit, as in a run.
    padded = pad(features, 1 if title.startswith("single") else WINDOW)
    with torch.inference_mode():
        answer = head.weights(padded, place)
    rows, columns = answer.places.T.numpy()
    height, width = padded.shape[2:]
    is_there = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    weights = np.zeros((height, width))
    weights[rows[is_there], columns[is_there]] = answer.weights[0].numpy()[is_there]
    is_query = (answer.places == torch.tensor(place)).all(1)
    keys = int((answer.regions == answer.regions[is_query]).sum())
    made = _answer(title, equation, weights, padded[0, 1:-1].numpy(), keys)
    return replace(made, weights=weights[: codes.shape[1], : codes.shape[2]])


def _channels(codes: Doubles, place: Pixel) -> Answer:
    """Let red, green and blue attend to each other over all pixels, with identity projections."""
    spectral = SpectralAttention(COLOURS, 1).double().requires_grad_(False)
    for part in (spectral.to_q, spectral.to_k):
        part.weight.copy_(torch.eye(COLOURS))
    weights = spectral.attention(gram(torch.from_numpy(codes)[None]))[0, 0].numpy()
    effective = float((1 / np.square(weights).sum(1)).mean())
    made = weights @ codes[:, place[0], place[1]]
    equation = "softmax(k q / |k| |q|) over all pixels"
    return Answer("channels (spectral)", equation, weights, COLOURS, effective, made)
