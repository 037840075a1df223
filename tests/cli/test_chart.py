"""A ColorChecker on the command line: sRGB and linear photos."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_mst import Chart, read_cube
from napari_mst.cli.main import main
from napari_mst.colour import linear_to_srgb, srgb_response
from napari_mst.photo.cameras import GRID, unbalanced_response
from napari_mst.photo.chart_kinds import CHARTS

CORNERS = ((10.0, 10.0), (10.0, 60.0), (40.0, 60.0), (40.0, 10.0))
GIVEN = ("--chart", "10,10", "10,60", "40,60", "40,10")


def scene() -> np.ndarray:
    cube = np.full((31, 50, 70), 0.3)
    for spectrum, (row, column) in zip(
        CHARTS["classic"].reflectances, Chart(CORNERS).centres, strict=True
    ):
        top, left = round(row) - 4, round(column) - 4
        cube[:, top : top + 8, left : left + 8] = spectrum[:, None, None]
    return cube


def seen(response: np.ndarray) -> np.ndarray:
    return np.einsum("bhw,bc->hwc", scene(), response).clip(0, 1)


@pytest.fixture
def orange_photo(tmp_path: Path) -> Path:
    codes = linear_to_srgb(seen(srgb_response(GRID) * [1.0, 0.7, 0.4])) * 255
    Image.fromarray(np.rint(codes).astype(np.uint8)).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.fixture
def linear_photo(tmp_path: Path) -> Path:
    response = unbalanced_response("Canon_EOS_R5", "A")
    values = seen(response / response.sum(axis=0).max()) * 50_000
    tifffile.imwrite(tmp_path / "photo.tif", values.astype(np.uint16), photometric="rgb")
    return tmp_path / "photo.tif"


def test_chart_calibrates_an_srgb_photo_and_its_patches_are_known(
    orange_photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = orange_photo.with_name("cube.hdr")
    arguments = ["reconstruct", str(orange_photo), "-o", str(target), "--device", "cpu"]
    assert main([*arguments, "--model", "pixelwise-srgb", *GIVEN]) == 0
    told = capsys.readouterr().err
    assert "patch\tbefore\tafter\tleft out" in told
    assert "calibrated with a chart" in told
    cube = read_cube(target)
    np.testing.assert_allclose(cube.data[5:, 2, 2], 0.3, atol=0.04)
    assert "24 known spectra" in " ".join(cube.provenance.assumptions)


def test_chart_tells_camera_light_and_white_of_a_linear_photo(linear_photo: Path) -> None:
    target = linear_photo.with_name("cube.hdr")
    arguments = ["reconstruct", str(linear_photo), "-o", str(target), "--device", "cpu", "--linear"]
    assert main([*arguments, "--model", "mstpp-camera", *GIVEN]) == 0
    cube = read_cube(target)
    assert cube.provenance.camera.startswith("chart ")
    assert cube.provenance.illuminant == "by its ColorChecker"
    unadapted = replace(cube.provenance, adaptation={})
    assert unadapted.calibration == "calibrated by its ColorChecker"
    np.testing.assert_allclose(cube.data[5:, 2, 2], 0.3, atol=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*GIVEN, "--illuminant", "A"), "Expected --chart alone, got --illuminant as well"),
        ((*GIVEN, "--find-chart"), "Expected --find-chart alone, got --chart as well"),
        (("--chart", "1,1", "2,2", "3,3", "4,4"), "Expected corners that span a chart"),
        (("--chart", "10,10", "10,600", "40,600", "40,10"), "Expected the chart within 50 rows"),
    ],
)
def test_chart_that_cannot_be_used_is_refused_in_one_sentence(
    orange_photo: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    target = orange_photo.with_name("cube.hdr")
    assert main(["reconstruct", str(orange_photo), "-o", str(target), *arguments]) == 2
    captured = capsys.readouterr().err
    assert message in captured
    assert captured.count("error:") == 1


def test_chart_of_one_photo_calibrates_a_folder(
    orange_photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = orange_photo.with_name("photos")
    photos.mkdir()
    for name in ("a.png", "b.png"):
        (photos / name).write_bytes(orange_photo.read_bytes())
    cubes = orange_photo.with_name("cubes")
    cubes.mkdir()
    arguments = ["reconstruct", str(photos), "-o", str(cubes), "--model", "pixelwise-srgb", *GIVEN]
    assert main(arguments) == 2
    assert "Say with --chart-photo which one shows the chart" in capsys.readouterr().err
    assert main([*arguments, "--chart-photo", str(orange_photo)]) == 0
    capsys.readouterr()
    assert main([*arguments, "--chart-photo", str(orange_photo)]) == 0
    assert "2 of 2 cubes are of this run" in capsys.readouterr().err
