"""Attention of one pixel of a photo: the weights of its keys in a block between pixels.

The weights equal those of a run. Only the part of the map on which they depend is computed, and
sums over all pixels are computed once. Maps cached from a run keep that part small. Where all
pixels attend to each other, photos are small, and the maps of all blocks are cached. Letters: C
channels, h rows and w columns of a part of the map of a block, H rows and W columns.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from napari_mst.attention.explorer import PhotoExplorer
from napari_mst.attention.head_steps import PixelWeights, WindowSteps, window_steps
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.record_views import Selection
from napari_mst.attention.recorder import (
    attention_blocks,
    check_name,
    pixel_blocks,
    record_attention,
)
from napari_mst.base.arrays import Floats
from napari_mst.base.errors import AttentionError, shown
from napari_mst.base.memory import free_host_memory
from napari_mst.engine.crop import Known, execute_crop
from napari_mst.engine.steps import photo_window
from napari_mst.engine.windows import Size, Window, whole
from napari_mst.networks.attention.blocks import WindowBlock
from napari_mst.networks.attention.query import check_query
from napari_mst.networks.attention_spec import AttentionSpec, QueryWeights
from napari_mst.reconstruction.reconstructor import Reconstructor

MOST_TOKENS = 24**2
"""Largest number of keys in a window whose matrices are shown."""

MOST_KEPT = 3 << 29
"""Largest number of bytes of cached maps, or half of the free memory if that is less."""

_LARGE = 128**2  # pixels of a part from which on caching a map pays off


class _Near(NamedTuple):
    """The neighbourhood on which the weights of a pixel depend.

    Attributes
    ----------
    entering
        Input (1, C, h, w) of the block in a *part* of the map, whose full size is *size*.
    query, place
        Row and column of the pixel on the map, and in the part.
    """

    entering: Tensor
    query: tuple[int, int]
    place: tuple[int, int]
    part: Window
    size: Size


class PixelExplorer(PhotoExplorer):
    """Finds the attention weights of any pixel of *photo*, or of a *region* of it.

    The network belongs to *reconstructor*; `blocks` are its blocks between pixels, and `shape` is
    (H, W) of the photo or region. Rows and columns count from the first pixel of the region.

    Raises
    ------
    AttentionError
        If no block of the network has attention between pixels.
    PhotoError
        See `Reconstructor.reconstruct`.
    Cancelled
        From its methods, soon after *progress* was cancelled.

    Examples
    --------
    >>> explorer = PixelExplorer(Reconstructor(model), "photo.jpg")
    >>> explorer.weights("stages.0.encoder.1", row=120, column=300).weights.shape
    (2, 64)
    """

    def _check_network(self, reconstructor: Reconstructor) -> None:
        self.blocks = pixel_blocks(reconstructor.network)
        if not self.blocks:
            raise AttentionError(
                "Expected a network with attention between pixels, "
                f"got {shown(reconstructor.model.card.name)}. Take another model."
            )
        # Shared with copies that report to another progress.
        self._kept: dict[str, Floats] = {}
        self._folded: dict[str, Any] = {}

    def record(self) -> AttentionRecord:
        """Record a run, and cache its maps (see `keep`) so that later pixels are fast."""
        heard = self.heard()
        self.keep()
        return heard

    def heard(self) -> AttentionRecord:
        """Return the shapes of all blocks, with the history.

        If channels attend to channels as well, the network runs for their matrices.
        """
        network = self._network()
        with record_attention(network) as heard:
            if attention_blocks(network):
                self._add_up()
        return replace(heard, provenance=self._prepared.provenance(self._progress))

    def keep(self) -> None:
        """Run the network and cache the maps without which a pixel would take long.

        These are the inputs of blocks whose weights depend on a large part of the photo, or the
        input of the preceding block if that is smaller. The cache takes at most `MOST_KEPT` bytes,
        and at most half of the free memory.
        """
        self._prepare()
        before = ""
        for block in self.blocks:
            name = self._source(block)
            if self._needs_map(block):
                smallest = min(name, before or name, key=self._bytes)
                name = name if smallest in self._kept else smallest
                if self._bytes(name) <= self._room():
                    self._kept[name] = self._run_until(name)
            before = self._source(block)

    def weights(self, block: str, row: int, column: int) -> PixelWeights:
        """Return the weights of all keys of the pixel at *row* and *column* in *block*.

        Raises
        ------
        AttentionError
            If there is no such block or pixel.
        """
        self._check(block, row, column)
        return self._weights(block, self._near(block, row, column))

    def steps(self, block: str, head: int, row: int, column: int) -> WindowSteps:
        """Return one *head* step by step, on the window of the pixel at *row* and *column*.

        Raises
        ------
        AttentionError
            If there is no such block, head or pixel; or if the block has no windows, or windows
            with more than `MOST_TOKENS` keys.
        """
        self._check(block, row, column)
        parts = _taken_apart(self.blocks[block].spec, head)
        attention = parts.attention
        near = self._near(block, row, column)
        pixel = self._weights(block, near)
        with torch.inference_mode():
            tokens = attention.around(parts.normal(near.entering), near.place)
            asking, answering = tokens.at
            if len(asking) == len(answering):
                window = QueryWeights(tokens.bias[:, tokens.query_index], answering, tokens.regions)
                asking = _on_the_map(window, near)
            else:
                asking = asking + torch.tensor([near.part.top, near.part.left])
            if not pixel.heard.all():
                features = self._from_all_borders(block, pixel, tokens.features[0])
                queries, keys, values = attention.split(features)
                tokens = tokens._replace(
                    features=(features, features), queries=queries, keys=keys, values=values
                )
            at = asking.numpy() * pixel.pitch, pixel.places
            return WindowSteps(window_steps(attention, tokens, head, at, parts.has_norm), pixel)

    def _from_all_borders(self, block: str, pixel: PixelWeights, features: Tensor) -> Tensor:
        """Return the *features* (n, C) of a window, with its masked pixels from the right border.

        A shifted window wraps around to the opposite border of the map; in a part of the map it
        wraps around to other pixels.
        """
        result = features.clone()
        for region in np.unique(pixel.regions[~pixel.heard]):
            is_there = pixel.regions == region
            part = Window(*(side // pixel.pitch for side in pixel.around(is_there)))
            entering = self.blocks[block].spec.parts.normal(self._entering(block, part))
            result[torch.from_numpy(is_there)] = entering[0].flatten(1).mT
        return result

    def _check(self, block: str, row: int, column: int) -> None:
        """Raise `AttentionError` if there is no such block or pixel."""
        check_name(block, self.blocks)
        check_query((row, column), self.shape)

    def _near(self, block: str, row: int, column: int) -> _Near:
        """Return the neighbourhood of a pixel on which its weights in *block* depend."""
        pitch = self._pitch(self._source(block))
        row, column = row // pitch, column // pitch
        part = self._around(block, row, column)
        place = row - part.top, column - part.left
        return _Near(self._entering(block, part), (row, column), place, part, self._size(block))

    def _weights(self, block: str, near: _Near) -> PixelWeights:
        """Return the weights of the query of *near*, in pixels of the photo."""
        weigh: Any = self.blocks[block].spec.weights
        with torch.inference_mode():
            weights: QueryWeights = weigh(near.entering, near.place)
        pitch = self._pitch(self._source(block))
        row, column = near.query
        return PixelWeights(
            block=block,
            weights=weights.weights.double().cpu().numpy(),
            places=_on_the_map(weights, near).numpy() * pitch,
            regions=weights.regions.numpy(),
            query=(row * pitch, column * pitch),
            pitch=pitch,
            sides=self.blocks[block].described,
            provenance=self._prepared.provenance(),
        )

    # ------------------------------------------------------------------------ maps

    def _around(self, block: str, row: int, column: int) -> Window:
        """Return the part of the map of *block* on which the weights of a query depend."""
        spec = self.blocks[block].spec
        if not spec.window:
            return whole(self._size(block))
        window = Window(row, row + 1, column, column + 1).aligned(spec.window)
        return window.grown(spec.halo).aligned(spec.window).clipped(self._size(block))

    def _entering(self, block: str, part: Window) -> Tensor:
        """Return the input (1, C, h, w) of the attention of *block* in a *part* of the map."""
        name = self._source(block)
        if name not in self._kept and self._program.until(name).is_global:
            self._prepare()
        if name in self._kept:
            numbers = self._kept[name][:, part.rows, part.columns]
        else:
            numbers = self._crop(name, part)
        return torch.from_numpy(np.ascontiguousarray(numbers))[None].to(self._device)

    def _crop(self, name: str, part: Window) -> Floats:
        """Compute a *part* of the map *name* from cached maps and the photo."""
        known = Known(self._folded, self._kept, self._device)
        source = self._prepared.job(self._progress).source()
        return execute_crop(self._program.until(name), known, source, part)

    def _source(self, block: str) -> str:
        """Return the name of the map that the attention of *block* reads."""
        return self.blocks[block].source

    def _size(self, block: str) -> Size:
        """Return rows and columns of the map of *block*."""
        return self._sizes[self._source(block)]

    @cached_property
    def _sizes(self) -> Mapping[str, Size]:
        """Rows and columns of all maps, by name."""
        return self._program.sizes(*self.shape)

    def _prepare(self) -> None:
        """Compute, once, the statistics of all pixels that a part needs."""
        if self._program.is_global and not self._folded:
            self._add_up()
            # All pixels attend to each other in every block.
            for block in self.blocks if self._program.most_pixels else ():
                name = self._source(block)
                if name not in self._kept:
                    self._kept[name] = self._crop(name, whole(self._size(block)))

    def _add_up(self) -> None:
        """Run the network up to its last block for its statistics; cache the map if it is small.

        Recorders see all blocks with matrices.
        """
        last = self._source(list(self.blocks)[-1])
        numbers = self._run_until(last)
        # A larger map would leave no room for the inputs of other blocks.
        if self._bytes(last) <= self._room() // 2:
            self._kept[last] = numbers

    def _needs_map(self, block: str) -> bool:
        """True if the weights of a pixel in *block* depend on a large part of the photo."""
        name = self._source(block)
        program = self._program.until(name)
        if name in self._kept:
            return False
        rows, columns = self._size(block)
        part = self._around(block, rows // 2, columns // 2)
        beside = replace(program, passes=program.needed_beside(self._kept))
        rows, columns = photo_window(beside, part, self._sizes).size
        return rows * columns > _LARGE

    def _bytes(self, name: str) -> int:
        """Return the size of the map *name* in bytes."""
        rows, columns = self._sizes[name]
        return rows * columns * self._program.channels(name) * self._program.dtype.itemsize

    def _room(self) -> int:
        """Return the bytes of maps that may still be cached."""
        kept = sum(numbers.nbytes for numbers in self._kept.values())
        return min(MOST_KEPT - kept, free_host_memory() // 2)

    def _run_until(self, name: str) -> Floats:
        """Run the network up to the map *name* and return it; statistics of the run are kept."""
        numbers, _ = self._run(self._program.until(name), folded=self._folded)
        return numbers


def _taken_apart(spec: AttentionSpec, head: int) -> WindowBlock:
    """Return the parts of a block, if the matrices of its *head* can be shown."""
    Selection(spec.block, head).check(spec.heads, 1)
    if spec.parts is None:
        got = "another attention" if spec.window else "attention between all pixels"
    elif spec.keys**2 > MOST_TOKENS:
        got = f"{spec.keys**2}"
    else:
        return spec.parts
    raise AttentionError(
        f"Expected windows of at most {MOST_TOKENS} pixels to show in numbers, got {got} in "
        f"{shown(spec.block)}. Look at the weights of a pixel instead."
    )


def _on_the_map(weights: QueryWeights, near: _Near) -> Tensor:
    """Return the places of the keys on the whole map, from those of *weights* in a part of it.

    Masked keys wrapped around from the opposite border of the part; on the map they wrap around
    from the opposite border of the map.
    """
    part = near.part
    first, sides = torch.tensor([part.top, part.left]), torch.tensor(part.size)
    places = weights.places + first
    is_query = (weights.places == torch.tensor(near.place)).all(1)
    is_apart = weights.regions != weights.regions[is_query]
    away = places - torch.tensor(near.query)
    is_far = is_apart[:, None] & (away.abs() >= sides // 2)
    after = torch.tensor(near.size) - (first + sides)
    return places + is_far * torch.where(away > 0, after, -first)
