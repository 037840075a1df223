"""Terminals: whatever files, layers, units and models are called, no name becomes a command."""

import contextlib
import io
import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tqdm import tqdm

from napari_mst.base.errors import CubeFileError, NapariMstError, SaveError, harmless, plain
from napari_mst.cli.arguments import DONE, REFUSED
from napari_mst.cli.console import HarmlessStream, harmless_output
from napari_mst.cli.main import main
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import write_cube
from napari_mst.models import ModelCard
from napari_mst.models.seal import write_weights
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

NASTY = "a\x1b[31m\x1b]0;title\x07\x9b5m"
COMMAND = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
Command = tuple[str | Path, ...]

CARD = ModelCard(NASTY, NASTY, (450.0, 500.0, 550.0, 600.0), True, "none", NASTY, reference=NASTY)


def nasty_photo(folder: Path, name: str = f"{NASTY}.png") -> Path:
    Image.fromarray(np.full((6, 9, 3), 7, np.uint8)).convert("L").save(folder / name, "png")
    return folder / name


def nasty_cube(folder: Path) -> Path:
    provenance = Provenance(
        model=NASTY, source=NASTY, assumptions=(NASTY,), versions={NASTY: NASTY}
    )
    numbers, axis = np.zeros((3, 4, 5), np.float32), np.arange(3.0)
    cube = SpectralCube(
        numbers, axis, unit=NASTY, quantity=NASTY, provenance=provenance, metadata={NASTY: NASTY}
    )
    return write_cube(folder / f"{NASTY}.npz", cube)


def nasty_header(folder: Path) -> Path:
    path = folder / f"{NASTY}.hdr"
    path.write_text(f"ENVI\nsamples = {NASTY}\n{NASTY} = 1\n", encoding="utf-8")
    return path


def nasty_weights(folder: Path) -> Path:
    with torch.random.fork_rng():
        write_weights(
            folder / "tiny.safetensors", MSTPlusPlus(out_bands=4, stages=1).state_dict(), CARD
        )
    return folder / "tiny.safetensors"


def run_of(photo: Path, weights: Path | str, *options: str | Path) -> Command:
    return "reconstruct", photo, "--model", weights, "--device", "cpu", *options


COMMANDS: dict[str, Callable[[Path], Command]] = {
    "info": lambda folder: ("info", nasty_cube(folder)),
    "spectra": lambda folder: ("spectra", nasty_cube(folder), "--at", "0,0"),
    "spectra saved": lambda folder: (
        "spectra",
        nasty_cube(folder),
        "--at",
        "0,0",
        "-o",
        folder / f"{NASTY}.csv",
    ),
    "a header": lambda folder: ("info", nasty_header(folder)),
    "no such cube": lambda folder: ("info", folder / NASTY),
    "no such photo": lambda folder: run_of(
        folder / NASTY, "pixelwise-srgb", "-o", folder / "o.hdr"
    ),
    "no such model": lambda folder: run_of(nasty_photo(folder), NASTY, "-o", folder / "o.hdr"),
    "a run": lambda folder: run_of(
        nasty_photo(folder), nasty_weights(folder), "-o", folder / f"{NASTY}.hdr"
    ),
    "no photo": lambda folder: run_of(
        nasty_header(folder), "pixelwise-srgb", "-o", folder / "o.hdr"
    ),
    "no map": lambda folder: ("map", nasty_cube(folder), "anomalies", "-o", folder / NASTY),
    "no reference": lambda folder: ("compare", nasty_cube(folder), folder / NASTY),
    "no number": lambda folder: ("spectra", NASTY, "--at", NASTY),
    "left over": lambda folder: ("models", NASTY),
    "no camera": lambda folder: run_of(
        nasty_photo(folder),
        "mstpp-camera",
        "--camera",
        NASTY,
        "--illuminant",
        NASTY,
        "-o",
        folder / "o.hdr",
    ),
    "no name": lambda folder: ("train", "-o", NASTY),
    "no cubes": lambda folder: ("evaluate", folder / NASTY),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_reaches_a_terminal(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(argument) for argument in COMMANDS[name](tmp_path)]
    with contextlib.suppress(SystemExit):  # argparse refuses the arguments
        main(arguments)
    printed = capfd.readouterr()
    assert (
        "5m" in printed.out + printed.err
    )  # the end of the name: a long one is shortened in the middle
    assert not COMMAND.search(printed.out + printed.err)


def test_file_whose_name_is_no_text_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo = nasty_photo(tmp_path, os.fsdecode(b"p\xff.png"))
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "stdout", printed)
    command = run_of(photo, nasty_weights(tmp_path), "-o", tmp_path / "o", "--format", "npz")
    arguments = [str(argument) for argument in command]
    assert main(arguments) == REFUSED
    (tmp_path / "o").mkdir()
    assert main(arguments) == DONE
    assert printed.buffer.getvalue().decode() == f"{tmp_path / 'o' / 'p?.npz'}\n"


def test_logs_and_bars_of_libraries_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("of a library")
    with harmless_output():
        logger.addHandler(logging.StreamHandler())
        logger.warning(NASTY)
        sys.stderr.writelines([f"{NASTY}\n"])
        for _ in tqdm([1], desc=NASTY):
            pass
    printed = capsys.readouterr().err
    assert printed.count(harmless(NASTY)) >= 3
    assert not COMMAND.search(printed)
    sys.stdout.write(NASTY)
    assert capsys.readouterr().out == NASTY  # afterwards the streams are the caller's own


def test_stream_is_else_as_it_was() -> None:
    stream = io.StringIO()
    wrapped = HarmlessStream(stream)
    assert wrapped.write("\tgr\u00fcn \u2588\r\n") == 9
    assert (wrapped.getvalue(), wrapped.isatty()) == ("\tgr\u00fcn \u2588\r\n", False)


@pytest.mark.parametrize("kind", [NapariMstError, CubeFileError, SaveError])
def test_text_of_every_error_is_harmless(kind: type[NapariMstError]) -> None:
    assert str(kind(NASTY)) == harmless(NASTY) == "a?[31m?]0;title??5m"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Expected a cube, got none, got it? Go.",
            "This needs a cube, but found none, got it? Go.",
        ),
        ("a.png: Expected one image, got 2.", "a.png: this needs one image, but found 2."),
        ("Choose a camera.", "Choose a camera."),
    ],
)
def test_a_window_says_what_is_needed_and_what_was_found(text: str, words: str) -> None:
    assert plain(NapariMstError(text)) == words
