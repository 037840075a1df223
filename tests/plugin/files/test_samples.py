"""The chart shows what its true spectra look like; both samples are files of sample_data."""

import tomllib
from pathlib import Path

import pytest

import napari_mst
from napari_mst.plugin import workspace_dock

ROOT = Path(__file__).parents[3]


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
