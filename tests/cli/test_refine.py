"""`napari-mst refine`: a cube is corrected on the command line as it is in Python."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

import napari_mst as nm
from napari_mst.cli.arguments import DONE, REFUSED
from napari_mst.cli.main import main
from napari_mst.cube.spectrum import Origin, Spectrum


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a photo, its cube, and a spectrum of row 10, column 12, 20 % brighter."""
    folder = tmp_path_factory.mktemp("scene")
    pixels = np.random.default_rng(0).integers(60, 200, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels.repeat(4, axis=0).repeat(4, axis=1)).save(folder / "photo.png")
    model = nm.load_model("pixelwise-srgb")
    cube = nm.Reconstructor(model, "cpu").reconstruct(folder / "photo.png")
    nm.write_cube(folder / "cube.hdr", cube)
    pick = nm.point_spectrum(cube, 10, 12, window=3)
    nm.write_spectra(
        folder / "known.csv",
        [replace(pick, values=1.2 * pick.values, spread="", lower=None, upper=None)],
    )
    coarse = cube.data.reshape(31, 6, 4, 8, 4).mean(axis=(2, 4))
    nm.write_cube(folder / "coarse.hdr", nm.SpectralCube(1.1 * coarse, cube.wavelengths))
    return folder


def refined(scene: Path, output: Path, *arguments: str) -> nm.SpectralCube:
    photo = str(scene / "photo.png")
    command = ["refine", str(scene / "cube.hdr"), "--photo", photo, *arguments, "-o", str(output)]
    assert main(command) == DONE
    return nm.read_cube(output)


def test_the_command_gives_the_numbers_and_assumptions_of_python(
    scene: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    better = refined(scene, tmp_path / "better.hdr", "--references", str(scene / "known.csv"))
    (spectrum,) = nm.read_spectra(scene / "known.csv")
    references = nm.ReferenceSpectrum(10, 12, spectrum, window=3)
    expected = nm.refine(nm.read_cube(scene / "cube.hdr"), scene / "photo.png", [references])
    assert_array_equal(better.data, expected.data)
    assert better.provenance.refinement
    assert f"note: {expected.provenance.assumptions[-1]}" in capsys.readouterr().err


def test_per_cent_are_known_also_where_they_replace_numbers_of_ours(
    scene: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = refined(scene, tmp_path / "better.hdr", "--references", str(scene / "known.csv"))
    (spectrum,) = nm.read_spectra(scene / "known.csv")
    percent = tmp_path / "percent.csv"
    nm.write_spectra(percent, [replace(spectrum, values=100 * spectrum.values)])
    better = refined(scene, tmp_path / "again.hdr", "--references", str(percent))
    assert "note: percent.csv: Values up to" in capsys.readouterr().err
    assert_allclose(better.data, expected.data, rtol=1e-5)


def test_a_coarse_cube_corrects_as_well(scene: Path, tmp_path: Path) -> None:
    better = refined(scene, tmp_path / "better.hdr", "--coarse", str(scene / "coarse.hdr"))
    before = nm.read_cube(scene / "cube.hdr")
    coarse = nm.read_cube(scene / "coarse.hdr")
    expected = nm.refine_with_cube(before, scene / "photo.png", coarse)
    assert_array_equal(better.data, expected.data)


def test_suggested_spots_are_printed(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = scene / "photo.png"
    assert (
        main(["refine", str(scene / "cube.hdr"), "--photo", str(photo), "--suggest", "3"]) == DONE
    )
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "row\tcolumn"
    spots = nm.suggest_measurements(nm.read_cube(scene / "cube.hdr"), photo, count=3)
    assert [tuple(map(int, line.split("\t"))) for line in lines] == spots


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Expected -o OUT or --suggest COUNT, got neither"),
        (
            ["-o", "out.hdr"],
            "Expected --references or --coarse to correct the cube by, got neither",
        ),
        (["-o", "out.hdr", "--references", "a", "--coarse", "b"], "got both"),
    ],
)
def test_bad_input(
    scene: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = str(scene / "photo.png")
    assert main(["refine", str(scene / "cube.hdr"), "--photo", photo, *arguments]) == REFUSED
    assert sentence in capsys.readouterr().err


def test_a_spectrum_without_its_place_is_refused(
    scene: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = tmp_path / "known.csv"
    curve = Spectrum(np.arange(400.0, 701, 10), np.full(31, 0.5), name="a tile", origin=Origin())
    nm.write_spectra(references, [curve])
    photo, output = str(scene / "photo.png"), str(tmp_path / "out.hdr")
    command = ["refine", str(scene / "cube.hdr"), "--photo", photo, "--references", str(references)]
    assert main([*command, "-o", output]) == REFUSED
    assert "Expected a row and a column for each spectrum of known.csv" in capsys.readouterr().err
    assert not Path(output).exists()
