"""Precisions: float64 is the reference."""

import numpy as np
import pytest
import torch
from tests.reconstruction.conftest import PHOTO, assert_close, small_model

from napari_mst.engine.forms import native
from napari_mst.errors import DeviceError
from napari_mst.reconstruction.reconstructor import Reconstructor


def test_float64_is_the_reference_of_float32_and_needs_twice_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    single = Reconstructor(small_model(), "cpu")
    double = Reconstructor(small_model(), "cpu", precision="float64")
    cube, reference = single.reconstruct(PHOTO), double.reconstruct(PHOTO)
    assert cube.data.dtype == np.dtype(np.float32)
    assert reference.data.dtype == np.dtype(np.float64)
    assert (cube.provenance.precision, reference.provenance.precision) == ("float32", "float64")
    assert_close(cube.data, reference.data)
    # The threads of the kernels, in float32 only, work in a memory of their own.
    monkeypatch.setattr(native, "is_installed", lambda: False)
    twice = 2 * single.plan(2000, 2000).memory
    assert double.plan(2000, 2000).memory == pytest.approx(twice, rel=0.02)
    assert {each.dtype for each in single.model.network.parameters()} == {torch.float32}
    with pytest.raises(
        DeviceError, match=r"Expected a precision of cpu \(float32, float64\), got 'int8'\."
    ):
        Reconstructor(small_model(), "cpu", precision="int8")  # type: ignore[arg-type]
