"""Every public name and the module that has it: the one list, for Python and for type checkers."""

from napari_mst.adaptation.adapting import adapt as adapt
from napari_mst.adaptation.bands import error_bands as error_bands
from napari_mst.adaptation.bands import spectrum_band as spectrum_band
from napari_mst.adaptation.calibrating import Calibration as Calibration
from napari_mst.adaptation.calibrating import calibrate as calibrate
from napari_mst.adaptation.companion import adapt_to_cube as adapt_to_cube
from napari_mst.adaptation.known import KnownSpectrum as KnownSpectrum
from napari_mst.adaptation.suggesting import suggest_spots as suggest_spots
from napari_mst.attention.explorer import AttentionExplorer as AttentionExplorer
from napari_mst.attention.files import read_attention as read_attention
from napari_mst.attention.files import write_attention as write_attention
from napari_mst.attention.maps import AttentionMap as AttentionMap
from napari_mst.attention.maps import Selection as Selection
from napari_mst.attention.record import AttentionRecord as AttentionRecord
from napari_mst.attention.record import attention_figure as attention_figure
from napari_mst.attention.recorder import record_attention as record_attention
from napari_mst.cube import Provenance as Provenance
from napari_mst.cube import SpectralCube as SpectralCube
from napari_mst.denoising.noise_estimate import estimated_noise as estimated_noise
from napari_mst.denoising.non_local_means import non_local_means as non_local_means
from napari_mst.denoising.non_local_means import non_local_weights as non_local_weights
from napari_mst.errors import NapariMstError as NapariMstError
from napari_mst.formats import read_cube as read_cube
from napari_mst.formats import write_cube as write_cube
from napari_mst.light.estimate import LightEstimate as LightEstimate
from napari_mst.light.estimate import estimate_light as estimate_light
from napari_mst.models import MODELS as MODELS
from napari_mst.models import Model as Model
from napari_mst.models import ModelCard as ModelCard
from napari_mst.models import load_model as load_model
from napari_mst.photo.cameras import Capture as Capture
from napari_mst.photo.chart import Chart as Chart
from napari_mst.photo.flat_field import FlatField as FlatField
from napari_mst.photo.photo import Photo as Photo
from napari_mst.photo.white import GreyPatch as GreyPatch
from napari_mst.photo.white import capture_from_patch as capture_from_patch
from napari_mst.plugin.adding import add_cube as add_cube
from napari_mst.reconstruction.reconstructor import Reconstructor as Reconstructor
from napari_mst.spectra.compare import compare_region as compare_region
from napari_mst.spectra.labels import label_spectra as label_spectra
from napari_mst.spectra.library import read_spectra as read_spectra
from napari_mst.spectra.library import write_spectra as write_spectra
from napari_mst.spectra.map_kind import MapInputs as MapInputs
from napari_mst.spectra.maps import MAPS as MAPS
from napari_mst.spectra.matching import best_matches as best_matches
from napari_mst.spectra.metamers import Metamers as Metamers
from napari_mst.spectra.metamers import metamers as metamers
from napari_mst.spectra.regions import Region as Region
from napari_mst.spectra.regions import point_spectrum as point_spectrum
from napari_mst.spectra.regions import region_spectrum as region_spectrum
from napari_mst.spectra.resampling import resample as resample
from napari_mst.spectra.spectrum import Spectrum as Spectrum

__all__: list[str]
__version__: str
