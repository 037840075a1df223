"""Attention of one pixel of a photo: the weights of its keys in a block between pixels.

Only the part of the photo on which they depend is computed: it grows from block to block, and maps
that are kept of a run make it small again. What a network adds up over all pixels is computed once.
Where all pixels attend to each other, photos are small, and all maps are kept of one forward pass.
The weights are those of a run.
Letters: C channels, h heads, H rows, W columns of the map of a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.attention.blocks import AttendingBlock, pixel_blocks, source_map
from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import WEIGHTS
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.recorder import record_attention
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
from napari_mst.networks.attention.windows import Geometry
from napari_mst.networks.network import PHOTO, Folded, Pass, Program
from napari_mst.photo.photo import PhotoLike, Rectangle
from napari_mst.reconstruction.job import Compute
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.watch import UNWATCHED, Watch

MOST_KEPT = 3 << 29
"""Bytes of maps that are kept, at most; half of what is free, where that is less."""

_LARGE = 128**2  # pixels of the photo from which on a part takes so long that a map is worth it


@dataclass(frozen=True, eq=False)
class PixelWeights:
    """The weights of the keys of one pixel of a photo, in one block.

    Attributes
    ----------
    block
        The name of the block.
    weights
        (h, keys), each head sums to 1.
    places
        (keys, 2): row and column of the photo at which the pixels of each key begin. Keys beyond
        the photo are padding.
    regions
        (keys,): the part of a shifted window in which each key lies; only those in the part of the
        pixel have weight. 0 everywhere where no window is shifted.
    query
        Row and column of the photo at which the pixels of the query begin.
    pitch
        Pixels of the photo, on each side, that a query or key stands for.
    geometry
        Sides of the window of queries and of that of the keys, and the shift, in keys; None where
        all pixels attend to each other.
    provenance
        The history of the run whose weights these are.
    """

    block: str
    weights: NDArray[np.float64]
    places: NDArray[np.int64]
    regions: NDArray[np.int64]
    query: tuple[int, int]
    pitch: int
    geometry: Geometry | None
    provenance: Provenance = field(default_factory=Provenance)

    def maps(self, corner: tuple[int, int] = (0, 0)) -> list[AttentionMap]:
        """The weights as a map for each head, where the first pixel that was seen is *corner*."""
        images, first = self.planes()
        row, column = np.add(first, corner)
        middle = (self.pitch - 1) / 2
        pixel = self.query[0] + corner[0], self.query[1] + corner[1]
        return [
            AttentionMap(
                values=image.astype(np.float32),
                overlay=WEIGHTS.name,
                unit=WEIGHTS.unit,
                selection=Selection(self.block, head),
                pitch=self.pitch,
                offset=(float(row + middle), float(column + middle)),
                total=float(image.sum()),
                provenance=self.provenance,
                pixel=pixel,
            )
            for head, image in enumerate(images)
        ]

    def planes(self) -> tuple[NDArray[np.float64], tuple[int, int]]:
        """The weights as images, (h, rows, columns), one value a key, and where they begin.

        It is the row and column of the photo of their first key: for a layer of scale `pitch`.
        """
        is_heard = self.weights.sum(0) > 0
        places = self.places[is_heard]
        first = places.min(0)
        rows, columns = ((places - first) // self.pitch).T
        images = np.zeros((len(self.weights), rows.max() + 1, columns.max() + 1))
        images[:, rows, columns] = self.weights[:, is_heard]
        return images, (int(first[0]), int(first[1]))

    @property
    def effective_keys(self) -> NDArray[np.float64]:
        """The number of keys that count in each head, (h,): 1 / sum of the squared weights."""
        counts: NDArray[np.float64] = 1 / np.square(self.weights).sum(-1)
        return counts

    @property
    def heard(self) -> NDArray[np.bool_]:
        """(keys,): True for the keys that the mask of shifted windows leaves to the query."""
        (own,) = np.flatnonzero((self.places == self.query).all(1))
        is_heard: NDArray[np.bool_] = self.regions == self.regions[own]
        return is_heard


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
        """What is `heard`; `keep` has run, so that pixels come soon."""
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
        if block not in self.blocks:
            raise AttentionError(
                f"Expected a block as {next(iter(self.blocks))}, got {shown(block)!r}."
            )
        check_query((row, column), self.shape)
        attending = self.blocks[block]
        source = self._source(block)
        pitch = self.pitch(block)
        query = (row // pitch, column // pitch)
        size = self._program.sizes(*self.shape)[source]
        part = _part(attending, query, size)
        features = self._features(source, part, watch)
        found = self._found(attending, features, query, part)
        places = _on_the_map(found, query, part, size)
        return PixelWeights(
            block=block,
            weights=found.weights.double().cpu().numpy(),
            places=places.numpy() * pitch,
            regions=found.regions.numpy(),
            query=(query[0] * pitch, query[1] * pitch),
            pitch=pitch,
            geometry=attending.attention.sides if isinstance(attending, WindowBlock) else None,
            provenance=self._seen.provenance(watch),
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

    def _found(
        self, block: AttendingBlock, features: Tensor, query: tuple[int, int], part: Window
    ) -> QueryWeights:
        """The weights of a *query* of the map, from a *part* of it."""
        own = (query[0] - part.top, query[1] - part.left)
        weight = block.attention.value_weight
        with torch.inference_mode():
            normal = block.norm(features.to(weight.dtype))
            return block.attention.weights(normal, own)


def _part(block: AttendingBlock, query: tuple[int, int], size: Size) -> Window:
    """The part of a map of *size* on which the weights of a *query* depend."""
    if isinstance(block, GlobalBlock):
        return whole(size)
    attention = block.attention
    row, column = query
    own = Window(row, row + 1, column, column + 1).aligned(attention.window)
    return own.grown(attention.halo).aligned(attention.window).clipped(size)


def _on_the_map(found: QueryWeights, query: tuple[int, int], part: Window, size: Size) -> Tensor:
    """The places of keys on the whole map of *size*, of those that were found in a *part* of it.

    Keys that the mask keeps apart came round from the opposite border of the part; on the map they
    come from the opposite border of the map.
    """
    corner = torch.tensor([part.top, part.left])
    places = found.places + corner
    own = (places == torch.tensor(query)).all(1)
    is_apart = found.regions != found.regions[own]
    for axis in (0, 1):
        length, first = size[axis], (part.top, part.left)[axis]
        last = first + part.size[axis]
        reach = part.size[axis] // 2
        far = is_apart & ((places[:, axis] - query[axis]).abs() >= reach)
        is_after = places[:, axis] > query[axis]
        places[far & is_after, axis] += length - last
        places[far & ~is_after, axis] -= first
    return places
