"""Tensors of torch become the numbers of a cube, and a cube becomes a tensor."""

import numpy as np
import pytest
import torch
from torch.utils.dlpack import from_dlpack

from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeError

WAVELENGTHS = np.array([500.0, 550])


def test_a_tensor_and_its_cube_share_their_memory() -> None:
    tensor = torch.zeros(2, 3, 4)
    cube = SpectralCube(tensor, WAVELENGTHS)  # type: ignore[arg-type]
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
        SpectralCube(tensor, WAVELENGTHS)  # type: ignore[arg-type]
