"""Maps that enter the blocks of a network between pixels, of one photo, whole or in part.

What a network adds up over all pixels is computed once. Maps that are kept of a run make the part
of the photo small that has to be computed for a part of a map. Where all pixels attend to each
other, photos are small, and all maps are kept of one forward pass.
Letters: C channels, h rows and w columns of a part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from napari_mst.arrays import Floats
from napari_mst.attention.blocks import pixel_blocks
from napari_mst.attention.explorer import PhotoExplorer
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.recorder import record_attention
from napari_mst.cube import Provenance
from napari_mst.engine.crop import Known, execute_crop
from napari_mst.engine.features import PaddedPhoto, PhotoRows
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import exact_products, execute
from napari_mst.engine.steps import photo_window
from napari_mst.engine.windows import Size, Window, whole
from napari_mst.errors import AttentionError, shown
from napari_mst.memory import free_host_memory
from napari_mst.networks.network import PHOTO, Folded, Pass
from napari_mst.reconstruction.job import Compute
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.watch import UNWATCHED, Watch

MOST_KEPT = 3 << 29
"""Bytes of maps that are kept, at most; half of what is free, where that is less."""

_LARGE = 128**2  # pixels of the photo from which on a part takes so long that a map is worth it


class BlockMaps(PhotoExplorer):
    """The maps of *photo*, or of a *region* of it, which the network of *reconstructor* sees.

    `blocks` are those between pixels, `shape` is (H, W) of what the network sees.

    Raises
    ------
    AttentionError
        If no block of the network has attention between pixels.
    PhotoError
        See `Reconstructor.reconstruct`.
    """

    def _check_network(self, reconstructor: Reconstructor) -> None:
        self.blocks = pixel_blocks(reconstructor.network)
        if not self.blocks:
            raise AttentionError(
                "Expected a network with attention between pixels, "
                f"got {shown(reconstructor.model.card.name)}. Take another model."
            )
        self._kept: dict[str, Floats] = {}
        self._folded: Folded = {}

    def heard(self, watch: Watch = UNWATCHED) -> AttentionRecord:
        """The shapes of all blocks, with the history.

        Where channels attend to channels as well, the network is run for their matrices.
        """
        with record_attention(self._network(watch)) as heard:
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
                name = name if smallest in self._kept else smallest
                if self._bytes(name) <= self._room():
                    self._kept[name], provenance = self._seen.compute(self._whole(name), watch)
            before = self._source(block)
        return provenance

    def around(self, block: str, query: tuple[int, int]) -> Window:
        """The part of the map of *block* on which the weights of a *query* on it depend."""
        attends = self.blocks[block].attends
        if not attends.window:
            return whole(self.size(block))
        row, column = query
        window = Window(row, row + 1, column, column + 1).aligned(attends.window)
        return window.grown(attends.halo).aligned(attends.window).clipped(self.size(block))

    def entering(self, block: str, part: Window, watch: Watch = UNWATCHED) -> Tensor:
        """A *part* of the map that the attention of *block* sees in a run, (1, C, h, w).

        Raises
        ------
        Cancelled
            As soon as *watch* says so.
        """
        name = self._source(block)
        if name not in self._kept and self._program.until(name).is_global:
            self._prepare(watch)
        if name in self._kept:
            numbers = self._kept[name][:, part.rows, part.columns]
        else:
            present = Known(self._folded, self._kept, self._device)
            source = self._seen.job(watch).source()
            numbers = execute_crop(self._program.until(name), present, source, part)
        return torch.from_numpy(np.ascontiguousarray(numbers))[None].to(self._device)

    def size(self, block: str) -> Size:
        """Rows and columns of the map of *block*."""
        return self._sizes[self._source(block)]

    def pitch(self, block: str) -> int:
        """Pixels of the photo, on each side, that a query of *block* stands for."""
        return int(1 / self._program.scales[self._source(block)])

    def provenance(self) -> Provenance:
        """The history of all that is made of this photo."""
        return self._seen.provenance()

    @cached_property
    def _sizes(self) -> Mapping[str, Size]:
        """Rows and columns of all maps."""
        return self._program.sizes(*self.shape)

    @property
    def _adds_up(self) -> bool:
        """True if blocks depend on what is added up over all pixels."""
        return self._program.is_global and not self._program.most_pixels

    def _prepare(self, watch: Watch) -> None:
        """Compute what a part needs of all pixels, once."""
        if self._program.most_pixels:
            if not self._kept:
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
            self._kept[last] = numbers

    def _forward(
        self,
        source: PhotoRows,
        plan: Plan,  # noqa: ARG002 (a photo this small needs none)
        watch: Watch,
    ) -> Floats:
        """Keep the maps that enter all blocks, of one forward over the whole photo."""
        program = self._program
        photo = PaddedPhoto(source, self._device, program).read(whole(self._sizes[PHOTO]))
        sources = {self._source(block) for block in self.blocks}
        maps: dict[str, Floats] = {}

        def kept(each: Pass, read: Sequence[Tensor], folded: Mapping[str, Any]) -> Tensor:
            watch.check()
            result = each.apply(read, folded)
            if each.writes in sources:
                maps[each.writes] = result[0].cpu().numpy()
                watch.reach(len(maps) / len(sources))
            return result

        with exact_products(self._device), torch.inference_mode():
            bands = program.whole(photo, apply=kept)[0].cpu().numpy()
        self._kept = maps
        return bands

    def _source(self, block: str) -> str:
        """The map that the attention of *block* reads."""
        return self.blocks[block].source

    def _needs_map(self, block: str) -> bool:
        """True if the weights of a pixel in *block* depend on a large part of the photo."""
        name = self._source(block)
        program = self._program.until(name)
        if name in self._kept:
            return False
        rows, columns = self.size(block)
        part = self.around(block, (rows // 2, columns // 2))
        beside = replace(program, passes=program.needed_beside(self._kept))
        rows, columns = photo_window(beside, part, self._sizes).size
        return rows * columns > _LARGE

    def _bytes(self, name: str) -> int:
        """The bytes of the map *name*."""
        rows, columns = self._sizes[name]
        return rows * columns * self._program.channels(name) * self._program.dtype.itemsize

    def _room(self) -> int:
        """The bytes of maps that may still be kept."""
        kept = sum(numbers.nbytes for numbers in self._kept.values())
        return min(MOST_KEPT - kept, free_host_memory() // 2)

    def _whole(self, name: str) -> Compute:
        """The run up to the map *name*, which is returned; what it adds up is kept."""
        program = self._program.until(name)

        def compute(source: PhotoRows, plan: Plan, watch: Watch) -> Floats:
            result = execute(program, source, self._device, plan, watch)
            self._folded |= result.folded
            return result.numbers

        return compute
