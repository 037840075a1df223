"""Fixtures that every folder of tests uses."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Small tensors on many threads wait for each other, and on a busy machine they wait a hundred times longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where two bindings of Qt are installed, pytest-qt would take another one than napari.
if find_spec("PyQt6"):
    os.environ.setdefault("PYTEST_QT_API", os.environ.get("QT_API", "pyqt6"))


@pytest.fixture(scope="module", params=["numba", "oneDNN"])
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    """What computes on a CPU: the kernels that numba compiles, or torch alone."""
    from napari_mst.engine import native

    if request.param == "numba" and not native.is_ready():
        pytest.skip("numba is not installed, or has no kernels for this processor")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "oneDNN":
            patch.setattr(native, "is_ready", lambda: False)
        yield request.param


@pytest.fixture
def ends_soon() -> Iterator[None]:
    """Fails a test that waits for ever, as one does that reads from a pipe without a writer."""
    import signal

    def fail(*_: object) -> None:
        pytest.fail("It waited for ever.")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(10)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of reference data that lies beside a developer's checkout; it is too large, or not ours, to ship."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the reference data ../shared/data is not beside this checkout")
    return folder
