"""Fixtures that every folder of tests uses."""

import gc
import json
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from napari_mst.base.arrays import Floats, Singles

if TYPE_CHECKING:
    from napari_mst import Model, Reconstructor
    from napari_mst.engine.features import PhotoRows

# Small tensors on many threads wait for each other, and on a busy machine they wait a hundred times
# longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Figures of pyplot would open windows where there is Qt.
os.environ.setdefault("MPLBACKEND", "Agg")

# Where two bindings of Qt are installed, pytest-qt would take another one than napari.
if find_spec("PyQt6"):
    os.environ.setdefault("PYTEST_QT_API", os.environ.get("QT_API", "pyqt6"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests whose id has a number of the catalogue of bad input: `[047-grey]`."""
    for item in items:
        if number := re.search(r"[\[-](0\d\d)-[a-z\d(]", item.name):
            item.add_marker(pytest.mark.bad_input(int(number[1])))


_frozen_modules = 0


def pytest_collection_finish() -> None:
    """Tell the garbage collector that all that is imported by now stays.

    A look for garbage among the objects of torch, napari and four thousand tests takes half a
    second, and windows and threads ask for one again and again.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules + 100:
        _frozen_modules = len(sys.modules)
        gc.collect()
        gc.freeze()


def pytest_runtest_logfinish() -> None:
    """As at first, whenever a test has imported much more."""
    pytest_collection_finish()


# No test finds what another one, or the person who runs them, has computed before.
os.environ["NAPARI_MST_CACHE"] = ""


@pytest.fixture(scope="module", params=["numba", "torch"])
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    """The ways to compute on a CPU: the kernels that numba compiles, or torch alone."""
    from napari_mst.engine.fast_paths import native

    if request.param == "numba" and not native.is_ready():
        pytest.skip("numba is not installed, or has no kernels for this processor")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(native, "is_ready", lambda: False)
        yield request.param


@pytest.fixture(scope="session", autouse=True)
def _decoded_here() -> Iterator[dict[str, Callable[..., Any]]]:
    """Decodes files of strangers in this process: the start of another takes half a second."""
    from napari_mst.base import sandbox

    before: dict[str, Callable[..., Any]] = {
        "stream": sandbox.stream,
        "limit_memory": sandbox.limit_memory,
    }

    def stream(function: str, path: Path, options: Sequence[Any], _: object) -> Iterator[Any]:
        for facts, parts in sandbox.answers(function, path, json.loads(json.dumps(options))):
            told = sandbox._description(json.dumps(facts).encode() + b"\n") or {}
            if "offset" in told:
                place = told["offset"], tuple(told["shape"]), told["order"]
                yield told, np.memmap(path, told["dtype"], "r", *place)
            else:
                numbers = bytearray().join(part.data for part in parts)
                yield told, np.frombuffer(numbers, told["dtype"]).reshape(told["shape"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "stream", stream)
        patch.setattr(sandbox, "limit_memory", lambda _: None)
        yield before


@pytest.fixture
def apart(_decoded_here: dict[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Decodes files of strangers in a process of its own, as outside of tests."""
    for name, function in _decoded_here.items():
        monkeypatch.setattr(f"napari_mst.base.sandbox.{name}", function)


@pytest.fixture
def ends_soon() -> Iterator[None]:
    """Fails a test that waits for ever, as one does that reads from a pipe without a writer."""
    import signal

    def fail(*_: object) -> None:
        pytest.fail("It waited for ever.")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(10)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def models_as_before() -> Iterator[None]:
    """Takes the models that a test makes out of the list again."""
    from napari_mst.models import cards, model

    listed = dict(cards._LISTED)
    yield
    cards._LISTED.clear()
    cards._LISTED.update(listed)
    model.MADE.clear()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The reference data beside a developer's checkout: too large, or not ours, to ship."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the reference data ../shared/data is not beside this checkout")
    return folder


@dataclass(frozen=True)
class Authors:
    """Outputs of the authors' MST++, in float64.

    A formula of their names and sizes makes the weights and the photos.

    Made with the code of https://github.com/caiyuanhao1998/MST-plus-plus (MIT). `attention` is the
    softmax of all 15 blocks for the photo of 48 x 61, by our names, in the order in which they run.
    """

    photos: dict[str, Singles]
    outputs: dict[str, Singles]
    attention: dict[str, Singles]
    weights: Path


@pytest.fixture(scope="session")
def authors(tmp_path_factory: pytest.TempPathFactory) -> Authors:
    """The authors' outputs, and a checkpoint in their layout with the weights that gave them."""
    import torch

    from napari_mst.networks.layout import renamed
    from napari_mst.networks.mst_plus_plus import PUBLISHED, MSTPlusPlus

    with np.load(Path(__file__).parent / "data" / "parity.npz") as stored:
        arrays = dict(stored)
    sizes = [key.removeprefix("out_") for key in arrays if key.startswith("out_")]
    network = MSTPlusPlus()
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    keys = [str(key) for key in arrays["keys"]]
    nothing = torch.empty(0)
    own_names = {key: next(iter(renamed({key: nothing}, PUBLISHED))) for key in keys}
    weights = {
        key: torch.from_numpy(weight_of(key, shapes[name])) for key, name in own_names.items()
    }
    path = tmp_path_factory.mktemp("authors") / "published_layout.pth"
    torch.save({"state_dict": weights, "epoch": 1, "iter": 1}, path)
    blocks = [each.writes for each in network.program().passes if each.uses]
    matrices = [arrays[key] for key in sorted(arrays) if key.startswith("attention_48x61/")]
    return Authors(
        photos={size: _photo(*map(int, size.split("x"))) for size in sizes},
        outputs={size: arrays[f"out_{size}"] for size in sizes},
        attention=dict(zip(blocks, matrices, strict=True)),
        weights=path,
    )


def on_cpu(model: "str | Path | Model", **options: Any) -> "Reconstructor":
    """A reconstructor with *model*, which is loaded if it is a name or a file."""
    from napari_mst import Model, Reconstructor, load_model

    return Reconstructor(model if isinstance(model, Model) else load_model(model), "cpu", **options)


def source_of(photo: Floats) -> "PhotoRows":
    """The rows of a photo (C, H, W) as the engine asks for them."""
    from napari_mst.engine.features import PhotoRows

    return PhotoRows(lambda start, stop: photo[:, start:stop], *photo.shape[1:])


def weight_of(key: str, shape: tuple[int, ...]) -> Singles:
    """The weight that the outputs were made with: about as large as trained ones."""
    drawn = np.random.default_rng([zlib.crc32(key.encode()), 1]).standard_normal(shape)
    if len(shape) >= 2:
        drawn = drawn / math.sqrt(math.prod(shape[1:])) * 0.9
    elif key.endswith(("weight", "running_var")) or "rescale" in key:
        drawn = 1 + 0.1 * drawn
    else:
        drawn = 0.05 * drawn
    return drawn.astype(np.float32)


def _photo(height: int, width: int) -> Singles:
    return np.random.default_rng([1, height, width]).random((3, height, width), dtype=np.float32)
