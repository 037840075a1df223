"""Further photos of a scene: they are found, they correct its cube, and wrong ones are refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from tests.references.conftest import Scene, simulated

from napari_mst import NapariMstError, Shot, add_shots, interval_of
from napari_mst.arrays import Codes, Doubles
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.photo.cameras import GRID, light_power, sensor_white, unbalanced_response
from napari_mst.photo.photo import Photo
from napari_mst.progress import NO_PROGRESS
from napari_mst.reconstruction.colour_fidelity import cells
from napari_mst.references.refining import refine
from napari_mst.references.registration import registered

SIZE = 96
LAMPS = "LED-RGB1", "F11"
TURN = np.array([[1, -0.01], [0.01, 1]])


@pytest.fixture(scope="module")
def view() -> Scene:
    """A scene with enough texture for a shift to be seen."""
    return simulated(5, SIZE)


def light_of(scene: Scene, light: str) -> Doubles:
    """(3, H, W): the linear light of *scene*, with the white balance of daylight."""
    response = unbalanced_response("sRGB", light) / sensor_white("sRGB", "D65")
    return np.einsum("bhw,bc->chw", scene.truth, response / response.sum(axis=0).max())


def codes(light: Doubles) -> Codes:
    rounded = np.rint(linear_to_srgb(light.clip(0, 1)) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.moveaxis(rounded, 0, -1))


def shot_of(scene: Scene, light: str) -> Codes:
    """Exposed less, shaded from left to right, and moved by two rows and a column."""
    shaded = light_of(scene, light) * np.linspace(0.5, 0.9, SIZE)
    return codes(np.roll(shaded, (2, -1), (1, 2)))


def test_further_photos_bring_the_cube_nearer_to_the_truth(view: Scene) -> None:
    both = [Shot(shot_of(view, lamp), lamp) for lamp in LAMPS]
    one, two = (add_shots(view.cube, view.photo, shots) for shots in (both[1:], both))
    assert view.error(two) < view.error(one) < 0.95 * view.error(view.cube)
    assert view.error(two) < 0.85 * view.error(view.cube)
    note = two.provenance.assumptions[-1]
    assert "in F11: moved by 2.0 rows and -1.0 columns" in note
    bands = [interval_of(cube, 40, 40) for cube in (two, view.cube)]
    widths = [(band[1] - band[0]).mean() for band in bands if band]
    assert widths[0] < widths[1]


def test_numbers_do_not_depend_on_the_strips(view: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    shots = [Shot(shot_of(view, "F11"), "F11")]
    whole = add_shots(view.cube, view.photo, shots)
    monkeypatch.setattr(cells, "BLOCK_PIXELS", 7 * SIZE)
    np.testing.assert_allclose(add_shots(view.cube, view.photo, shots).data, whole.data, atol=1e-5)


def test_first_light_is_subtracted_behind_a_flash(view: Scene) -> None:
    day, lamp = 0.5 * light_of(view, "D65"), 0.4 * light_of(view, "LED-B3")
    photos = [
        Photo.from_array(np.moveaxis(each, 0, -1))
        for each in map(linear_to_srgb, (day, lamp, day + lamp))
    ]
    cube = replace(
        view.cube, provenance=replace(view.cube.provenance, source_sha256=photos[0].sha256)
    )
    alone = add_shots(cube, photos[0], [Shot(photos[1], "LED-B3")])
    flash = add_shots(cube, photos[0], [Shot(photos[2], "LED-B3", includes_first=True)])
    assert np.abs(flash.data - alone.data).mean() < 0.1 * np.abs(flash.data - cube.data).mean()
    assert "from which the first was subtracted" in flash.provenance.assumptions[-1]


@pytest.mark.parametrize("move", [(0, 0), (3, -2), (1.5, 0.25)])
def test_place_of_a_photo_is_found(view: Scene, move: tuple[float, float]) -> None:
    middle = np.full((2, 1, 1), SIZE / 2)
    grid = np.indices((SIZE, SIZE))
    at = np.tensordot(TURN, grid - middle, axes=1) + middle - np.reshape(move, (2, 1, 1))
    moved = [map_coordinates(plane, at, mode="reflect") for plane in light_of(view, "A")]
    matrix, misfit = registered(
        Photo.from_array(view.photo), Photo.from_array(codes(np.stack(moved))), NO_PROGRESS
    )
    expected = np.linalg.inv(TURN) @ (
        np.reshape([30, 60], (2, 1)) - SIZE / 2 + np.reshape(move, (2, 1))
    )
    found = matrix @ [30, 60, 1] - SIZE / 2
    np.testing.assert_allclose(found, expected[:, 0], atol=0.25)
    assert misfit < 0.5


def test_light_may_stand_behind_a_filter(tmp_path: Path) -> None:
    file = tmp_path / "gel.csv"
    share = np.linspace(0.1, 0.9, 31)
    rows = zip(GRID, share, strict=True)
    file.write_text("nm,transmittance\n" + "\n".join(f"{at:g},{each:.6f}" for at, each in rows))
    np.testing.assert_allclose(
        light_power(f"d65 through {file}"), share * light_power("D65"), rtol=1e-5
    )
    with pytest.raises(NapariMstError, match="Expected a CSV file"):
        light_power("D65 through nothing.csv")


def _another(view: Scene) -> dict[str, Any]:
    return {"shots": [Shot(simulated(9, SIZE).photo)]}


def _unbalanced(view: Scene) -> dict[str, Any]:
    return {"shots": [Shot(shot_of(view, "A"), "D65")]}


def _small(view: Scene) -> dict[str, Any]:
    return {"shots": [Shot(view.photo[:-2])]}


def _black(view: Scene) -> dict[str, Any]:
    return {"shots": [Shot(view.photo // 40)]}


def _refined(view: Scene) -> dict[str, Any]:
    return {"cube": refine(view.cube, view.photo, view.references((40, 40)))}


def _cut(view: Scene) -> dict[str, Any]:
    return {"cube": view.cube.sel(wavelength=slice(450, 700))}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_another, "Expected two photos from one place"),
        (_unbalanced, "Expected the white balance of the first photo"),
        (_small, "Expected two photos of one size"),
        (_black, "Expected a further photo of the scene"),
        (_refined, "got one that was refined"),
        (_cut, "Expected reflectance at 400, 410"),
    ],
)
def test_what_does_not_fit_is_refused(view: Scene, wrong: Any, message: str) -> None:
    given = {"cube": view.cube, "photo": view.photo, "shots": [Shot(view.photo)]}
    with pytest.raises(NapariMstError, match=message):
        add_shots(**(given | wrong(view)))
