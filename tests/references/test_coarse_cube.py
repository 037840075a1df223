"""A coarse cube of the view: taken as means of blocks, found where it lies, and refused where it
cannot be one."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.references.conftest import Scene

from napari_mst.base.arrays import Floats
from napari_mst.base.errors import CubeError
from napari_mst.cube import SpectralCube
from napari_mst.reconstruction.colour_fidelity import code_cells
from napari_mst.references import coarse_cube
from napari_mst.references.coarse_cube import best_shift, edges_of, refine_with_cube, spread_between

GRID = np.arange(400.0, 701, 10)


def block_means(data: Floats, count: int) -> Floats:
    """Means (B, count, count) of square blocks that divide the image."""
    bands, rows, columns = data.shape
    grid = data.reshape(bands, count, rows // count, count, columns // count)
    return np.asarray(grid.mean(axis=(2, 4)))


def coarse_of(scene: Scene, count: int) -> SpectralCube:
    return SpectralCube(block_means(scene.truth, count), GRID)


def test_means_of_blocks_are_plain_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cells, "BLOCK_PIXELS", 5 * 18)
    data = np.random.default_rng(0).random((3, 12, 18))
    found = coarse_cube.block_means(data, edges_of((12, 18), (4, 6), (0, 0)))
    assert_allclose(found, data.reshape(3, 4, 3, 6, 3).mean(axis=(2, 4)), atol=1e-12)


def test_pixel_on_an_edge_counts_by_its_shares() -> None:
    data = np.array([[[1.0, 2.0, 3.0]]])
    found = coarse_cube.block_means(data, edges_of((1, 3), (1, 2), (0, 0)))
    assert_allclose(found[0, 0], [(1 + 1) / 1.5, (1 + 3) / 1.5])


def test_pixel_without_numbers_does_not_count() -> None:
    data = np.ones((2, 4, 4))
    data[1, 0, 0] = np.nan
    data[:, 2:, 2:] = np.nan
    found = coarse_cube.block_means(data, edges_of((4, 4), (2, 2), (0, 0)))
    assert_array_equal(found[0], [[1, 1], [1, np.nan]])


def test_values_are_spread_linearly_between_centres() -> None:
    edges = edges_of((4, 8), (1, 2), (0, 0))
    row = spread_between(np.array([[[0.0, 4.0]]]), edges, slice(1, 2), 8)[0, 0]
    assert_allclose(row, [0, 0, 0.5, 1.5, 2.5, 3.5, 4, 4])


@pytest.mark.parametrize("shift", [(0, 0), (2, -1), (-3, 2)])
def test_shift_of_a_coarse_image_is_found(shift: tuple[int, int]) -> None:
    rng = np.random.default_rng(4)
    large = np.kron(rng.random((3, 20, 20)), np.ones((1, 5, 5)))
    view = np.s_[:, 10 : 10 + 64, 10 : 10 + 64]
    moved = np.roll(large, (-shift[0], -shift[1]), axis=(1, 2))[view]
    coarse = 0.8 * block_means(moved, 8)  # another exposure does not matter
    assert best_shift(large[view], coarse) == shift


def test_coarse_cube_betters_every_scene(scenes: list[Scene]) -> None:
    for scene in scenes[:4]:
        better = refine_with_cube(scene.cube, scene.photo, coarse_of(scene, 8))
        assert scene.error(better) < 0.75 * scene.error(scene.cube)


def test_block_means_agree_with_the_coarse_cube(scene: Scene) -> None:
    coarse = coarse_of(scene, 8)
    better = refine_with_cube(scene.cube, scene.photo, coarse)
    before, after = (
        np.abs(block_means(cube.data, 8) / coarse.data - 1).mean() for cube in (scene.cube, better)
    )
    assert after < 0.3 * before


def test_misregistered_coarse_cube_is_nearly_as_good(scenes: list[Scene]) -> None:
    for scene in scenes[1:3]:
        padded = np.pad(scene.truth, ((0, 0), (2, 2), (2, 2)), mode="edge")
        moved = padded[:, 4:, 1:-3]
        coarse = SpectralCube(block_means(moved, 8), GRID)
        better = refine_with_cube(scene.cube, scene.photo, coarse)
        assert "moved by 2 rows and -1 columns" in better.provenance.refinement["source"]
        exact = refine_with_cube(scene.cube, scene.photo, coarse_of(scene, 8))
        assert scene.error(better) < 1.3 * scene.error(exact)


def test_coarse_cube_of_other_wavelengths_is_resampled(scene: Scene) -> None:
    at = np.arange(396.0, 705, 4)
    coarse = coarse_of(scene, 8)
    other = np.stack([np.interp(at, GRID, one) for one in coarse.data.reshape(31, -1).T], axis=1)
    better = refine_with_cube(
        scene.cube, scene.photo, SpectralCube(other.reshape(len(at), 8, 8), at)
    )
    exact = refine_with_cube(scene.cube, scene.photo, coarse)
    assert np.abs(better.data - exact.data).mean() < 0.005
    assert scene.error(better) < 1.1 * scene.error(exact)


def test_missing_pixels_and_bands_of_the_coarse_cube_harm_nothing(scene: Scene) -> None:
    coarse = coarse_of(scene, 8)
    holed = coarse.data.copy()
    holed[:, 3, 3] = np.nan
    better = refine_with_cube(scene.cube, scene.photo, replace(coarse, data=holed))
    assert np.isfinite(better.data).all()
    part = SpectralCube(coarse.data[4:27], GRID[4:27])
    narrow = refine_with_cube(scene.cube, scene.photo, part)
    assert np.isfinite(narrow.data).all()
    assert scene.error(narrow) < scene.error(scene.cube)


def grey(bands: int, rows: int, columns: int, value: float = 0.5) -> SpectralCube:
    at = 400 + 300 * np.arange(bands) / max(bands - 1, 1)
    return SpectralCube(np.full((bands, rows, columns), value, np.float32), at)


BAD = {
    "larger": (grey(31, 60, 60), "fewer pixels than the photo, got 60 x 60 for 48 x 48"),
    "another view": (grey(31, 6, 12), "of the same view, got 6 x 12 for 48 x 48"),
    "per cent": (grey(31, 6, 6, 50), "reflectance of about 0 to 1 in the coarse cube, got 50"),
    "negative": (grey(31, 6, 6, -1), "reflectance of about 0 to 1 in the coarse cube, got -1"),
    "no numbers": (grey(31, 6, 6, np.nan), "in the coarse cube, got none"),
    "no wavelengths": (replace(grey(31, 6, 6), unit="band"), "wavelengths in nm"),
    "radiance": (replace(grey(31, 6, 6), quantity="radiance"), "reflectance, got radiance"),
    "infrared": (
        SpectralCube(np.full((9, 6, 6), 0.5), np.linspace(800, 900, 9)),
        "got 0 within 800-900 nm",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_a_coarse_cube_is_refused(scene: Scene, name: str) -> None:
    coarse, message = BAD[name]
    with pytest.raises(CubeError, match=message) as caught:
        refine_with_cube(scene.cube, scene.photo, coarse)
    assert len(str(caught.value)) < 300
