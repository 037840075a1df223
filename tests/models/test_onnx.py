"""ONNX files are models like others, and nothing in them reaches beyond the file."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.networks.test_programs import built
from torch import nn
from torch.nn import functional as F

from napari_mst import Model, Reconstructor, load_model
from napari_mst.base.errors import CheckpointError, ModelError, SaveError
from napari_mst.cli.main import main
from napari_mst.engine.run import Execution
from napari_mst.models import onnx_file
from napari_mst.models.cards import ModelCard, card_to_metadata
from napari_mst.models.onnx_file import read_onnx, write_onnx
from napari_mst.networks.measured import MeasuredNetwork

onnx: Any = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")

BANDS = (450, 550, 650)
CARD = ModelCard("u", "U", (400, 500, 600, 700, 800), False, "none", "reflectance")


def weights() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = {"down": (8, 3, 2, 2), "inner": (8, 8, 3, 3), "up": (8, 5, 2, 2), "skip": (5, 3, 3, 3)}
    return {name: torch.randn(shape, generator=random) / 4 for name, shape in shapes.items()}


def expected(photo: np.ndarray) -> np.ndarray:
    """The U-shape of `u_shape`, by torch, of (H, W, 3)."""
    own = weights()
    x = torch.from_numpy(photo).movedim(2, 0)[None]
    x = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2), mode="reflect")
    low = F.conv2d(F.relu(F.conv2d(x, own["down"], stride=2)), own["inner"], padding=1)
    result = F.conv_transpose2d(low, own["up"], stride=2) + F.conv2d(x, own["skip"], padding=1)
    return result[0, :, : photo.shape[0], : photo.shape[1]].numpy()


def u_shape(card: ModelCard | None = CARD, **changes: Callable[[Any], None]) -> bytes:
    """A file with a U-shape of one level; *changes* are made to the model."""
    node, two = onnx.helper.make_node, [2, 2]
    graph = onnx.helper.make_graph(
        [
            node("Conv", ["photo", "down"], ["low"], strides=two, kernel_shape=two),
            node("Relu", ["low"], ["lit"]),
            node("Conv", ["lit", "inner"], ["inside"], pads=[1] * 4),
            node("ConvTranspose", ["inside", "up"], ["doubled"], strides=two, kernel_shape=two),
            node("Conv", ["photo", "skip"], ["beside"], pads=[1] * 4),
            node("Add", ["doubled", "beside"], ["cube"]),
        ],
        "u",
        [onnx.helper.make_tensor_value_info("photo", 1, [1, 3, "h", "w"])],
        [onnx.helper.make_tensor_value_info("cube", 1, [1, 5, "h", "w"])],
        [onnx.numpy_helper.from_array(each.numpy(), name) for name, each in weights().items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 9
    if card is not None:
        onnx.helper.set_model_props(model, card_to_metadata(card))
    for change in changes.values():
        change(model)
    return bytes(model.SerializeToString())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "u.onnx"


def test_a_file_with_a_card_runs_in_tiles_as_torch_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(u_shape())
    model = load_model(path)
    assert (model.card, model.assumptions) == (CARD, ())
    assert isinstance(model.network, MeasuredNetwork)
    assert model.network.geometry.multiple == 2
    photo = np.random.default_rng(0).random((61, 83, 3), np.float32)
    runner = Reconstructor(model, "cpu", denoise="off")
    for side in (16, 40):
        monkeypatch.setattr(Execution, "tile", lambda *_, side=side: (side, side))
        cube = pickle.loads(pickle.dumps(runner)).reconstruct(photo)
        np.testing.assert_allclose(cube.data, expected(photo), rtol=0, atol=1e-5)


def test_a_file_without_a_card_says_what_it_is_taken_for_and_takes_fields(path: Path) -> None:
    path.write_bytes(u_shape(None))
    model = load_model(path)
    assert (model.card.is_linear, model.card.wavelengths) == (True, ())
    assert "5 bands of unknown wavelengths" in model.assumptions[0]
    told = load_model(path, wavelengths=CARD.wavelengths, is_linear=False)
    assert (told.card.wavelengths, told.card.is_linear) == (CARD.wavelengths, False)
    assert told.assumptions == ()
    with pytest.raises(CheckpointError, match="5 wavelengths in the model card, got 2"):
        load_model(path, wavelengths=(400, 500))


def external(model: Any) -> None:
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="/etc/passwd")


def foreign(model: Any) -> None:
    model.opset_import.append(onnx.helper.make_opsetid("com.example", 1))
    model.graph.node[1].domain = "com.example"


def loop(model: Any) -> None:
    body = onnx.helper.make_graph([], "body", [], [])
    model.graph.node.append(onnx.helper.make_node("Loop", ["", ""], ["x"], body=body))


def bomb(model: Any) -> None:
    size = onnx.numpy_helper.from_array(np.array([1, 5, 1 << 20, 1 << 20]), "size")
    model.graph.initializer.append(size)
    model.graph.node.append(onnx.helper.make_node("ConstantOfShape", ["size"], ["huge"]))


def sized_by_pixels(model: Any) -> None:
    """A map whose length is the number of pixels that are not 0."""
    model.graph.node.append(onnx.helper.make_node("NonZero", ["photo"], ["places"]))


def two_photos(model: Any) -> None:
    model.graph.input.append(onnx.helper.make_tensor_value_info("more", 1, [1]))


def of_doubles(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


def halved(model: Any) -> None:
    del model.graph.node[3:]
    model.graph.output[0].name = "inside"


def infinite(model: Any) -> None:
    weight = onnx.numpy_helper.from_array(np.full((8, 3, 2, 2), np.inf, np.float32), "down")
    model.graph.initializer[0].CopyFrom(weight)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (external, "all weights in the file, got some in another one. Nothing was run"),
        (foreign, "standard operators only, got those of com.example"),
        (loop, "one plain graph, got loops"),
        (bomb, "at most 134,217,728 numbers .* got 5,497,558,138,880"),
        (sized_by_pixels, "sizes follow from that of the photo, got a NonZero of any size"),
        (two_photos, "one photo and one cube, got 2 and 1"),
        (of_doubles, "32-bit floats"),
        (halved, "sides that are multiples"),
        (infinite, "finite weights"),
        (lambda model: model.graph.ClearField("initializer"), "one photo|intact|of any size"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_plain_data_is_refused(
    change: Callable[[Any], None], fault: str, path: Path
) -> None:
    path.write_bytes(u_shape(change=change))
    with pytest.raises(CheckpointError, match=fault) as refusal:
        load_model(path)
    assert str(refusal.value).startswith("u.onnx: Expected")
    assert len(str(refusal.value)) < 300


def test_a_damaged_file_is_called_damaged(path: Path) -> None:
    path.write_bytes(u_shape()[:-100])
    with pytest.raises(CheckpointError, match="Expected an intact ONNX file"):
        load_model(path)


def test_without_the_extra_the_error_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "find_spec", lambda _: None)
    path.write_bytes(u_shape())
    with pytest.raises(CheckpointError, match=r"pip install 'napari-mst\[onnx\]'"):
        load_model(path)


@pytest.mark.parametrize(
    "name", ["pixelwise-srgb", pytest.param("mstpp-srgb", marks=pytest.mark.slow)]
)
def test_a_model_saved_as_onnx_is_the_same_model(name: str, path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the extra `onnx` is not installed")
    model = load_model(name)
    assert main(["export", str(path), "--model", name]) == 0
    again = load_model(path)
    assert replace(again.card, file=model.card.file) == model.card
    assert b"site-packages" not in path.read_bytes()
    runners = [Reconstructor(each, "cpu", correct_colour=False) for each in (model, again)]
    for size in [(32, 40), (9, 5), (61, 83)]:
        photo = np.random.default_rng(0).random((*size, 3), np.float32)
        ours, theirs = (runner.reconstruct(photo).data for runner in runners)
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * ours.max())
    with pytest.raises(SaveError, match="exists"):
        model.to_onnx(path)


MULTIPLES = {"edsr 0": 1, "mst 0": 8, "hdnet 0": 1, "hscnn+ 0": 1, "hrnet 0": 8, "hinet 0": 16}


@pytest.mark.parametrize(
    ("kind", "multiple"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in MULTIPLES.items()],
)
def test_a_published_network_is_exported_for_any_size(kind: str, multiple: int, path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the extra `onnx` is not installed")
    write_onnx(path, built(kind), {})  # which compares five sizes
    network, metadata = read_onnx(path.read_bytes())
    assert (network.geometry.multiple, metadata["napari_mst.multiple"]) == (multiple, str(multiple))


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * int(x.shape[2] * 1.0)


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.mean() > 0 else x


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (lambda: Model.of(Counts(), BANDS), "graph that gives the same at any size"),
        (lambda: Model.of(Decides(), BANDS), "network that torch exports for any size"),
        (lambda: load_model("mstpp-camera"), "model for sRGB photos"),
        # AWAN cuts photos into quarters, of which those with an odd side differ.
        pytest.param(
            lambda: Model.of(built("awan 0"), range(9)), "network", marks=pytest.mark.slow
        ),
    ],
    ids=["size", "pixels", "camera", "awan"],
)
def test_a_network_that_depends_on_more_than_its_photo_is_not_exported(
    make: Callable[[], Model], refused: str, path: Path
) -> None:
    pytest.importorskip("onnxscript", reason="the extra `onnx` is not installed")
    with pytest.raises(ModelError, match=rf"Expected a {refused}[\w ,.:'-]+$"):
        make().to_onnx(path)
    assert not path.exists()


def test_an_exported_program_of_torch_is_refused_in_a_sentence(tmp_path: Path) -> None:
    exported = torch.export.export(nn.Conv2d(3, 5, 1), (torch.zeros(1, 3, 8, 8),))
    torch.export.save(exported, tmp_path / "net.pt2")
    with pytest.raises(CheckpointError, match=r"net\.pt2: .* got a program .* Export it to ONNX"):
        load_model(tmp_path / "net.pt2")
