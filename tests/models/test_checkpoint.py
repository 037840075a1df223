"""Weights files from strangers: what loads is exact, what is wrong is refused in one sentence."""

import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save, save_file
from torch import Tensor

from napari_mst.base.errors import CheckpointError, ModelError, OutOfMemory
from napari_mst.models import MODELS, ModelCard, checkpoint, load_model
from napari_mst.models import model as model_module
from napari_mst.models.cards import (
    PUBLISHED,
    WEIGHTS,
    card_from_metadata,
    card_of_file,
    card_to_metadata,
)
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.pixelwise import PixelwiseNetwork

torch.manual_seed(0)
NETWORK = MSTPlusPlus(out_bands=5, stages=2, width=4)
STATE = NETWORK.state_dict()
SOME_KEY = "stages.0.bottleneck.attention.to_q.weight"
CARD = ModelCard(
    "tiny",
    "Tiny",
    (400.0, 450.0, 500.0, 550.0, 600.0),
    True,
    "none",
    "reflectance",
    accuracy={"x": {"MRAE": 0.1}},
)


def pth(content: object) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def changed(**changes: Tensor | None) -> dict[str, Tensor]:
    """STATE with the tensor SOME_KEY, or another, replaced (None: removed)."""
    state = {
        **STATE,
        **{(SOME_KEY if key == "some" else key): value for key, value in changes.items()},
    }
    return {key: value for key, value in state.items() if value is not None}


def cast(dtype: torch.dtype) -> dict[str, Tensor]:
    return {key: value.to(dtype) for key, value in STATE.items()}


def prefixed(prefix: str) -> dict[str, Tensor]:
    return {prefix + key: value for key, value in STATE.items()}


def deflated(content: bytes) -> bytes:
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return file.getvalue()


def flipped(content: bytes) -> bytes:
    """One bit of one weight is another."""
    start = content.index(STATE[SOME_KEY].numpy().tobytes())
    return content[:start] + bytes([content[start] ^ 1]) + content[start + 1 :]


class Call:
    """Unpickled, it is what *function* makes of *arguments*."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


REPEATED = torch.zeros(1).expand(1 << 20, 1 << 16)
CONVERTED = Call(
    torch._utils._rebuild_device_tensor_from_cpu_tensor, REPEATED, torch.float64, "cpu", False
)

TWO = PixelwiseNetwork(out_bands=1, width=1)
FLAT = torch.zeros(8000)
WIDE_PIXELWISE = {**TWO.state_dict(), "estimate.weight": torch.zeros(1, 8000)}
MANY_BANDS = {
    **TWO.state_dict(),
    "estimate.weight": torch.zeros(400, 1),
    "estimate.bias": torch.zeros(400),
}
MANY_BANDS |= {"margins.weight": torch.zeros(800, 1), "margins.bias": torch.zeros(800)}
WIDE_CAMERA = {
    "factors": torch.zeros(4, 2),
    "of_camera.weight": torch.zeros(1),
    "of_colour.weight": torch.zeros(8000, 1),
}
STAGES = {f"stages.{number}.x": torch.zeros(1) for number in range(3000)}


def within(inner: Mapping[str, Tensor], outer: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a refining network around *inner*."""
    return {**{f"pixelwise.{key}": value for key, value in inner.items()}, **outer}


class Code:
    """Unpickled, it would make the folder `RAN`."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, ("RAN",)


TRAINING_RUN = {
    "state_dict": STATE,
    "epoch": 3,
    "iter": 1000,
    "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 4e-4}]},
}

ENDLESS: dict[str, Any] = {}
ENDLESS["model"] = ENDLESS

OLD_TORCH = "torch 2.10 or later.*safetensors"

ACCEPTED = {
    "068-bare": pth(STATE),
    "068-training-run": pth(TRAINING_RUN),
    "068-ema-before-raw": pth({"params_ema": STATE, "params": changed(some=torch.zeros(16, 16))}),
    "068-nested": pth({"model": {"state_dict": STATE}, "best": torch.tensor(0.2)}),
    "068-odd-wrapper": pth({"weights": STATE, "epoch": 1}),
    "068-module-prefix": pth({"state_dict": prefixed("module.")}),
    "068-compiled-in-parallel": pth(prefixed("module._orig_mod.")),
    "068-safetensors": save(STATE),
    "068-safetensors-begins-as-onnx": next(
        content for length in range(256) if (content := save(STATE, {"note": "x" * length}))[0] == 8
    ),
    "068-safetensors-prefix": save(prefixed("model.")),
    "071-fp16": pth(cast(torch.float16)),
    "071-bf16": save(cast(torch.bfloat16)),
    "071-f64": pth(cast(torch.float64)),
}

OTHER_NETWORKS = {
    "MIRNet": "body.0.body.0.blocks.0.rdb.weight",
    "MPRNet": "shallow_feat1.0.weight",
    "Restormer": "patch_embed.proj.weight",
}

ENDS = {name: torch.zeros(1) for name in ("conv_in.weight", "conv_out.weight")}
"""MIRNet has tensors of these names, as MST++ has."""

WITHOUT_FIRST_STAGE = {
    key: value for key, value in STATE.items() if not key.startswith("stages.0.")
}

REFUSED = {
    "063-code": (pth({"state_dict": Code()}), "Nothing was run"),
    "063-module": (pth(torch.nn.Sequential(torch.nn.Linear(1, 1))), "Nothing was run"),
    "063-bare-pickle": (pickle.dumps(Code()), "bare pickle"),
    "064-old-torch": (pth(STATE), OLD_TORCH),
    "065-html": (b"\n<!DOCTYPE html><html><body>Sign in</body></html>", "an HTML page"),
    "065-lfs-pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
        "Git LFS pointer",
    ),
    "065-empty": (b"", "an empty file"),
    "065-truncated-pth": (pth(STATE)[:-2000], "truncated"),
    "065-truncated-safetensors": (save(STATE)[:-20], "truncated"),
    "065-truncated-header": (save(STATE)[:100], "truncated|damaged header"),
    "065-text": (b"weights will follow by mail", "something else"),
    "066-flipped-bit": (flipped(pth(STATE)), "damaged"),
    "067-compressed": (deflated(pth(STATE)), "uncompressed"),
    "067-stride-0": (
        pth(changed(some=torch.zeros(1).expand(1 << 20, 1 << 16))),
        "repeated numbers",
    ),
    "067-bytearray": (pth({"x": Call(bytearray, 2**31)}), "got __builtin__.bytearray"),
    "067-empty-tensor": (pth({"x": Call(torch.Tensor, 50_000, 10_000)}), "got torch.Tensor"),
    "067-converted": (pth({"x": CONVERTED}), "got torch._utils._rebuild_device_tensor"),
    "067-wide-pixelwise": (save(WIDE_PIXELWISE), "tensors of pixelwise network, got . of"),
    "067-wide-camera": (save(within(WIDE_CAMERA, STATE)), "tensors of camera network"),
    "067-many-bands": (save(within(MANY_BANDS, STATE)), "Expected Hyperparameters.*400.*got"),
    "067-many-stages": (save({**STATE, **STAGES}), "at most 64 stages or blocks, got 3,000"),
    "067-one-storage": (
        pth({key: FLAT[: value.numel()].view(value.shape) for key, value in STATE.items()}),
        "stored weights, got [0-9,]+ bytes of numbers in 32,000 stored",
    ),
    "067-endless": (pth(ENDLESS), "state_dict of tensors"),
    "067-far-stages": (
        pth(changed(**{"stages.999999999.embedding.weight": torch.zeros(4, 4, 3, 3)})),
        "3 stages|missing",
    ),
    **{
        f"069-{name}": (
            pth({"state_dict": {key: torch.zeros(1)} | (ENDS if name == "MIRNet" else {})}),
            f"got {name} ",
        )
        for name, key in OTHER_NETWORKS.items()
    },
    "069-unknown": (save({"layer1.weight": torch.zeros(1)}), "another network"),
    "070-missing": (pth(changed(some=None)), "got 1 missing: stages.0.bot"),
    "070-unexpected": (pth(changed(extra=torch.zeros(1))), "got 1 unexpected: extra"),
    "070-shape": (pth(changed(some=torch.zeros(4, 4))), "got 1 of another shape"),
    "070-many": (pth(WITHOUT_FIRST_STAGE), r"\d+ missing.*\d+ unexpected: ([^,]+, ){4}[^,]+\.$"),
    "070-both-layouts": (
        pth(changed(**{"body.0.embedding.weight": torch.zeros(4, 4, 3, 3)})),
        "one tensor of each name",
    ),
    "070-no-width": (
        save({**STATE, "conv_in.weight": torch.zeros(0, 3, 3, 3)}),
        "positive integer",
    ),
    "070-no-tensors": (pth({"epoch": 3}), "state_dict of tensors"),
    "071-int": (pth(changed(some=torch.zeros(16, 16, dtype=torch.int32))), "floating-point.*int32"),
    "071-complex": (
        pth(changed(some=torch.zeros(16, 16, dtype=torch.complex64))),
        "floating-point.*complex64",
    ),
    "071-sparse": (pth(changed(some=torch.eye(16).to_sparse())), "dense"),
    "071-nan": (pth(changed(some=torch.full((16, 16), torch.nan))), "finite"),
    "071-overflow": (pth(changed(some=torch.full((16, 16), 1e300, dtype=torch.float64))), "finite"),
}


CASES = {name: (content, "") for name, content in ACCEPTED.items()} | REFUSED


@pytest.mark.parametrize(("content", "text"), CASES.values(), ids=CASES)
def test_bad_input(
    content: bytes, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    if text == OLD_TORCH:
        monkeypatch.setattr(torch, "__version__", "2.9.1+cu128")
    if not text:
        assert_holds(
            load_model(path).network.state_dict(),
            tolerance=8e-3 if b"BF16" in content[:999] else 1e-3,
        )
        return
    with pytest.raises(CheckpointError, match=text) as refusal, memory_taken() as taken:
        load_model(path)
    assert max(taken) < 64 * 2**20
    assert str(refusal.value).startswith("weights.pth: Expected")
    assert len(str(refusal.value)) < 300
    assert "weights_only" not in str(refusal.value)
    assert [file.name for file in tmp_path.iterdir()] == ["weights.pth"]


@contextlib.contextmanager
def memory_taken() -> Iterator[list[int]]:
    """The bytes by which the most memory that this process ever had grows meanwhile."""
    taken = [0]
    before = peak_memory()
    try:
        yield taken
    finally:
        taken.append(peak_memory() - before)


def peak_memory() -> int:
    """In bytes, where the system tells; else 0."""
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_file_that_free_memory_has_no_room_for_is_not_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(pth(STATE) if name.endswith(".pth") else save(STATE))
    monkeypatch.setattr(model_module, "free_host_memory", lambda: path.stat().st_size)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("read"))
    with pytest.raises(
        OutOfMemory, match=f"Expected memory for {name}, got too little. Close other programs."
    ):
        load_model(path)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"
        ),
    ],
    ids=["python", "torch"],
)
@pytest.mark.parametrize("place", ["torch.load", "safetensors.torch.load", "torch.Tensor.to"])
def test_lack_of_memory_is_not_called_damage(
    error: Exception, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise error

    path = tmp_path / "weights"
    path.write_bytes(pth(STATE) if place == "torch.load" else save(STATE))
    monkeypatch.setattr(place, lacking)
    with pytest.raises(OutOfMemory, match="Expected memory for weights, got too little"):
        load_model(path)


def assert_holds(state: Mapping[str, Tensor], tolerance: float = 0) -> None:
    assert {value.dtype for value in state.values()} == {torch.float32}
    for key, value in STATE.items():
        torch.testing.assert_close(state[key], value, rtol=tolerance, atol=tolerance / 100)


def test_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.pth").open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(CheckpointError, match="at most 1,073,741,824 bytes"):
        load_model(tmp_path / "huge.pth")


def test_card_in_the_file_is_the_models(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "tiny.safetensors", metadata=card_to_metadata(CARD))
    model = load_model(tmp_path / "tiny.safetensors")
    assert model.card == CARD
    assert model.assumptions == ()
    assert (
        model.weights_sha256
        == hashlib.sha256((tmp_path / "tiny.safetensors").read_bytes()).hexdigest()
    )
    assert not any(parameter.requires_grad for parameter in model.network.parameters())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"wavelengths": [400.0]}, "5 wavelengths.*got 1"),
        ({"wavelengths": ["red"]}, "damaged"),
        ({"wavelengths": [1, 2, 3, 4, float("nan")]}, "wavelengths"),
        ({"is_linear": "no"}, "is_linear"),
        ({"is_example": "no"}, "is_example"),
        ({"normalisation": "mean"}, "normalisation"),
        ({"domain": 3}, "domain"),
        ({"name": 3}, "name"),
        ({"name": None}, "name"),
        ({"url": 3}, "url"),
        ({"accuracy": {"x": 0.1}}, "accuracy"),
        ({"accuracy": {"x": {"MRAE": "low"}}}, "accuracy"),
        ({"error_band": {"factor": None}}, "damaged"),
        ({"error_band": {"factor": [1.0, 2.0]}}, "error_band"),
        ({"error_band": {"factor": [-1.0]}}, "error_band"),
    ],
    ids=str,
)
def test_unusable_card_is_refused(changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    metadata = card_to_metadata(CARD)
    (key,) = metadata
    metadata[key] = json.dumps({**json.loads(metadata[key]), **changes})
    save_file(STATE, tmp_path / "tiny.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=fault):
        load_model(tmp_path / "tiny.safetensors")


@pytest.mark.parametrize("card", ["null", "[]", '"x"', "3", "{}", "{", "[" * 100_000])
def test_card_that_is_none_is_refused(card: str, tmp_path: Path) -> None:
    (key,) = card_to_metadata(CARD)
    save_file(STATE, tmp_path / "tiny.safetensors", metadata={key: card})
    with pytest.raises(
        CheckpointError, match="Expected a model card as JSON, got one that is damaged"
    ):
        load_model(tmp_path / "tiny.safetensors")
    assert card_of_file(tmp_path / "tiny.safetensors") is None


def test_card_of_a_later_version_is_understood() -> None:
    metadata = card_to_metadata(CARD)
    (key,) = metadata
    metadata[key] = json.dumps({**json.loads(metadata[key]), "mood": "sunny"})
    assert card_from_metadata(metadata, "a.safetensors") == replace(CARD, file="a.safetensors")
    assert card_from_metadata({}) is None


def test_file_without_card_is_taken_as_published(tmp_path: Path) -> None:
    (tmp_path / "own.pth").write_bytes(pth(MSTPlusPlus(stages=1).state_dict()))
    model = load_model(tmp_path / "own.pth")
    assert model.card.name == "own.pth"
    assert model.card.wavelengths == PUBLISHED.wavelengths
    assert model.card.normalisation == "min-max"
    assert "no model card" in model.assumptions[0]


@pytest.mark.parametrize("name", [card.name for card in MODELS.values() if card.file])
def test_own_network_without_card_is_not_taken_as_published(name: str, tmp_path: Path) -> None:
    expected = load_model(name)
    (tmp_path / "own.pth").write_bytes(pth(expected.network.state_dict()))
    model = load_model(tmp_path / "own.pth")
    assert type(model.network) is type(expected.network)
    assert (model.card.is_linear, model.card.normalisation) == (
        expected.card.is_linear,
        expected.card.normalisation,
    )
    assert (model.card.quantity, model.card.rendering) == ("reflectance", "")
    assert "no model card: taken as trained by napari-mst" in model.assumptions[0]
    assert ("Pixelwise" in model.card.title) == (name == "pixelwise-srgb")


def test_bands_without_card_have_no_wavelengths(tmp_path: Path) -> None:
    (tmp_path / "own.pth").write_bytes(pth(STATE))
    model = load_model(tmp_path / "own.pth")
    assert model.card.wavelengths == ()
    assert "5 bands of unknown wavelengths" in model.assumptions[0]


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here to judge")
def test_published_file_is_known_by_its_git_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mst_plus_plus.pth"
    path.write_bytes(pth(STATE))
    blob = subprocess.run(
        ["git", "hash-object", path], capture_output=True, text=True, check=True
    ).stdout.strip()
    known = replace(PUBLISHED, wavelengths=CARD.wavelengths, git_blob=blob)
    monkeypatch.setattr(checkpoint, "PUBLISHED", known)
    assert load_model(path).card is known


def test_a_weights_file_that_does_not_exist_is_called_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"got own\.pth, which does not exist\. Check its path\."):
        load_model(tmp_path / "own.pth")


def test_published_weights_are_asked_for_by_name() -> None:
    with pytest.raises(ModelError, match=r"weights file.*github.com/caiyuanhao1998"):
        load_model("mst-plus-plus")
    with pytest.raises(ModelError, match=r"one of .*mst-plus-plus, got 'nonsense'"):
        load_model("nonsense")


@pytest.mark.parametrize("name", [name for name, card in MODELS.items() if card.file])
def test_bundled_model_is_small_and_knows_itself(name: str) -> None:
    model = load_model(name)
    assert model.card == MODELS[name]
    assert model.card.name == name
    assert len(model.card.wavelengths) == model.network.out_bands
    assert model.assumptions == ()
    assert (WEIGHTS / str(model.card.file)).stat().st_size <= 4 * 2**20
    for field in ("title", "domain", "training_data", "licence", "accuracy", "reference"):
        assert getattr(model.card, field), field
