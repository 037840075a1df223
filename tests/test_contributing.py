"""Each worked example of CONTRIBUTING.md is run as it stands there, and keeps its promise."""

import re
import tomllib
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from napari.components import ViewerModel
from numpy.testing import assert_allclose
from safetensors.torch import save_file
from tests.conftest import on_cpu
from tests.formats import test_formats
from tests.plugin.reconstruct.manifest import preference
from torch import nn

from napari_mst import Reconstructor, load_model, read_cube, write_cube
from napari_mst.analysis.maps import MAPS
from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.attention.overlays import OVERLAYS
from napari_mst.attention.pixels import PixelExplorer
from napari_mst.attention.record_views import Selection
from napari_mst.base.arrays import Array, Codes
from napari_mst.cli.arguments import add_arguments, called
from napari_mst.cli.main import COMMANDS, main
from napari_mst.cube import SpectralCube
from napari_mst.engine.fast_paths.table import FAST_PATHS, fast_path_of
from napari_mst.engine.run import run
from napari_mst.formats import FORMATS
from napari_mst.networks import NETWORKS
from napari_mst.networks.module import Network
from napari_mst.networks.network import PHOTO, Pass, Program
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.sections import FormRows, settings_title
from napari_mst.plugin.reconstruct.setting_rows import SETTINGS
from napari_mst.reconstruction.cube_history import origin
from napari_mst.reconstruction.options import RunOptions

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    not PAGE.exists(), reason="the package is installed without its page"
)


def parameters(function: Callable[..., object]) -> list[str]:
    return [*signature(function).parameters]


def example(title: str) -> dict[str, Any]:
    """The names that the Python code under the heading *title* defines."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {title}\n")[1].split("\n##")[0]
    names: dict[str, Any] = {"__name__": "example"}
    for code in re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL):
        exec(compile(code, f"{PAGE.name}: {title}", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def tables_as_before() -> Iterator[None]:
    """Takes the rows of the examples out of the tables again."""
    rows: list[dict[str, Any]] = [NETWORKS, OVERLAYS, MAPS]
    lists: list[list[Any]] = [FAST_PATHS, FORMATS, COMMANDS, SETTINGS]
    old_rows, old_lists = [dict(table) for table in rows], [list(table) for table in lists]
    yield
    for row, old_row in zip(rows, old_rows, strict=True):
        row.clear()
        row.update(old_row)
    for listed, old_list in zip(lists, old_lists, strict=True):
        listed[:] = old_list


def photo(height: int = 22, width: int = 30) -> Codes:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def streamed_and_whole(network: Network) -> tuple[Array, Array]:
    """The cube of a small photo as the engine computes it, and as the whole network does."""
    pixels = torch.rand(1, 3, 24, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole = network(pixels)[0].numpy()
    return run(network, lambda top, bottom: pixels[0, :, top:bottom].numpy(), 24, 32, CPU), whole


def test_a_network_of_somebody_else_is_loaded_by_its_row_and_streamed_exactly(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    network = example("A network")["Gated"]().eval()
    path = tmp_path / "gated.safetensors"
    save_file(network.state_dict(), path)
    cube = on_cpu(path).reconstruct(photo())
    assert cube.shape == (6, 22, 30)
    assert_allclose(*streamed_and_whole(network), atol=1e-6)


def test_an_attention_mechanism_of_somebody_else_runs_in_the_u_shape() -> None:
    torch.manual_seed(0)
    network = example("An attention mechanism")["WindowMSTPlusPlus"](stages=1).eval()
    assert_allclose(*streamed_and_whole(network), atol=1e-5)
    model = replace(load_model("mstpp-srgb"), network=network)
    explorer = PixelExplorer(Reconstructor(model, "cpu"), photo())
    assert len(explorer.record().pixel_blocks) == 5
    weights = explorer.weights("stages.0.encoder.1", 9, 12)
    assert weights.places.tolist() == [[8, 12], [8, 14], [10, 12], [10, 14]]
    assert weights.weights.sum() == pytest.approx(1)


class OnePass(Network):
    """A network of one 1x1 convolution."""

    in_bands, out_bands = 3, 5

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Conv2d(3, 5, 1, bias=False)

    def program(self) -> Program:
        return Program((Pass("bands", (PHOTO,), self.last, 5),))


def test_a_fast_form_takes_the_place_of_its_pass_and_gives_the_same() -> None:
    torch.manual_seed(0)
    network = OnePass().eval()
    example("A fast path")
    fast_path = fast_path_of(network.program().passes, CPU, torch.float32)
    assert fast_path is not None
    assert fast_path.name == "1x1 convolution as a product"
    assert_allclose(*streamed_and_whole(network), atol=1e-6)


TESTS_OF_A_FORMAT = [
    rule
    for name, rule in vars(test_formats).items()
    if name[:4] == "test" and "form" in parameters(rule)
]


@pytest.mark.parametrize("rule", TESTS_OF_A_FORMAT, ids=lambda rule: rule.__name__)
def test_a_file_format_of_somebody_else_passes_the_tests_of_every_row(
    rule: Callable[..., None], request: pytest.FixtureRequest
) -> None:
    example("A file format")
    fixtures = [name for name in parameters(rule) if name != "form"]
    rule(form=FORMATS[-1], **{name: request.getfixturevalue(name) for name in fixtures})


def test_a_map_of_attention_is_what_its_unit_promises() -> None:
    example("A map of attention")
    explorer = AttentionExplorer(on_cpu("mstpp-srgb"), photo(24, 32))
    block = next(iter(explorer.record().blocks))
    found = explorer.map("query", Selection(block, 0, 0, 0))
    assert np.square(found.values).sum() == pytest.approx(1, rel=1e-4)


@pytest.fixture
def cube_file(tmp_path: Path) -> Path:
    numbers = np.random.default_rng(0).random((3, 4, 5), np.float32)
    return write_cube(tmp_path / "cube.hdr", SpectralCube(numbers, np.array([400, 500, 600.0])))


def test_a_map_of_somebody_else_is_made_by_the_command_line(
    cube_file: Path, tmp_path: Path
) -> None:
    example("A map of a cube")
    path = tmp_path / "brightness.tif"
    assert main(["map", str(cube_file), "brightness", "-o", str(path)]) == 0
    brightness = read_cube(cube_file).data.mean(axis=0)
    assert_allclose(np.squeeze(tifffile.imread(path)), brightness, rtol=1e-6)


def test_a_command_of_somebody_else_is_listed_and_runs(
    cube_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example("A command")
    assert main(["size", str(cube_file)]) == 0
    assert capsys.readouterr().out == "3 bands of 4 x 5 pixels\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "print the size of a cube" in capsys.readouterr().out


@pytest.mark.usefixtures("qtbot")
def test_an_option_of_a_run_is_a_field_and_a_row() -> None:
    options: type[RunOptions] = example("An option of a run")["SharperOptions"]
    form, viewer = ReconstructionForm(options=options()), ViewerModel()
    rows = FormRows(form, viewer)
    rows.draw()
    rows.widgets["sharpen"].setChecked(True)
    assert vars(form.options) == vars(options()) | {"sharpen": True}
    assert settings_title(form) == "Settings; changed: Sharpen"
    assert preference(SETTINGS[-1], ReconstructionForm(options=options())) == {
        "type": "boolean",
        "default": False,
        "title": "Sharpen the photo",
        "description": "Sharpen the photo before the network.",
    }
    parser = ArgumentParser()
    add_arguments(parser, options)
    assert called(options, vars(parser.parse_args(["--sharpen"]))) == form.options
    setup = replace(on_cpu("pixelwise-srgb").setup, options=form.options)
    assert origin(setup, "5e1f", "srgb").options == {"sharpen": "True"}


def test_the_rows_of_the_house_are_those_that_are_checked() -> None:
    contract = tomllib.loads((PAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    layers = contract["tool"]["importlinter"]["contracts"][0]["layers"]
    page = PAGE.read_text(encoding="utf-8")
    assert "".join(f"    {row}\n" for row in layers) in page
