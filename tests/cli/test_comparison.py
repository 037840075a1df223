"""`napari-mst compare`: the errors of a cube, judged by `napari_mst.metrics`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from tests.cli.conftest import Run, assert_is_one_error

from napari_mst import SpectralCube, metrics, read_cube, write_cube
from napari_mst.spectra.cube_errors import MEASURES, Measure, error_map

WAVELENGTHS = np.linspace(400, 700, 7)
RNG = np.random.default_rng(4)
REFERENCE = SpectralCube(RNG.uniform(0.1, 0.9, (7, 9, 8)).astype(np.float32), WAVELENGTHS)
CUBE = SpectralCube(REFERENCE.data + RNG.normal(0, 0.05, (7, 9, 8)).astype(np.float32), WAVELENGTHS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_cube(tmp_path / "cube.hdr", CUBE)
    write_cube(tmp_path / "reference.hdr", REFERENCE)
    return tmp_path


def only_band(path: Path) -> NDArray[Any]:
    """The (H, W) numbers of a TIFF of one band, as another program reads them."""
    (band,) = tifffile.imread(path)
    return np.asarray(band)


def facts(text: str) -> dict[str, str]:
    return {line[:8].strip(): line[8:] for line in text.splitlines()}


def test_errors_are_those_of_the_metrics(run: Run, folder: Path) -> None:
    code, out, err = run("compare", folder / "cube.hdr", folder / "reference.hdr")
    assert (code, err) == (0, "")
    pair = (CUBE.data, REFERENCE.data)
    assert facts(out) == {
        "MRAE": f"{metrics.mrae(*pair):.4f}",
        "RMSE": f"{metrics.rmse(*pair):.4f}",
        "PSNR": f"{metrics.psnr(*pair):.2f} dB",
        "SAM": f"{metrics.spectral_angle(*pair):.2f} deg",
        "pixels": "72",
        "bands": "7",
    }


def test_errors_of_each_band_are_those_of_the_metrics(run: Run, folder: Path) -> None:
    _, out, _ = run("compare", folder / "cube.hdr", folder / "reference.hdr", "--bands")
    heading, *rows = out.splitlines()[6:]
    assert heading == "wavelength (nm)\tMRAE\tRMSE\tPSNR (dB)"
    assert len(rows) == 7
    for row, wavelength, e, r in zip(rows, WAVELENGTHS, CUBE.data, REFERENCE.data, strict=True):
        pair = (e[None], r[None])
        expected = (f"{metrics.mrae(*pair):.4f}", f"{metrics.rmse(*pair):.4f}")
        assert row.split("\t") == [f"{wavelength:g}", *expected, f"{metrics.psnr(*pair):.2f}"]


def test_peak_is_the_white_of_the_psnr(run: Run, folder: Path) -> None:
    _, out, _ = run("compare", folder / "cube.hdr", folder / "reference.hdr", "--peak", "255")
    assert facts(out)["PSNR"] == f"{metrics.psnr(CUBE.data, REFERENCE.data, 255):.2f} dB"


@pytest.mark.parametrize("measure", MEASURES)
def test_error_map_is_that_of_python(run: Run, folder: Path, measure: Measure) -> None:
    target = folder / "errors.tif"
    options = ("-o", target, "--measure", measure)
    code, out, _ = run("compare", folder / "cube.hdr", folder / "reference.hdr", *options)
    assert code == 0
    assert out.splitlines()[-1] == str(target)
    np.testing.assert_array_equal(only_band(target), error_map(CUBE, REFERENCE, measure))
    assert read_cube(target).metadata["map"] == f"reference-{measure}"


def test_a_reference_of_another_size_or_a_peak_of_zero_is_refused(run: Run, folder: Path) -> None:
    write_cube(folder / "small.hdr", SpectralCube(CUBE.data[:, 1:], WAVELENGTHS))
    code, out, err = run("compare", folder / "cube.hdr", folder / "small.hdr")
    assert (code, out) == (2, "")
    assert_is_one_error(err, "Expected a reference of 9 x 8 pixels, got 8 x 8")
    code, _, err = run("compare", folder / "cube.hdr", folder / "cube.hdr", "--peak", "0")
    assert code == 2
    assert_is_one_error(err, "Expected a --peak above 0, got 0")
