"""The code of all pages runs as it stands there, Python and shell (`make docs`).

The blocks of CONTRIBUTING run in `test_contributing.py`, the notebooks while the site is built, and
what the laboratory prints is made by commands of hours: that their modules exist is asked.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image
from tests.raw_photos import write_dng

import napari_mst as nm

ROOT = Path(__file__).parents[1]
BLOCK = r"(?ms)^```(\w+)\n(.*?)^```$"
ALL = [
    *sorted(ROOT.glob("*.md")),
    *(ROOT / "sample_data").glob("*.md"),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "lab").rglob("*.md")),
]
PAGES = [
    str(page.relative_to(ROOT))
    for page in ALL
    if page.name != "CONTRIBUTING.md"
    and re.search(r"(?m)^```(python|sh)$", page.read_text("utf-8"))
]
TELLS = {
    "matlab": "there is no MATLAB here",
    "text": "SLURM; or words",
}
"""Languages of blocks that no test runs, and why."""

pytestmark = pytest.mark.docs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the pages take for granted: a clone, with a photo and folders of photos."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "sample_data", "sample_data")
    steps = np.random.default_rng(0).integers(60, 200, (25, 25, 3), dtype=np.uint8)
    photo = Image.fromarray(steps.repeat(8, axis=0).repeat(8, axis=1))
    photo.save("photo.jpg")
    photo.save("big.tif")
    for name, blue in (("day.tif", 1), ("lamp.tif", 0.64), ("gel.tif", 0.72)):
        light = np.asarray(photo) * np.array([1, (1 + blue) / 2, blue])
        Image.fromarray(light.astype(np.uint8)).save(name)
    Path("orange.csv").write_text("nm,transmittance\n400,0.3\n700,0.9\n")
    for name in ("photos/one.jpg", "photos/trip/two.jpg", "frames/0001.png", "frames/0002.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        photo.resize((96, 80)).save(name)
    for name, level in (("white.dng", 0.8), ("dark.dng", 0.0), ("shot.dng", 0.4)):
        grey = np.array([0.58, 1, 0.85])  # as the camera sees it in daylight
        write_dng(Path(name), np.full((64, 80, 3), level) * grey)
    linear = (np.asarray(photo).astype(float) / 255) ** 2.2 * 60000
    tifffile.imwrite("raw.tif", linear.astype(np.uint16))
    return tmp_path


@pytest.fixture
def names(folder: Path, models_as_before: None) -> dict[str, Any]:
    """The things that the Python of the pages takes for granted, and what is known of them."""
    cube = nm.Reconstructor(nm.load_model("pixelwise-srgb"), "cpu").reconstruct("photo.jpg")
    # Spectra of the colours that the photo has where the pages measure them.
    tile, leaf = (nm.point_spectrum(cube, *place, window=5) for place in ((120, 83), (40, 150)))
    nm.write_spectra("measured.csv", [tile])
    coarse = nm.SpectralCube(cube.data.reshape(31, 25, 8, 25, 8).mean((2, 4)), cube.wavelengths)
    labels = np.arange(200 * 200).reshape(200, 200) // 4000
    known = {"tile": tile, "leaf": leaf, "coarse": coarse}
    return {"cube": cube, "photo": "photo.jpg", "labels": labels, **known}


@pytest.fixture
def programs(folder: Path) -> dict[str, str]:
    """The environment of the shell: our command, and words in place of what would leave here."""
    here = folder / "programs"
    here.mkdir()
    for name in ("ffmpeg", "git", "make", "pip", "uv"):
        (here / name).write_text("#!/bin/sh\n")
        (here / name).chmod(0o755)
    path = f"{here}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path}


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_as_it_stands(
    page: str, names: dict[str, Any], programs: dict[str, str]
) -> None:
    for language, block in re.findall(BLOCK, (ROOT / page).read_text("utf-8")):
        if language == "python":
            exec(compile(block, page, "exec"), names)
        elif language == "sh":
            check_installs(block)
            done = subprocess.run(
                ["sh", "-eu"], input=block, env=programs, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        else:
            assert language in TELLS


def check_installs(block: str) -> None:
    """What a page has pip and make do is there: extras, and targets."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extras in re.findall(r"pip install [^\n]*\[([\w, -]+)\]", block):
        assert set(re.split(r", *", extras)) <= set(project["optional-dependencies"])
    targets = re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"))
    assert set(re.findall(r"(?m)^make ([\w-]+)", block)) <= set(targets)


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_code_is_left_out_silently(page: Path) -> None:
    text = page.read_text("utf-8")
    blocks = re.findall(BLOCK, text)
    assert 2 * len(blocks) == len(re.findall(r"(?m)^[ >]*(?:```|~~~)", text))
    assert {language for language, _ in blocks} <= {"python", "sh", *TELLS}
    rest = re.sub(BLOCK, "", text)
    check_installs(dedent(rest))
    assert not re.findall(r"(?m)^    (?:napari-mst|nm\.|pip|import|from).*$", rest)
    for module in re.findall(r"(?m)^ *(?:\.venv/bin/)?python -m ([\w.]+)", rest):
        assert find_spec(module), f"{page}: {module}"
