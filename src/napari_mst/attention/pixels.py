"""Attention of one pixel of a photo: the weights of its keys in a block between pixels.

They are those of a run. Only the part of the map is computed on which they depend.
Letters: C channels, h heads, H rows, W columns of the map of a block.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from napari_mst.attention.block_maps import BlockMaps
from napari_mst.attention.blocks import check_name
from napari_mst.attention.head_steps import Places, WindowSteps, window_steps
from napari_mst.attention.maps import Selection
from napari_mst.attention.pixel_weights import PixelWeights
from napari_mst.attention.record import AttentionRecord
from napari_mst.engine.windows import Size, Window
from napari_mst.errors import AttentionError, shown
from napari_mst.networks.attends import Attends, QueryWeights
from napari_mst.networks.attention.blocks import WindowBlock
from napari_mst.networks.attention.query import check_query
from napari_mst.networks.attention.windows import WindowTokens
from napari_mst.watch import UNWATCHED, Watch

MOST_TOKENS = 24**2
"""Keys of a window that is shown in numbers, at most."""


class _Near(NamedTuple):
    """The neighbourhood of a pixel, on which its weights depend.

    Attributes
    ----------
    entering
        What the block sees, (1, C, h, w), in a *part* of the map, which has a *size*.
    query
        Row and column of the pixel on the map.
    """

    entering: Tensor
    query: tuple[int, int]
    part: Window
    size: Size

    @property
    def place(self) -> tuple[int, int]:
        """Row and column of the pixel in the part."""
        return self.query[0] - self.part.top, self.query[1] - self.part.left


class PixelExplorer(BlockMaps):
    """Finds what any pixel of *photo*, or of a *region* of it, attends to.

    The network is that of *reconstructor*; `shape` is (H, W) of what it sees. Rows and columns
    count from the first of the region.

    Raises
    ------
    AttentionError
        If no block of the network has attention between pixels.
    PhotoError
        See `Reconstructor.reconstruct`.

    Examples
    --------
    >>> explorer = PixelExplorer(Reconstructor(model), "photo.jpg")
    >>> explorer.weights("stages.0.encoder.1", row=120, column=300).weights.shape
    (2, 64)
    """

    def record(self, watch: Watch = UNWATCHED) -> AttentionRecord:
        """Hear a run and `keep` its maps, so that pixels come soon; returns what was `heard`."""
        heard = self.heard(watch)
        self.keep(watch)
        return heard

    def weights(self, block: str, row: int, column: int, watch: Watch = UNWATCHED) -> PixelWeights:
        """The weights of all keys of the pixel at *row* and *column*, in *block*.

        Raises
        ------
        AttentionError
            If there is no such block or pixel.
        Cancelled
            As soon as *watch* says so.
        """
        return self._weights(block, self._near(block, row, column, watch))

    def steps(
        self, block: str, head: int, row: int, column: int, watch: Watch = UNWATCHED
    ) -> WindowSteps:
        """One *head* step by step, on the window of the pixel at *row* and *column*.

        Raises
        ------
        AttentionError
            If there is no such block, head or pixel, or it has no windows, or windows with more
            than `MOST_TOKENS` keys.
        Cancelled
            As soon as *watch* says so.
        """
        self._check(block, row, column)
        parts = _taken_apart(self.blocks[block].attends, head)
        attention = parts.attention
        near = self._near(block, row, column, watch)
        pixel = self._weights(block, near)
        with torch.inference_mode():
            tokens = attention.around(parts.normal(near.entering), near.place)
            if not pixel.heard.all():
                features = self._from_all_borders(block, pixel, tokens.features[0], watch)
                queries, keys, values = attention.split(features)
                tokens = tokens._replace(
                    features=(features, features), queries=queries, keys=keys, values=values
                )
            at = _places_of_queries(tokens, near) * pixel.pitch, pixel.places
            steps = window_steps(attention, tokens, head, at, parts.has_norm)
        return WindowSteps(steps, pixel, head)

    def _from_all_borders(
        self, block: str, pixel: PixelWeights, features: Tensor, watch: Watch
    ) -> Tensor:
        """The *features* of a window, (n, C), with those that its mask keeps from the *pixel*.

        A part of the map has others in their place: those of its own opposite border.
        """
        result = features.clone()
        normal = self.blocks[block].attends.parts.normal
        for region in np.unique(pixel.regions[~pixel.heard]):
            is_there = torch.from_numpy(pixel.regions == region)
            places = pixel.places[pixel.regions == region] // pixel.pitch
            (top, left), (bottom, right) = places.min(0).tolist(), (places.max(0) + 1).tolist()
            part = normal(self.entering(block, Window(top, bottom, left, right), watch))
            result[is_there] = part[0].flatten(1).mT
        return result

    def _check(self, block: str, row: int, column: int) -> None:
        """Refuse a block or a pixel that is not there."""
        check_name(block, self.blocks)
        check_query((row, column), self.shape)

    def _near(self, block: str, row: int, column: int, watch: Watch) -> _Near:
        """The part of the map of *block* on which the weights of a pixel depend."""
        self._check(block, row, column)
        pitch = self.pitch(block)
        query = (row // pitch, column // pitch)
        part = self.around(block, query)
        return _Near(self.entering(block, part, watch), query, part, self.size(block))

    def _weights(self, block: str, near: _Near) -> PixelWeights:
        """The weights of the query of *near*, in pixels of the photo."""
        attends = self.blocks[block].attends
        weigh = cast("Callable[[Tensor, Sequence[int]], QueryWeights]", attends.weights)
        with torch.inference_mode():
            weights = weigh(near.entering, near.place)
        pitch = self.pitch(block)
        row, column = near.query
        return PixelWeights(
            block=block,
            weights=weights.weights.double().cpu().numpy(),
            places=_on_the_map(weights, near).numpy() * pitch,
            regions=weights.regions.numpy(),
            query=(row * pitch, column * pitch),
            pitch=pitch,
            sides=self.blocks[block].described,
            provenance=self.provenance(),
        )


def _taken_apart(attends: Attends, head: int) -> WindowBlock:
    """The parts of a block whose *head* can be shown in numbers."""
    Selection(attends.block, head).check(attends.heads, 1)
    if attends.parts is None:
        got = "another attention" if attends.window else "attention between all pixels"
    elif attends.keys**2 > MOST_TOKENS:
        got = f"{attends.keys**2}"
    else:
        parts: WindowBlock = attends.parts
        return parts
    raise AttentionError(
        f"Expected windows of at most {MOST_TOKENS} pixels to show in numbers, got {got} in "
        f"{shown(attends.block)}. Look at the weights of a pixel instead."
    )


def _on_the_map(weights: QueryWeights, near: _Near) -> Tensor:
    """The places of the keys on the whole map; *weights* has those in a part of it.

    Keys that the mask keeps apart came round from the opposite border of the part; on the map they
    come from the opposite border of the map.
    """
    part = near.part
    places = weights.places + torch.tensor([part.top, part.left])
    is_query = (places == torch.tensor(near.query)).all(1)
    is_apart = weights.regions != weights.regions[is_query]
    for axis in (0, 1):
        length, first = near.size[axis], (part.top, part.left)[axis]
        last = first + part.size[axis]
        reach = part.size[axis] // 2
        far = is_apart & ((places[:, axis] - near.query[axis]).abs() >= reach)
        is_after = places[:, axis] > near.query[axis]
        places[far & is_after, axis] += length - last
        places[far & ~is_after, axis] -= first
    return places


def _places_of_queries(tokens: WindowTokens, near: _Near) -> Places:
    """The places on the whole map of the pixels that ask in the window of *tokens*."""
    asking, answering = tokens.at
    if len(asking) == len(answering):
        window = QueryWeights(tokens.bias[:, tokens.query_index], answering, tokens.regions)
        return _on_the_map(window, near).numpy()
    corner = near.part.top, near.part.left
    places: Places = asking.numpy() + np.array(corner)
    return places
