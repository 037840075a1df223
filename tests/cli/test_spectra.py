"""`napari-mst spectra`: the spectra of pixels, printed and saved."""

from pathlib import Path

import numpy as np
import pytest

from napari_mst.cli.command import DONE, REFUSED
from napari_mst.cli.main import main
from napari_mst.cube import SpectralCube
from napari_mst.formats import write_cube
from napari_mst.spectra.library import read_spectra


def test_spectra_of_pixels_are_written_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cube = SpectralCube(
        np.arange(48, dtype=np.float32).reshape(3, 4, 4), np.array([400.0, 500, 600])
    )
    path = str(write_cube(tmp_path / "cube.hdr", cube))
    assert (
        main(["spectra", path, "--at", "1,2", "--at", "3,0", "-o", str(tmp_path / "a.csv")]) == DONE
    )
    assert capsys.readouterr().out == f"{tmp_path / 'a.csv'}\n"
    for spectrum, pixel in zip(read_spectra(tmp_path / "a.csv"), [(1, 2), (3, 0)], strict=True):
        np.testing.assert_array_equal(spectrum.values, cube.spectrum(*pixel))
        assert (spectrum.origin.cube, spectrum.origin.row, spectrum.origin.column) == (
            "cube.hdr",
            *pixel,
        )
    assert main(["spectra", path, "--at", "1,1", "--window", "3"]) == DONE
    means = cube.data[:, :3, :3].mean(axis=(1, 2))
    assert [float(row.split("\t")[1]) for row in capsys.readouterr().out.splitlines()[1:]] == list(
        means
    )


def test_spectrum_outside_the_cube_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(
        write_cube(tmp_path / "cube.hdr", SpectralCube(np.ones((2, 3, 4)), np.array([400.0, 500])))
    )
    assert main(["spectra", path, "--at", "3,0"]) == REFUSED
    assert "within 3 rows x 4 columns, got row 3, column 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["spectra", path, "--at", "middle"])
