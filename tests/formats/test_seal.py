"""The seal of our files: a change since the save is told or refused, in every format alike."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import rasterio
import tifffile
import zarr

from napari_mst.base.errors import CubeFileError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import read_cube, write_cube
from napari_mst.formats.cube_record import CHANGED, DESCRIPTION_CHANGED
from napari_mst.formats.matlab import mat_files

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
DATA = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
WAVELENGTHS = np.array([400.0, 455.5, 512.25, 600.0, 700.0])
CUBE = SpectralCube(DATA, WAVELENGTHS, provenance=Provenance("m"), metadata={"description": "x"})


@pytest.fixture(autouse=True)
def _matlab_files_that_h5py_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mat_files, "VERSION_5_BYTES", 0)


KINDS = ("a.hdr", "a.tif", "a.npz", "a.mat", "a.zarr")


def save(folder: Path, name: str, cube: SpectralCube = CUBE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return write_cube(folder / name, cube)


def contents(cube: SpectralCube) -> list[Any]:
    """Everything that a person reads of a cube, but its warnings."""
    fields = {key: value for key, value in cube.metadata.items() if key != "warnings"}
    return [
        cube.data.tolist(),
        cube.wavelengths.tolist(),
        cube.unit,
        cube.quantity,
        cube.provenance,
        fields,
    ]


def second_digits(path: Path, text: str) -> Iterator[tuple[Path, int]]:
    """The places of the second letter of *text*, in letters of one, two or four bytes."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        for width, encoding in ((1, "ascii"), (2, "utf-16-le"), (4, "utf-32-le")):
            for found in re.finditer(re.escape(text.encode(encoding)), file.read_bytes()):
                yield file, found.start() + width


@pytest.mark.parametrize("name", KINDS)
def test_a_digit_that_flipped_in_the_record_is_never_read_without_a_word(
    tmp_path: Path, name: str
) -> None:
    path = save(tmp_path, name)
    intact = contents(read_cube(path))
    places = list(second_digits(path, "455.5"))
    assert places
    for file, at in places:
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[at] = ord("3")
        file.write_bytes(damaged)
        with suppress(CubeFileError):
            cube = read_cube(path)
            is_told = {CHANGED, DESCRIPTION_CHANGED} & {*cube.metadata.get("warnings", ())}
            assert is_told or contents(cube) == intact
        file.write_bytes(whole)
    assert contents(read_cube(path)) == intact


@pytest.mark.parametrize("name", KINDS)
def test_any_axis_and_names_come_back_without_a_word_of_changes(tmp_path: Path, name: str) -> None:
    names = tuple(f"<{band}>\x01" for band in range(5))
    fields = {"description": "caf\xe9 <&> {x}\n", "band names": names, "data ignore value": 7.5}
    for wavelengths, unit in (
        (WAVELENGTHS, "nm"),
        (WAVELENGTHS - 500, "nm"),
        (np.arange(5.0), "band"),
    ):
        cube = SpectralCube(DATA, wavelengths, unit, metadata=fields)
        again = read_cube(save(tmp_path / unit / str(wavelengths[0]), name, cube))
        assert DESCRIPTION_CHANGED not in again.metadata.get("warnings", ())
        assert (again.wavelengths.tolist(), again.unit) == (wavelengths.tolist(), unit)


def test_a_seal_without_the_checksum_of_the_record_vouches_for_nothing(tmp_path: Path) -> None:
    path = save(tmp_path, "a.tif")
    path.write_bytes(path.read_bytes().replace(b"record crc32", b"record_crc32"))
    assert read_cube(path).metadata["warnings"] == (DESCRIPTION_CHANGED,)


def test_what_gdal_edited_in_place_is_read_as_it_is_now_with_a_warning(tmp_path: Path) -> None:
    path = save(tmp_path, "a.tif")
    with rasterio.open(path, "r+") as judge:
        judge.update_tags(note="of the herbarium")
    assert "warnings" not in read_cube(path).metadata
    with rasterio.open(path, "r+") as judge:
        judge.update_tags(2, wavelength="435.5")
        judge.nodata = 3
    cube = read_cube(path)
    assert cube.wavelengths.tolist() == [400, 435.5, 512.25, 600, 700]
    assert cube.metadata["data ignore value"] == 3
    assert cube.metadata["description"] == "x"
    assert (cube.provenance, cube.quantity) == (CUBE.provenance, CUBE.quantity)
    assert cube.metadata["warnings"] == (DESCRIPTION_CHANGED,)


def test_a_description_that_replaced_our_record_leaves_the_file_readable(tmp_path: Path) -> None:
    path = save(tmp_path, "a.tif")
    tifffile.tiffcomment(path, "a leaf")
    cube = read_cube(path)
    assert np.array_equal(cube.data, DATA)
    assert cube.wavelengths.tolist() == WAVELENGTHS.tolist()
    assert cube.provenance == Provenance()
    assert cube.metadata["warnings"] == (DESCRIPTION_CHANGED,)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(CubeFileError, match="checksum"):
        read_cube(path)


def edit_with_h5py(path: Path) -> None:
    with h5py.File(path, "r+") as judge:
        judge["bands"][1] = 435.5


def edit_with_zarr(path: Path) -> None:
    group = zarr.open_group(str(path), mode="r+")
    text = json.loads(str(group.attrs["napari_mst"]))
    text["wavelength"][1] = 435.5
    group.attrs["napari_mst"] = json.dumps(text)


@pytest.mark.parametrize(("name", "edit"), [("a.mat", edit_with_h5py), ("a.zarr", edit_with_zarr)])
def test_wavelengths_that_others_edited_are_read_as_they_are_now_with_a_warning(
    tmp_path: Path, name: str, edit: Callable[[Path], None]
) -> None:
    path = save(tmp_path, name)
    edit(path)
    cube = read_cube(path)
    assert cube.wavelengths.tolist() == [400, 435.5, 512.25, 600, 700]
    assert cube.provenance == CUBE.provenance
    assert cube.metadata["warnings"] == (DESCRIPTION_CHANGED,)


def test_wavelengths_beside_a_lost_record_are_read_with_a_warning(tmp_path: Path) -> None:
    path = save(tmp_path, "a.mat")
    edit_with_h5py(path)
    with h5py.File(path, "r+") as judge:
        del judge["napari_mst"]
    cube = read_cube(path)
    assert cube.wavelengths.tolist() == [400, 435.5, 512.25, 600, 700]
    assert cube.metadata["warnings"] == (DESCRIPTION_CHANGED,)


def test_a_record_without_its_seal_is_told_in_every_format(tmp_path: Path) -> None:
    paths = [save(tmp_path, name) for name in ("a.npz", "a.mat", "a.zarr")]
    with np.load(paths[0]) as saved:
        np.savez(paths[0], **saved)
    with h5py.File(paths[1], "r+") as file:
        del file["cube"].attrs["napari_mst_seal"]
    del zarr.open_group(str(paths[2]), mode="r+")["0"].attrs["napari_mst_seal"]
    for path in paths:
        cube = read_cube(path)
        assert np.array_equal(cube.data, DATA)
        assert (cube.provenance, CHANGED in cube.metadata["warnings"]) == (Provenance(), True)
