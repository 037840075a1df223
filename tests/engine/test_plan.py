"""The plan of memory: what a run needs is stated before it starts, and it keeps to it."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from napari_mst.engine import native
from napari_mst.engine import plan as planning
from napari_mst.engine.plan import make_plan
from napari_mst.engine.run import run
from napari_mst.errors import OutOfMemory
from napari_mst.models.mst_plus_plus import Hyperparameters, MSTPlusPlus

CPU = torch.device("cpu")
PUBLISHED = Hyperparameters()


def test_maps_and_a_working_set_are_planned():
    plan = make_plan(PUBLISHED, 1000, 1000, CPU, budget=10**9)
    assert not plan.is_in_file
    assert 403 * 10**6 < plan.memory < 600 * 10**6
    assert str(plan) == f"needs {plan.memory / 1e9:.1f} GB of memory"


@pytest.mark.parametrize("size", [(10_000, 10_000)], ids=["059-hundred-megapixels"])
def test_bad_input(size, monkeypatch):
    """100 megapixels within 4 GB of memory: through a file, and said so before the run."""
    monkeypatch.setattr(planning.shutil, "disk_usage", lambda path: _Disk(free=10**11))
    plan = make_plan(PUBLISHED, *size, CPU, budget=4 * 10**9)
    assert plan.is_in_file
    assert plan.memory < 4 * 10**9
    assert plan.disk == 13 * 31 * 10**8
    assert "40.3 GB of disk" in str(plan)


class _Disk:
    def __init__(self, free: int) -> None:
        self.free = free


def test_photo_that_fits_nowhere_is_refused_with_the_numbers(monkeypatch):
    monkeypatch.setattr(planning.shutil, "disk_usage", lambda path: _Disk(free=10**9))
    with pytest.raises(OutOfMemory, match=r"Expected 40\.\d GB of free memory .* got 4\.0 GB \(and 1\.0 GB of disk\)"):
        make_plan(PUBLISHED, 10_000, 10_000, CPU, budget=4 * 10**9)


def test_maps_in_a_file_change_no_bit_and_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=2).eval().requires_grad_(False)
    photo = np.random.default_rng(0).random((3, 70, 90), dtype=np.float32)
    in_memory, in_file = (
        run(network, lambda start, stop: photo[:, start:stop], 70, 90, CPU, planning.Plan(is_in_file, 0))
        for is_in_file in (False, True)
    )
    np.testing.assert_array_equal(in_memory, in_file)
    assert list(tmp_path.iterdir()) == []


MEASURE = """
import sys
import numpy as np, torch
from napari_mst.engine import native
native.is_installed = lambda: sys.argv[3] == "numba"
from napari_mst.engine.plan import make_plan
from napari_mst.engine.run import run
from napari_mst.models.mst_plus_plus import MSTPlusPlus

def kilobytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))

def measure(height, width):
    photo = np.zeros((3, height, width), np.float32)
    plan = make_plan(network.hyperparameters, height, width, cpu)
    run(network, lambda start, stop: photo[:, start:stop], height, width, cpu, plan)
    return plan.memory

cpu, network = torch.device("cpu"), MSTPlusPlus(stages=1).eval().requires_grad_(False)
measure(16, 16)
before = kilobytes("VmRSS")
planned = measure(int(sys.argv[1]), int(sys.argv[2]))
print(planned / 1024 / (kilobytes("VmHWM") - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process in this way")
@pytest.mark.parametrize("size", [(400, 500), (640, 560)])
@pytest.mark.parametrize("executor", ["numba", "oneDNN"])
def test_the_plan_is_within_a_fifth_of_the_measured_peak(size, executor):
    if executor == "numba" and not native.is_ready():
        pytest.skip("numba is not installed, or has no kernels for this processor")
    arguments = [sys.executable, "-c", MEASURE, *map(str, size), executor]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert 0.8 < float(done.stdout) < 1.2
