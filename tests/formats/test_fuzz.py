"""Damaged files by the thousand: each is read as it was, read with a warning, or refused.

Nothing crashes, hangs or swells. Child processes with limits of memory and time read many files
each, so that a crash has a witness. Files of ours are compared with the cube that was saved:
numbers, wavelengths, unit, quantity, provenance and metadata. Files of other programs have no seal;
there GDAL, h5py and zarr read the damaged file too, and whoever reads what they do not, or other
numbers, says why.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import rasterio
import zarr
from scipy.io import savemat

from napari_mst.cube import SpectralCube
from napari_mst.formats import write_cube

DATA = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
CUBE = SpectralCube(
    DATA, np.array([400.0, 455.5, 512.25, 600.0, 700.0]), metadata={"description": "x"}
)
CHILD = """
import json, os, pathlib, resource, signal, sys, warnings
import numpy as np, psutil
import tifffile, h5py, scipy.io, rasterio, zarr
from napari_mst.base.errors import CubeFileError
from napari_mst.formats import read_cube
from napari_mst.formats.cube_record import CHANGED, DESCRIPTION_CHANGED

folder = pathlib.Path(sys.argv[1])
target, part, judge = sys.argv[2:5]
seed, count = map(int, sys.argv[5:])
options = {"band_axis": 0} if judge else {}


def contents(cube):
    fields = {key: value for key, value in cube.metadata.items() if key != "warnings"}
    history = cube.provenance.to_json()
    others = repr(sorted(fields.items()))
    told = cube.wavelengths.tolist(), cube.unit, cube.quantity, history, others
    return np.asarray(cube.data), told


def gdal(path):
    warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
    with rasterio.open(path) as file:
        tags = [file.tags(band) for band in file.indexes]
        is_nm = {tag.get("wavelength_units") for tag in tags} == {"Nanometers"}
        wavelengths = [float(tag.get("wavelength", "nan")) for tag in tags]
        return file.read(), wavelengths, "nm" if is_nm else ""


def hdf5(path):
    with h5py.File(path) as file:
        return file["cube"][()], file["bands"][()].ravel().tolist(), "nm"


def ome(path):
    return zarr.open_array(str(path), mode="r")[...], [], ""


def judged(path):
    # What the judge reads, in a process of its own: it may crash. None if it refuses.
    ours, theirs = os.pipe()
    if not (child := os.fork()):
        try:
            data, wavelengths, unit = {"gdal": gdal, "hdf5": hdf5, "zarr": ome}[judge](path)
            answer = [data.shape, np.asarray(data, "f8").tolist(), wavelengths, unit]
        except BaseException:
            answer = None
        os.write(theirs, json.dumps(answer).encode())
        os._exit(0)
    os.close(theirs)
    with open(ours) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer or "null")


def verdict(cube, path):
    data, told = contents(cube)
    doubts = set(cube.metadata.get("warnings", ()))
    is_same = data.shape == expected[0].shape and np.array_equal(data, expected[0])
    if is_same and told == expected[1]:
        return "exact"
    if not judge:
        return "told" if doubts & {CHANGED, DESCRIPTION_CHANGED} else "silent"
    if doubts - intact_warnings:
        return "told"
    shape, numbers, wavelengths, unit = judged(path) or (None, None, None, None)
    is_alike = is_same or (
        list(data.shape) == shape
        and np.array_equal(np.asarray(data, "f8"), numbers, equal_nan=True)
    )
    is_axis = told == expected[1] or (unit == "nm" and cube.wavelengths.tolist() == wavelengths)
    return "as the judge" if is_alike and is_axis else "silent"


whole = (folder / part).read_bytes()
intact = read_cube(folder / target, **options)
intact_warnings = set(intact.metadata.get("warnings", ()))
expected = contents(intact)
expected = expected[0].copy(), expected[1]
process = psutil.Process()
# The hard limit stays: a decoder that meets it is right to say that the computer has no more.
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (process.memory_info().vms + 2**29, hard))
generator = np.random.default_rng(seed)
signal.signal(signal.SIGALRM, lambda *_: sys.exit("hangs"))
tally = dict.fromkeys(("exact", "told", "as the judge", "silent", "refused"), 0)
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
    signal.alarm(60)
    try:
        cube = read_cube(folder / target, **options)
        result = verdict(cube, folder / target)
        if result == "silent":
            print("SILENT", number, contents(cube)[1], cube.metadata, file=sys.stderr)
        tally[result] += 1
    except CubeFileError as error:
        assert len(str(error)) < 300, str(error)
        tally["refused"] += 1
    signal.alarm(0)
print(json.dumps(tally))
"""


def write(folder: Path, kind: str) -> tuple[str, str, str]:
    """Write a small file of this *kind*; name the file to open, the part to damage, the judge."""
    if kind == "v5":
        savemat(
            folder / "a.mat",
            {"cube": DATA.transpose(1, 2, 0), "bands": CUBE.wavelengths},
            do_compression=True,
        )
        return "a.mat", "a.mat", ""
    if kind.startswith("gdal"):
        return write_with_gdal(folder / "a.tif", kind.partition(":")[2])
    if kind == "h5py":
        with h5py.File(folder / "a.mat", "w") as file:
            file.create_dataset("cube", data=DATA, chunks=(1, 6, 7), compression="gzip")
            file["bands"] = CUBE.wavelengths
        return "a.mat", "a.mat", "hdf5"
    if kind.startswith("zarr-"):
        zarr.create_array(str(folder / "a.zarr"), data=DATA, chunks=(1, 6, 7), zarr_format=3)
        return "a.zarr", f"a.zarr/{kind.partition('-')[2]}", "zarr"
    path = write_cube(folder / f"a.{kind}", CUBE)
    part = {"zarr": "a.zarr/zarr.json"}.get(kind, path.name)
    return path.name, part, ""


def write_with_gdal(path: Path, compression: str) -> tuple[str, str, str]:
    """A GeoTIFF that GDAL wrote, with its own words for the wavelengths."""
    profile = {
        "count": 5,
        "height": 6,
        "width": 7,
        "dtype": "float32",
        "interleave": "band",
        "compress": compression,
    }
    with rasterio.open(path, "w", driver="GTiff", **profile) as file:
        file.write(DATA)
        for band, wavelength in zip(file.indexes, CUBE.wavelengths, strict=True):
            file.update_tags(band, wavelength=str(wavelength), wavelength_units="Nanometers")
    return path.name, path.name, "gdal"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="limits of memory and alarms are a thing of POSIX")
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("hdr", 5000),
        ("tif", 3500),
        ("npz", 1000),
        ("mat", 250),
        ("v5", 250),
        ("zarr", 500),
        ("gdal:none", 1000),
        ("gdal:deflate", 1000),
        ("h5py", 250),
        ("zarr-zarr.json", 250),
        ("zarr-c/2/0/0", 250),
    ],
)
def test_ten_thousand_damaged_files_end_well(tmp_path: Path, kind: str, count: int) -> None:
    target, part, judge = write(tmp_path, kind)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    child = [sys.executable, "-W", "error", "-c", CHILD]
    done = subprocess.run(
        [*child, tmp_path, target, part, judge, "7", str(count)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    tally = json.loads(done.stdout)
    assert sum(tally.values()) == count
    assert tally["refused"] > 0
    assert not tally["silent"], [
        line for line in done.stderr.splitlines() if line.startswith("SILENT")
    ]
