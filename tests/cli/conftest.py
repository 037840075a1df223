"""A small model, a photo, and a way to run a command, for the tests of the command line."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from napari_mst.base.progress import ProgressLike
from napari_mst.cli.main import main
from napari_mst.cube import SpectralCube
from napari_mst.models import ModelCard
from napari_mst.models.cards import card_to_metadata
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.reconstruction.pipeline import PreparedPhoto

RECONSTRUCT = PreparedPhoto.reconstruct
Run = Callable[..., tuple[int, str, str]]
"""Runs a command; gives its exit status, standard output and standard error."""

END = ("hdr", "img")
"""The suffixes of the two files of a cube."""

CARD = ModelCard(
    "tiny",
    "Untrained",
    (450.0, 500.0, 550.0, 600.0),
    True,
    "none",
    "reflectance",
    domain="Nothing.",
)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained network of four bands."""
    file = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = MSTPlusPlus(out_bands=4, stages=1).state_dict()
    safetensors.torch.save_file(state, file, metadata=card_to_metadata(CARD))
    return file


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    file = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)).save(file)
    return file


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], weights: Path) -> Run:
    def run_command(command: str, *arguments: object) -> tuple[int, str, str]:
        defaults = (
            ["--model", str(weights), "--device", "cpu"]
            if command in ("reconstruct", "attention")
            else []
        )
        code = main([command, *defaults, *map(str, arguments)])
        return code, *capsys.readouterr()

    return run_command


@pytest.fixture
def control_c() -> Iterator[None]:
    """Ctrl-C as Python begins with it: where the tests run in the background, it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def several(photo: Path, count: int) -> list[Path]:
    """*count* photos, no two alike."""
    pixels = np.asarray(Image.open(photo))
    files = [photo.with_name(f"{number}.png") for number in range(count)]
    for number, file in enumerate(files):
        Image.fromarray(pixels ^ np.uint8(number)).save(file)
    return files


def counted(
    monkeypatch: pytest.MonkeyPatch, made: list[str] | None = None, limit: int = 99
) -> list[str]:
    """Collect the names of the photos that are reconstructed; Ctrl-C comes after *limit*."""
    names = [] if made is None else made

    def counting(prepared: PreparedPhoto, progress: ProgressLike) -> SpectralCube:
        if len(names) == limit:
            raise KeyboardInterrupt
        names.append(prepared.photo.name)
        return RECONSTRUCT(prepared, progress)

    monkeypatch.setattr(PreparedPhoto, "reconstruct", counting)
    return names


def raising(error: BaseException | type[BaseException]) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def assert_is_one_error(err: str, message: str) -> None:
    assert err.startswith(("error: Expected", "error: 1.png: Expected"))
    assert message.lower() in err.lower()
    assert err.strip().count("\n") == 0
    assert len(err) < 320
