"""The plan of memory holds where files are written while a cube is computed."""

import sys

import numpy as np
import pytest

from lab.benchmarks.memory import measured_apart


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak in this way")
@pytest.mark.parametrize(("kind", "pixels"), [("clip", 250_000), ("lazy-zarr", 1_000_000)])
def test_a_save_takes_no_more_than_is_planned(kind: str, pixels: int) -> None:
    cases = [measured_apart("mstpp-photo", kind, pixels, 1) for _ in range(3)]
    assert np.median([planned / peak for planned, peak in cases]) >= 1
