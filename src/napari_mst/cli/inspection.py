"""The commands that print, `models`, `cameras` and `info`, and `export`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from napari_mst.cli.arguments import DONE
from napari_mst.cli.console import note, print_json
from napari_mst.cli.options import (
    DEFAULT_MODEL,
    AsJson,
    Cube,
    CubeAnswers,
    Model,
    Overwrite,
)
from napari_mst.cube import SpectralCube
from napari_mst.errors import shown
from napari_mst.formats import read_cube
from napari_mst.models import MODELS, ModelCard
from napari_mst.models.cards import LIGHT_MODELS, WEIGHTS
from napari_mst.option import Option
from napari_mst.photo.cameras import load_cameras, load_illuminants


@dataclass(frozen=True)
class Models:
    """The list of the models; as JSON with all that is known of each."""

    json: AsJson = False

    examples = ("models", "models --json")

    def run(self) -> int:
        """Print the card of each model."""
        cards = (*MODELS.values(), *LIGHT_MODELS.values())
        if self.json:
            print_json({card.name: {"title": card.title, **_card_fields(card)} for card in cards})
        else:
            print("\n\n".join("\n".join(_card_lines(card)) for card in cards))
        return DONE


def _card_lines(card: ModelCard) -> list[str]:
    """A title, and one indented line for each field by which a person chooses."""
    fields = _card_fields(card)
    scores = [(each["MRAE"], data) for data, each in card.accuracy.items() if "MRAE" in each]
    if scores:
        error, data = min(scores)
        fields["accuracy"] = f"mean relative error {error:.3f}: {data}"
    if card.file:
        fields["weights"] += f", {(WEIGHTS / card.file).stat().st_size / 1000:,.0f} kB"
    chosen = [name for name in ("for", "needs", "accuracy", "weights") if fields[name]]
    return [f"{card.name}: {card.title}", *(f"  {name:<10}  {fields[name]}" for name in chosen)]


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


@dataclass(frozen=True)
class Export:
    """A model as a file for other programs."""

    output: Annotated[Path, Option("the file to write", "OUT.onnx", is_positional=True)]
    model: Model = DEFAULT_MODEL
    overwrite: Overwrite = False

    examples = ("export model.onnx", "export mine.onnx --model mine.safetensors")

    def run(self) -> int:
        """Write the file and print its name."""
        from napari_mst.models import load_model

        print(load_model(self.model).to_onnx(self.output, overwrite=self.overwrite))
        return DONE


@dataclass(frozen=True)
class Cameras:
    """The list of the cameras and the lights."""

    examples = ("cameras",)

    def run(self) -> int:
        """Print the names."""
        print("cameras (--camera):", *load_cameras(), sep="\n  ")
        print("illuminants (--illuminant):", *load_illuminants(), sep="\n  ")
        return DONE


@dataclass(frozen=True)
class Info:
    """A cube file that is described."""

    cube: Cube
    reading: CubeAnswers = field(default_factory=CubeAnswers)
    json: AsJson = False

    examples = ("info cube.hdr", "info cube.mat --variable reflectance --json")

    def run(self) -> int:
        """Print what the file holds and where it came from."""
        cube = read_cube(self.cube, **self.reading.given)
        assumptions = list(cube.provenance.assumptions)
        warnings = list(cube.metadata.get("warnings", ()))
        if self.json:
            print_json({**_facts(cube), "assumed": assumptions, "warnings": warnings})
            return DONE
        for name, value in _facts(cube).items():
            print(f"{name:<14}  {shown(value, 200)}")
        for assumption in assumptions:
            print(f"{'assumed':<14}  {shown(assumption, 300)}")
        for warning in warnings:
            note(shown(warning, 300))
        return DONE


def _facts(cube: SpectralCube) -> dict[str, str]:
    bands, rows, columns = cube.shape
    wavelengths = f"unknown ({cube.unit})"
    if cube.has_wavelengths:
        wavelengths = _range(cube.wavelengths.tolist(), cube.unit)
    facts = {
        "shape": f"{bands} bands x {rows} rows x {columns} columns",
        "type": str(cube.data.dtype),
        "wavelengths": wavelengths,
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


def _range(wavelengths: Sequence[float], unit: str) -> str:
    return f"{wavelengths[0]:g} to {wavelengths[-1]:g} {unit}"
