"""The chart shows what its true spectra look like; both samples are files of sample_data."""

import tomllib
from pathlib import Path

import colour as colour_science
import numpy as np
import pytest

import napari_mst
from napari_mst.plugin import workspace_dock

ROOT = Path(__file__).parents[3]


def test_the_photo_of_the_chart_is_its_cube_in_srgb() -> None:
    (cube, _, _), (photo, _, _) = workspace_dock.chart()
    shape = colour_science.SpectralShape(400, 700, 10)
    cmfs = colour_science.MSDS_CMFS["CIE 1931 2 Degree Standard Observer"].copy().align(shape)
    light = colour_science.SDS_ILLUMINANTS["D65"].copy().align(shape)
    for row, column in [(13, 13), (40, 70), (100, 157)]:
        reflectance = colour_science.SpectralDistribution(cube[:, row, column], shape.wavelengths)
        xyz = colour_science.sd_to_XYZ(reflectance, cmfs, light, method="Integration") / 100
        expected = colour_science.XYZ_to_sRGB(xyz)
        np.testing.assert_allclose(photo[row, column] / 255, np.clip(expected, 0, 1), atol=0.02)


def test_the_photo_opens_as_it_is_stored() -> None:
    ((pixels, arguments, kind),) = workspace_dock.coffee()
    assert (pixels.shape, arguments["rgb"], kind) == ((400, 600, 3), True, "image")


def test_a_wheel_holds_what_the_window_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone, and where it is installed to be edited, the folder of the repository is used."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for name in ("coffee.jpg", "chart.tif"):
        assert workspace_dock.sample_path(name) == ROOT / "sample_data" / name
        assert included[f"sample_data/{name}"] == f"napari_mst/sample_data/{name}"
    installed = tmp_path / "napari_mst" / "sample_data" / "coffee.jpg"
    installed.parent.mkdir(parents=True)
    installed.touch()
    monkeypatch.setattr(napari_mst, "__file__", str(tmp_path / "napari_mst" / "__init__.py"))
    assert workspace_dock.sample_path("coffee.jpg") == installed
