"""Attention of one photo: matrices, maps, single heads step by step, and sensitivities.

Letters: d channels of a head, H rows, W columns.
"""

import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from napari_mst.attention.overlays import FEATURES, OVERLAYS, SENSITIVITY, Caption
from napari_mst.attention.probe import HeadProbe, tapped
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.record_views import AttentionMap, AttentionSteps, Selection
from napari_mst.attention.recorder import Attending, attention_blocks, check_name, record_attention
from napari_mst.attention.sensitivity import Value, corner, mixing_matrices, sensitivity
from napari_mst.base.arrays import Floats, Singles
from napari_mst.base.errors import AttentionError, shown
from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.cube import Provenance
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import execute
from napari_mst.networks import Network
from napari_mst.networks.network import Program
from napari_mst.photo.photo import PhotoLike, Rectangle
from napari_mst.reconstruction.reconstructor import Reconstructor

PICTURE = 160
"""Largest side, in pixels, of the pictures of `AttentionExplorer.steps`."""


class PhotoExplorer:
    """Base class for exploring a network on *photo*, or on a *region* of it.

    `shape` is (H, W) of the photo or region. `Reconstructor.reconstruct` describes the arguments.
    """

    def __init__(
        self,
        reconstructor: Reconstructor,
        photo: PhotoLike,
        *,
        region: Rectangle | None = None,
        progress: ProgressLike = None,
    ) -> None:
        self._check_network(reconstructor)
        self._reconstructor = reconstructor
        self._device = reconstructor.device.device
        self._progress = as_progress(progress)
        self._prepared = reconstructor.prepare(photo, region)
        self.shape: tuple[int, int] = self._prepared.shape
        top, _, left, _ = region or reconstructor.options.region or (0, 0, 0, 0)
        self._first = np.array([top, left])

    def _check_network(self, reconstructor: Reconstructor) -> None:
        """Raise `AttentionError` if the network lacks the attention to explore."""

    def reporting_to(self, progress: Progress) -> Self:
        """Return a copy that reports its runs to *progress* and does not denoise the photo again.

        Examples
        --------
        >>> from napari_mst.base.progress import Progress
        >>> photo = np.full((16, 16, 3), 128, np.uint8)
        >>> explorer = nm.attention.Explorer(nm.Reconstructor(nm.load_model("mstpp-srgb")), photo)
        >>> shares = []
        >>> record = explorer.reporting_to(Progress(shares.append)).record()
        >>> shares[-1]
        1.0
        """
        other = copy.copy(self)
        other._progress = progress
        return other

    def _network(self) -> Network:
        """Return the network, adapted to the light of the photo."""
        return self._prepared.job(self._progress).setup.network

    @cached_property
    def _program(self) -> Program:
        """The passes of the network, adapted to the light of the photo."""
        return self._network().program()

    def features(self, layer: str) -> AttentionMap:
        """Return all maps of a *layer* of the network over the photo; raises as `features` does."""
        planes, past = self.padded_features(layer)
        return self._map(FEATURES, Selection(layer), planes, past, self._pitch(layer))

    def _pitch(self, name: str) -> int:
        """Return the side, in pixels of the photo, of one value of the map *name*."""
        return int(1 / self._program.scales[name])

    def padded_features(self, layer: str) -> tuple[Floats, Provenance]:
        """Return the maps (C, h, w) of a *layer* over the padded photo, and their history."""
        check_name(layer, [each.writes for each in self._program.passes], "layer")
        program = self._program.until(layer)
        return self._run(program)

    def _run(
        self,
        program: Program,
        progress: Progress | None = None,
        folded: dict[str, Any] | None = None,
    ) -> tuple[Floats, Provenance]:
        """Run *program* in place of the network's own, and add its statistics to *folded*."""

        def compute(source: PhotoRows, plan: Plan, progress: Progress) -> Floats:
            result = execute(program, source, self._device, plan, progress)
            if folded is not None:
                folded.update(result.folded)
            return result.numbers

        return self._prepared.compute(compute, progress or self._progress)

    def _map(
        self,
        caption: Caption,
        selection: Selection,
        padded: Floats,
        past: Provenance,
        pitch: int = 1,
    ) -> AttentionMap:
        """Return the map of *padded* values (..., h, w), with the padding removed."""
        height, width = (-(-side // pitch) for side in self.shape)
        row, column = self._first + (pitch - 1) / 2  # the centre of pitch x pitch pixels
        return AttentionMap(
            values=np.ascontiguousarray(padded[..., :height, :width], np.float32),
            overlay=caption.name,
            unit=caption.unit,
            selection=selection,
            pitch=pitch,
            offset=(float(row), float(column)),
            # The total includes the padding, as logits do.
            total=float(padded.sum(dtype=np.float64)),
            provenance=past,
        )


class AttentionExplorer(PhotoExplorer):
    """Explores the attention of the network of *reconstructor* on *photo*, or a *region* of it.

    `shape` is (H, W) of the photo or region. `Reconstructor.reconstruct` describes the arguments;
    every method runs the network, and raises the errors of `reconstruct`. A photo that needs
    denoising is denoised once. Attention is global, so it is computed separately for a region.

    Raises
    ------
    AttentionError
        If the network has no spectral attention.
    PhotoError
        See `Reconstructor.reconstruct`.

    Notes
    -----
    =============  ===========================================================================
    photo          a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    map()          (h, w) float32, in the unit that the map names; one value for pitch x pitch
                   pixels
    record()       shares 0-1 whose rows add up to 1
    sensitivity()  (h, w) float32, 0 or more: reflectance for each unit, 0-1, of the photo
    steps()        (h, w) or (d, h, w) float32, without a unit
    =============  ===========================================================================

    Examples
    --------
    >>> photo = np.full((16, 16, 3), 128, np.uint8)
    >>> explorer = nm.attention.Explorer(nm.Reconstructor(nm.load_model("mstpp-srgb")), photo)
    >>> block = next(iter(explorer.record()))
    >>> explorer.map("score", nm.attention.Selection(block, key=3, query=5)).values.shape
    (16, 16)
    >>> explorer.steps(block).keys.shape
    (31, 16, 16)
    >>> explorer.sensitivity(band=15, row=8, column=8).values.shape
    (16, 16)
    """

    def _check_network(self, reconstructor: Reconstructor) -> None:
        if not attention_blocks(reconstructor.network):
            raise AttentionError(
                "Expected a network with spectral attention, "
                f"got {reconstructor.model.card.name}. Take another model."
            )
        if reconstructor.precision not in ("float32", "float64"):
            raise AttentionError(
                "Expected float32 or float64 to look at attention, "
                f"got {reconstructor.precision}. Take one of these."
            )

    def record(self) -> AttentionRecord:
        """Run the network and return its attention matrices, with the history of the run."""
        setup = self._prepared.job(self._progress).setup
        with record_attention(setup.network) as record:
            _, provenance = self._prepared.compute(setup.cube_of, self._progress)
        return replace(record, provenance=provenance)

    def map(self, overlay: str, selection: Selection) -> AttentionMap:
        """Return a map of `OVERLAYS`, by running the network up to the block.

        Raises
        ------
        AttentionError
            If there is no such overlay, block, head or channel.
        """
        check_name(overlay, OVERLAYS, "map")
        block = self._checked(selection)
        program = tapped(self._program, selection, OVERLAYS[overlay].compute)
        (padded,), past = self._run(program)
        return self._map(OVERLAYS[overlay], selection, padded, past, self._pitch(block.source))

    def steps(self, block: str, head: int = 0) -> AttentionSteps:
        """Return one head step by step, as pictures of at most `PICTURE` pixels a side.

        Raises
        ------
        AttentionError
            If there is no such block or head.
        """
        selection = Selection(block, head)
        attending = self._checked(selection)
        channels, pitch = attending.spec.channels, self._pitch(attending.source)
        height, width = (side // pitch for side in self._program.padded(*self.shape))
        stride = -(-max(height, width) // PICTURE)  # a picture need not show every pixel
        depth = channels // attending.spec.heads
        program = tapped(self._program, selection, HeadProbe.steps, 1 + 3 * depth, stride)
        with record_attention(self._network()) as record:
            planes, provenance = self._run(program)
        rows, columns = (-(-side // (pitch * stride)) for side in self.shape)
        unpadded = planes[:, :rows, :columns].astype(np.float32, copy=False)
        features, keys, queries, values = np.split(unpadded, np.cumsum([1, depth, depth]))
        return AttentionSteps(
            selection=selection,
            size=(channels, height, width),
            features=features[0],
            keys=keys,
            queries=queries,
            values=values,
            matrices=record[block].of_head(head),
            provenance=provenance,
        )

    def sensitivity(
        self, band: int, row: int, column: int, record: AttentionRecord | None = None
    ) -> AttentionMap:
        """Map the pixels on which one band of one pixel of the cube depends.

        The module `sensitivity` states the limits of this map. Row and column count from the first
        pixel of the region. *record* comes from a run on the same pixels; by default one is made.

        Raises
        ------
        AttentionError
            If there is no such band or pixel.
        """
        at = Value(band, row, column)
        limits = (self._network().out_bands, *self.shape)
        for name, index, limit in zip(at._fields, at, limits, strict=True):
            if not 0 <= index < limit:
                raise AttentionError(f"Expected {name} 0 to {limit - 1}, got {index}.")
        matrices = mixing_matrices(self._program, record or self.record())

        def compute(
            source: PhotoRows,
            plan: Plan,  # noqa: ARG001 (a crop is small and needs none)
            progress: Progress,
        ) -> Singles:
            return sensitivity(self._program, matrices, source, at, progress)[None]

        (values,), past = self._prepared.compute(compute, self._progress)
        of_value = Selection(f"band {band}, row {row}, column {column}")
        top, left = self._first + corner(self._program, at, self.shape)
        made = self._map(SENSITIVITY, of_value, values, past)
        return replace(made, offset=(float(top), float(left)))

    def _checked(self, selection: Selection) -> Attending:
        """Return the chosen block; `AttentionError` if there is no such block, head or channel."""
        blocks = attention_blocks(self._network())
        check_name(selection.block, blocks)
        block = blocks[selection.block]
        heads = block.spec.heads
        selection.check(heads, block.spec.channels // heads)
        if block.spec.parts is None:
            raise AttentionError(
                f"Expected a block of S-MSA to make maps of, got {shown(selection.block)}, which "
                "is of another kind. Look at its matrices."
            )
        return block


def features(
    reconstructor: Reconstructor,
    photo: PhotoLike,
    layer: str,
    *,
    region: Rectangle | None = None,
    progress: ProgressLike = None,
) -> Floats:
    """Return the map (C, h, w) of any *layer* of a network, named by the pass that writes it.

    The map is computed as in any run, exact and streamed, over the photo padded for the network.

    Raises
    ------
    AttentionError
        If there is no such layer; the message lists the first layers of the network.
    PhotoError
        See `Reconstructor.reconstruct`.

    Notes
    -----
    =======  ==================================================================
    photo    a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    returns  (C, h, w), of any sign, without a unit
    =======  ==================================================================

    Examples
    --------
    >>> photo = np.full((16, 24, 3), 128, np.uint8)
    >>> reconstructor = nm.Reconstructor(nm.load_model("mstpp-srgb"))
    >>> nm.attention.features(reconstructor, photo, "stages.0.down.1").shape
    (124, 4, 6)
    """
    explorer = PhotoExplorer(reconstructor, photo, region=region, progress=progress)
    return explorer.padded_features(layer)[0]
