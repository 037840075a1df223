"""How a photo was taken, on the command line: camera and light, RAW, grey patches and charts."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tifffile
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from tests.cli.conftest import Run
from tests.conftest import on_cpu
from tests.raw_photos import Camera, write_dng

from napari_mst import (
    Acquisition,
    Chart,
    Photo,
    Spectrum,
    read_cube,
    write_spectra,
)
from napari_mst.attention.record_files import read_attention
from napari_mst.base.arrays import Doubles
from napari_mst.calibration.chart import CHARTS
from napari_mst.calibration.light.estimating import estimate_light
from napari_mst.cube.colour import linear_to_srgb, srgb_response
from napari_mst.cube.spectrum import Origin
from napari_mst.photo.cameras import GRID, load_cameras, load_illuminants, unbalanced_response

NIKON = "--camera Nikon_D5100"
TOLD = f"{NIKON} --illuminant A"
UNBALANCED = f"{NIKON} --unbalanced"
PATCH = "--white-patch 5,5 --patch-reflectance 0.5"
CHART = "--chart 10,10 10,60 40,60 40,10"
WHITE = unbalanced_response("Nikon_D5100", "A").sum(axis=0)
needs_rawpy = pytest.mark.skipif(not find_spec("rawpy"), reason="the extra `raw`")


def write_linear(name: str, values: Doubles) -> None:
    tifffile.imwrite(name, values.astype(np.uint16), photometric="rgb")


def chart_scene(response: Doubles) -> Doubles:
    """The (50, 70, 3) values of a grey wall with a ColorChecker."""
    cube = np.full((31, 50, 70), 0.3)
    centres = Chart(((10.0, 10.0), (10.0, 60.0), (40.0, 60.0), (40.0, 10.0))).centres
    for spectrum, (row, column) in zip(CHARTS["classic"].reflectances, centres, strict=True):
        top, left = round(row) - 4, round(column) - 4
        cube[:, top : top + 8, left : left + 8] = spectrum[:, None, None]
    return np.einsum("bhw,bc->hwc", cube, response).clip(0, 1)


@pytest.fixture(autouse=True)
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise, a wall with a grey patch and its white frame, a chart, and RAW photos of a wall."""
    monkeypatch.chdir(tmp_path)
    Path("cubes").mkdir()
    rng = np.random.default_rng(0)
    noise = rng.integers(100, 60_000, (8, 9, 3)).astype(np.float64)
    write_linear("noise.tif", noise)
    write_linear("other.tif", noise // 2)
    Image.fromarray(rng.integers(0, 256, (6, 9, 3), dtype=np.uint8)).save("photo.png")
    wall = np.full((32, 40, 3), 0.2)
    wall[:12, :12] = 0.5  # the patch
    seen = wall * WHITE / WHITE.max() * 60_000
    write_linear("wall.tif", seen)
    write_linear("frame.tif", np.full_like(seen, seen[0, 0]))
    orange = linear_to_srgb(chart_scene(srgb_response(GRID) * [1.0, 0.7, 0.4])) * 255
    for name in ("chart.png", "chart2.png"):
        Image.fromarray(np.rint(orange).astype(np.uint8)).save(name)
    canon = unbalanced_response("Canon_EOS_R5", "A")
    write_linear("chart.tif", chart_scene(canon / canon.sum(axis=0).max()) * 50_000)
    halves = np.full((32, 40, 3), 0.5) * WHITE / WHITE.max()
    halves[16:] /= 2
    red, green, blue = WHITE.tolist()
    for name, camera in (
        ("nikon.dng", Camera(neutral=(red, green, blue))),
        ("d700.dng", Camera("NIKON", "NIKON D700")),
        ("snap.dng", Camera("NIKON", "Acme Snap")),
        ("no_white.dng", Camera(neutral=None)),
    ):
        write_dng(Path(name), halves, camera)


def reconstruct(run: Run, arguments: str) -> tuple[int, str]:
    """The exit status and the messages of the model that is told the camera, unless another is."""
    code, _, err = run("reconstruct", *f"--model mstpp-camera -o cube.hdr {arguments}".split())
    return code, err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("noise.tif", "Expected the camera and the illuminant of the photo for the model mstpp-ca"),
        (f"noise.tif {NIKON}", "got no --illuminant"),
        ("noise.tif --illuminant A", "got no --camera"),
        ("noise.tif --white 9", "Expected --camera and --illuminant with --white"),
        (f"noise.tif {TOLD} --model mstpp-srgb", "Expected no camera for the model mstpp-srgb"),
        (f"noise.tif {NIKON} --illuminant estimate", "got a white-balanced photo, which hides it"),
        (f"photo.png {TOLD}", "photo.png: Expected linear values of 16 bits or floats, got 8 bits"),
        (f"wall.tif {NIKON} --white-patch 5,5", "degrees off the photo's own white"),
        (f"wall.tif {UNBALANCED} --white-patch 5,5 --white 9", "got both"),
        (f"wall.tif {NIKON} --dark-frame wall.tif", "Expected --white-frame with --dark-frame"),
        (
            f"wall.tif frame.tif -o cubes {UNBALANCED} {PATCH}",
            "Expected one photo with --white-patch, got 2",
        ),
        (f"chart.png --model mstpp-srgb {CHART} --illuminant A", "Expected --chart alone, got --i"),
        (f"chart.png --model mstpp-srgb {CHART} --find-chart", "Expected --find-chart alone, got"),
        (
            f"chart.png chart2.png -o cubes --model pixelwise-srgb {CHART}",
            "Say with --chart-photo which one shows the chart",
        ),
        pytest.param(
            "snap.dng --illuminant A",
            "Expected a camera with measured sensitivities, got",
            marks=needs_rawpy,
        ),
        pytest.param(
            "nikon.dng d700.dng -o cubes --illuminant A",
            "Expected photos of one camera",
            marks=needs_rawpy,
        ),
        pytest.param(
            "nikon.dng --model mstpp-srgb",
            "Use mstpp-camera with the illuminant",
            marks=needs_rawpy,
        ),
        pytest.param(
            "no_white.dng --illuminant A",
            "Expected the white balance of the camera in no_white.dng",
            marks=needs_rawpy,
        ),
    ],
)
def test_what_is_missing_or_wrong_is_refused_in_one_sentence(
    run: Run, arguments: str, message: str
) -> None:
    code, err = reconstruct(run, arguments)
    assert (code, err.count("error:")) == (2, 1)
    assert message in err
    assert not Path("cube.hdr").exists()
    assert not list(Path("cubes").iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        f"photo.png {TOLD} --linear",
        pytest.param("no_white.dng --illuminant A --unbalanced", marks=needs_rawpy),
    ],
)
def test_what_the_refusal_asks_for_is_enough(run: Run, arguments: str) -> None:
    assert reconstruct(run, arguments)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (f"noise.tif other.tif {TOLD}", 2),
        (f"noise.tif {UNBALANCED}", 1),
        (f"wall.tif frame.tif {UNBALANCED} {PATCH} --patch-photo wall.tif", 2),
        (f"chart.png chart2.png --model pixelwise-srgb {CHART} --chart-photo chart.png", 2),
        pytest.param("nikon.dng --illuminant A", 1, marks=needs_rawpy),
    ],
    ids=["camera", "estimated", "patch", "chart", "raw"],
)
def test_a_batch_knows_its_cubes_again(run: Run, arguments: str, count: int) -> None:
    assert reconstruct(run, f"{arguments} -o cubes")[0] == 0
    code, err = reconstruct(run, f"{arguments} -o cubes")
    assert code == 0
    assert f"{count} of {count} cubes are of this run" in err


def test_a_cube_of_another_light_does_not_count_as_done(run: Run) -> None:
    assert reconstruct(run, f"noise.tif -o cubes {TOLD}")[0] == 0
    code, err = reconstruct(run, f"noise.tif -o cubes {NIKON} --illuminant D65")
    assert code == 2
    assert "got noise.img which exists" in err


def test_cube_is_that_of_the_api_and_the_files_know_the_camera(run: Run) -> None:
    acquisition = Acquisition("Nikon_D5100", "A", 50_000.0)
    reconstructor = on_cpu("mstpp-camera", acquisition=acquisition)
    expected = reconstructor.reconstruct(Photo.read("noise.tif", encoding="linear"))
    for target in ("cube.hdr", "cube.tif", "cube.npz"):
        assert reconstruct(run, f"noise.tif -o {target} {TOLD} --white 50000")[0] == 0
        cube = read_cube(target)
        assert_array_equal(cube.data, expected.data)
        assert cube.provenance == expected.provenance
    lines = [line.split(maxsplit=1) for line in run("info", "cube.hdr")[1].splitlines()]
    assert ["camera", "Nikon_D5100"] in lines
    assert ["illuminant", "A"] in lines


def test_cameras_and_illuminants_are_listed(run: Run) -> None:
    lines = {line.strip() for line in run("cameras")[1].splitlines()}
    assert {*load_cameras(), *load_illuminants()} <= lines
    models = {line.split("  ")[0]: line for line in run("models")[1].splitlines()}
    assert "Linear RGB of a camera that is named" in models["mstpp-camera"]


def test_the_light_of_an_unbalanced_photo_is_estimated_unless_it_is_named(run: Run) -> None:
    for target, light in (("left", ""), ("asked", "Estimate"), ("named", "A")):
        option = f"--illuminant {light}" if light else ""
        code, err = reconstruct(run, f"noise.tif -o {target}.hdr {UNBALANCED} {option}")
        assert code == 0
        assert ("illuminant was estimated from the photo" in err) == (light != "A")
    left, asked, named = (read_cube(f"{target}.hdr") for target in ("left", "asked", "named"))
    assert_array_equal(left.data, asked.data)
    assert left.provenance.is_light_estimated
    assert (named.provenance.illuminant, named.provenance.is_light_estimated) == ("A", False)
    assert "is light estimated" in run("info", "left.hdr")[1]


def test_known_spectra_tell_the_light_better(run: Run) -> None:
    origin = Origin(row=5, column=5)
    write_spectra("known.csv", Spectrum(GRID, np.full(31, 0.5), name="grey", origin=origin))
    option = "--light-spectra known.csv"
    code, err = reconstruct(run, f"wall.tif -o told.hdr {UNBALANCED} {option}")
    assert code == 0
    told = read_cube("told.hdr").provenance
    assert err.count("The illuminant was estimated from 1 reference spectrum in the photo: ") == 1
    assert any("from 1 reference spectrum" in each for each in told.assumptions)
    assert told.is_light_estimated
    photo = Photo.read("wall.tif", encoding="linear")
    references = {(5, 5): Spectrum(GRID, np.full(31, 0.5))}
    assert told.illuminant == estimate_light(photo, "Nikon_D5100", references).illuminant
    code, err = reconstruct(run, f"wall.tif -o no.hdr {TOLD} {option}")
    assert "Expected --illuminant estimate with --light-spectra" in err
    grey = Spectrum(GRID, np.full(31, 0.5), name="grey", origin=origin)
    write_spectra("twice.csv", [grey, replace(grey, name="again")])
    code, err = reconstruct(run, f"wall.tif -o no.hdr {UNBALANCED} --light-spectra twice.csv")
    assert "got two at one" in err
    code, err = reconstruct(run, f"wall.tif noise.tif -o no {UNBALANCED} {option}")
    assert "Expected one photo with --light-spectra, got 2" in err


def test_attention_needs_the_camera_and_estimates_the_light_as_a_cube_does(run: Run) -> None:
    def attention(target: str, *options: str) -> tuple[int, str]:
        code, _, err = run("attention", "noise.tif", "-o", target, *model, *options)
        return code, err

    model, unbalanced = ("--model", "mstpp-camera"), UNBALANCED.split()
    code, err = attention("none.npz")
    assert code == 2
    assert "Expected the camera" in err
    assert attention("estimated.npz", *unbalanced)[0] == 0
    record = read_attention("estimated.npz")
    assert record.provenance.camera == "Nikon_D5100"
    light = ("--illuminant", record.provenance.illuminant)
    assert attention("told.npz", *unbalanced, *light)[0] == 0
    other = read_attention("told.npz")
    for name in record:
        assert np.isfinite(record[name].attention).all()
        assert_array_equal(record[name].attention, other[name].attention)


@pytest.mark.parametrize(
    "arguments",
    [
        f"--unbalanced {PATCH}",
        "--unbalanced --white-patch 1:9,1:9 --patch-reflectance 0.5",
        "--white-frame frame.tif --patch-reflectance 0.5",
        f"--white-frame frame.tif {PATCH}",
    ],
    ids=["pixel", "rectangle", "frame", "frame-and-patch"],
)
def test_grey_surface_gives_light_and_level_without_any_number(run: Run, arguments: str) -> None:
    code, err = reconstruct(run, f"wall.tif {NIKON} {arguments}")
    assert code == 0
    assert "illuminant A" in err
    cube = read_cube("cube.hdr")
    assert cube.provenance.illuminant == "A"
    # the network takes every grey for darker at 400 nm
    assert_allclose(cube.data[1:, 20:, 20:].mean(axis=(1, 2)), 0.2, atol=0.03)


def test_chart_calibrates_an_srgb_photo_and_its_patches_are_known(run: Run) -> None:
    code, err = reconstruct(run, f"chart.png --model pixelwise-srgb {CHART}")
    assert code == 0
    assert "patch\tbefore\tafter\tleft out" in err
    assert "calibrated with a chart" in err
    cube = read_cube("cube.hdr")
    assert_allclose(cube.data[5:, 2, 2], 0.3, atol=0.04)
    assert "24 reference spectra" in " ".join(cube.provenance.assumptions)


def test_chart_tells_camera_light_and_white_of_a_linear_photo(run: Run) -> None:
    assert reconstruct(run, f"chart.tif --linear {CHART}")[0] == 0
    cube = read_cube("cube.hdr")
    assert cube.provenance.camera.startswith("chart ")
    assert cube.provenance.illuminant == "by its ColorChecker"
    unadapted = replace(cube.provenance, refinement={})
    assert unadapted.calibration == "calibrated by its ColorChecker"
    assert_allclose(cube.data[5:, 2, 2], 0.3, atol=0.03)


@needs_rawpy
def test_camera_of_the_file_and_white_as_shot_give_the_cube_of_the_api(run: Run) -> None:
    code, err = reconstruct(run, "nikon.dng --illuminant A")
    assert code == 0
    assert "the photo was taken by Nikon_D5100, as its file says" in err
    assert "The white balance is that of the file, as shot." in err
    cube = read_cube("cube.hdr")
    acquisition = Acquisition("Nikon_D5100", "A")
    reconstructor = on_cpu("mstpp-camera", acquisition=acquisition)
    assert_array_equal(cube.data, reconstructor.reconstruct("nikon.dng").data)
    assert cube.provenance.encoding == "linear"
    # a grey wall is grey only if it was balanced as shot
    wall = cube.data[:, 4:12].mean(axis=(1, 2))
    assert wall.std() / wall.mean() < 0.1
