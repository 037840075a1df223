"""Tensors of torch and masked arrays become the numbers of a cube, and a cube becomes a tensor."""

import numpy as np
import pytest
import torch
from torch.utils.dlpack import from_dlpack

from napari_mst.analysis.regions import Region, label_spectra
from napari_mst.base.errors import CubeError, SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.denoising.non_local_means import non_local_means
from napari_mst.references.reference_spectrum import ReferenceSpectrum

WAVELENGTHS = np.array([500.0, 550])


def test_a_tensor_and_its_cube_share_their_memory() -> None:
    tensor = torch.zeros(2, 3, 4)
    cube = SpectralCube(tensor, WAVELENGTHS)
    assert isinstance(cube.data, np.ndarray)
    tensor[1, 2, 3] = 7
    assert cube.data[1, 2, 3] == 7
    for again in (from_dlpack(cube), torch.as_tensor(cube)):
        assert again.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, 3, 4, requires_grad=True),
        torch.zeros(2, 3, 4, dtype=torch.bfloat16),
        torch.zeros(2, 3, 4, device="meta"),
        torch.zeros(2, 3, 4).to_sparse(),
    ],
    ids=["gradient", "bfloat16", "elsewhere", "sparse"],
)
def test_a_tensor_that_numpy_cannot_share_is_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(CubeError, match=r"^Expected a tensor that NumPy can share, got Tensor"):
        SpectralCube(tensor, WAVELENGTHS)


@pytest.mark.parametrize(("dtype", "made"), [("i2", "f4"), ("i4", "f8"), ("f4", "f4"), ("?", "f4")])
def test_what_a_mask_hides_is_nan(dtype: str, made: str) -> None:
    data = np.ma.array(np.ones((2, 3, 4), dtype), mask=False)
    data[1, 2, 3] = np.ma.masked
    expected = np.ones((2, 3, 4), made)
    expected[1, 2, 3] = np.nan
    cube = SpectralCube(data, WAVELENGTHS)
    assert type(cube.data) is np.ndarray
    assert cube.data.dtype == made
    assert data.dtype == dtype
    np.testing.assert_array_equal(cube.data, expected)
    clear = SpectralCube(np.ma.ones((2, 3, 4), dtype), WAVELENGTHS)
    assert type(clear.data) is np.ndarray
    assert clear.data.dtype == dtype


def test_masked_spectra_labels_and_images_keep_their_gaps() -> None:
    values = np.ma.array([0.5, 9.0], mask=[False, True])
    assert Spectrum([500, 550], values).values.tolist()[0] == 0.5  # type: ignore[arg-type]
    assert np.isnan(Spectrum([500, 550], values).values[1])  # type: ignore[arg-type]
    with pytest.raises(SpectrumError, match="got NaN"):
        ReferenceSpectrum(1, 1, values)
    labels = np.ma.array([[1, 1], [2, 2]], mask=[[True, False], [True, True]])
    assert Region.of_label(labels, 1).box == (slice(0, 1), slice(1, 2))
    cube = SpectralCube(np.ones((2, 2, 2)), WAVELENGTHS)
    assert list(label_spectra(cube, labels)) == [1]
    image = np.ma.array(np.ones((1, 5, 5)), mask=False)
    image[0, 2, 2] = np.ma.masked
    denoised = non_local_means(image, 0.1, distance=1)
    assert np.argwhere(np.isnan(denoised)).tolist() == [[0, 2, 2]]
