"""The table of formats: what is registered is tested, whatever its kind."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import CubeFileError, SaveError
from napari_mst.formats import FORMATS, Format, check_target, find_format, read_cube, write_cube

WARNING = "The file was odd."
CUBE = SpectralCube(
    np.random.default_rng(0).random((31, 9, 7), dtype=np.float32),
    np.linspace(400, 700, 31),
    provenance=Provenance("mstpp-srgb", "0" * 64, source="photo.jpg", assumptions=("It was sRGB.",)),
    metadata={"description": "d", "warnings": (WARNING,)},
)

over_formats = pytest.mark.parametrize("form", [form for form in FORMATS if form.suffixes], ids=lambda form: form.name)


@over_formats
def test_a_cube_survives_every_suffix(tmp_path: Path, form: Format) -> None:
    for suffix in form.suffixes:
        folder = tmp_path / suffix
        folder.mkdir()
        told: list[float] = []
        path = write_cube(folder / f"a{suffix.upper()}", CUBE, progress=told.append)
        assert find_format(path) is form
        cube = read_cube(path)
        assert np.array_equal(cube.data, CUBE.data)
        assert np.array_equal(cube.wavelengths, CUBE.wavelengths)
        assert (cube.provenance, cube.unit) == (CUBE.provenance, CUBE.unit)
        assert cube.data.dtype == np.float32
        assert "warnings" not in cube.metadata
        assert told == sorted(told)
        assert told[-1] == 1.0
        assert {entry.name for entry in folder.iterdir()} == {target.name for target in form.targets(path)}


@over_formats
def test_a_target_is_checked_before_any_work(tmp_path: Path, form: Format) -> None:
    path = tmp_path / f"a{form.suffixes[0]}"
    assert check_target(path) == path
    assert list(tmp_path.iterdir()) == []
    write_cube(path, CUBE)
    with pytest.raises(SaveError, match="which exists"):
        check_target(path)


@pytest.mark.parametrize("name", ["a", "a.jpg", ".hdr", "a.hdr.txt"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(SaveError, match=r"ending in .*\.tif.*\.hdr"):
        write_cube(tmp_path / name, CUBE)


@pytest.mark.parametrize("name", ["none.hdr", "none.tif", "none.img", "none", "none.jpg", "folder.hdr", "no/ne.hdr"])
def test_what_is_not_there_is_one_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.hdr").mkdir()
    assert find_format(tmp_path / name) is None
    with pytest.raises(CubeFileError, match=r"^Expected .*\.$"):
        read_cube(tmp_path / name)


def test_the_table_costs_no_heavy_import() -> None:
    code = (
        "import sys, napari_mst.formats; "
        "print({'torch', 'napari', 'tifffile', 'rasterio', 'h5py', 'scipy', 'spectral', 'zarr'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
