"""The tables of docs/who_reads_whom.md are what programs do that are installed for the tests."""

from pathlib import Path

import pytest
from tools import neighbours

HERE = ("spectral", "GDAL (rasterio)", "xarray", "SciPy", "NumPy")
THERE = (
    "spectral, ENVI",
    "GDAL (rasterio), ENVI",
    "GDAL (rasterio), GeoTIFF",
    "SciPy, MATLAB",
    "NumPy, npz",
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours")
    neighbours.write_ours(folder)
    return folder


@pytest.mark.parametrize("name", HERE)
def test_a_program_reads_our_files_as_the_page_says(name: str, ours: Path) -> None:
    stated = neighbours.table("theirs read ours")[name]
    assert any("n" in cell.split() for cell in stated)
    assert neighbours.read_by_others(ours, [name])[name] == stated


@pytest.mark.parametrize("name", THERE)
def test_we_read_the_file_of_a_program_as_the_page_says(name: str, tmp_path: Path) -> None:
    path = neighbours.write_theirs(tmp_path, [name])[name]
    assert [neighbours.read_by_us(Path(path))] == neighbours.table("ours reads theirs")[name]
