"""Build the site: the pages of docs/, and the page that runs the network in a browser.

PYTHONPATH=. python site/build.py build/site
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import cast

import generated  # type: ignore[import-not-found]  # beside this file
import onnx
import torch
from tools.reference import RESULTS, TASKS, entries_of
from torch import Tensor, nn

import napari_mst as nm
from napari_mst.cube.colour import srgb_response
from napari_mst.cube.illuminants import colour_weights
from napari_mst.models.cards import BRIGHTNESS, CAMERA, FACTOR, PHOTOGRAPHED, RENDERED
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.reconstruction.model_intervals import PIXELWISE, instrument_error

HERE = Path(__file__).parent
ROOT = HERE.parent

MODELS = {
    PHOTOGRAPHED: "MST++ for photos: finds light and exposure",
    RENDERED: "MST++ for rendered images",
    PIXELWISE: "Rendered images, pixel by pixel, at once",
}
"""The models of the page and their titles there, the default first."""
LAMPS = {
    "D65": "daylight (D65)",
    "A": "a light bulb (A)",
    "LED-B3": "a white LED (LED-B3)",
    "F11": "a fluorescent tube (F11)",
}
PAGES = [
    "docs",
    "lab",
    "src",
    "sample_data",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "constraints.txt",
]
"""All that pages link to."""

UNLISTED = ("README.md", "docs/README.md")
"""Pages that others link to; the bar at the top has what they list."""

NOTEBOOKS = (
    "Notebooks",
    "Six, each run while this site was built.",
    ("first_cube", "reference_spectra", "compare", "foreign_cube", "attention", "train"),
)
MORE = {
    "Reference": ("reference/*", "CHANGELOG"),
    "Laboratory": ("src/napari_mst/data/README", "sample_data/README", "SECURITY"),
}
"""Pages below a section of docs/README.md that are not in its list."""

RUNTIME = (
    "ort.wasm.bundle.min.mjs",
    "ort-wasm-simd-threaded.wasm",
    "ort-wasm-simd-threaded.mjs",
    "ort.webgpu.bundle.min.mjs",
    "ort-wasm-simd-threaded.asyncify.wasm",
    "ort-wasm-simd-threaded.asyncify.mjs",
)


class Distances(nn.Module):
    """Lower bound, estimate and upper bound of the pixelwise network, (1, 3 B, 1, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.network = cast("PixelwiseNetwork", nm.load_model(PIXELWISE).network)

    def forward(self, colour: Tensor) -> Tensor:
        """The three of a *colour*, (1, 3, 1, 1) linear sRGB."""
        return torch.cat(self.network.quantiles(colour), dim=1)


def build_try(folder: Path) -> None:
    """Put the page that runs the network into *folder*, with all that it loads."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "try", folder)
    shutil.copy(ROOT / "sample_data" / "coffee.jpg", folder)
    packages = folder / "npm"
    packages.mkdir()
    shutil.copy(HERE / "package.json", packages)
    subprocess.run(["npm", "install", "--no-package-lock", "--silent"], cwd=packages, check=True)
    for file in RUNTIME:
        shutil.copy(packages / "node_modules/onnxruntime-web/dist" / file, folder)
    shutil.rmtree(packages)
    models = [_model(name, title, folder) for name, title in MODELS.items()]
    wavelengths = nm.load_model(PIXELWISE).card.wavelengths
    colour = torch.full((1, 3, 1, 1), 0.5)
    torch.onnx.export(Distances().eval(), (colour,), folder / "distances.onnx", external_data=False)
    tables = {
        "wavelengths": list(wavelengths),
        "response": srgb_response(wavelengths).tolist(),
        "instrument": instrument_error(wavelengths).tolist(),
        "distances": "distances.onnx",
        "models": models,
        "lamps": [
            {"title": title, "weights": colour_weights(wavelengths, lamp).tolist()}
            for lamp, title in LAMPS.items()
        ],
    }
    (folder / "tables.json").write_text(json.dumps(tables), "utf-8")


def _model(name: str, title: str, folder: Path) -> dict[str, object]:
    """Export the model *name* into *folder*, and return what the page has to know of it."""
    model = nm.load_model(name)
    model.to_onnx(folder / f"{name}.onnx", overwrite=True)
    in_single_precision(folder / f"{name}.onnx", folder / f"{name}.gpu.onnx")
    return {
        "name": name,
        "title": title,
        "file": f"{name}.onnx",
        "multiple": model.network.program().multiple,
        "factor": list(model.card.error_band[FACTOR]),
        "doubt": list(model.card.error_band[CAMERA]),  # a browser does not say what it decoded
        "brightness": [model.card.error_band.get(name, (1.0,))[0] for name in BRIGHTNESS],
    }


def in_single_precision(source: Path, target: Path) -> None:
    """Save the graph in *source* without float64, which WebGPU lacks: sums are float32 there."""
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        _single(tensor)
    for node in model.graph.node:
        for value in node.attribute:
            if node.op_type == "Cast" and value.i == onnx.TensorProto.DOUBLE:
                value.i = onnx.TensorProto.FLOAT
            _single(value.t)
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    onnx.save(model, target)


def _single(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == onnx.TensorProto.DOUBLE:
        numbers = onnx.numpy_helper.to_array(tensor).astype("f4")
        tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, tensor.name))


def build_pages(folder: Path) -> None:
    """Let Sphinx make the pages in *folder*; a warning is an error."""
    pages = folder.with_name(f"{folder.name}-pages")
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    for name in PAGES:  # copies, for links are looked up where a file really is
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, pages / name)
    shutil.copytree(HERE / "notebooks", pages / "notebooks")
    for name in UNLISTED:
        text = (pages / name).read_text("utf-8")
        (pages / name).write_text(f"---\norphan: true\n---\n\n{text}", "utf-8")
    sections = _sections()
    index = (HERE / "index.md").read_text("utf-8")
    (pages / "index.md").write_text(f"{index}\n{_tree(map(_name, sections), 'hidden')}", "utf-8")
    for title, (sentence, below) in sections.items():
        cards = [_card(pages, name) for name in below]
        if any(":img-top:" in card for card in cards):
            shown = f"{_tree(below, 'hidden')}\n{_grid(cards)}"
        else:
            shown = _tree(below, "glob")
        text = f"# {title}\n\n{sentence}\n\n{shown}"
        (pages / f"{_name(title)}.md").write_text(text, "utf-8")
    reference = pages / "reference"
    reference.mkdir()
    for title, names in TASKS.items():
        (reference / f"{_name(title)}.md").write_text(_reference(title, names), "utf-8")
    for name, text in generated.pages().items():
        (reference / f"{name}.md").write_text(text, "utf-8")
    options = ["-W", "--keep-going", "--quiet", "-c", str(HERE)]
    command = [sys.executable, "-m", "sphinx", *options, str(pages), str(folder)]
    # A backend of the caller's would take the figures out of the notebooks.
    environment = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    programs = Path(sys.executable).parent  # napari-mst, which a notebook calls
    environment["PATH"] = f"{programs}{os.pathsep}{environment.get('PATH', '')}"
    subprocess.run(command, check=True, env=environment)
    shutil.rmtree(pages)


def _sections() -> dict[str, tuple[str, list[str]]]:
    """The bar at the top: the sentence and the pages below each title, from docs/README.md."""
    listed = (ROOT / "docs" / "README.md").read_text("utf-8").split("\n## ")[1:]
    sections = {}
    for text in listed:
        title, sentence = text.split("\n")[:3:2]
        links = re.findall(r"\]\((\S+)\.md\)", text)
        pages = [os.path.normpath(f"docs/{link}") for link in links]
        sections[title] = (sentence, [*pages, *MORE.get(title, ())])
        if title == "How to":
            name, words, below = NOTEBOOKS
            sections[name] = (words, [f"notebooks/{each}" for each in below])
    return sections


def _card(pages: Path, name: str) -> str:
    """The card of the page *name*: its title, and the picture that it begins with if it has one."""
    page = pages / f"{name}.md"
    text = page.read_text("utf-8") if page.exists() else ""
    found = re.match(r"# (.+)\n(?:\n!\[[^]]*\]\((\S+)\))?", text)
    title, picture = found.groups() if found else (name, None)
    lines = [f":::{{grid-item-card}} {title}", f":link: {name}", ":link-type: doc"]
    if picture:
        lines.append(f":img-top: {os.path.normpath(f'{Path(name).parent}/{picture}')}")
    return "\n".join([*lines, ":::"])


def _grid(cards: list[str]) -> str:
    return "\n".join(["::::{grid} 1 2 2 3", ":gutter: 3", "", *cards, "::::", ""])


def _name(title: str) -> str:
    """The name of the file of the page *title*."""
    return title.lower().replace(" ", "_").replace(",", "")


def _tree(names: Iterable[str], *options: str) -> str:
    """The list of the pages of these *names*."""
    told = [f":{option}:" for option in options]
    return "\n".join(["```{toctree}", *told, ":maxdepth: 1", "", *names, "```", ""])


def _reference(title: str, names: tuple[str, ...]) -> str:
    """The page of these public *names*, with their signatures."""
    return f"# {title}\n\n" + "\n".join(map(_entry, names))


def _entry(name: str) -> str:
    own, *members = entries_of(name)
    if isinstance(own.thing, ModuleType):
        return "\n".join(_entry_of("function", f"napari_mst.{each.name}") for each in members)
    home = f"{own.thing.__module__}.{name}" if name in RESULTS else f"napari_mst.{name}"
    if isinstance(own.thing, type):
        return _entry_of("class", f"{home}\n    :members:")
    return _entry_of("function", home)


def _entry_of(kind: str, name: str) -> str:
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n```\n"


def main() -> None:
    """Build everything in the folder that the command line names."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    build_pages(folder)
    build_try(folder / "try")


if __name__ == "__main__":
    main()
