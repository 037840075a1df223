"""The commands that only tell: `info`, `models` and `cameras`."""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import (
    Run,
)

from napari_mst.cli.options import DEFAULT_MODEL
from napari_mst.cli.reconstruct import SUFFIXES
from napari_mst.models import MODELS


@pytest.mark.parametrize("suffix", SUFFIXES.values())
def test_info_says_what_the_file_holds_and_what_made_it(run: Run, photo: Path, suffix: str) -> None:
    run("reconstruct", photo, "-o", photo.with_name(f"cube{suffix}"))
    code, out, err = run("info", photo.with_name(f"cube{suffix}"))
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert (code, err) == (0, "")
    assert facts["shape"].strip() == "4 bands x 6 rows x 9 columns"
    assert facts["type"].strip() == "float32"
    assert facts["wavelengths"].strip() == "450 to 600 nm"
    assert facts["model"].strip() == "tiny"
    assert f"torch {version('torch')}" in facts["versions"]


def test_what_the_reader_ignored_is_noted(run: Run, photo: Path) -> None:
    run("reconstruct", photo, "-o", photo.with_name("cube.hdr"))
    header = photo.with_name("cube.hdr")
    header.write_text(header.read_text().replace("wavelength = {", "wavelength = {nan, "))
    code, out, err = run("info", header)
    assert code == 0
    assert "unknown (band)" in out
    assert err.startswith("note: ")


def test_info_takes_the_name_of_the_array(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", left=np.zeros((3, 5, 6)), right=np.zeros((4, 5, 6)))
    code, _, err = run("info", tmp_path / "a.npz")
    assert code == 2
    assert "--variable NAME" in err
    assert "4 bands x 5 rows" in run("info", tmp_path / "a.npz", "--variable", "right")[1]


def test_info_takes_the_axis_of_the_bands(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros((6, 5, 6)))
    assert "--band-axis" in run("info", tmp_path / "a.npz")[2]
    assert "6 bands x 6 rows x 5 columns" in run("info", tmp_path / "a.npz", "--band-axis", "-1")[1]


@pytest.mark.parametrize("name", ["cube.hdr", "cube.tif"])
def test_a_name_of_an_array_is_refused_where_there_are_none(
    run: Run, photo: Path, name: str
) -> None:
    run("reconstruct", photo, "-o", photo.with_name(name))
    code, _, err = run("info", photo.with_name(name), "--variable", "x")
    assert code == 2
    assert "got variable. Leave them out." in err


def test_every_model_is_listed_with_domain_and_accuracy(run: Run) -> None:
    code, out, _ = run("models")
    assert code == 0
    for card in MODELS.values():
        assert card.name in out
        assert card.domain in out
        assert all(
            f"{metric} {value:g}" in out
            for scores in card.accuracy.values()
            for metric, value in scores.items()
        )


def test_default_model_is_bundled() -> None:
    assert MODELS[DEFAULT_MODEL].file
    assert next(iter(MODELS)) == DEFAULT_MODEL  # what a list of models begins with
