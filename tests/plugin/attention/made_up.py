"""A record and maps of attention, made up; imported without Qt, too."""

import numpy as np

from napari_mst.attention.record import AttentionRecord, BlockAttention
from napari_mst.attention.record_views import AttentionMap, Selection
from napari_mst.cube import Provenance

SHAPES = {"encoder.0": 1, "encoder.1": 2, "bottleneck": 4, "decoder.0": 2, "decoder.1": 1}
BUNDLED = "mstpp-srgb"


def make_record(seed: int = 0, stages: int = 3) -> AttentionRecord:
    rng = np.random.default_rng(seed)
    blocks = {}
    for stage in range(stages):
        for part, heads in SHAPES.items():
            logits = rng.normal(size=(heads, 5, 5)).astype(np.float32)
            powers = np.exp(logits)
            blocks[f"stages.{stage}.{part}"] = BlockAttention(
                logits, powers / powers.sum(-1, keepdims=True)
            )
    return AttentionRecord(
        blocks, Provenance(model=BUNDLED, source="photo", source_sha256=str(seed))
    )


def make_map(overlay: str, pitch: int, factor: float = 1.0) -> AttentionMap:
    shape = tuple(-(-side // pitch) for side in (20, 30))
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) * factor
    offset = ((pitch - 1) / 2, (pitch - 1) / 2)
    history = Provenance(source_sha256="0")
    return AttentionMap(
        values, overlay, "1", Selection("stages.0.encoder.0"), pitch, offset, 0.0, history
    )
