"""`napari-mst render`: a cube as an eye sees it, as a picture that other programs read."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.cli.conftest import Run, assert_is_one_error

from napari_mst import SpectralCube, write_cube
from napari_mst.cli.console import curves_noted
from napari_mst.errors import CurveWarning

CUBE = SpectralCube(
    np.random.default_rng(4).uniform(0, 1, (31, 9, 8)).astype(np.float32),
    np.linspace(400, 700, 31),
)


def test_rendering_is_saved_as_the_method_makes_it(run: Run, tmp_path: Path) -> None:
    write_cube(tmp_path / "cube.hdr", CUBE)
    target = tmp_path / "lamp.tif"
    status, output, _ = run("render", tmp_path / "cube.hdr", "-o", target, "--illuminant", "led-b3")
    assert (status, output.strip()) == (0, str(target))
    with Image.open(target) as image:
        np.testing.assert_array_equal(np.asarray(image), CUBE.render("LED-B3"))
        assert image.info["icc_profile"]
    options = ("--illuminant", "A", "--unadapted", "--full-scale", "2", "--overwrite")
    assert run("render", tmp_path / "cube.hdr", "-o", target, *options)[0] == 0
    with Image.open(target) as image:
        expected = CUBE.render("A", adapted=False, full_scale=2)
        np.testing.assert_array_equal(np.asarray(image), expected)


def test_what_a_light_leaves_open_is_noted_once(run: Run, tmp_path: Path) -> None:
    write_cube(tmp_path / "cube.npz", CUBE)
    rows = [f"{nm / 1000} {'inf' if nm == 550 else 1}" for nm in range(400, 701, 10)]
    (tmp_path / "lamp.txt").write_text("\n".join(rows))
    target = tmp_path / "out.png"
    light = ("--illuminant", tmp_path / "lamp.txt")
    status, _, told = run("render", tmp_path / "cube.npz", "-o", target, *light)
    assert status == 0
    assert told.count("note: lamp.txt: Gaps in the values: 1 (inf).") == 1
    assert told.count("note: lamp.txt: The unit of the wavelengths is not given; um was") == 1
    with Image.open(target) as image:
        np.testing.assert_array_equal(np.asarray(image), CUBE.render("E"))


def test_a_note_comes_once_though_libraries_reset_the_memory_of_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with curves_noted():
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
            warnings.warn("lamp.csv: um was assumed.", CurveWarning, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == ["note: lamp.csv: um was assumed."]


def test_what_cannot_be_rendered_is_told_in_a_sentence(run: Run, tmp_path: Path) -> None:
    cube = tmp_path / "cube.npz"
    write_cube(cube, CUBE)
    target = tmp_path / "out.png"
    assert_is_one_error(run("render", cube, "-o", tmp_path / "out.jpg")[2], "ending in .png")
    assert_is_one_error(run("render", cube, "-o", target, "--illuminant", "moon")[2], "a light as")
    assert not target.exists()
