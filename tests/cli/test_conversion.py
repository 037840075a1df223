"""`napari-mst convert`: a cube file in another format."""

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run, assert_is_one_error

from napari_mst.formats import read_cube

CUBE = np.random.default_rng(0).random((4, 6, 7), dtype=np.float32)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    np.save(tmp_path / "plain.npy", CUBE)
    return tmp_path / "plain.npy"


@pytest.mark.parametrize(
    "table", ["", "400\n410\n420\n430\n", "nm,fwhm\n400,9\n410,9\n420,9\n430,9"]
)
def test_a_plain_array_becomes_a_cube_with_its_wavelengths(
    run: Run, plain: Path, tmp_path: Path, table: str
) -> None:
    given = "400:430"
    if table:
        given = str(tmp_path / "bands.csv")
        Path(given).write_text(table)
    out = tmp_path / "cube.hdr"
    code, printed, _ = run("convert", plain, "-o", out, "--wavelengths", given)
    assert (code, printed) == (0, f"{out}\n")
    cube = read_cube(out)
    np.testing.assert_array_equal(cube.data, CUBE)
    np.testing.assert_array_equal(cube.wavelengths, [400, 410, 420, 430])


def test_an_existing_file_is_refused_before_reading(run: Run, plain: Path, tmp_path: Path) -> None:
    (tmp_path / "cube.npz").touch()
    code, _, told = run("convert", plain, "-o", tmp_path / "cube.npz")
    assert code == 2
    assert_is_one_error(told, "which exists")


def test_info_tells_of_a_plain_array(run: Run, plain: Path) -> None:
    code, printed, _ = run("info", plain, "--wavelengths", "400,410,420,430")
    assert code == 0
    assert "400 to 430 nm" in printed
    with pytest.raises(SystemExit):
        run("info", plain, "--wavelengths", "many")
