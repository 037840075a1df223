"""Every public name has a docstring, an example that is true, and a table of domain and scale."""

import dataclasses
import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tools.reference import PAGE, RESULTS, TASKS, Entry, entries_of, page, public_names

import napari_mst
from napari_mst.analysis.map_kind import MAPS
from napari_mst.calibration.chart import CHARTS
from napari_mst.cube.colour import linear_to_srgb, srgb_response
from napari_mst.models import MODELS
from napari_mst.photo.cameras import GRID

NAMES = sorted({*public_names(), *RESULTS})

ARRAYS = r"\b(ndarray|NDArray|_NestedSequence|SpectralCube|Photo|Spectrum)\b"
"""The types of arguments and results that hold numbers with a unit."""


@pytest.fixture(scope="module")
def chart() -> Image.Image:
    """A ColorChecker, each patch 10 x 10 pixels, that the camera made a little too dark."""
    linear = (CHARTS["classic"].reflectances @ srgb_response(GRID)).clip(0, 1)
    codes = np.rint(linear_to_srgb(linear**1.1) * 255).astype(np.uint8)
    return Image.fromarray(codes.reshape(4, 6, 3).repeat(10, axis=0).repeat(10, axis=1))


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_true(
    name: str, chart: Image.Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chart.save("chart.png")
    runner = doctest.DocTestRunner()
    said: list[str] = []
    # colour-science, once imported, has NumPy print as an old one did.
    with np.printoptions(legacy=False):
        for entry in entries_of(name):
            names = {"nm": napari_mst, "np": np}
            examples = doctest.DocTestParser().get_doctest(entry.doc, names, entry.name, None, 0)
            runner.run(examples, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_and_method_has_a_docstring_and_an_example(name: str) -> None:
    own, *members = entries_of(name)
    assert [entry.name for entry in (own, *members) if not entry.doc] == []
    assert ">>> " in own.doc
    docs = "\n".join(entry.doc for entry in (own, *members))
    examples = "\n".join(re.findall(r"(?:>>>|\.\.\.) (.*)", docs))
    methods = [entry.name.split(".")[1] for entry in members if entry.is_called]
    assert [method for method in methods if not re.search(rf"\.{method}\b", examples)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_array_in_and_out_has_a_domain_and_a_scale(name: str) -> None:
    own, *members = entries_of(name)
    assert own.table
    assert [label for label in arrays_of(own, members) if label not in own.table] == []


def arrays_of(own: Entry, members: list[Entry]) -> list[str]:
    """The labels that the table has to have."""
    if inspect.isroutine(own.thing):
        taken, is_given = arrays_in(own)
        return [*taken, "returns"] if is_given else taken
    if not inspect.isclass(own.thing):
        return []
    labels = []
    if dataclasses.is_dataclass(own.thing):
        fields = dataclasses.fields(own.thing)
        labels = [field.name for field in fields if re.search(ARRAYS, str(field.type))]
    for member in members:
        taken, is_given = arrays_in(member)
        if taken or is_given:
            labels.append(member.label)
    return labels


def arrays_in(entry: Entry) -> tuple[list[str], bool]:
    """The arguments that are arrays, and whether the result is one."""
    signature = inspect.signature(entry.thing)
    arguments = signature.parameters.values()
    taken = [each.name for each in arguments if re.search(ARRAYS, str(each.annotation))]
    return taken, bool(re.search(ARRAYS, str(signature.return_annotation)))


def test_page_of_reference_is_that_of_the_docstrings() -> None:
    """`python -m tools.reference` writes it anew."""
    assert PAGE.read_text("utf-8") == page()


BESIDE_A_PHOTO: dict[str, tuple[Any, ...]] = {
    "calibrate": (napari_mst.Chart(((5, 5), (5, 55), (35, 55), (35, 5))),),
    "light.calibrate_greys": ([napari_mst.calibration.light.GreyPatch((35, 5))],),
    "light.acquisition_from_patch": (napari_mst.calibration.light.GreyPatch((35, 5)),),
    "light.estimate": ("srgb",),
    "estimated_noise": (),
    "find_chart": (),
    "light.white_balance": (),
}


@pytest.mark.parametrize("name", BESIDE_A_PHOTO)
def test_what_takes_a_photo_takes_a_file_and_an_array(
    name: str, tmp_path: Path, chart: Image.Image
) -> None:
    chart.save(tmp_path / "chart.png")
    given = (
        tmp_path / "chart.png",
        np.asarray(chart),
        napari_mst.Photo.read(tmp_path / "chart.png"),
    )
    own, *_ = entries_of(name)
    answers = []
    for photo in given:
        try:
            answers.append(own.thing(photo, *BESIDE_A_PHOTO[name]))
        except napari_mst.NapariMstError as error:
            answers.append(re.sub(r"chart\.png|the photo", "", str(error)))
    assert len({repr(answer) for answer in answers}) == 1


def test_reprs_of_public_things_are_short() -> None:
    spectrum = napari_mst.Spectrum(np.arange(400, 701, 10.0), np.full(31, 0.5))
    photo = np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)
    reconstructor = napari_mst.Reconstructor(napari_mst.load_model(), "cpu")
    explorer = napari_mst.attention.Explorer(reconstructor, photo)
    selection = napari_mst.attention.Selection("stages.0.bottleneck")
    light = napari_mst.calibration.light.estimate(photo, "sRGB")
    known = napari_mst.ReferenceSpectrum(0, 2, np.full(31, 0.5), is_certain=True)
    things = [
        MODELS,
        MAPS,
        *MAPS.values(),
        napari_mst.metamers(spectrum),
        reconstructor.reconstruct(photo).provenance,
        napari_mst.Region.of_mask(np.eye(32), name="diagonal"),
        light,
        explorer.map("attention", selection),
        explorer.steps(selection.block),
        napari_mst.attention.side_by_side(photo, 5, 5),
    ]
    texts = map(repr, things)
    assert [text for text in texts if len(text) > 300 or "\n" in text] == []
    assert (
        repr(known) == "ReferenceSpectrum(row=0, column=2, spectrum=(31,) float64, is_certain=True)"
    )


def test_no_two_public_names_differ_by_case_alone_and_there_are_few() -> None:
    names = [name.lower() for name in public_names()]
    assert len(set(names)) == len(names)
    assert len(napari_mst.__all__) <= 56


def test_every_name_of_the_reference_has_one_task() -> None:
    assert sorted(name for names in TASKS.values() for name in names) == NAMES
