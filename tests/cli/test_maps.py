"""`napari-mst map`: every map of the table, as a file that other programs read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image
from tests.cli.conftest import Run, assert_is_one_error

from napari_mst import Provenance, SpectralCube, Spectrum, read_cube, write_cube, write_spectra
from napari_mst.georeference import FIELD
from napari_mst.spectra.classification import classify
from napari_mst.spectra.colours import true_colour
from napari_mst.spectra.map_kind import MapInputs
from napari_mst.spectra.maps import MAPS, band_ratio

WAVELENGTHS = np.linspace(400, 700, 7)
RNG = np.random.default_rng(3)
CUBE = SpectralCube(
    RNG.uniform(0.1, 0.9, (7, 40, 36)).astype(np.float32),
    WAVELENGTHS,
    provenance=Provenance(
        model="tiny", source="leaf.jpg", source_sha256="5" * 64, error_band={"factor": [2.0]}
    ),
)
SPECTRA = [
    Spectrum(WAVELENGTHS, CUBE.data[:, 2, 3], name="leaf", colour="#112233"),
    Spectrum(WAVELENGTHS, CUBE.data[:, 8, 1], name="soil", colour="#445566"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cube, a reference, its photo and two spectra."""
    reference = SpectralCube(CUBE.data + np.float32(0.1), WAVELENGTHS)
    write_cube(tmp_path / "cube.hdr", CUBE)
    write_cube(tmp_path / "reference.hdr", reference)
    write_spectra(tmp_path / "spectra.csv", SPECTRA)
    Image.fromarray(true_colour(CUBE)).save(tmp_path / "photo.png")
    return tmp_path


def options_of(name: str, folder: Path) -> tuple[str, ...]:
    """The arguments for all that the map *name* needs beside the cube."""
    needs = {
        "spectra": ("--spectra", str(folder / "spectra.csv")),
        "photo": ("--photo", str(folder / "photo.png")),
        "reference": ("--reference", str(folder / "reference.hdr")),
        None: (),
    }
    return needs[MAPS[name].needs]


def only_band(path: Path) -> NDArray[Any]:
    """The (H, W) numbers of a TIFF of one band, as another program reads them."""
    (band,) = tifffile.imread(path)
    return np.asarray(band)


@pytest.mark.parametrize("suffix", [".tif", ".hdr", ".npz"])
@pytest.mark.parametrize("name", MAPS)
def test_every_map_is_saved_as_a_cube_that_knows_its_history(
    run: Run, folder: Path, name: str, suffix: str
) -> None:
    target = folder / f"map{suffix}"
    code, out, _ = run("map", folder / "cube.hdr", name, *options_of(name, folder), "-o", target)
    assert (code, out) == (0, f"{target}\n")
    found = read_cube(target)
    assert found.shape[1:] == CUBE.shape[1:]
    is_cube = MAPS[name].content == "cube"
    assert found.quantity == (CUBE.quantity if is_cube else MAPS[name].title)
    assert found.has_wavelengths == is_cube
    assert (found.provenance.model, found.provenance.source) == ("tiny", "leaf.jpg")
    assert found.provenance.error_band == {}
    assert not found.provenance.gives_the_cube_of(CUBE.provenance)
    assert found.metadata["map"] == name


OF_ONE_PLANE = [n for n in MAPS if n != "components" and MAPS[n].content != "cube"]


@pytest.mark.parametrize("name", OF_ONE_PLANE)
def test_every_map_of_one_plane_is_a_picture_too(run: Run, folder: Path, name: str) -> None:
    target = folder / "map.png"
    options = options_of(name, folder)
    assert run("map", folder / "cube.hdr", name, *options, "-o", target)[0] == 0
    with Image.open(target) as image:
        assert image.size == (36, 40)
        assert json.loads(image.info["napari_mst"])["map"] == name


def test_classes_are_those_of_python_in_the_colours_of_the_spectra(run: Run, folder: Path) -> None:
    options = ("--spectra", folder / "spectra.csv", "--number", "15")
    expected = classify(CUBE, SPECTRA, 15).labels
    assert set(np.unique(expected)) == {0, 1, 2}
    run("map", folder / "cube.hdr", "classes", *options, "-o", folder / "map.tif")
    np.testing.assert_array_equal(only_band(folder / "map.tif"), expected)
    found = read_cube(folder / "map.tif")
    assert list(found.metadata["class names"]) == ["unclassified", "leaf", "soil"]
    run("map", folder / "cube.hdr", "classes", *options, "-o", folder / "map.png")
    with Image.open(folder / "map.png") as image:
        picture = np.asarray(image)
    colours = np.array([(0, 0, 0, 0), (0x11, 0x22, 0x33, 255), (0x44, 0x55, 0x66, 255)])
    np.testing.assert_array_equal(picture, colours[expected])


def test_wavelengths_of_a_ratio_are_chosen_and_kept(run: Run, folder: Path) -> None:
    target = folder / "map.tif"
    options = ("--wavelengths", "650,450")
    assert run("map", folder / "cube.hdr", "ratio", *options, "-o", target)[0] == 0
    np.testing.assert_array_equal(only_band(target), band_ratio(CUBE, 650, 450))
    found = read_cube(target)
    assert found.metadata["map wavelength A"] == 650
    assert found.metadata["map wavelength B"] == 450


def test_components_have_a_band_each_and_tell_their_shares(run: Run, folder: Path) -> None:
    target = folder / "map.hdr"
    code, _, err = run("map", folder / "cube.hdr", "components", "--number", "4", "-o", target)
    assert code == 0
    assert len(read_cube(target).data) == 4
    titles = [plane.title for plane in MAPS["components"].make(MapInputs(CUBE, number=4)).planes]
    assert [line for line in err.splitlines() if "PC" in line] == [f"note: {t}" for t in titles]


def test_a_map_keeps_the_place_on_earth(run: Run, folder: Path) -> None:
    place = {FIELD: '{"transform": [2.0, 0.0, 10.0, 0.0, -2.0, 20.0]}'}
    cube = SpectralCube(CUBE.data, WAVELENGTHS, metadata=place)
    np.testing.assert_array_equal(cube.metadata[FIELD], place[FIELD])
    write_cube(folder / "placed.npz", cube)
    target = folder / "map.npz"
    assert run("map", folder / "placed.npz", "anomalies", "-o", target)[0] == 0
    assert read_cube(target).metadata[FIELD] == read_cube(folder / "placed.npz").metadata[FIELD]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("classes", "Expected --spectra for a map of classes, got none"),
        ("photo-difference", "Expected --photo for a map of photo-difference"),
        ("reference-rmse", "Expected --reference for a map of reference-rmse"),
        ("anomalies --number 3", "Expected no --number for a map of anomalies"),
        ("clusters --wavelengths 500", "Expected no --wavelengths for a map of clusters"),
        ("clusters --number 1", "Expected a whole number from 2 to 200 for --number, got 1"),
        ("clusters --number 2.5", "Expected a whole number from 2 to 200 for --number, got 2.5"),
        ("ratio --wavelengths 500", "Expected 2 wavelengths (A, B), got 1"),
        ("ratio --wavelengths 500,900", "Expected a wavelength within 400-700 nm, got 900"),
        ("components -o map.png", "Expected one picture for map.png, got 3"),
        ("anomalies -o map.docx", "Expected a file name ending in .tif"),
        ("anomalies -o cube.hdr", "which exists"),
    ],
)
def test_a_map_that_cannot_be_made_is_refused(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    code, out, err = run("map", "cube.hdr", *f"-o map.tif {arguments}".split())
    assert (code, out) == (2, "")
    assert_is_one_error(err.splitlines()[-1], message)
    assert sorted(folder.iterdir()) == before
