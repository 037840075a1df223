"""Numbers of README and docs are those of the repository: of model cards, tables and weights."""

import re
from pathlib import Path

import pytest

import napari_mst as nm
from napari_mst.analysis.formulas import catalogue
from napari_mst.cube.colour import reflectances
from napari_mst.photo.cameras import load_cameras

ROOT = Path(__file__).parents[1]
EXACT = "scenes of CAVE, of exactly rendered sRGB"
MEASURES = {"MRAE": 3, "RMSE": 3, "PSNR (dB)": 1, "SAM (deg)": 1}
"""The columns of the tables of accuracy, and their decimals."""


def numbers_of(text: str) -> list[float]:
    """All numbers of a row of a table."""
    return [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*\.?\d*", text)]


def row_of(page: str, name: str, after: str = "") -> list[float]:
    """The numbers of the first row of the model *name* below the words *after* of a *page*."""
    text = (ROOT / page).read_text("utf-8").partition(after)[2] if after else ""
    text = text or (ROOT / page).read_text("utf-8")
    found = re.search(rf"(?m)^\| `{name}`[^|]*\|(.*)$", text)
    assert found, f"{page} has no row of {name}"
    return numbers_of(found[1])


@pytest.mark.parametrize("model", ["pixelwise-srgb", "mstpp-srgb"])
def test_the_accuracy_of_a_model_is_that_of_its_card(model: str) -> None:
    measured = nm.load_model(model).card.accuracy[EXACT]
    expected = [round(measured[name], decimals) for name, decimals in MEASURES.items()]
    assert row_of("docs/models.md", model, "## Accuracy on sRGB photos") == expected
    # README has the relative error alone, behind that of ordinary photos.
    assert row_of("README.md", model, "## How accurate")[-1] == expected[0]


@pytest.mark.parametrize("name", ["pixelwise-srgb", "mstpp-srgb", "mstpp-hybrid", "mstpp-mixed"])
def test_the_parameters_of_a_model_are_those_of_its_weights(name: str) -> None:
    network = nm.load_model(name).network
    count = sum(each.numel() for each in network.parameters())
    assert count in row_of("lab/results/training.md", name, "## Which model")


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (r"(\d+) (?:indices|by name)", len(catalogue())),
        (r"(\d+) (?:measured )?cameras", len(load_cameras())),
        (r"([\d,]+) measured reflectances", sum(map(len, reflectances().values()))),
    ],
)
def test_counts_on_the_pages_are_those_of_the_tables(pattern: str, count: int) -> None:
    said = [
        (page.name, found)
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for found in re.findall(rf"(?<!\w){pattern}", page.read_text("utf-8"))
    ]
    assert said
    assert [each for each in said if int(each[1].replace(",", "")) != count] == []
