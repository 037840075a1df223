"""Models: `MODELS`, the cards of the known models, and `load_model`."""

from typing import TYPE_CHECKING, Any

from napari_mst.models.cards import MODELS, ModelCard

if TYPE_CHECKING:
    from napari_mst.models.loading import load_model
    from napari_mst.models.model import Model

__all__ = ["MODELS", "Model", "ModelCard", "load_model"]


def __getattr__(name: str) -> Any:
    # Code that only needs cards does not wait for the modules that load weights.
    if name not in ("Model", "load_model"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from napari_mst.models import loading

    return getattr(loading, name)
