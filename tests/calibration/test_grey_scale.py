"""Balance, exposure and tone curve of an sRGB photo from grey patches in it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import napari_mst as nm
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import PhotoError
from napari_mst.cli.main import main
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.models.cards import PHOTOGRAPHED, RENDERED
from napari_mst.references.intervals import interval_width

GREYS = (0.03, 0.09, 0.19, 0.36, 0.59, 0.88)
SIDE = 10


def codes_of(reflectances: Doubles) -> Doubles:
    """8-bit codes (H, W, 3) of grey columns as a camera with a curve and a cast gives them."""
    bent = (1.6 * reflectances) ** 1.3
    light = bent * 1.8 / (1 + 0.8 * bent)
    columns = np.repeat(light, SIDE)[None, :, None] * [1.0, 0.95, 0.85]
    codes = linear_to_srgb(np.broadcast_to(columns * 0.9, (SIDE, columns.shape[1], 3)).clip(0, 1))
    return np.rint(codes * 255).astype(np.uint8)


PHOTO = nm.Photo.from_array(codes_of(np.array(GREYS)))


def patch(index: int, reflectance: float | None = None) -> nm.light.GreyPatch:
    place = SIDE // 2, SIDE * index + SIDE // 2
    return nm.light.GreyPatch(place, reflectance or GREYS[index])


def shown(scale: nm.light.GreyScale) -> Doubles:
    """The linear light (6, 3) of the greys of the corrected photo."""
    light = scale.corrected(PHOTO).rows(linear=True)
    return light[:, SIDE // 2, SIDE // 2 :: SIDE].T.astype(np.float64)


def test_one_grey_tells_exposure_and_balance() -> None:
    light = shown(nm.light.calibrate_greys(PHOTO, [patch(2)]))
    assert light[2] == pytest.approx(GREYS[2], rel=0.01)
    # One patch leaves the curve open: that of a usual camera is taken.
    assert light.mean(axis=1) == pytest.approx(GREYS, rel=0.35)
    assert np.ptp(light[:4] / light[:4].mean(axis=1, keepdims=True)) < 0.03


def test_scale_of_greys_tells_the_curve() -> None:
    light = shown(nm.light.calibrate_greys(PHOTO, [patch(index) for index in range(6)]))
    assert light.mean(axis=1)[:5] == pytest.approx(GREYS[:5], rel=0.06)
    few = shown(nm.light.calibrate_greys(PHOTO, [patch(index) for index in (0, 2, 4)]))
    assert few.mean(axis=1)[:5] == pytest.approx(GREYS[:5], rel=0.06)


def test_corrected_greys_rise_even_where_the_patches_contradict_each_other() -> None:
    scale = nm.light.calibrate_greys(PHOTO, [patch(0), patch(3, 0.5), patch(2, 0.55), patch(4)])
    assert any("should be brighter" in each for each in scale.warnings)
    assert (np.diff(shown(scale)[:, 1]) > 0).all()


@pytest.mark.parametrize(
    ("codes", "reflectance", "warning"),
    [
        ((230, 120, 60), 0.2, "degrees off grey"),
        ((250, 250, 250), 0.9, "a grey card tells the exposure better than a white sheet"),
        ((255, 255, 255), 0.9, "clipped"),
    ],
    ids=["coloured", "bright", "clipped"],
)
def test_odd_patch_is_believed_with_a_warning(
    codes: tuple[int, int, int], reflectance: float, warning: str
) -> None:
    photo = nm.Photo.from_array(np.full((20, 20, 3), codes, np.uint8))
    scale = nm.light.calibrate_greys(photo, [nm.light.GreyPatch((10, 10), reflectance)])
    assert any(warning in each for each in scale.warnings)
    corrected = scale.corrected(photo)
    assert corrected.rows(linear=True)[:, 10, 10] == pytest.approx([reflectance] * 3, rel=0.02)
    assert warning in corrected.assumptions[-1]


@pytest.mark.parametrize("count", [1, 3])
def test_cube_of_a_photo_by_a_camera_has_the_reflectances_of_its_greys(count: int) -> None:
    cube = nm.reconstruct(PHOTO, PHOTOGRAPHED)
    chosen = (1, 2, 3)[:count]
    refined = nm.refine(cube, PHOTO, nm.light.calibrate_greys(PHOTO, [*map(patch, chosen)]))
    for index in chosen:
        spectrum = refined.spectrum(SIDE // 2, SIDE * index + SIDE // 2).values
        assert spectrum == pytest.approx(GREYS[index], rel=0.25)
        assert np.ptp(spectrum) < 0.1 * spectrum.mean()
    # Nothing but the brightness was wide: it is known now.
    widths = [interval_width(each).mean() for each in (cube, refined)]
    assert widths[1] < 0.8 * widths[0]


def test_greys_of_a_region_are_where_the_photo_shows_them() -> None:
    scale = nm.light.calibrate_greys(PHOTO, [patch(2)])
    part = nm.Reconstructor(nm.load_model(PHOTOGRAPHED), region=(0, SIDE, SIDE, 4 * SIDE))
    refined = nm.refine(part.reconstruct(PHOTO), PHOTO, scale)
    assert refined.spectrum(SIDE // 2, SIDE + SIDE // 2).values == pytest.approx(0.19, rel=0.1)


def test_white_sheet_says_little_of_the_brightness_and_warns() -> None:
    photo = nm.Photo.from_array((codes_of(np.array(GREYS)) / 200 * 255).clip(0, 250))
    cube = nm.reconstruct(photo, PHOTOGRAPHED)
    sheet, grey = (
        nm.refine(cube, photo, nm.light.calibrate_greys(photo, [patch(index)])) for index in (5, 2)
    )
    assert "a white sheet" in " ".join(sheet.provenance.assumptions)
    assert interval_width(sheet).mean() > 1.2 * interval_width(grey).mean()


def test_what_shows_no_grey_is_refused() -> None:
    with pytest.raises(PhotoError, match="Expected at least one grey patch, got none"):
        nm.light.calibrate_greys(PHOTO, [])
    with pytest.raises(PhotoError, match="Expected a pixel within 10 rows x 60 columns"):
        nm.light.calibrate_greys(PHOTO, [nm.light.GreyPatch((5, 90))])
    linear = nm.Photo.from_array(np.full((9, 9, 3), 0.2), encoding="linear")
    with pytest.raises(PhotoError, match="Expected an sRGB photo to correct its tone curve"):
        nm.light.calibrate_greys(linear, [nm.light.GreyPatch((4, 4))])


def test_shell_takes_a_scale_of_greys(tmp_path: Path) -> None:
    Image.fromarray(codes_of(np.array(GREYS))).save(tmp_path / "greys.png")
    told = []
    for index in (1, 2, 4):
        told += ["--balance", f"5,{SIDE * index + 5}", "--patch-reflectance", str(GREYS[index])]
    command = ["reconstruct", str(tmp_path / "greys.png"), "-o", str(tmp_path / "cube.hdr")]
    assert main([*command, "--model", "pixelwise-srgb", *told]) == 0
    cube = nm.read_cube(tmp_path / "cube.hdr")
    assert cube.data[:, 5, 5::SIDE].mean(axis=0)[:5] == pytest.approx(GREYS[:5], rel=0.1)
    assert "corrected by 3 grey patches" in " ".join(cube.provenance.assumptions)


@pytest.mark.parametrize(
    ("options", "model"),
    [([], PHOTOGRAPHED), (["--region", "0:10,10:50"], RENDERED), (["--model", RENDERED], RENDERED)],
    ids=["whole photo", "region", "named model"],
)
def test_shell_corrects_the_cube_of_the_model_for_photos_by_greys(
    tmp_path: Path, options: list[str], model: str
) -> None:
    Image.fromarray(codes_of(np.array(GREYS))).save(tmp_path / "greys.png")
    command = ["reconstruct", str(tmp_path / "greys.png"), "-o", str(tmp_path / "cube.hdr")]
    assert main([*command, "--balance", "5,25", "--patch-reflectance", "0.19", *options]) == 0
    past = nm.read_cube(tmp_path / "cube.hdr").provenance
    assert (past.model, bool(past.refinement)) == (model, model == PHOTOGRAPHED)


def test_shell_wants_a_reflectance_for_each_grey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(codes_of(np.array(GREYS))).save(tmp_path / "greys.png")
    told = ["--balance", "5,15", "--balance", "5,25", "--patch-reflectance", "0.2"]
    assert main(["reconstruct", str(tmp_path / "greys.png"), *told]) == 2
    assert "Expected a --patch-reflectance for each of 2 grey patches" in capsys.readouterr().err
