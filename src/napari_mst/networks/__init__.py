"""Networks, one file each, and `NETWORKS`, the table of networks that a weights file can hold.

A network is a torch module that lists its passes (`module.Network`); the engine, the pipeline and
the window need nothing else. To add a network, write a file here and a row of `NETWORKS`;
CONTRIBUTING.md has an example. Only the table and the networks import torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_mst.networks.module import Network
    from napari_mst.networks.registry import NETWORKS, OURS, Kind

__all__ = ["NETWORKS", "OURS", "Kind", "Network"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from napari_mst.networks import registry

    return getattr(registry, name)
