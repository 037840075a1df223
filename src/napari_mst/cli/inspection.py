"""The commands that only tell: `models`, `cameras` and `info`."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note
from napari_mst.cli.options import add_reading, reader_options
from napari_mst.cube import SpectralCube
from napari_mst.formats import read_cube
from napari_mst.messages import shown
from napari_mst.models import MODELS, ModelCard
from napari_mst.models.cards import LIGHT_MODELS
from napari_mst.photo.cameras import load_cameras, load_illuminants


def _add_nothing(_: argparse.ArgumentParser) -> None:
    """The command has no arguments."""


def _models(_: argparse.Namespace) -> int:
    texts = [_card_text(card) for card in (*MODELS.values(), *LIGHT_MODELS.values())]
    print("\n\n".join(texts))
    return DONE


def _card_text(card: ModelCard) -> str:
    """A title, and one indented line for each field that says something."""
    lines = [f"{card.name}: {card.title}"]
    for name, text in _card_fields(card).items():
        if text:
            lines.append(f"  {name:<10}  {text}")
    return "\n".join(lines)


def _card_fields(card: ModelCard) -> dict[str, str]:
    needs = "--camera and --illuminant (see `napari-mst cameras`)" if card.needs_camera else ""
    gives = "the illuminant of a photo: --illuminant estimate"
    if not card.tells_light:
        wavelengths = _range(card.wavelengths, "nm")
        gives = f"{len(card.wavelengths)} bands of {card.quantity}, {wavelengths}"
    weights = "bundled" if card.file else f"by file: --model FILE, from {card.url}"
    return {
        "for": card.domain,
        "needs": needs,
        "gives": gives,
        "accuracy": _accuracy(card) or "not measured",
        "trained on": card.training_data,
        "licence": card.licence,
        "weights": weights,
    }


def _accuracy(card: ModelCard) -> str:
    scores = []
    for data, measures in card.accuracy.items():
        values = ", ".join(f"{metric} {value:g}" for metric, value in measures.items())
        scores.append(f"{data}: {values}")
    return "; ".join(scores)


def _cameras(_: argparse.Namespace) -> int:
    _print_list("cameras (--camera):", load_cameras())
    _print_list("illuminants (--illuminant):", load_illuminants())
    return DONE


def _print_list(title: str, names: Any) -> None:
    print(title)
    for name in names:
        print(f"  {name}")


def _add_info_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")
    add_reading(parser)


def _info(arguments: argparse.Namespace) -> int:
    cube = read_cube(arguments.file, **reader_options(arguments))
    for name, value in _facts(cube).items():
        print(f"{name:<14}  {shown(value, 200)}")
    for assumption in cube.provenance.assumptions:
        print(f"{'assumed':<14}  {shown(assumption, 300)}")
    for warning in cube.metadata.get("warnings", ()):
        note(shown(warning, 300))
    return DONE


def _facts(cube: SpectralCube) -> dict[str, str]:
    bands, rows, columns = cube.shape
    facts = {
        "shape": f"{bands} bands x {rows} rows x {columns} columns",
        "type": str(cube.data.dtype),
        "wavelengths": _wavelengths(cube),
        "quantity": cube.quantity or "unknown",
    }
    provenance = asdict(cube.provenance)
    versions = cube.provenance.versions.items()
    provenance["versions"] = ", ".join(f"{name} {number}" for name, number in versions)
    del provenance["assumptions"]  # each has a line of its own
    del provenance["sensor"]  # 93 numbers that nobody reads
    for name, value in provenance.items():
        if value:
            facts[name.replace("_", " ")] = value
    return facts


def _wavelengths(cube: SpectralCube) -> str:
    if not cube.has_wavelengths:
        return f"unknown ({cube.unit})"
    return _range(cube.wavelengths.tolist(), cube.unit)


def _range(wavelengths: Sequence[float], unit: str) -> str:
    return f"{wavelengths[0]:g} to {wavelengths[-1]:g} {unit}"


INFO = Command(
    name="info",
    help="tell what a cube file holds and where it came from",
    add_arguments=_add_info_arguments,
    run=_info,
)
MODELS_COMMAND = Command(
    name="models",
    help="list the models: what they are for and how accurate they are",
    add_arguments=_add_nothing,
    run=_models,
)
CAMERAS = Command(
    name="cameras",
    help="list the cameras and illuminants that mstpp-camera knows",
    add_arguments=_add_nothing,
    run=_cameras,
)
