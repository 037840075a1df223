"""Fixtures that every folder of tests uses."""

import os
from pathlib import Path

import pytest

# Small tensors on many threads wait for each other, and on a busy machine they wait a hundred times longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of reference data that lies beside a developer's checkout; it is too large, or not ours, to ship."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the reference data ../shared/data is not beside this checkout")
    return folder
