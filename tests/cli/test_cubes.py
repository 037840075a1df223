"""The commands that read cubes: `info`, `convert`, `spectra`, `map`, `compare` and `render`."""

import json
import re
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import tifffile
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from tests.cli.conftest import Run, assert_is_one_error

from napari_mst import Provenance, SpectralCube, Spectrum, read_cube, write_cube, write_spectra
from napari_mst.analysis.classification import classes
from napari_mst.analysis.comparison import Measure, error_map
from napari_mst.analysis.library import read_spectra
from napari_mst.analysis.maps import MAPS, components, index, unmixed
from napari_mst.base.arrays import Array
from napari_mst.base.errors import CurveWarning
from napari_mst.cli.console import warnings_noted
from napari_mst.cli.shared_options import DEFAULT_MODEL
from napari_mst.cube import metrics
from napari_mst.cube.georeference import FIELD
from napari_mst.models import MODELS

WAVELENGTHS = np.linspace(400, 700, 7)
RNG = np.random.default_rng(3)
CUBE = SpectralCube(
    RNG.uniform(0.1, 0.9, (7, 40, 36)).astype(np.float32),
    WAVELENGTHS,
    provenance=Provenance(
        model="tiny", source="leaf.jpg", source_sha256="5" * 64, error_band={"factor": [2.0]}
    ),
)
NOISE = RNG.normal(0, 0.05, CUBE.shape).astype(np.float32)
REFERENCE = SpectralCube((CUBE.data + NOISE).clip(0.05), WAVELENGTHS)
PAIR = (CUBE.data, REFERENCE.data)
SPECTRA = [
    Spectrum(WAVELENGTHS, CUBE.data[:, 2, 3], name="leaf", colour="#112233"),
    Spectrum(WAVELENGTHS, CUBE.data[:, 8, 1], name="soil", colour="#445566"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cube, its plain numbers, references, its photo and two spectra, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_cube("cube.hdr", CUBE)
    write_cube("reference.hdr", REFERENCE)
    write_cube("small.tif", SpectralCube(CUBE.data[:, 1:], WAVELENGTHS))
    np.save("plain.npy", CUBE.data)
    write_spectra("spectra.csv", SPECTRA)
    Image.fromarray(CUBE.render(full_scale=1.0)).save("photo.png")
    return tmp_path


def make(run: Run, command: str) -> tuple[str, str]:
    """What a *command* that succeeds prints, and its messages."""
    code, out, err = run(*command.split())
    assert code == 0, err
    return out, err


def only_band(path: str) -> Array:
    """The (H, W) numbers of a TIFF of one band, as another program reads them."""
    (band,) = tifffile.imread(path)
    return np.asarray(band)


def picture(path: str) -> Array:
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("map cube.hdr classes -o map.tif", "Expected --spectra for a map of classes, got none"),
        ("map cube.hdr photo-difference -o map.tif", "Expected --photo for a map of photo-diff"),
        ("map cube.hdr reference-rmse -o map.tif", "Expected --reference for a map of reference"),
        ("map cube.hdr anomalies --number 3 -o map.tif", "Expected no --number for a map of anom"),
        (
            "map cube.hdr clusters --text r500 -o map.tif",
            "Expected no --text for a map of clusters",
        ),
        (
            "map cube.hdr clusters --number 1 -o map.tif",
            "Expected a whole number from 2 to 200 for --number, got 1",
        ),
        (
            "map cube.hdr clusters --number 2.5 -o map.tif",
            "Expected a whole number from 2 to 200 for --number, got 2.5",
        ),
        ("map cube.hdr formula -o map.tif", "Expected --text for a map of formula, got none"),
        (
            "map nothing.hdr brightness -o map.tif",
            "Expected a map, an index, or a band as r650 or R, got 'bri",
        ),
        ("map cube.hdr components -o map.png", "Expected one picture for map.png, got 3"),
        ("map cube.hdr anomalies -o cube.hdr", "which exists"),
        ("compare cube.hdr cube.hdr --peak 0", "Expected a --peak above 0, got 0"),
        ("render cube.hdr -o out.jpg", "ending in .png"),
        # refused before plain.npy is read, which lacks its wavelengths
        ("convert plain.npy -o cube.hdr", "which exists"),
        ("info cube.hdr --variable x", "got variable. Leave them out."),
        ("info small.tif --variable x", "got variable. Leave them out."),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    run: Run, folder: Path, command: str, message: str
) -> None:
    before = sorted(folder.iterdir())
    code, out, err = run(*command.split())
    assert (code, out) == (2, "")
    assert_is_one_error(err.splitlines()[-1], message)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "command", ["info plain.npy --wavelengths many", "spectra cube.hdr --at middle"]
)
def test_an_option_that_cannot_be_read_is_refused_by_the_parser(run: Run, command: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(*command.split())


@pytest.mark.parametrize("suffix", [".hdr", ".nc"])
def test_info_says_what_the_file_holds_and_what_made_it(run: Run, photo: Path, suffix: str) -> None:
    run("reconstruct", photo, "-o", f"made{suffix}")
    out, err = make(run, f"info made{suffix}")
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert err == ""
    assert facts["shape"].strip() == "4 bands x 6 rows x 9 columns"
    assert facts["type"].strip() == "float32"
    assert facts["wavelengths"].strip() == "450 to 600 nm"
    assert facts["model"].strip() == "tiny"
    assert f"torch {version('torch')}" in facts["versions"]


def test_what_the_reader_ignored_is_noted(run: Run) -> None:
    header = Path("cube.hdr")
    header.write_text(header.read_text().replace("wavelength = {", "wavelength = {nan, "))
    out, err = make(run, "info cube.hdr")
    assert "unknown (band)" in out
    assert err.startswith("note: ")


def test_info_takes_the_array_the_axis_and_the_wavelengths(run: Run) -> None:
    np.savez("a.npz", left=np.zeros((3, 5, 6)), right=np.zeros((4, 5, 6)))
    code, _, err = run("info", "a.npz")
    assert code == 2
    assert "--variable NAME" in err
    assert "4 bands x 5 rows" in make(run, "info a.npz --variable right")[0]
    np.savez("a.npz", a=np.zeros((6, 5, 6)))
    assert "--band-axis" in run("info", "a.npz")[2]
    assert "6 bands x 6 rows x 5 columns" in make(run, "info a.npz --band-axis -1")[0]
    assert "400 to 460 nm" in make(run, "info plain.npy --wavelengths 400:460")[0]


def test_every_model_is_listed_with_what_a_person_chooses_by(run: Run) -> None:
    out, _ = make(run, "models")
    for card in MODELS.values():
        assert card.name in out
    pixelwise = next(line for line in out.splitlines() if line.startswith("pixelwise-srgb"))
    assert "11.0%  scenes of CAVE, of exactly rendered sRGB" in pixelwise
    assert re.search(r"8-bit sRGB photos .* +0\.034 MB$", pixelwise)
    assert max(map(len, out.splitlines())) < 200


def test_every_model_is_listed_for_programs_with_all_its_measures(run: Run) -> None:
    out, _ = make(run, "models --json")
    told = json.loads(out)
    for name, card in MODELS.items():
        assert told[name]["domain"] == card.domain
        assert told[name]["accuracy"] == card.accuracy
        assert told[name]["wavelengths"] == list(card.wavelengths)


def test_default_model_is_bundled() -> None:
    assert MODELS[DEFAULT_MODEL].file
    assert next(iter(MODELS)) == DEFAULT_MODEL  # what a list of models begins with


NM = range(400, 470, 10)


@pytest.mark.parametrize("given", ["400:460", ",".join(map(str, NM))])
def test_a_plain_array_becomes_a_cube_with_its_wavelengths(run: Run, given: str) -> None:
    out, _ = make(run, f"convert plain.npy -o new.hdr --wavelengths {given}")
    assert out == "new.hdr\n"
    cube = read_cube("new.hdr")
    assert_array_equal(cube.data, CUBE.data)
    assert_array_equal(cube.wavelengths, NM)


def test_spectra_of_pixels_are_written_and_printed(run: Run) -> None:
    assert make(run, "spectra cube.hdr --at 1,2 --at 3,0 -o a.csv")[0] == "a.csv\n"
    for spectrum, pixel in zip(read_spectra("a.csv"), [(1, 2), (3, 0)], strict=True):
        assert_array_equal(spectrum.values, CUBE.spectrum(*pixel))
        origin = spectrum.origin
        assert (origin.cube, origin.row, origin.column) == ("cube.hdr", *pixel)
    out, _ = make(run, "spectra cube.hdr --at 1,1 --window 3")
    means = CUBE.data[:, :3, :3].mean(axis=(1, 2))
    printed = [float(row.split("\t")[1]) for row in out.splitlines()[1:]]
    assert_allclose(printed, means, rtol=1e-6)


NEEDS = {
    "spectra": "--spectra spectra.csv",
    "photo": "--photo photo.png",
    "reference": "--reference reference.hdr",
    None: "",
}


def asked(name: str) -> str:
    """The options that the map *name* needs."""
    texts = {"formula": " --text r650/r500", "span": " --text 500-600"}
    return NEEDS[MAPS[name].needs] + texts.get(name, "")


@pytest.mark.parametrize("name", MAPS)
def test_every_map_is_saved_as_a_cube_that_knows_its_history(run: Run, name: str) -> None:
    assert make(run, f"map cube.hdr {name} {asked(name)} -o map.tif")[0] == "map.tif\n"
    made = read_cube("map.tif")
    assert made.shape[1:] == CUBE.shape[1:]
    is_cube = MAPS[name].content == "cube"
    changed = "continuum removed" if name == "transformed" else CUBE.quantity
    assert made.quantity == (changed if is_cube else MAPS[name].title)
    assert made.has_wavelengths == is_cube
    assert (made.provenance.model, made.provenance.source) == ("tiny", "leaf.jpg")
    assert made.provenance.error_band == {}
    assert not made.provenance.gives_the_cube_of(CUBE.provenance)
    assert made.metadata["map"] == name


OF_SEVERAL = ("span", "components", "abundances", "unmixed", "noise-fractions")
OF_ONE_PLANE = [n for n in MAPS if n not in OF_SEVERAL and MAPS[n].content != "cube"]


@pytest.mark.parametrize("name", OF_ONE_PLANE)
def test_every_map_of_one_plane_is_a_picture_too(run: Run, name: str) -> None:
    make(run, f"map cube.hdr {name} {asked(name)} -o map.png")
    with Image.open("map.png") as image:
        assert image.size == (36, 40)
        assert json.loads(image.info["napari_mst"])["map"] == name


def test_classes_are_those_of_python_in_the_colours_of_the_spectra(run: Run) -> None:
    expected = classes(CUBE, SPECTRA, 15).data
    assert set(np.unique(expected)) == {0, 1, 2}
    for target in ("map.tif", "map.png"):
        make(run, f"map cube.hdr classes --spectra spectra.csv --number 15 -o {target}")
    assert_array_equal(only_band("map.tif"), expected)
    assert list(read_cube("map.tif").metadata["class names"]) == ["unclassified", "leaf", "soil"]
    colours = np.array([(0, 0, 0, 0), (0x11, 0x22, 0x33, 255), (0x44, 0x55, 0x66, 255)])
    assert_array_equal(picture("map.png"), colours[expected])


def test_a_formula_and_an_index_are_kinds_and_say_which_bands_were_taken(run: Run) -> None:
    out, err = make(run, "map cube.hdr r650/r450")
    assert out == "cube_r650-r450.tif\n"
    assert_allclose(only_band(out.strip()), CUBE.data[5] / CUBE.data[1], rtol=1e-6)
    assert "note: r650 at 650 nm, r450 at 450 nm\n" in err
    make(run, "map cube.hdr ngrdi")
    assert_array_equal(only_band("cube_ngrdi.tif"), index(CUBE, "NGRDI").data)
    assert "G at 550 nm" in make(run, "info cube_ngrdi.tif")[0]


def test_several_maps_are_made_in_one_line(run: Run) -> None:
    make(run, "map cube.hdr NGRDI unmixed")
    assert_array_equal(only_band("cube_NGRDI.tif"), index(CUBE, "NGRDI").data)
    assert_array_equal(read_cube("cube_unmixed.tif").data, unmixed(CUBE).data)
    code, _, err = run(*["map", "cube.hdr", "NGRDI", "unmixed", "-o", "a.tif"])
    assert (code, "Expected one kind for a.tif, got 2. Leave -o out." in err) == (2, True)


def test_classes_are_measured_with_their_names(run: Run) -> None:
    run("map", "cube.hdr", "clusters", "--number", "3", "-o", "classes.tif")
    code, out, _ = run("labels", "cube.hdr", "classes.tif")
    assert (code, out) == (0, "cube_labels.csv\n")
    read = pd.read_csv(out.strip()).to_dict("list")
    labels = np.asarray(read_cube("classes.tif").data[0])
    assert read["name"] == ["cluster 1", "cluster 2", "cluster 3"]
    assert read["pixels"] == np.bincount(labels.ravel())[1:].tolist()
    assert_allclose(read["mean 450 nm"][0], CUBE.data[1, labels == 1].mean(), rtol=1e-6)
    assert_is_one_error(run("labels", "cube.hdr", "classes.tif")[2], "cube_labels.csv which exists")


def test_components_have_a_band_each_and_tell_their_shares(run: Run) -> None:
    _, err = make(run, "map cube.hdr components --number 4 -o map.hdr")
    assert len(read_cube("map.hdr").data) == 4
    titles = components(CUBE, 4).titles
    assert [line for line in err.splitlines() if "PC" in line] == [f"note: {t}" for t in titles]


def test_a_map_keeps_the_place_on_earth(run: Run) -> None:
    place = {FIELD: '{"transform": [2.0, 0.0, 10.0, 0.0, -2.0, 20.0]}'}
    write_cube("placed.npz", SpectralCube(CUBE.data, WAVELENGTHS, metadata=place))
    make(run, "map placed.npz anomalies -o map.npz")
    assert read_cube("map.npz").metadata[FIELD] == read_cube("placed.npz").metadata[FIELD]


def facts(text: str) -> dict[str, str]:
    return {line[:8].strip(): line[8:] for line in text.splitlines()}


def test_errors_are_those_of_the_metrics(run: Run) -> None:
    out, err = make(run, "compare cube.hdr reference.hdr")
    assert err == ""
    assert facts(out) == {
        "MRAE": f"{metrics.mrae(*PAIR):.4f}",
        "RMSE": f"{metrics.rmse(*PAIR):.4f}",
        "PSNR": f"{metrics.psnr(*PAIR):.2f} dB",
        "SAM": f"{metrics.spectral_angle(*PAIR):.2f} deg",
        "pixels": "1440",
        "bands": "7",
    }
    out, _ = make(run, "compare cube.hdr reference.hdr --peak 255")
    assert facts(out)["PSNR"] == f"{metrics.psnr(*PAIR, 255):.2f} dB"


def test_errors_of_each_band_are_those_of_the_metrics(run: Run) -> None:
    heading, *rows = make(run, "compare cube.hdr reference.hdr --bands")[0].splitlines()[6:]
    assert heading == "wavelength (nm)\tMRAE\tRMSE\tPSNR (dB)"
    for row, wavelength, e, r in zip(rows, WAVELENGTHS, *PAIR, strict=True):
        pair = (e[None], r[None])
        expected = (f"{metrics.mrae(*pair):.4f}", f"{metrics.rmse(*pair):.4f}")
        assert row.split("\t") == [f"{wavelength:g}", *expected, f"{metrics.psnr(*pair):.2f}"]


@pytest.mark.parametrize("measure", get_args(Measure))
def test_error_map_is_that_of_python(run: Run, measure: Measure) -> None:
    out, _ = make(run, f"map cube.hdr reference-{measure} --reference reference.hdr -o errors.tif")
    assert out == "errors.tif\n"
    assert_array_equal(only_band("errors.tif"), error_map(CUBE, REFERENCE, measure))
    assert read_cube("errors.tif").metadata["map"] == f"reference-{measure}"


def test_rendering_is_saved_as_the_method_makes_it(run: Run) -> None:
    assert make(run, "render cube.hdr -o lamp.png --illuminant led-b3")[0] == "lamp.png\n"
    assert_array_equal(picture("lamp.png"), CUBE.render("LED-B3"))
    with Image.open("lamp.png") as image:
        assert image.info["icc_profile"]
    options = "--illuminant A --unadapted --full-scale 2 --overwrite"
    make(run, f"render cube.hdr -o lamp.png {options}")
    expected = CUBE.render("A", adapted=False, full_scale=2)
    assert_array_equal(picture("lamp.png"), expected)


@pytest.mark.parametrize(
    "command",
    [
        "info open.npz",
        "convert open.npz -o out.hdr",
        "spectra open.npz --at 1,1",
        "map open.npz r700/r550 -o out.tif",
        "map reference.hdr reference-rmse --reference open.npz -o out.tif",
        "render open.npz -o out.png --full-scale 1",
        "labels open.npz labels.tif -o out.csv",
        "compare open.npz reference.hdr",
        "compare reference.hdr open.npz",
        "refine open.npz --photo photo.png --suggest 1",
    ],
)
def test_every_command_takes_what_a_file_leaves_open(run: Run, command: str) -> None:
    # As many rows as columns: nothing shows the axis, and two arrays may be the cube.
    square = np.ascontiguousarray(CUBE.data[:, :7])
    np.savez("open.npz", rad=square, other=square)
    for name in ("cube.hdr", "reference.hdr"):
        write_cube(name, SpectralCube(square, WAVELENGTHS), overwrite=True)
    write_cube("labels.tif", SpectralCube(np.ones((1, 7, 36), "u1"), np.zeros(1), "band", ""))
    Image.fromarray(SpectralCube(square, WAVELENGTHS).render(full_scale=1.0)).save("photo.png")
    status, _, err = run(*command.split())
    assert status == 2
    assert "--variable NAME" in err
    answers = "--variable rad --band-axis 0 --wavelengths 0.4:0.7 --unit um"
    make(run, f"{command} {answers}" + (" --scale 1" if command.startswith("info") else ""))


def test_what_a_reader_assumes_is_a_note(run: Run) -> None:
    np.savez("a.npz", cube=CUBE.data, wavelengths=WAVELENGTHS)
    _, err = make(run, "spectra a.npz --at 1,1")
    assert "note: The unit of the wavelengths is not given; nm was assumed." in err


def test_what_a_light_leaves_open_is_noted_once(run: Run) -> None:
    rows = [f"{nm / 1000} {'inf' if nm == 550 else 1}" for nm in range(400, 701, 10)]
    Path("lamp.txt").write_text("\n".join(rows))
    _, err = make(run, "render cube.hdr -o out.png --illuminant lamp.txt")
    assert err.count("note: lamp.txt: Gaps in the values: 1 (inf).") == 1
    assert err.count("note: lamp.txt: The unit of the wavelengths is not given; um was") == 1
    assert_array_equal(picture("out.png"), CUBE.render("E"))


def test_a_note_comes_once_though_libraries_reset_the_memory_of_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with warnings_noted():
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
            warnings.warn("lamp.csv: um was assumed.", CurveWarning, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == ["note: lamp.csv: um was assumed."]
