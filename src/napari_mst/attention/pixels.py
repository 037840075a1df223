"""Attention of one pixel of a photo: the weights of its keys in a block between pixels.

Only the part of the photo on which they depend is computed: it grows from block to block, and maps
that are kept of a run make it small again. What a network adds up over all pixels is computed once.
Where all pixels attend to each other, photos are small, and all maps are kept of one forward pass.
The weights are those of a run.
Letters: C channels, h heads, H rows, W columns of the map of a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from napari_mst.attention.blocks import AttendingBlock, pixel_blocks, source_map
from napari_mst.attention.head_steps import Places
from napari_mst.attention.maps import Selection
from napari_mst.attention.pixel_weights import PixelWeights
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.recorder import record_attention
from napari_mst.attention.window_steps import WindowSteps, window_steps
from napari_mst.cube import Provenance
from napari_mst.engine.crop import Known, execute_crop
from napari_mst.engine.photo_rows import PaddedPhoto, PhotoRows
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import exact_products, execute
from napari_mst.engine.steps import photo_window
from napari_mst.engine.windows import Size, Window, whole
from napari_mst.errors import AttentionError
from napari_mst.memory import free_host_memory
from napari_mst.messages import shown
from napari_mst.networks.attention.blocks import GlobalBlock, WindowBlock
from napari_mst.networks.attention.query import QueryWeights, check_query
from napari_mst.networks.attention.windows import WindowTokens
from napari_mst.networks.network import PHOTO, Folded, Pass, Program
from napari_mst.photo.photo import PhotoLike, Rectangle
from napari_mst.reconstruction.job import Compute
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.watch import UNWATCHED, Watch

MOST_KEPT = 3 << 29
"""Bytes of maps that are kept, at most; half of what is free, where that is less."""

MOST_TOKENS = 24**2
"""Keys of a window that is shown in numbers, at most."""

_LARGE = 128**2  # pixels of the photo from which on a part takes so long that a map is worth it


class _Near(NamedTuple):
    """The neighbourhood of a pixel, on which its weights depend.

    Attributes
    ----------
    features
        What the attention hears, (1, C, h, w), of a *part* of the map, which has a *size*.
    query
        Row and column of the pixel on the map.
    """

    features: Tensor
    query: tuple[int, int]
    part: Window
    size: Size

    @property
    def own(self) -> tuple[int, int]:
        """Row and column of the pixel in the part."""
        return self.query[0] - self.part.top, self.query[1] - self.part.left


class PixelExplorer:
    """Tells what any pixel of *photo*, or of a *region* of it, attends to.

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

    def __init__(
        self, reconstructor: Reconstructor, photo: PhotoLike, region: Rectangle | None = None
    ) -> None:
        self.blocks = pixel_blocks(reconstructor.network)
        if not self.blocks:
            raise AttentionError(
                "Expected a network with attention between pixels, "
                f"got {shown(reconstructor.model.card.name)}. Take another model."
            )
        self._seen = reconstructor.see(photo, region)
        self._device = reconstructor.device.device
        self._maps: dict[str, NDArray[np.floating]] = {}
        self._folded: Folded = {}
        self.shape: tuple[int, int] = self._seen.shape

    @cached_property
    def _program(self) -> Program:
        """The passes of the network, which is told the light of the photo."""
        return self._seen.job().setup.program

    def record(self, watch: Watch = UNWATCHED) -> AttentionRecord:
        """Hear a run and `keep` its maps, so that pixels come soon; returns what was `heard`."""
        heard = self.heard(watch)
        self.keep(watch)
        return heard

    def heard(self, watch: Watch = UNWATCHED) -> AttentionRecord:
        """The shapes of all blocks, with the history.

        Where channels attend to channels as well, the network is run for their matrices.
        """
        network = self._seen.job(watch).setup.network
        with record_attention(network) as heard:
            if self._adds_up:
                self._add_up(watch)
        return replace(heard, provenance=self._seen.provenance(watch))

    def keep(self, watch: Watch = UNWATCHED) -> Provenance:
        """Run the network and keep the maps without which a pixel would take long.

        That is the map which enters a block whose weights depend on a large part of the photo, or
        the block before, where that map is smaller. No more than `MOST_KEPT` bytes are kept, and
        half of the free memory.

        Raises
        ------
        Cancelled
            As soon as *watch* says so.
        """
        provenance = self._seen.provenance(watch)
        self._prepare(watch)
        before = ""
        for block in self.blocks:
            name = self._source(block)
            if self._needs_map(block):
                smallest = min(name, before or name, key=self._bytes)
                name = name if smallest in self._maps else smallest
                if self._bytes(name) <= self._room():
                    self._maps[name], provenance = self._seen.compute(self._whole(name), watch)
            before = self._source(block)
        return provenance

    @property
    def _adds_up(self) -> bool:
        """True if blocks depend on what is added up over all pixels."""
        return self._program.is_global and not self._program.most_pixels

    def _prepare(self, watch: Watch) -> None:
        """Compute what is to be known of all pixels before any part, unless it is."""
        if self._program.most_pixels:
            if not self._maps:
                self._seen.compute(self._forward, watch)
        elif self._adds_up and not self._folded:
            self._add_up(watch)

    def _add_up(self, watch: Watch) -> None:
        """Run the network up to its last block, for what it adds up; keep the map if it is small.

        All blocks with matrices are heard.
        """
        last = self._source(list(self.blocks)[-1])
        numbers, _ = self._seen.compute(self._whole(last), watch)
        # A larger one would leave no room for the maps on which other blocks depend.
        if self._bytes(last) <= self._room() // 2:
            self._maps[last] = numbers

    def _forward(
        self,
        source: PhotoRows,
        plan: Plan,  # noqa: ARG002 (a photo this small needs none)
        watch: Watch,
    ) -> NDArray[np.floating]:
        """Keep the maps that enter all blocks, of one forward over the whole photo."""
        program = self._program
        size = program.sizes(*self.shape)[PHOTO]
        photo = PaddedPhoto(source, self._device, program).read(whole(size))
        wanted = {self._source(block) for block in self.blocks}
        maps: dict[str, NDArray[np.floating]] = {}

        def kept(each: Pass, read: Sequence[Tensor], folded: Mapping[str, Any]) -> Tensor:
            watch.check()
            result = each.apply(read, folded)
            if each.writes in wanted:
                maps[each.writes] = result[0].cpu().numpy()
                watch.report(len(maps) / len(wanted))
            return result

        with exact_products(self._device), torch.inference_mode():
            bands = program.whole(photo, apply=kept)[0].cpu().numpy()
        self._maps = maps
        return bands

    def weights(self, block: str, row: int, column: int, watch: Watch = UNWATCHED) -> PixelWeights:
        """The weights of all keys of the pixel at *row* and *column*, in *block*.

        Raises
        ------
        AttentionError
            If there is no such block or pixel.
        Cancelled
            As soon as *watch* says so.
        """
        near = self._near(block, row, column, watch)
        with torch.inference_mode():
            found = self.blocks[block].attention.weights(near.features, near.own)
        return self._told(block, near, found)

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
        attending = self._with_windows(block, head)
        attention = attending.attention
        near = self._near(block, row, column, watch)
        with torch.inference_mode():
            tokens = attention.around(near.features, near.own)
            pixel = self._told(block, near, attention.weights(near.features, near.own))
            if not pixel.heard.all():
                features = self._from_all_borders(block, pixel, tokens.features[0], watch)
                tokens = tokens.heard_as(features, *attention.split(features))
            at = _places_of_queries(tokens, near) * pixel.pitch, pixel.places
            is_normed = not isinstance(attending.norm, nn.Identity)
            steps = window_steps(attention, tokens, head, at, is_normed)
        return WindowSteps(steps, pixel, head)

    def _with_windows(self, block: str, head: int) -> WindowBlock:
        """A block whose *head* can be shown in numbers."""
        attending = self.blocks[block]
        Selection(block, head).check(attending.attention.heads, 1)
        if not isinstance(attending, WindowBlock):
            got = "attention between all pixels"
        elif attending.attention.key_window**2 > MOST_TOKENS:
            got = f"{attending.attention.key_window**2}"
        else:
            return attending
        raise AttentionError(
            f"Expected windows of at most {MOST_TOKENS} pixels to show in numbers, got {got} in "
            f"{shown(block)}. Look at the weights of a pixel instead."
        )

    def _from_all_borders(
        self, block: str, pixel: PixelWeights, features: Tensor, watch: Watch
    ) -> Tensor:
        """The *features* of a window, (n, C), with those that its mask keeps from the *pixel*.

        A part of the map has others in their place: those of its own opposite border.
        """
        attending = self.blocks[block]
        result = features.clone()
        for region in np.unique(pixel.regions[~pixel.heard]):
            is_there = torch.from_numpy(pixel.regions == region)
            places = pixel.places[pixel.regions == region] // pixel.pitch
            (top, left), (bottom, right) = places.min(0).tolist(), (places.max(0) + 1).tolist()
            part = Window(top, bottom, left, right)
            own = self._features(self._source(block), part, watch)
            normal = attending.norm(own.to(features.dtype))
            result[is_there] = normal[0].flatten(1).mT
        return result

    def _check(self, block: str, row: int, column: int) -> None:
        """Refuse a block or a pixel that is not there."""
        if block not in self.blocks:
            raise AttentionError(
                f"Expected a block as {next(iter(self.blocks))}, got {shown(block)!r}."
            )
        check_query((row, column), self.shape)

    def _near(self, block: str, row: int, column: int, watch: Watch) -> _Near:
        """The part of the map of *block* on which the weights of a pixel depend."""
        self._check(block, row, column)
        attending = self.blocks[block]
        source = self._source(block)
        pitch = self.pitch(block)
        query = (row // pitch, column // pitch)
        size = self._program.sizes(*self.shape)[source]
        part = _part(attending, query, size)
        features = self._features(source, part, watch)
        with torch.inference_mode():
            normal = attending.norm(features.to(attending.attention.value_weight.dtype))
        return _Near(normal, query, part, size)

    def _told(self, block: str, near: _Near, found: QueryWeights) -> PixelWeights:
        """The weights of a query that were *found*, in pixels of the photo."""
        attending = self.blocks[block]
        pitch = self.pitch(block)
        row, column = near.query
        return PixelWeights(
            block=block,
            weights=found.weights.double().cpu().numpy(),
            places=_on_the_map(found, near).numpy() * pitch,
            regions=found.regions.numpy(),
            query=(row * pitch, column * pitch),
            pitch=pitch,
            geometry=attending.attention.sides if isinstance(attending, WindowBlock) else None,
            provenance=self._seen.provenance(),
        )

    def pitch(self, block: str) -> int:
        """Pixels of the photo, on each side, that a query of *block* stands for."""
        return int(1 / self._program.scales[self._source(block)])

    def _source(self, block: str) -> str:
        """The map that the attention of *block* reads."""
        return source_map(self._program, block)

    def _needs_map(self, block: str) -> bool:
        """Tell whether the weights of a pixel in *block* depend on a large part of the photo."""
        name = self._source(block)
        program = self._program.until(name)
        if name in self._maps:
            return False
        sizes = self._program.sizes(*self.shape)
        middle = (sizes[name][0] // 2, sizes[name][1] // 2)
        part = _part(self.blocks[block], middle, sizes[name])
        own = replace(program, passes=program.needed_beside(self._maps))
        rows, columns = photo_window(own, part, sizes).size
        return rows * columns > _LARGE

    def _bytes(self, name: str) -> int:
        """The bytes of the map *name*."""
        rows, columns = self._program.sizes(*self.shape)[name]
        return rows * columns * self._program.channels(name) * self._program.dtype.itemsize

    def _room(self) -> int:
        """The bytes of maps that may still be kept."""
        kept = sum(one.nbytes for one in self._maps.values())
        return min(MOST_KEPT - kept, free_host_memory() // 2)

    def _whole(self, name: str) -> Compute:
        """The run up to the map *name*, which is returned; what it adds up is kept."""
        program = self._program.until(name)

        def compute(source: PhotoRows, plan: Plan, watch: Watch) -> NDArray[np.floating]:
            result = execute(program, source, self._device, plan, watch)
            self._folded |= result.folded
            return result.numbers

        return compute

    def _features(self, name: str, part: Window, watch: Watch) -> Tensor:
        """The *part* of the map *name*, (1, C, h, w), as a run computes it."""
        if name not in self._maps and self._program.until(name).is_global:
            self._prepare(watch)
        if name in self._maps:
            numbers = self._maps[name][:, part.rows, part.columns]
        else:
            known = Known(self._folded, self._maps, self._device)
            source = self._seen.job(watch).source()
            numbers = execute_crop(self._program.until(name), known, source, part)
        return torch.from_numpy(np.ascontiguousarray(numbers))[None].to(self._device)


def _part(block: AttendingBlock, query: tuple[int, int], size: Size) -> Window:
    """The part of a map of *size* on which the weights of a *query* depend."""
    if isinstance(block, GlobalBlock):
        return whole(size)
    attention = block.attention
    row, column = query
    own = Window(row, row + 1, column, column + 1).aligned(attention.window)
    return own.grown(attention.halo).aligned(attention.window).clipped(size)


def _on_the_map(found: QueryWeights, near: _Near) -> Tensor:
    """The places of keys on the whole map, of those that were *found* in a part of it.

    Keys that the mask keeps apart came round from the opposite border of the part; on the map they
    come from the opposite border of the map.
    """
    part = near.part
    places = found.places + torch.tensor([part.top, part.left])
    own = (places == torch.tensor(near.query)).all(1)
    is_apart = found.regions != found.regions[own]
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
        own = QueryWeights(tokens.bias[:, tokens.own], answering, tokens.regions)
        return _on_the_map(own, near).numpy()
    corner = near.part.top, near.part.left
    places: Places = asking.numpy() + np.array(corner)
    return places
