"""The chart shows what its true spectra look like; the photo is the documented one."""

import hashlib
from importlib import resources

import colour as colour_science
import numpy as np

from napari_mst.plugin.files import samples


def test_the_photo_of_the_chart_is_its_cube_in_srgb() -> None:
    (cube, _, _), (photo, _, _) = samples.chart()
    shape = colour_science.SpectralShape(400, 700, 10)
    cmfs = colour_science.MSDS_CMFS["CIE 1931 2 Degree Standard Observer"].copy().align(shape)
    light = colour_science.SDS_ILLUMINANTS["D65"].copy().align(shape)
    for row, column in [(40, 40), (120, 210), (300, 470)]:
        reflectance = colour_science.SpectralDistribution(cube[:, row, column], shape.wavelengths)
        xyz = colour_science.sd_to_XYZ(reflectance, cmfs, light, method="Integration") / 100
        expected = colour_science.XYZ_to_sRGB(xyz)
        np.testing.assert_allclose(photo[row, column] / 255, np.clip(expected, 0, 1), atol=0.02)


def test_the_chart_is_brightest_in_its_middle_and_lists_its_patches_down_the_columns() -> None:
    data = samples.chart_cube().data
    frame = data[15, 0]
    assert frame.argmax() in (len(frame) // 2 - 1, len(frame) // 2)
    greys = data[:, 3 * 84 + 48, 48::84]
    assert (np.diff(greys.mean(axis=0)) < 0).all()


def test_the_photo_is_the_documented_file() -> None:
    folder = resources.files("napari_mst") / "sample_data"
    digest = hashlib.sha256((folder / "coffee.jpg").read_bytes()).hexdigest()
    assert digest in (folder / "README.md").read_text(encoding="utf-8")
    ((pixels, arguments, kind),) = samples.coffee()
    assert (pixels.shape, arguments["rgb"], kind) == ((400, 600, 3), True, "image")
