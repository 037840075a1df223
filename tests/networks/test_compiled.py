"""The programs without torch say the passes of the torch modules, and give the same cubes."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from napari_mst import Reconstructor, load_model
from napari_mst.engine.fast_paths import native
from napari_mst.engine.fast_paths.table import kind_of
from napari_mst.networks.network import Pass

MODELS = ("mstpp-photo", "mstpp-srgb", "pixelwise-srgb")
TORCH_ONLY = ("local", "statistic", "fold", "work", "values", "attention", "block")


@pytest.mark.parametrize("name", MODELS)
def test_every_pass_is_that_of_the_torch_module(name: str) -> None:
    model = load_model(name)
    compiled = model.compiled
    assert compiled is not None
    program = model.network.program()
    assert model.compiled is None  # the module may be changed from now on
    assert [each.writes for each in compiled.passes] == [each.writes for each in program.passes]
    said = [each.name for each in fields(Pass) if each.name not in TORCH_ONLY]
    for ours, theirs in zip(compiled.passes, program.passes, strict=True):
        assert [getattr(ours, name) for name in said] == [getattr(theirs, name) for name in said]
        assert kind_of(ours.local) is kind_of(theirs.local)
        assert ours.cost == theirs.cost
        assert compiled.values(ours) == program.values(theirs)
        assert (ours.statistic is None) == (theirs.statistic is None)
    assert (compiled.in_bands, compiled.multiple) == (program.in_bands, program.multiple)


RUN = """
import sys
import numpy as np
from napari_mst import Reconstructor, load_model
photo = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
for name in sys.argv[1:]:
    cube = Reconstructor(load_model(name), "cpu").reconstruct(photo)
    assert "torch" not in sys.modules
    np.save(f"{name}.npy", cube.data)
"""


@pytest.mark.skipif(not native.is_ready(), reason="without kernels torch computes")
def test_a_run_on_a_cpu_imports_no_torch_and_gives_the_bits_of_the_torch_module(
    tmp_path: Path,
) -> None:
    subprocess.run([sys.executable, "-c", RUN, *MODELS], cwd=tmp_path, check=True)
    photo = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    for name in MODELS:
        model = load_model(name)
        assert model.network is model.network
        assert model.compiled is None
        cube = Reconstructor(model, "cpu").reconstruct(photo)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), cube.data)
