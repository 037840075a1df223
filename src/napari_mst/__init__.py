"""napari-mst: RGB photos to hyperspectral cubes, in napari, in Python and on the command line.

The public names are imported on first use, so that `import napari_mst` loads neither torch nor napari.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_mst.cube import Provenance, SpectralCube
    from napari_mst.errors import NapariMstError
    from napari_mst.formats import read_cube, write_cube
    from napari_mst.models import MODELS, Model, ModelCard, load_model
    from napari_mst.photo import Photo
    from napari_mst.reconstruction import Reconstructor

__version__ = "0.1.0"

_HOMES = {
    "MODELS": "models",
    "Model": "models",
    "ModelCard": "models",
    "NapariMstError": "errors",
    "Photo": "photo",
    "Provenance": "cube",
    "Reconstructor": "reconstruction",
    "SpectralCube": "cube",
    "load_model": "models",
    "read_cube": "formats",
    "write_cube": "formats",
}

__all__ = [
    "MODELS",
    "Model",
    "ModelCard",
    "NapariMstError",
    "Photo",
    "Provenance",
    "Reconstructor",
    "SpectralCube",
    "__version__",
    "load_model",
    "read_cube",
    "write_cube",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'napari_mst' has no attribute {name!r}")
    return getattr(import_module(f"napari_mst.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
