"""Damaged files by the thousand: each is read exactly, or refused by one typed error; nothing crashes, hangs or swells.

They are read in child processes with limits of memory and time, many a process, so that a crash has a witness.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from napari_mst.cube import SpectralCube
from napari_mst.formats import write_cube

DATA = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
CUBE = SpectralCube(DATA, np.array([400.0, 455.5, 512.25, 600.0, 700.0]), metadata={"description": "x"})
CHILD = """
import json, pathlib, resource, signal, sys, time
import numpy as np, psutil
import tifffile, h5py, scipy.io
from napari_mst.errors import CubeFileError
from napari_mst.formats import read_cube
folder, target, part, seed, count = pathlib.Path(sys.argv[1]), *sys.argv[2:4], *map(int, sys.argv[4:])
whole = (folder / part).read_bytes()
expected = read_cube(folder / target).data.copy()
process = psutil.Process()
resource.setrlimit(resource.RLIMIT_AS, (process.memory_info().vms + 2**29,) * 2)
generator = np.random.default_rng(seed)
signal.signal(signal.SIGALRM, lambda *_: sys.exit("hangs"))
tally = {"exact": 0, "other": 0, "refused": 0}
for number in range(count):
    damaged = bytearray(whole)
    for _ in range(generator.integers(1, 4)):
        at, kind = int(generator.integers(len(damaged))), generator.integers(4)
        if kind == 0: damaged[at] = int(generator.integers(256))
        elif kind == 1: damaged[at] ^= 1 << int(generator.integers(8))
        elif kind == 2: damaged[at : at + int(generator.integers(1, 9))] = b""
        else: damaged[at:at] = generator.bytes(int(generator.integers(1, 9)))
        damaged = damaged or bytearray(b"?")
    (folder / part).write_bytes(damaged)
    print(f"{number} {bytes(damaged).hex()}" if len(damaged) < 2**16 else number, file=sys.stderr)
    signal.alarm(20)
    try:
        found = read_cube(folder / target).data
        tally["exact" if np.array_equal(found, expected) else "other"] += 1
    except CubeFileError as error:
        assert len(str(error)) < 300, str(error)
        tally["refused"] += 1
    signal.alarm(0)
print(json.dumps(tally))
"""


def write(folder: Path, kind: str) -> tuple[str, str]:
    """What to open and what to damage: a small file of this *kind*."""
    if kind == "v5":
        savemat(folder / "a.mat", {"cube": DATA.transpose(1, 2, 0), "bands": CUBE.wavelengths}, do_compression=True)
        return "a.mat", "a.mat"
    suffix, _, flavour = kind.partition(":")
    path = write_cube(folder / f"a.{suffix}", CUBE, **({"flavour": flavour} if flavour else {}))
    return path.name, path.name


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="limits of memory and alarms are a thing of POSIX")
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("hdr", 5000),
        ("tif:gdal", 2000),
        ("tif:imagej", 750),
        ("tif:ome", 750),
        ("npz", 1000),
        ("mat", 250),
        ("v5", 250),
    ],
)
def test_ten_thousand_damaged_files_end_well(tmp_path: Path, kind: str, count: int) -> None:
    target, part = write(tmp_path, kind)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, tmp_path, target, part, "7", str(count)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    tally = json.loads(done.stdout)
    assert sum(tally.values()) == count
    assert tally["refused"] > 0
    assert not tally["other"]
