"""The Python code of README and docs runs as it stands there (`make docs`)."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import napari_mst as nm

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/arrays.md",
    "docs/attention.md",
    "docs/denoising.md",
    "docs/error_bands.md",
    "docs/known_spectra.md",
    "docs/metamers.md",
    "docs/pictures.md",
    "docs/python.md",
    "docs/start_reading.md",
)

pytestmark = pytest.mark.docs


@pytest.fixture
def names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models_as_before: None
) -> dict[str, Any]:
    """The things that the pages take for granted: a photo, its cube, and what is known of it."""
    monkeypatch.chdir(tmp_path)
    steps = np.random.default_rng(0).integers(60, 200, (25, 25, 3), dtype=np.uint8)
    Image.fromarray(steps.repeat(8, axis=0).repeat(8, axis=1)).save("photo.jpg")
    cube = nm.Reconstructor(nm.load_model("pixelwise-srgb"), "cpu").reconstruct("photo.jpg")
    # Spectra of the colours that the photo has where the pages measure them.
    tile, leaf = (nm.point_spectrum(cube, *place, window=5) for place in ((120, 83), (40, 150)))
    nm.write_spectra("measured.csv", [tile])
    coarse = nm.SpectralCube(cube.data.reshape(31, 25, 8, 25, 8).mean((2, 4)), cube.wavelengths)
    labels = np.arange(200 * 200).reshape(200, 200) // 4000
    known = {"tile": tile, "leaf": leaf, "coarse": coarse}
    return {"cube": cube, "photo": "photo.jpg", "labels": labels, **known}


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_as_it_stands(page: str, names: dict[str, Any]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
