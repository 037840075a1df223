"""The public names of `napari_mst.attention`."""

from napari_mst.attention.explorer import AttentionExplorer as Explorer
from napari_mst.attention.explorer import features as features
from napari_mst.attention.record import AttentionRecord as Record
from napari_mst.attention.record import attention_figure as figure
from napari_mst.attention.record_files import read_attention as read
from napari_mst.attention.record_files import write_attention as write
from napari_mst.attention.record_views import Selection as Selection
from napari_mst.attention.recorder import record_attention as recording
from napari_mst.attention.six_attentions import side_by_side as side_by_side
from napari_mst.attention.what_if import AttentionChange as Change
from napari_mst.attention.what_if import HeadEffects as HeadEffects

__all__ = [
    "Change",
    "Explorer",
    "HeadEffects",
    "Record",
    "Selection",
    "features",
    "figure",
    "read",
    "recording",
    "side_by_side",
    "write",
]
