"""The docstrings of all public names, and `docs/reference.md`, which is made from them.

python -m tests.reference    # writes the page anew
"""

import ast
import importlib
import inspect
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import napari_mst
from napari_mst.attention.maps import AttentionMap
from napari_mst.cube.parts import PlainCube
from napari_mst.light.estimate import LightEstimate
from napari_mst.light.white_balance import WhiteBalance
from napari_mst.spectra.map_kind import Map
from napari_mst.spectra.metamers import Metamers

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"

_FRAME = r"(?m)^(=+)  =+$"

_HEAD = """# Reference

Every public name of `import napari_mst as nm`, and the classes that these functions return, with
the domain and scale of the numbers that each takes and gives. Python shows parameters, errors and
examples: `help(nm.resample)`. Names that begin with a dot belong to the class or group above them.
In the examples, `np` is NumPy, and `chart.png` a photo
of a ColorChecker.

Letters: B bands, H rows, W columns, C channels; h, w a part of an image; d channels of a head of
attention.

| name | what it does | domain and scale |
|---|---|---|
"""


@dataclass(frozen=True)
class Entry:
    """A public name, or a public member of a public class."""

    name: str
    doc: str
    thing: Any
    is_called: bool

    @property
    def label(self) -> str:
        """The name in the table of the class: `data`, `render()`."""
        return self.name.split(".")[-1] + ("()" if self.is_called else "")

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return self.doc.split("\n", 1)[0]

    @property
    def table(self) -> dict[str, str]:
        """The table of domain and scale: what each row says of which argument or member."""
        parts = re.split(_FRAME, self.doc)
        if len(parts) < 5:
            return {}
        width = len(parts[1])
        rows: dict[str, str] = {}
        label = ""
        for line in parts[2].strip("\n").split("\n"):
            label = line[:width].strip() or label
            rows[label] = f"{rows.get(label, '')} {line[width:].strip()}".strip()
        return {one: text for labels, text in rows.items() for one in labels.split(", ")}


RESULTS = {
    each.__name__: each for each in (AttentionMap, LightEstimate, Map, Metamers, WhiteBalance)
}
"""What public functions return; nobody has to name it."""


def entries_of(name: str) -> list[Entry]:
    """The public *name* itself, or that of a result, and the public members of a class."""
    thing = RESULTS.get(name) or getattr(napari_mst, name)
    if callable(thing) and inspect.ismodule(thing):  # which hides a function of its name
        thing = getattr(importlib.import_module(_home(name)), name)
    if inspect.ismodule(thing):
        own = Entry(name, inspect.getdoc(thing) or "", thing, is_called=False)
        return [own, *(_function(name, each) for each in _maps_in(thing))]
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return [Entry(name, _docstring_of_data(_home(name), name), thing, is_called=False)]
    own = Entry(name, inspect.getdoc(thing) or "", thing, is_called=True)
    if inspect.isroutine(thing):
        return [own]
    fields = vars(PlainCube) if issubclass(thing, PlainCube) else {}
    members = sorted(member for member in {**fields, **vars(thing)} if not member.startswith("_"))
    return [own, *(each for member in members for each in _member(thing, member))]


def _maps_in(module: Any) -> list[Any]:
    """The functions of *module* that make a map."""
    functions = [thing for thing in vars(module).values() if inspect.isfunction(thing)]
    made = [each for each in functions if inspect.signature(each).return_annotation is Map]
    return sorted(made, key=lambda each: each.__name__)


def _function(group: str, thing: Any) -> Entry:
    return Entry(f"{group}.{thing.__name__}", inspect.getdoc(thing) or "", thing, is_called=True)


def _member(owner: type, member: str) -> list[Entry]:
    """The method or property of *owner*; nothing for the default of a field."""
    thing = getattr(owner, member)
    is_property = isinstance(thing, property)
    if not (is_property or inspect.isroutine(thing)):
        return []
    function = thing.fget if is_property else thing
    doc = inspect.getdoc(thing) or ""
    return [Entry(f"{owner.__name__}.{member}", doc, function, is_called=not is_property)]


def _home(name: str) -> str:
    """The module that the list of public names gives for *name*."""
    text = Path(napari_mst.__file__).with_suffix(".pyi").read_text("utf-8")
    imports = [each for each in ast.parse(text).body if isinstance(each, ast.ImportFrom)]
    return next(each.module or "" for each in imports if each.names[0].asname == name)


def _docstring_of_data(module: str, name: str) -> str:
    """The text below `name: type = value`, which Python does not keep."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for pair in pairwise(body):
        match pair:
            case (
                ast.AnnAssign(target=ast.Name(id=assigned)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if assigned == name:
                return inspect.cleandoc(text)
    # A folder has its names from a file of its own.
    imports = [each for each in body if isinstance(each, ast.ImportFrom)]
    homes = {alias.name: each.module or "" for each in imports for alias in each.names}
    return _docstring_of_data(homes[name], name) if name in homes else ""


def page() -> str:
    """The text of `docs/reference.md`."""
    names = {*napari_mst.__all__, *RESULTS} - {"__version__"}
    ordered = sorted(names, key=lambda name: (name.lower(), name))  # `Metamers` before `metamers`
    return _HEAD + "".join(line for name in ordered for line in _lines(entries_of(name)))


def _lines(entries: list[Entry]) -> list[str]:
    """The rows of a name and of its members."""
    own, *members = entries
    table = own.table
    labels = {each.label for each in members}
    own_labels: dict[str, list[str]] = {}
    for label, text in table.items():
        if label not in labels:
            own_labels.setdefault(text, []).append(label)
    told = [f"{', '.join(alike)}: {text}" for text, alike in own_labels.items()]
    first = _row(own.name, own.title, "<br>".join(told))
    rows = [_row(f".{each.label}", each.title, table.get(each.label, "")) for each in members]
    return [first, *rows]


def _row(name: str, title: str, told: str) -> str:
    cells = (f"`{name}`", title, told)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
