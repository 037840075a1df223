"""The docstrings of all public names by task, and `docs/reference.md`, which is made from them.

python -m tools.reference    # writes the page anew; the reference of the site has the same order
"""

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import napari_mst
from napari_mst.analysis.map_kind import Map
from napari_mst.analysis.metamers import Metamers
from napari_mst.attention.record_views import AttentionMap
from napari_mst.calibration.balancing import WhiteBalance
from napari_mst.calibration.light.estimating import LightEstimate
from napari_mst.cube.parts import PlainCube

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"

_FRAME = r"(?m)^(=+)  =+$"

_HEAD = """# Reference

Every public name of `import napari_mst as nm` by task, and the classes that these functions return,
with their arguments and the domain and scale of the numbers that each takes and gives. Python shows
types, parameters, errors and examples: `help(nm.resample)`. Names that begin with a dot belong to
the class or group above them. In the examples, `np` is NumPy, and `chart.png` a photo of a
ColorChecker.

A cube gives parts and pictures of itself by methods, for which nothing but the cube is needed.
Whatever reads, writes, measures, compares or corrects is a function that takes the cube. Wherever a
photo is taken, it may be a file, an array or a `Photo`.

Letters: B bands, H rows, W columns, C channels; h, w a part of an image; d channels of a head of
attention.
"""

_COLUMNS = """
| name | what it does | domain and scale |
|---|---|---|
"""

TASKS = {
    "From photos to cubes": (
        "reconstruct",
        "reconstruct_many",
        "Reconstructor",
        "list_models",
        "load_model",
        "Model",
        "check_network",
        "Progress",
        "NapariMstError",
    ),
    "Photos, cameras and charts": (
        "Photo",
        "Acquisition",
        "light.estimate",
        "LightEstimate",
        "light.white_balance",
        "WhiteBalance",
        "light.GreyPatch",
        "light.calibrate_greys",
        "light.GreyScale",
        "light.acquisition_from_patch",
        "FlatField",
        "Chart",
        "find_chart",
        "calibrate",
        "Calibration",
        "estimated_noise",
        "non_local_means",
        "non_local_weights",
    ),
    "Cubes and files": ("SpectralCube", "Provenance", "read_cube", "write_cube", "add_cube"),
    "Reference spectra and prediction intervals": (
        "refine",
        "ReferenceSpectrum",
        "suggest_measurements",
        "refine_with_cube",
        "prediction_intervals",
        "interval_of",
    ),
    "Spectra, regions and maps": (
        "Spectrum",
        "read_spectra",
        "write_spectra",
        "point_spectrum",
        "Region",
        "region_spectrum",
        "label_spectra",
        "resample",
        "best_matches",
        "compare_region",
        "endmembers",
        "metamers",
        "Metamers",
        "maps",
        "Map",
        "index",
        "formula",
    ),
    "Attention": (
        "attention.recording",
        "attention.Record",
        "attention.figure",
        "attention.read",
        "attention.write",
        "attention.Explorer",
        "attention.Selection",
        "AttentionMap",
        "attention.features",
        "attention.HeadEffects",
        "attention.Change",
        "attention.side_by_side",
    ),
}
"""The headings of the reference, and the names below each."""


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
    def call(self) -> str:
        """The name of a function or class with its arguments and their defaults."""
        name = self.name
        is_error = inspect.isclass(self.thing) and issubclass(self.thing, Exception)
        if not self.is_called or is_error:  # an error has no signature of its own
            return name
        parameters = inspect.signature(self.thing).parameters.values()
        kept = [_plain(each) for each in parameters if each.name not in ("self", "cls")]
        return f"{name}{inspect.Signature(kept)}"

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
            if line[width : width + 2].strip():
                raise ValueError(f"Expected two columns, got {line!r}. Widen the first.")
            label = line[:width].strip() or label
            rows[label] = f"{rows.get(label, '')} {line[width:].strip()}".strip()
        return {one: text for labels, text in rows.items() for one in labels.split(", ")}


RESULTS = {
    each.__name__: each for each in (AttentionMap, LightEstimate, Map, Metamers, WhiteBalance)
}
"""What public functions return; nobody has to name it."""

GROUPS = ("attention", "light")
"""Groups of names that have a list of their own."""


def public_names() -> list[str]:
    """All names of `napari_mst`, with those of its groups in place of these."""
    alone = [name for name in napari_mst.__all__ if name not in ("__version__", *GROUPS)]
    grouped = [f"{group}.{name}" for group in GROUPS for name in getattr(napari_mst, group).__all__]
    return [*alone, *grouped]


def entries_of(name: str) -> list[Entry]:
    """The public *name* itself, or that of a result, and the public members of a class."""
    group, _, last = name.rpartition(".")
    home = getattr(napari_mst, group) if group else napari_mst
    thing: Any = RESULTS.get(name) or getattr(home, last)
    own = Entry(name, inspect.getdoc(thing) or "", thing, is_called=callable(thing))
    if inspect.ismodule(thing):
        return [own, *(_function(name, each) for each in _maps_in(thing))]
    if inspect.isroutine(thing):
        return [own]
    fields = vars(PlainCube) if issubclass(thing, PlainCube) else {}
    members = sorted(member for member in {**fields, **vars(thing)} if not member.startswith("_"))
    return [own, *(each for member in members for each in _member(thing, member))]


def _maps_in(module: ModuleType) -> list[Any]:
    """The functions of *module* that make a map."""
    functions = [thing for thing in vars(module).values() if inspect.isfunction(thing)]
    made = [each for each in functions if inspect.signature(each).return_annotation is Map]
    return sorted(made, key=lambda each: each.__name__)


def _function(group: str, thing: Any) -> Entry:
    return Entry(f"{group}.{thing.__name__}", inspect.getdoc(thing) or "", thing, is_called=True)


def _member(owner: type, member: str) -> list[Entry]:
    """The method or property of *owner*; nothing for the default of a field."""
    # A field that is made when it is asked for has no default.
    thing: Any = getattr(owner, member, None)
    is_property = isinstance(thing, property)
    if not (is_property or inspect.isroutine(thing)):
        return []
    function = thing.fget if is_property else thing
    doc = inspect.getdoc(thing) or ""
    return [Entry(f"{owner.__name__}.{member}", doc, function, is_called=not is_property)]


class _Left:
    """A default that would say nothing in print."""

    def __repr__(self) -> str:
        return "..."


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """The *parameter* as a line of the page has it: without its type."""
    is_short = len(repr(parameter.default)) <= 24 and "<" not in repr(parameter.default)
    default = parameter.default if is_short else _Left()
    if parameter.default is inspect.Parameter.empty:
        default = parameter.default
    return parameter.replace(annotation=inspect.Parameter.empty, default=default)


def page() -> str:
    """The text of `docs/reference.md`."""
    parts = [_HEAD]
    for title, names in TASKS.items():
        lines = [line for name in names for line in _lines(entries_of(name))]
        parts += [f"\n## {title}\n", _COLUMNS, *lines]
    return "".join(parts)


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
    rows = [_row(own.call, own.title, "<br>".join(told))]
    for each in members:
        call = each.call.split(".", each.name.count("."))[-1]
        rows.append(_row(f".{call}", each.title, table.get(each.label, "")))
    return rows


def _row(name: str, title: str, told: str) -> str:
    cells = (f"`{name}`", title, told)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
