"""A cube as an array: NumPy's protocol, indices, parts of it, and its one-line text."""

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal, assert_equal

import napari_mst as nm
from napari_mst.base.errors import CubeError, PhotoError
from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.photo.photo import Photo, as_photo
from napari_mst.references.colour_views import photo_of

DATA = np.random.default_rng(0).random((5, 8, 9), dtype=np.float32)
WAVELENGTHS = np.array([500.0, 525, 550, 575, 600])
PLACE = Georeference((30.0, 0.0, 5e5, 0.0, -30.0, 4e6))
PAST = Provenance(model="mstpp-srgb", source="photo.jpg", source_sha256="abc")


def a_cube(**fields: Any) -> SpectralCube:
    quality = np.arange(72, dtype=np.float32).reshape(8, 9)
    cube = SpectralCube(DATA, WAVELENGTHS, provenance=PAST, colour_error=quality)
    return replace(cube, **fields)


def a_lazy_cube(tmp_path: Path) -> SpectralCube:
    """A cube whose data are a memory map."""
    np.save(tmp_path / "data.npy", DATA)
    return a_cube(data=np.load(tmp_path / "data.npy", mmap_mode="r"))


# NumPy's protocol


def test_numpy_takes_a_cube_as_its_data_without_a_copy() -> None:
    cube = a_cube()
    array = np.asarray(cube)
    assert array.shape == (5, 8, 9)
    assert np.shares_memory(array, cube.data)
    assert_array_equal(np.stack([cube, cube])[1], DATA)
    assert np.mean(cube) == DATA.mean()


def test_a_copy_or_a_type_is_given_where_it_is_asked_for() -> None:
    array = np.array(a_cube())
    assert_array_equal(array, DATA)
    assert not np.shares_memory(array, DATA)
    assert not np.shares_memory(a_cube().__array__(copy=True), DATA)
    assert np.asarray(a_cube(), dtype=np.float64).dtype == np.float64
    assert a_cube().__array__(copy=False) is DATA
    assert a_cube().__array__(np.float32, copy=False) is DATA
    with pytest.raises(CubeError, match="copy=False"):
        a_cube().__array__(np.float64, copy=False)


def test_lazy_data_are_read_for_numpy_and_never_without_a_copy() -> None:
    dask = pytest.importorskip("dask.array")
    cube = a_cube(data=dask.from_array(DATA, chunks=(2, 3, 4)))
    array = np.asarray(cube)
    assert type(array) is np.ndarray
    assert_array_equal(array, DATA)
    assert np.array(cube, dtype=np.float64).dtype == np.float64
    with pytest.raises(CubeError, match="copy=False"):
        cube.__array__(copy=False)
    for plane in (cube[1], cube.sel(wavelength=525)):
        assert type(plane) is np.ndarray
        assert_array_equal(plane, DATA[1])
    part = cube.crop((1, 4), (2, 9)).sel(wavelength=slice(520, 580))
    assert isinstance(part.data, dask.Array)
    assert_array_equal(np.asarray(part), DATA[1:4, 1:4, 2:9])


# Indices


def test_an_index_gives_a_plain_array_a_view_or_a_number(tmp_path: Path) -> None:
    cube = a_cube()
    assert np.shares_memory(cube[0], DATA)
    assert_array_equal(cube[:, 2:5], DATA[:, 2:5])
    assert_array_equal(cube[..., -1], DATA[..., -1])
    assert cube[1, 2, 3] == DATA[1, 2, 3]
    assert np.ndim(cube[1, 2, 3]) == 0
    assert not isinstance(cube[1, 2, 3], np.ndarray)
    assert type(a_lazy_cube(tmp_path)[0]) is np.ndarray
    with pytest.raises(IndexError):
        cube[5]


def test_a_loop_over_a_cube_is_an_error_and_so_is_in() -> None:
    cube: Any = a_cube()
    with pytest.raises(TypeError, match=r"add_cube\(viewer, cube\) to show it"):
        list(cube)
    with pytest.raises(TypeError):
        0.5 in cube  # noqa: B015
    with pytest.raises(TypeError):
        len(cube)


def test_a_cube_equals_only_itself_and_can_be_a_key() -> None:
    cube = a_cube()
    assert cube == cube
    assert (cube == a_cube()) is False
    assert {cube: 1}[cube] == 1
    assert bool(cube)


# Rows and columns


def test_a_crop_keeps_what_is_known_of_the_cube() -> None:
    metadata = {"description": "a leaf", "fwhm": (9.0,) * 5}
    cube = a_cube(quantity="radiance", metadata=metadata)
    part = cube.crop(rows=(2, 5), columns=slice(4, None))
    assert part.shape == (5, 3, 5)
    assert_array_equal(part.data, DATA[:, 2:5, 4:])
    assert np.shares_memory(part.data, DATA)
    assert_array_equal(part.wavelengths, WAVELENGTHS)
    assert (part.unit, part.quantity, part.metadata) == (cube.unit, "radiance", metadata)
    assert part.colour_error is not None
    assert cube.colour_error is not None
    assert_array_equal(part.colour_error, cube.colour_error[2:5, 4:])
    assert part.provenance.model == "mstpp-srgb"
    assert cube.crop(slice(None), (0, 9)) is cube


def test_a_crop_of_a_crop_names_its_region_of_the_photo() -> None:
    part = a_cube().crop((2, 7), (1, 9)).crop((1, 3), (2, 5))
    assert part.provenance.region == "3:5,3:6"
    photo = Photo.from_array(np.zeros((8, 9, 3), np.uint8))
    assert photo_of(part, photo).shape == (2, 3)


def test_a_crop_of_a_region_counts_from_the_photo() -> None:
    region = replace(PAST, region="100:108,50:59")
    part = a_cube(provenance=region).crop((2, 5), (4, 6))
    assert part.provenance.region == "102:105,54:56"
    foreign = a_cube(provenance=replace(PAST, region="the leaf")).crop((2, 5), (4, 6))
    assert foreign.provenance.region == "the leaf"


def test_a_crop_of_a_preview_claims_no_region() -> None:
    part = a_cube(provenance=replace(PAST, is_preview=True)).crop((2, 5), (4, 6))
    assert part.provenance.region == ""
    assert part.provenance.cut == "rows 2:5, columns 4:6"


def test_a_batch_never_takes_a_part_for_the_cube_of_a_run() -> None:
    """Attention is global: a run on the region gives other numbers than a cut."""
    run = replace(PAST, region="2:5,4:6")
    part = a_cube().crop((2, 5), (4, 6))
    assert part.provenance.region == run.region
    assert not part.provenance.gives_the_cube_of(run)
    bands = a_cube().sel(wavelength=slice(500, 550))
    assert not bands.provenance.gives_the_cube_of(PAST)
    assert a_cube().provenance.gives_the_cube_of(PAST)


def test_the_place_on_earth_moves_with_the_corner() -> None:
    part = a_cube(metadata={FIELD: PLACE.to_json()}).crop((2, 5), (4, 6))
    place = Georeference.from_json(part.metadata[FIELD])
    assert place == PLACE.cropped(2, 4)
    assert place is not None
    assert place.transform == (30.0, 0.0, 5e5 + 120, 0.0, -30.0, 4e6 - 60)


def test_metadata_that_name_pixels_of_the_whole_stay_with_it() -> None:
    metadata = {"picks": "[[1, 2]]", "x start": "7", "sensor type": "none"}
    part = a_cube(metadata=metadata).crop((2, 5), (4, 6))
    assert part.metadata == {"sensor type": "none"}


@pytest.mark.parametrize(
    "rows",
    [
        (2, 2),
        (5, 2),
        (0, 9),
        (-3, 5),
        slice(-3, None),
        slice(0, 8, 2),
        slice(8, None),
        (1.5, 3),
        (1, 2, 3),
        4,
    ],
)
def test_rows_that_are_empty_outside_or_thinned_out_are_refused(rows: Any) -> None:
    with pytest.raises(CubeError, match=r"^Expected rows .*, got "):
        a_cube().crop(rows, (0, 9))
    with pytest.raises(CubeError, match=r"^Expected columns .*, got "):
        a_cube().crop((0, 8), (0, 10))


# Wavelengths


def test_a_wavelength_gives_the_plane_of_the_nearest_band() -> None:
    plane = a_cube().sel(wavelength=560)
    assert plane.shape == (8, 9)
    assert_array_equal(plane, DATA[2])


def test_a_range_of_wavelengths_gives_their_cube_with_both_ends() -> None:
    part = a_cube(quantity="radiance").sel(wavelength=slice(525, 575))
    assert_array_equal(part.wavelengths, [525, 550, 575])
    assert np.shares_memory(part.data, DATA)
    assert_array_equal(part.data, DATA[1:4])
    assert part.quantity == "radiance"
    assert part.colour_error is not None
    assert part.provenance.cut == "525-575 nm"
    assert a_cube().sel(wavelength=slice(560, None)).shape == (2, 8, 9)
    whole = a_cube()
    assert whole.sel(wavelength=slice(300, 900)) is whole


@pytest.mark.parametrize("order", [[4, 3, 2, 1, 0], [0, 4, 1, 3, 2]])
def test_the_order_of_the_bands_does_not_matter(order: list[int]) -> None:
    cube = a_cube(data=DATA[order], wavelengths=WAVELENGTHS[order])
    part = cube.sel(wavelength=slice(510, 580))
    assert sorted(part.wavelengths) == [525, 550, 575]
    for wavelength, plane in zip(part.wavelengths, part.data, strict=True):
        assert_array_equal(plane, DATA[wavelength == WAVELENGTHS][0])


def test_fields_of_bands_are_those_of_the_bands_that_stay() -> None:
    metadata = {
        "band names": ("a", "b", "c", "d", "e"),
        "bbl": np.array([1, 0, 1, 1, 1]),
        "data gain values": "{1, 2, 3, 4, 5}",
        "fwhm": (1.0, 2.0),
        "default bands": (5, 3, 1),
        "description": "a leaf",
    }
    part = a_cube(metadata=metadata).sel(wavelength=slice(520, 560))
    assert part.metadata == {
        "band names": ("b", "c"),
        "bbl": (0, 1),
        "data gain values": "{ 2, 3}",
        "description": "a leaf",
    }


@pytest.mark.parametrize("wavelength", [499.0, 601.0, np.nan])
def test_a_wavelength_outside_the_cube_is_refused(wavelength: float) -> None:
    with pytest.raises(CubeError, match="Expected a wavelength within 500-600 nm, got"):
        a_cube().sel(wavelength=wavelength)


@pytest.mark.parametrize(
    "span", [slice(700, 800), slice(505, 510), slice(600, 500), slice(500, 600, 50)]
)
def test_a_range_without_bands_is_refused(span: slice) -> None:
    with pytest.raises(CubeError, match="Expected two wavelengths with bands of 500-600 nm"):
        a_cube().sel(wavelength=span)


@pytest.mark.parametrize(("unit", "named"), [(BAND_INDEX, "no wavelengths"), ("1/cm", "1/cm")])
def test_a_cube_without_wavelengths_in_nm_has_none_to_choose(unit: str, named: str) -> None:
    for wavelength in (550.0, slice(500, 600)):
        with pytest.raises(CubeError, match=f"wavelengths in nm, got .*{named}"):
            a_cube(unit=unit).sel(wavelength=wavelength)


def test_a_spectrum_is_what_point_spectrum_gives() -> None:
    data = DATA.copy()
    data[2, 3, 4] = data[:, 0, 0] = np.nan
    cube = a_cube(data=data)
    for pixel in ((1, 2), (3, 4), (0, 0)):
        assert_equal(vars(cube.spectrum(*pixel)), vars(nm.point_spectrum(cube, *pixel)))
    assert np.asarray(cube.spectrum(3, 4)).dtype == np.float64


@pytest.mark.parametrize("guess", ["save", "resample", "refine", "prediction_intervals"])
def test_a_function_that_is_taken_for_a_method_is_named(guess: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{guess}'. Use nm\.(\w+)") as raised:
        getattr(a_cube(), guess)
    name = re.search(r"nm\.(\w+)", str(raised.value))
    assert name is not None
    assert callable(getattr(nm, name[1]))
    with pytest.raises(AttributeError, match=r"no attribute 'brightness'\.$"):
        a_cube().brightness  # type: ignore[attr-defined]  # noqa: B018


# Texts


def test_the_text_of_a_cube_is_one_line_of_facts() -> None:
    assert repr(a_cube()) == (
        "<SpectralCube (5, 8, 9) float32, 500-600 nm, reflectance, by mstpp-srgb>"
    )
    bare = SpectralCube(DATA.astype(np.uint16), np.arange(5.0), BAND_INDEX, quantity="")
    assert repr(bare) == "<SpectralCube (5, 8, 9) uint16, no wavelengths>"


def test_the_text_of_a_cube_from_a_strange_file_stays_one_short_line() -> None:
    past = Provenance(model="m" * 500)
    text = repr(a_cube(quantity="a\nb\x1b[31m" * 99, unit="\n" * 99, provenance=past))
    assert text.isprintable()
    assert len(text) < 200


def test_the_text_of_a_model_is_one_short_line() -> None:
    model = nm.load_model("pixelwise-srgb")
    text = repr(model)
    assert text.startswith("<Model pixelwise-srgb: ")
    assert "3 channels to 31 bands" in text
    assert model.weights_sha256[:8] in text
    assert "\n" not in text
    assert len(text) < 120
    assert len(repr(nm.Reconstructor(model, device="cpu"))) < 120


def test_other_things_of_many_numbers_have_short_texts_too() -> None:
    photo = nm.Photo.from_array(np.zeros((6, 8, 3), np.uint8))
    assert repr(photo) == "<Photo without a name: 6 x 8, uint8 srgb>"
    leaf = nm.Spectrum(np.arange(400.0, 701, 10), np.zeros(31), name="leaf\n", spread="std")
    assert repr(leaf) == "<Spectrum leaf?: 31 values, 400-700 nm, std>"
    record = nm.attention.Record({}, Provenance(model="m", source="a.jpg"))
    assert repr(record) == "<AttentionRecord of 0 blocks, m, a.jpg>"


# What is kept


def test_a_cube_and_its_history_survive_pickle_and_json() -> None:
    part = a_cube().crop((2, 5), (4, 6))
    again: SpectralCube = pickle.loads(pickle.dumps(part))
    assert_array_equal(again.data, part.data)
    assert Provenance.from_json(part.provenance.to_json()) == part.provenance
    assert "cut" not in json.loads(PAST.to_json())


@pytest.mark.parametrize("shape", [(3, 4, 5), (31, 4, 3)])
def test_a_cube_is_no_photo_even_where_its_array_has_the_shape_of_one(
    shape: tuple[int, int, int],
) -> None:
    cube = SpectralCube(np.zeros(shape, np.float32), np.linspace(400, 700, shape[0]))
    with pytest.raises(PhotoError, match="got a spectral cube"):
        as_photo(cube)


def test_a_list_of_wavelengths_gives_the_cube_of_their_nearest_bands() -> None:
    data = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    cube = SpectralCube(data, np.array([500.0, 520, 560, 600]))
    part = cube.sel(wavelength=[590, 505, 502])
    assert_array_equal(part.wavelengths, [500, 600])
    assert_array_equal(part.data, data[[0, 3]])
    with pytest.raises(CubeError, match="within 500-600 nm, got 700"):
        cube.sel(wavelength=[520, 700])


def test_a_refined_cube_says_so() -> None:
    refined = replace(a_cube(), provenance=Provenance(refinement={"references": [1]}))
    assert "refined" in repr(refined)
    assert "refined" not in repr(a_cube())
