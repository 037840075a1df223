"""napari-mst: RGB photos to hyperspectral cubes, in napari, in Python and on the command line.

The public names are imported on first use, so that `import napari_mst` loads neither torch nor
napari.
"""

# `typing` takes long to import, and until `__main__` has run, Ctrl-C gives a traceback.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from napari_mst.adaptation.adapting import adapt
    from napari_mst.adaptation.bands import error_bands, spectrum_band
    from napari_mst.adaptation.calibrating import Calibration, calibrate
    from napari_mst.adaptation.companion import adapt_to_cube
    from napari_mst.adaptation.known import KnownSpectrum
    from napari_mst.adaptation.suggesting import suggest_spots
    from napari_mst.attention.explorer import AttentionExplorer
    from napari_mst.attention.record import (
        AttentionMap,
        AttentionRecord,
        Selection,
        attention_figure,
        read_attention,
        write_attention,
    )
    from napari_mst.attention.recorder import record_attention
    from napari_mst.cube import Provenance, SpectralCube
    from napari_mst.denoising.noise_estimate import estimated_noise
    from napari_mst.denoising.non_local_means import non_local_means, non_local_weights
    from napari_mst.errors import NapariMstError
    from napari_mst.formats import read_cube, write_cube
    from napari_mst.light.estimate import LightEstimate, estimate_light
    from napari_mst.models import MODELS, Model, ModelCard, load_model
    from napari_mst.photo.cameras import Capture
    from napari_mst.photo.chart import Chart
    from napari_mst.photo.flat_field import FlatField
    from napari_mst.photo.photo import Photo
    from napari_mst.photo.white import GreyPatch, capture_from_patch
    from napari_mst.reconstruction.reconstructor import Reconstructor
    from napari_mst.spectra.compare import compare_region
    from napari_mst.spectra.labels import label_spectra
    from napari_mst.spectra.library import read_spectra, write_spectra
    from napari_mst.spectra.maps import MAPS, MapInputs
    from napari_mst.spectra.matching import best_matches
    from napari_mst.spectra.regions import Region, point_spectrum, region_spectrum
    from napari_mst.spectra.resampling import resample
    from napari_mst.spectra.spectrum import Spectrum

__version__ = "0.1.0"

_HOMES = {
    "AttentionExplorer": "attention.explorer",
    "AttentionMap": "attention.record",
    "AttentionRecord": "attention.record",
    "Calibration": "adaptation.calibrating",
    "Capture": "photo.cameras",
    "Chart": "photo.chart",
    "FlatField": "photo.flat_field",
    "GreyPatch": "photo.white",
    "KnownSpectrum": "adaptation.known",
    "LightEstimate": "light.estimate",
    "MAPS": "spectra.maps",
    "MODELS": "models",
    "MapInputs": "spectra.maps",
    "Model": "models",
    "ModelCard": "models",
    "NapariMstError": "errors",
    "Photo": "photo.photo",
    "Provenance": "cube",
    "Reconstructor": "reconstruction.reconstructor",
    "Region": "spectra.regions",
    "Selection": "attention.record",
    "SpectralCube": "cube",
    "Spectrum": "spectra.spectrum",
    "adapt": "adaptation.adapting",
    "adapt_to_cube": "adaptation.companion",
    "attention_figure": "attention.record",
    "best_matches": "spectra.matching",
    "calibrate": "adaptation.calibrating",
    "capture_from_patch": "photo.white",
    "compare_region": "spectra.compare",
    "error_bands": "adaptation.bands",
    "estimate_light": "light.estimate",
    "estimated_noise": "denoising.noise_estimate",
    "label_spectra": "spectra.labels",
    "load_model": "models",
    "non_local_means": "denoising.non_local_means",
    "non_local_weights": "denoising.non_local_means",
    "point_spectrum": "spectra.regions",
    "read_attention": "attention.record",
    "read_cube": "formats",
    "read_spectra": "spectra.library",
    "record_attention": "attention.recorder",
    "region_spectrum": "spectra.regions",
    "resample": "spectra.resampling",
    "spectrum_band": "adaptation.bands",
    "suggest_spots": "adaptation.suggesting",
    "write_attention": "attention.record",
    "write_cube": "formats",
    "write_spectra": "spectra.library",
}

__all__ = [
    "MAPS",
    "MODELS",
    "AttentionExplorer",
    "AttentionMap",
    "AttentionRecord",
    "Calibration",
    "Capture",
    "Chart",
    "FlatField",
    "GreyPatch",
    "KnownSpectrum",
    "LightEstimate",
    "MapInputs",
    "Model",
    "ModelCard",
    "NapariMstError",
    "Photo",
    "Provenance",
    "Reconstructor",
    "Region",
    "Selection",
    "SpectralCube",
    "Spectrum",
    "__version__",
    "adapt",
    "adapt_to_cube",
    "attention_figure",
    "best_matches",
    "calibrate",
    "capture_from_patch",
    "compare_region",
    "error_bands",
    "estimate_light",
    "estimated_noise",
    "label_spectra",
    "load_model",
    "non_local_means",
    "non_local_weights",
    "point_spectrum",
    "read_attention",
    "read_cube",
    "read_spectra",
    "record_attention",
    "region_spectrum",
    "resample",
    "spectrum_band",
    "suggest_spots",
    "write_attention",
    "write_cube",
    "write_spectra",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'napari_mst' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"napari_mst.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
