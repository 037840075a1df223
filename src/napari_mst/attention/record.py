"""The records of the attention explorer: the matrices of one run, and maps over its photo.

Attention in MST++ is between feature channels, of which no one is a wavelength. In a block of h
heads with d channels each, key channel i and query channel j have the logit L_ij = sigma k_i.q_j /
(|k_i| |q_j|), summed over all pixels of the padded photo, and A_ij = softmax_j(L_ij) is the share
of value channel j in output channel i: rows are keys and sum to 1. Source: Cai et al., CVPRW 2022,
doi:10.1109/CVPRW56347.2022.00090, and its published code, which puts k first.

Letters: h heads, d channels of a head, i key channel (row), j query channel (column), H rows, W
columns.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.attention.figures import TitledHead, heads_figure
from napari_mst.attention.pixel_block import PixelBlock
from napari_mst.cube import Provenance
from napari_mst.errors import AttentionError
from napari_mst.messages import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONVENTION = (
    "A[head, i, j]: key channel i in rows, query channel j in columns; "
    "rows sum to 1; channels, not wavelengths"
)
"""The order of the indices of a matrix, in the words of its file."""

NEARLY_UNIFORM = 0.95
"""The share of the largest entropy from which on a matrix counts as nearly uniform."""

_RECORD = "napari_mst"  # the name of all that is told beside the numbers, in both kinds of file
_HEADERS = 2**20  # bytes that a file may take beside its numbers


@dataclass(frozen=True, eq=False)
class BlockAttention:
    """The matrices of one block, both (h, d, d) float32: logits L, and A = softmax_j(L)."""

    logits: NDArray[np.float32]
    attention: NDArray[np.float32]

    def of_head(self, head: int) -> "BlockAttention":
        """The matrices of one head, (1, d, d)."""
        own = slice(head, head + 1)
        return BlockAttention(self.logits[own], self.attention[own])

    @property
    def entropy(self) -> NDArray[np.float64]:
        """-sum_j A_ij log2 A_ij in bits, (h, d).

        It is 0 if one channel has all attention, and log2(d) if all have the same.
        """
        shares = self.attention.astype(np.float64)
        # A channel without attention adds nothing: 0 x log 0 counts as 0.
        bits: NDArray[np.float64] = -(shares * np.log2(np.maximum(shares, 1e-300))).sum(axis=-1)
        return bits

    @property
    def is_nearly_uniform(self) -> bool:
        """True if the rows have nearly the entropy of equal weights, in the mean of each head."""
        most = np.log2(self.attention.shape[-1])
        return bool((self.entropy.mean(axis=-1) >= NEARLY_UNIFORM * most).all())

    def beside_uniform(self, head: int) -> str:
        """Compare one head with equal weights, in a sentence."""
        depth = self.attention.shape[-1]
        entropy = self.entropy[head]
        low, high = (f"{bits:.2f}" for bits in (entropy.min(), entropy.max()))
        span = low if low == high else f"{low} to {high}"
        is_near = entropy.mean() >= NEARLY_UNIFORM * np.log2(depth)
        return (
            f"{'Nearly uniform' if is_near else 'Not uniform'}: entropy {span} of "
            f"{np.log2(depth):.2f} bits, largest weight {self.attention[head].max():.3f}; "
            f"{depth} equal weights would be {1 / depth:.3f} each."
        )


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The attention of one run: the matrices of blocks by name (`stages.0.encoder.1`).

    They are in the order in which the blocks run. `pixel_blocks` are those in which pixels attend
    to pixels: they have no matrices of a whole run.

    Notes
    -----
    =========  =======================================================
    attention  (h, d, d) float32, 0-1, of each block; rows add up to 1
    logits     (h, d, d) float32, of any sign
    =========  =======================================================

    Examples
    --------
    >>> model = nm.load_model("mstpp-srgb")
    >>> with nm.record_attention(model) as record:
    ...     cube = nm.Reconstructor(model).reconstruct(np.full((16, 16, 3), 128, np.uint8))
    >>> len(record), record["stages.0.bottleneck"].attention.shape
    (5, (4, 31, 31))
    >>> record["stages.0.bottleneck"].attention.sum(axis=2).round(3).min().item()
    1.0
    >>> record.plot(["stages.0.bottleneck"]).axes[0].get_title()
    'stage 1, bottleneck 124, head 0'
    """

    blocks: dict[str, BlockAttention] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    pixel_blocks: dict[str, PixelBlock] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Channels and heads of all blocks by name."""
        between_channels = {
            name: (one.attention.shape[0] * one.attention.shape[1], one.attention.shape[0])
            for name, one in self.blocks.items()
        }
        between_pixels = {
            name: (one.channels, one.heads) for name, one in self.pixel_blocks.items()
        }
        return between_pixels | between_channels

    @property
    def uniformity(self) -> str:
        """Say how near the matrices are to uniform, where all channels have the same weight.

        "" if they are not near, or if there are none.
        """
        if not self.blocks or not all(one.is_nearly_uniform for one in self.blocks.values()):
            return ""
        return "The matrices of all blocks are nearly uniform."

    def __repr__(self) -> str:
        """One line: the number of blocks, the model and the photo."""
        made = [self.provenance.model, self.provenance.source]
        by = "".join(f", {shown(text, 40)}" for text in made if text)
        return f"<AttentionRecord of {len(self)} blocks{by}>"

    def __getitem__(self, name: str) -> BlockAttention:
        """The matrices of a block; raises `AttentionError` for a name that is not there."""
        if name not in self.blocks:
            names = ", ".join(self.blocks)
            known = f"one of {names}" if names else "a run while the record was open"
            raise AttentionError(f"Expected {shown(known, 180)}, got the block {shown(name)!r}.")
        return self.blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __bool__(self) -> bool:
        """True if the network has attention of any kind."""
        return bool(self.blocks or self.pixel_blocks)

    def plot(self, blocks: Sequence[str] | None = None) -> "Figure":
        """A figure of all heads of *blocks*, on one scale from 0 to the largest value.

        By default these are all blocks that were recorded.

        Raises
        ------
        AttentionError
            If matplotlib is missing, the record is empty, or a block is not in it.
        """
        heads: list[TitledHead] = []
        # Of an empty record, any block is the one that is missing.
        for name in list(blocks or self) or [""]:
            matrices = self[name].attention
            count, depth, _ = matrices.shape
            title = block_title(name, count * depth)
            heads += [(f"{title}, head {head}", matrix) for head, matrix in enumerate(matrices)]
        return heads_figure(heads)


@dataclass(frozen=True)
class Selection:
    """A head of a block, and a key channel i and query channel j of it.

    All count from 0; None means all channels.

    Raises
    ------
    AttentionError
        From `check`, if the block has no such head or channel.

    Notes
    -----
    ================  ====================
    head, key, query  whole numbers from 0
    ================  ====================

    Examples
    --------
    >>> selection = nm.Selection("stages.0.encoder.1", head=1, key=3)
    >>> print(selection)
    stages.0.encoder.1, head 1, i 3, j all
    >>> selection.check(heads=2, channels=31)
    """

    block: str
    head: int = 0
    key: int | None = None
    query: int | None = None

    def check(self, heads: int, channels: int) -> None:
        """Compare the selection with a block of so many *heads* of so many *channels* each."""
        limits = {"head": heads, "key": channels, "query": channels}
        for name, limit in limits.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value < limit:
                raise AttentionError(
                    f"Expected {name} 0 to {limit - 1} in {self.block}, got {value}."
                )

    def __str__(self) -> str:
        """For people: `stages.0.encoder.1, head 1, i 3, j all`."""
        key = "all" if self.key is None else self.key
        query = "all" if self.query is None else self.query
        return f"{self.block}, head {self.head}, i {key}, j {query}"


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """A map over the photo at the resolution of its block, its padding cropped.

    Attributes
    ----------
    values
        (H, W) float32; each value stands for *pitch* x *pitch* pixels of the photo, the last ones
        perhaps for fewer.
    overlay, unit
        The name of the map in `OVERLAYS`, or "sensitivity", and its unit.
    pitch, offset
        Pixels of the photo from one value to the next, and the (row, column) of the photo at which
        the centre of the first value lies: (0.5, 0.5) where a value stands for 2 x 2 pixels.
    total
        Sum over the whole padded photo, of which `values` lacks the padding.

    Notes
    -----
    ======  ==========================================================================
    values  (H, W) float32, in `unit`; rows and columns of `pitch` pixels of the photo
    ======  ==========================================================================

    Examples
    --------
    >>> selection = nm.Selection("stages.0.encoder.0", key=3, query=5)
    >>> one = nm.AttentionMap(np.eye(2, dtype=np.float32), "score", "1", selection, 1, (0, 0), 2)
    >>> one.describe()["block"], one.describe()["total"]
    ('stages.0.encoder.0', 2)
    """

    values: NDArray[np.float32]
    overlay: str
    unit: str
    selection: Selection
    pitch: int
    offset: tuple[float, float]
    total: float
    provenance: Provenance = field(default_factory=Provenance)

    def describe(self) -> dict[str, Any]:
        """All but the numbers, for JSON."""
        names = ("overlay", "unit", "pitch", "offset", "total")
        told = {name: getattr(self, name) for name in names}
        return {
            **told,
            **asdict(self.selection),
            "provenance": json.loads(self.provenance.to_json()),
        }


@dataclass(frozen=True, eq=False)
class AttentionSteps:
    """One head step by step: the numbers that `overlays` map, for all its channels.

    They are at some pixels of the photo only, evenly spread.

    Attributes
    ----------
    size
        Feature channels, rows and columns of the block on the padded photo.
    features
        (H, W): |x(p)| of the input of the block.
    keys, queries, values
        (d, H, W): sigma k_i(p) / |k_i|, q_j(p) / |q_j| and v_j(p). Keys times queries, summed over
        all pixels, are the logits.
    matrices
        Logits and attention of the head, (1, d, d).
    """

    selection: Selection
    size: tuple[int, int, int]
    features: NDArray[np.float32]
    keys: NDArray[np.float32]
    queries: NDArray[np.float32]
    values: NDArray[np.float32]
    matrices: BlockAttention
    provenance: Provenance = field(default_factory=Provenance)

    def attended(self, key: int) -> NDArray[np.float32]:
        """(H, W): (A v)_i(p), the sum of the values weighted by row *key* of A."""
        row = self.matrices.attention[0, key]
        weighted: NDArray[np.float32] = np.tensordot(row, self.values, axes=1)
        return weighted


def block_title(name: str, channels: int | None = None) -> str:
    """The title of a block for people.

    `stages.0.encoder.1` becomes "stage 1, encoder 62" for 62 *channels*, and without them "stage 1,
    encoder 2".
    """
    match = re.fullmatch(r"stages\.(\d+)\.(encoder|bottleneck|decoder)(?:\.(\d+))?", name)
    if match is None:
        return name
    stage, part, level = match.groups()
    title = f"stage {int(stage) + 1}, {part}"
    if channels is not None:
        return f"{title} {channels}"
    return f"{title} {int(level) + 1}" if level else title


def check_target(path: str | Path, *, overwrite: bool = False) -> None:
    """Refuse, before any work is done, a file that could not be saved. Raises `SaveError`."""
    crash_safe.check_targets([Path(path)], overwrite=overwrite)


def write_attention(
    path: str | Path,
    record: AttentionRecord,
    maps: Sequence[AttentionMap] = (),
    *,
    overwrite: bool = False,
) -> Path:
    """Save a record, and maps beside it, as `.npz`.

    Its arrays are `<block>/attention`, `<block>/logits` and `maps/<n>`, and the history as JSON.

    Raises
    ------
    SaveError
        See `crash_safe.saving`; the file that was there before is then intact.

    Notes
    -----
    ======  ======================
    record  shares 0-1
    maps    float32 in their units
    ======  ======================

    Examples
    --------
    >>> nm.write_attention("attention.npz", nm.AttentionRecord()).name
    'attention.npz'
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, block in record.blocks.items():
        arrays[f"{name}/attention"] = block.attention
        arrays[f"{name}/logits"] = block.logits
    for number, one in enumerate(maps):
        arrays[f"maps/{number}"] = one.values
    told = {
        "convention": CONVENTION,
        "provenance": json.loads(record.provenance.to_json()),
        "maps": [one.describe() for one in maps],
        "pixel_blocks": {name: asdict(block) for name, block in record.pixel_blocks.items()},
    }
    arrays[_RECORD] = np.array(json.dumps(told))
    save: Callable[..., None] = np.savez  # its own type takes arrays for its options
    target = Path(path)
    needed = sum(array.nbytes for array in arrays.values()) + _HEADERS
    saving = crash_safe.saving(target, needed=needed, overwrite=overwrite)
    with saving as (temporary,), temporary.open("wb") as file:
        save(file, **arrays)
    return target


def read_attention(path: str | Path) -> AttentionRecord:
    """The record in a file of `write_attention`, without its maps.

    Raises
    ------
    AttentionError
        If the file is missing, damaged or of another kind.

    Notes
    -----
    =======  ===========================================
    returns  shares 0-1, and logits of any sign; float32
    =======  ===========================================

    Examples
    --------
    >>> record = nm.AttentionRecord(provenance=nm.Provenance(model="mstpp-srgb"))
    >>> path = nm.write_attention("attention.npz", record)
    >>> nm.read_attention(path).provenance.model
    'mstpp-srgb'
    """
    source = Path(path)
    try:
        with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            told = json.loads(str(archive[_RECORD]))
            blocks = {}
            for key in archive.files:
                name = key.removesuffix("/attention")
                if name != key:
                    logits = _matrices(archive[f"{name}/logits"])
                    blocks[name] = BlockAttention(logits, _matrices(archive[key]))
            between = {
                name: PixelBlock(**told_block)
                for name, told_block in told.get("pixel_blocks", {}).items()
            }
        past = Provenance.from_json(json.dumps(told["provenance"]))
        return AttentionRecord(blocks, past, between)
    except Exception as error:  # numpy and zipfile let many types escape from a damaged file
        raise AttentionError(
            f"Expected a file of attention matrices, got {shown(source.name)} "
            f"({shown(error, 60)}). Record it again."
        ) from error


def write_map(path: str | Path, one: AttentionMap, *, overwrite: bool = False) -> Path:
    """Save one map as a float32 TIFF, with all about it as JSON in its description.

    Raises
    ------
    SaveError
        See `crash_safe.saving`; the file that was there before is then intact.
    """
    import tifffile

    target = Path(path)
    metadata = {"axes": "YX", _RECORD: one.describe()}
    needed = one.values.nbytes + _HEADERS
    with crash_safe.saving(target, needed=needed, overwrite=overwrite) as (temporary,):
        tifffile.imwrite(temporary, one.values, photometric="minisblack", metadata=metadata)
    return target


def _matrices(stored: NDArray[Any]) -> NDArray[np.float32]:
    if stored.ndim != 3 or stored.shape[1] != stored.shape[2]:
        raise AttentionError(f"Expected matrices of shape (heads, d, d), got {stored.shape}.")
    return np.asarray(stored, dtype=np.float32)


def attention_figure(record: AttentionRecord, blocks: Sequence[str] | None = None) -> "Figure":
    """The figure of `record.plot(blocks)`.

    Notes
    -----
    ======  ==========
    record  shares 0-1
    ======  ==========

    Examples
    --------
    >>> model = nm.load_model("mstpp-srgb")
    >>> with nm.record_attention(model) as record:
    ...     cube = nm.Reconstructor(model).reconstruct(np.full((16, 16, 3), 128, np.uint8))
    >>> nm.attention_figure(record, ["stages.0.bottleneck"]).axes[0].get_title()
    'stage 1, bottleneck 124, head 0'
    """
    return record.plot(blocks)
