"""Every public name and the module that has it: the one list, for Python and for type checkers.

`attention`, `light` and `maps` are groups of names; the first two have lists of their own.
"""

from napari_mst import attention as attention
from napari_mst.analysis import maps as maps
from napari_mst.analysis.classification import best_matches as best_matches
from napari_mst.analysis.classification import endmembers as endmembers
from napari_mst.analysis.comparison import compare_region as compare_region
from napari_mst.analysis.library import read_spectra as read_spectra
from napari_mst.analysis.library import write_spectra as write_spectra
from napari_mst.analysis.maps import formula as formula
from napari_mst.analysis.maps import index as index
from napari_mst.analysis.metamers import metamers as metamers
from napari_mst.analysis.regions import Region as Region
from napari_mst.analysis.regions import label_spectra as label_spectra
from napari_mst.analysis.regions import point_spectrum as point_spectrum
from napari_mst.analysis.regions import region_spectrum as region_spectrum
from napari_mst.analysis.transforms import resample as resample
from napari_mst.base.errors import NapariMstError as NapariMstError
from napari_mst.base.progress import Progress as Progress
from napari_mst.batch.many import reconstruct_many as reconstruct_many
from napari_mst.calibration import light as light
from napari_mst.calibration.chart import Chart as Chart
from napari_mst.calibration.chart import find_chart as find_chart
from napari_mst.calibration.chart_calibration import Calibration as Calibration
from napari_mst.calibration.chart_calibration import calibrate as calibrate
from napari_mst.calibration.corrections import FlatField as FlatField
from napari_mst.cube import Provenance as Provenance
from napari_mst.cube import SpectralCube as SpectralCube
from napari_mst.cube.spectrum import Spectrum as Spectrum
from napari_mst.denoising.non_local_means import non_local_means as non_local_means
from napari_mst.denoising.non_local_means import non_local_weights as non_local_weights
from napari_mst.denoising.sensor_noise import estimated_noise as estimated_noise
from napari_mst.engine.checking import check_network as check_network
from napari_mst.formats import read_cube as read_cube
from napari_mst.formats import write_cube as write_cube
from napari_mst.models.loading import load_model as load_model
from napari_mst.models.model import Model as Model
from napari_mst.models.model_table import list_models as list_models
from napari_mst.photo.cameras import Acquisition as Acquisition
from napari_mst.photo.photo import Photo as Photo
from napari_mst.plugin.adding import add_cube as add_cube
from napari_mst.reconstruction.choosing import reconstruct as reconstruct
from napari_mst.reconstruction.reconstructor import Reconstructor as Reconstructor
from napari_mst.references.coarse_cube import refine_with_cube as refine_with_cube
from napari_mst.references.intervals import interval_of as interval_of
from napari_mst.references.intervals import prediction_intervals as prediction_intervals
from napari_mst.references.reference_spectrum import ReferenceSpectrum as ReferenceSpectrum
from napari_mst.references.refining import refine as refine
from napari_mst.references.suggestions import suggest_measurements as suggest_measurements

__all__: list[str]
__version__: str
