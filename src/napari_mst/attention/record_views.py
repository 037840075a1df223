"""Views of a record: a selected head, a map over the photo, a head step by step.

Letters: d channels of a head, i key channel, j query channel, H rows, W columns.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from napari_mst.attention.record import BlockAttention
from napari_mst.base.arrays import Brief, Singles
from napari_mst.base.errors import AttentionError
from napari_mst.cube import Provenance


@dataclass(frozen=True)
class Selection:
    """A head of a block, with a key channel i and a query channel j.

    All numbers count from 0; None means all channels.

    Raises
    ------
    AttentionError
        From `check`, if the block has no such head or channel.

    Notes
    -----
    ================  ====================
    head, key, query  integers from 0
    ================  ====================

    Examples
    --------
    >>> selection = nm.attention.Selection("stages.0.encoder.1", head=1, key=3)
    >>> print(selection)
    stages.0.encoder.1, head 1, i 3, j all
    >>> selection.check(heads=2, channels=31)
    """

    block: str
    head: int = 0
    key: int | None = None
    query: int | None = None

    def check(self, heads: int, channels: int) -> None:
        """Check the selection against a block of *heads* heads with *channels* channels each."""
        limits = {"head": heads, "key": channels, "query": channels}
        for name, limit in limits.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value < limit:
                raise AttentionError(
                    f"Expected {name} 0 to {limit - 1} in {self.block}, got {value}."
                )

    def __str__(self) -> str:
        """Describe the selection: `stages.0.encoder.1, head 1, i 3, j all`."""
        key = "all" if self.key is None else self.key
        query = "all" if self.query is None else self.query
        return f"{self.block}, head {self.head}, i {key}, j {query}"


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap(Brief):
    """A map over the photo at the resolution of its block, without the padding.

    Attributes
    ----------
    values
        (H, W) float32, or (C, H, W) for all channels of a layer; each value covers *pitch* x
        *pitch* pixels of the photo, and perhaps fewer at the end.
    overlay, unit
        Name of the map in `OVERLAYS`, or "sensitivity", and its unit.
    pitch, offset
        Pixels of the photo from one value to the next, and row and column of the photo at the
        centre of the first value: (0.5, 0.5) if a value covers 2 x 2 pixels.
    total
        Sum over the whole padded photo; `values` lacks the padding.
    pixel
        Row and column of the photo, for the attention weights of one pixel; None for other maps.

    Notes
    -----
    ======  ==========================================================================
    values  (H, W) float32, in `unit`; rows and columns of `pitch` pixels of the photo
    ======  ==========================================================================

    Examples
    --------
    >>> selection = nm.attention.Selection("stages.0.encoder.0", key=3, query=5)
    >>> from napari_mst.attention.record_views import AttentionMap
    >>> score = AttentionMap(np.eye(2, dtype=np.float32), "score", "1", selection, 1, (0, 0), 2)
    >>> score.describe()["block"], score.describe()["total"]
    ('stages.0.encoder.0', 2)
    """

    values: Singles
    overlay: str
    unit: str
    selection: Selection
    pitch: int
    offset: tuple[float, float]
    total: float
    provenance: Provenance = field(default_factory=Provenance)
    pixel: tuple[int, int] | None = None

    @property
    def corner(self) -> tuple[int, int]:
        """Row and column of the first pixel of the photo that the first value covers."""
        row, column = (round(side - (self.pitch - 1) / 2) for side in self.offset)
        return row, column

    def describe(self) -> dict[str, Any]:
        """Return everything but the values, for JSON."""
        names = ("overlay", "unit", "pitch", "offset", "total", "pixel")
        return {
            **{name: getattr(self, name) for name in names},
            **asdict(self.selection),
            "provenance": json.loads(self.provenance.to_json()),
        }


@dataclass(frozen=True, eq=False, repr=False)
class AttentionSteps(Brief):
    """One head step by step: the values behind `overlays`, for all channels of the head.

    The values are sampled at evenly spaced pixels of the photo.

    Attributes
    ----------
    size
        Feature channels, rows and columns of the block on the padded photo.
    features
        (H, W): |x(p)| of the input of the block.
    keys, queries, values
        (d, H, W): sigma k_i(p) / |k_i|, q_j(p) / |q_j| and v_j(p). Keys times queries, summed over
        all pixels, give the logits.
    matrices
        Logits and attention of the head, (1, d, d).
    """

    selection: Selection
    size: tuple[int, int, int]
    features: Singles
    keys: Singles
    queries: Singles
    values: Singles
    matrices: BlockAttention
    provenance: Provenance = field(default_factory=Provenance)

    def attended(self, key: int) -> Singles:
        """Return (A v)_i(p), (H, W): the sum of the values weighted by row *key* of A."""
        row = self.matrices.attention[0, key]
        return np.tensordot(row, self.values, axes=1)
