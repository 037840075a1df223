"""Models: `MODELS`, the cards of the known ones, and `load_model`. Only loading imports torch."""

from typing import TYPE_CHECKING, Any

from napari_mst.models.cards import MODELS, ModelCard

if TYPE_CHECKING:
    from napari_mst.models.checkpoint import Model, load_model

__all__ = ["MODELS", "Model", "ModelCard", "load_model"]


def __getattr__(name: str) -> Any:
    if name not in ("Model", "load_model"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from napari_mst.models import checkpoint

    return getattr(checkpoint, name)
