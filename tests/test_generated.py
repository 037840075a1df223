"""The pages of the site that are made from the code say what the program says."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import napari_mst as nm
from napari_mst.cli.main import COMMANDS
from napari_mst.formats import FORMATS

SITE = Path(__file__).parents[1] / "site"


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    found = importlib.util.spec_from_file_location("generated", SITE / "generated.py")
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "refused",
    [
        lambda: nm.read_cube("no.hdr"),
        lambda: nm.load_model("no model"),
        lambda: nm.light.GreyPatch((1, 2), 3.0),
        lambda: nm.SpectralCube(np.zeros((2, 3, 3), np.float32), np.array([400.0, 500, 600])),
        lambda: nm.Acquisition("no camera", "D65"),
    ],
)
def test_the_list_of_errors_has_the_sentence_that_a_user_meets(
    refused: Callable[[], object], generated: ModuleType
) -> None:
    with pytest.raises(nm.NapariMstError) as caught:
        refused()
    patterns = [
        ".*".join(map(re.escape, f"{each.says} {each.cure}".strip().split("…")))
        for each in generated.sentences()
        if each.error == type(caught.value).__name__
    ]
    assert any(re.fullmatch(pattern, str(caught.value)) for pattern in patterns)


def test_the_pages_of_commands_and_formats_have_each_of_them(generated: ModuleType) -> None:
    pages = generated.pages()
    assert re.findall(r"(?m)^## (\S+)$", pages["commands"]) == [each.name for each in COMMANDS]
    assert all(f"`{each.name}`" in pages["formats"] for each in FORMATS)
