"""The record of one run: the matrices of every block.

Attention in MST++ is between feature channels; none of them is a wavelength. In a block of h heads
with d channels each, key channel i and query channel j have the logit L_ij = sigma k_i.q_j / (|k_i|
|q_j|), summed over all pixels of the padded photo, and A_ij = softmax_j(L_ij) is the share of value
channel j in output channel i: rows are keys and sum to 1. Source: Cai et al., CVPRW 2022,
doi:10.1109/CVPRW56347.2022.00090, and its published code, which puts k first.

Letters: h heads, d channels of a head, i key channel (row), j query channel (column).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from napari_mst.base.arrays import Doubles, Floats, Singles
from napari_mst.base.errors import AttentionError, shown
from napari_mst.cube import Provenance
from napari_mst.cube.showing import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORMAP = "inferno"

COLUMNS = 5
"""Heads per row of the figure."""

INCHES = 2.4
"""Side of one matrix in the figure."""

NEARLY_UNIFORM = 0.95
"""Share of the largest possible entropy from which on a matrix counts as nearly uniform."""


@dataclass(frozen=True, eq=False)
class BlockAttention:
    """The matrices of one block, all (h, d, d) float32: logits L, and A = softmax_j(L).

    For a mean over several photos, *spread* is the standard deviation of A.
    """

    logits: Singles
    attention: Singles
    spread: Singles | None = None

    def of_head(self, head: int) -> "BlockAttention":
        """Return the matrices (1, d, d) of one head."""
        only = slice(head, head + 1)
        return BlockAttention(self.logits[only], self.attention[only])

    @property
    def entropy(self) -> Doubles:
        """-sum_j A_ij log2 A_ij in bits, (h, d).

        The entropy is 0 if one channel has all attention, and log2(d) if all have equal shares.
        """
        return entropies(self.attention)


def beside_uniform(weights: Floats) -> str:
    """Describe in a sentence how the rows of *weights* (rows, keys) compare with equal weights."""
    entropy = entropies(weights)
    keys = weights.shape[1]
    low, high = (f"{bits:.2f}" for bits in (entropy.min(), entropy.max()))
    span = low if low == high else f"{low} to {high}"
    which = "Nearly uniform" if is_nearly_uniform(weights) else "Not uniform"
    return (
        f"{which}: entropy {span} of {np.log2(keys):.2f} "
        f"bits, largest weight {weights.max():.3f}; {keys} equal weights would be {1 / keys:.3f} "
        "each."
    )


def is_nearly_uniform(weights: Floats) -> bool:
    """True if the rows of *weights* (rows, keys) have nearly the entropy of equal weights."""
    return bool(entropies(weights).mean() >= NEARLY_UNIFORM * np.log2(weights.shape[1]))


def entropies(weights: Floats) -> Doubles:
    """-sum w log2 w of each row, in bits: from 0 (one key has all weight) to log2 of the keys."""
    shares = weights.astype(np.float64)
    # A key without weight adds nothing, since 0 log 0 counts as 0.
    return -(shares * np.log2(np.maximum(shares, 1e-300))).sum(axis=-1)


@dataclass(frozen=True)
class PixelBlock:
    """A block in which pixels attend to pixels; its weights are computed for one pixel at a time.

    Attributes
    ----------
    window, keys, shift
        Side of a window of queries, side of the window of its keys, and shift of the windows, in
        pixels of the map; 0 if all pixels attend to each other.
    """

    channels: int
    heads: int
    window: int = 0
    keys: int = 0
    shift: int = 0

    def __str__(self) -> str:
        """Describe the windows in words: "windows of 8 x 8, shifted by 4"."""
        if not self.window:
            return "all pixels"
        sides = f"windows of {self.window} x {self.window}"
        if self.keys > self.window:
            return f"{sides} that look at {self.keys} x {self.keys}"
        return f"{sides}, shifted by {self.shift}" if self.shift else sides


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The attention of one run: the matrices of blocks by name (`stages.0.encoder.1`).

    Blocks are in the order in which they run. `pixel_blocks` lists the blocks in which pixels
    attend to pixels, which have no matrices. `layers` lists all maps that the network writes, for
    `features`. `rollouts` combines the attention of all blocks of each stage into one matrix (see
    `attention.rollout`). Files keep neither `layers` nor `rollouts`.

    Notes
    -----
    =========  =======================================================
    attention  (h, d, d) float32, 0-1, of each block; rows add up to 1
    logits     (h, d, d) float32, of any sign
    rollouts   (C, C) float32, 0-1, of each stage
    =========  =======================================================

    Examples
    --------
    >>> model = nm.load_model("mstpp-srgb")
    >>> with nm.attention.recording(model) as record:
    ...     cube = nm.Reconstructor(model).reconstruct(np.full((16, 16, 3), 128, np.uint8))
    >>> len(record), record["stages.0.bottleneck"].attention.shape
    (5, (4, 31, 31))
    >>> record["stages.0.bottleneck"].attention.sum(axis=2).round(3).min().item()
    1.0
    >>> record.plot(["stages.0.bottleneck"]).axes[0].get_title()
    'stage 1, bottleneck 124, head 0 of 4'
    """

    blocks: dict[str, BlockAttention] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    pixel_blocks: dict[str, PixelBlock] = field(default_factory=dict)
    layers: Sequence[str] = ()
    rollouts: dict[str, Singles] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Channels and heads of all blocks, by name."""
        between_channels = {
            name: (matrices.attention.shape[0] * matrices.attention.shape[1], len(matrices.logits))
            for name, matrices in self.blocks.items()
        }
        between_pixels = {
            name: (block.channels, block.heads) for name, block in self.pixel_blocks.items()
        }
        return between_pixels | between_channels

    @property
    def uniformity(self) -> str:
        """A sentence if all matrices are nearly uniform, with equal weights of all channels.

        "" if they are not, or if there are no matrices.
        """
        heads = [head for block in self.blocks.values() for head in block.attention]
        if not heads or not all(map(is_nearly_uniform, heads)):
            return ""
        return (
            "The matrices of all blocks are nearly uniform. Entropy does not measure what a head "
            "does: its effect on the cube may be large."
        )

    @classmethod
    def mean(cls, records: "Sequence[AttentionRecord]", source: str) -> "AttentionRecord":
        """Average the matrices of *records* of photos from *source*, with their `spread`.

        Raises
        ------
        AttentionError
            If there are no records, or their blocks differ.

        Examples
        --------
        >>> explorers = [
        ...     nm.attention.Explorer(nm.Reconstructor(nm.load_model("mstpp-srgb")), photo)
        ...     for photo in np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
        ... ]
        >>> mean = nm.attention.Record.mean([each.record() for each in explorers], "two photos")
        >>> mean["stages.0.bottleneck"].spread.shape
        (4, 31, 31)
        """
        if not records or any(each.shapes != records[0].shapes for each in records):
            raise AttentionError("Expected runs of one model, got none, or other blocks in some.")
        blocks = {}
        for name in records[0]:
            matrices = np.stack([each[name].attention for each in records])
            logits = np.mean([each[name].logits for each in records], axis=0)
            blocks[name] = BlockAttention(logits, matrices.mean(axis=0), matrices.std(axis=0))
        past = replace(
            records[0].provenance,
            source=f"mean of {len(records)} photos of {source}",
            source_sha256="",
        )
        return cls(blocks, past)

    def __repr__(self) -> str:
        """One line with the number of blocks, the model and the photo."""
        made = [self.provenance.model, self.provenance.source]
        by = "".join(f", {shown(text, 40)}" for text in made if text)
        return f"<AttentionRecord of {len(self)} blocks{by}>"

    def __getitem__(self, name: str) -> BlockAttention:
        """Return the matrices of a block; raises `AttentionError` for an unknown name."""
        if name not in self.blocks:
            names = ", ".join(self.blocks)
            expected = f"one of {names}" if names else "a run while the record was open"
            raise AttentionError(f"Expected {shown(expected, 180)}, got the block {shown(name)!r}.")
        return self.blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __bool__(self) -> bool:
        """True if the network has any attention."""
        return bool(self.blocks or self.pixel_blocks)

    def plot(self, blocks: Sequence[str] | None = None) -> "Figure":
        """Draw all heads of *blocks* (default: all), on one scale from 0 to the largest value.

        Raises
        ------
        AttentionError
            If matplotlib is missing, the record is empty, or a block is not in it.
        """
        # An empty record lacks every block, so that any name raises.
        heads = [
            (head_title(self, name, head), matrix)
            for name in list(blocks or self) or [""]
            for head, matrix in enumerate(self[name].attention)
        ]
        figure, axes = grid_figure(len(heads), min(COLUMNS, len(heads)), INCHES)
        # One scale for all heads makes their colours comparable.
        largest = max(float(matrix.max()) for _, matrix in heads)
        for axis, (title, matrix) in zip(axes, heads, strict=False):
            image = axis.imshow(matrix, vmin=0, vmax=largest, cmap=COLORMAP)
            axis.set_title(title, fontsize=7)
            axis.tick_params(labelsize=6)
        figure.supxlabel("query channel j (feature channels, not wavelengths)", fontsize=8)
        figure.supylabel("key channel i", fontsize=8)
        label = "attention A_ij; each row sums to 1"
        figure.colorbar(image, ax=list(axes), label=label, shrink=0.6)
        return figure


def grid_figure(count: int, columns: int, inches: float) -> "tuple[Figure, Any]":
    """Return a figure of *count* axes in *columns*, each *inches* wide and high, and the axes."""
    rows = -(-count // columns)
    size = (inches * columns, inches * rows)
    figure = new_figure(AttentionError, figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[count:]:
        axis.axis("off")
    return figure, axes


def block_title(name: str, channels: int) -> str:
    """Return the readable title of a block: "stage 1, encoder 62" for `stages.0.encoder.1`."""
    match = re.fullmatch(r"stages\.(\d+)\.(encoder|bottleneck|decoder)(\.\d+)?", name)
    return f"stage {int(match[1]) + 1}, {match[2]} {channels}" if match else name


def head_title(record: AttentionRecord, block: str, head: int) -> str:
    """Return the readable title of a *head* in a *block* of *record*."""
    channels, heads = record.shapes[block]
    return f"{block_title(block, channels)}, head {head} of {heads}"


class Drawn(Protocol):
    """A result that can draw itself, such as that of `side_by_side`."""

    def plot(self) -> "Figure":
        """Draw the result as a figure."""


def attention_figure(
    shown: "AttentionRecord | Drawn", blocks: Sequence[str] | None = None
) -> "Figure":
    """Draw matrices, as `shown.plot(blocks)` does, or attentions side by side.

    Notes
    -----
    =====  ==========
    shown  shares 0-1
    =====  ==========

    Examples
    --------
    >>> model = nm.load_model("mstpp-srgb")
    >>> with nm.attention.recording(model) as record:
    ...     cube = nm.Reconstructor(model).reconstruct(np.full((16, 16, 3), 128, np.uint8))
    >>> nm.attention.figure(record, ["stages.0.bottleneck"]).axes[0].get_title()
    'stage 1, bottleneck 124, head 0 of 4'
    """
    return shown.plot() if blocks is None else cast("AttentionRecord", shown).plot(blocks)
