"""A name has one home: of a type, and of a module."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import napari_mst

SOURCE = Path(napari_mst.__path__[0])
MODULES = sorted(SOURCE.rglob("*.py"))
PACKAGES = [path for path in MODULES if path.name == "__init__.py"]

IN_SEVERAL_ROOMS = {
    "__init__": "each package has one",
    "clips": "the command, and the batch that it runs",
    "dock": "each room of the plugin has the one that it is about",
    "georeference": "the place of a cube, and the same in a header of ENVI",
    "reading": "of one format",
    "writing": "of one format",
}
"""Stems of files that name the same subject wherever they stand."""


def public_types(module: Path) -> Iterator[str]:
    """The classes and the aliases of types that are defined in *module*, but for private ones."""
    for statement in ast.parse(module.read_text("utf-8")).body:
        names = []
        if isinstance(statement, ast.ClassDef):
            names = [statement.name]
        elif isinstance(statement, ast.Assign):
            names = [each.id for each in statement.targets if isinstance(each, ast.Name)]
        yield from (name for name in names if name[0].isupper() and not name.isupper())


def test_a_type_has_one_home() -> None:
    homes = defaultdict(list)
    for module in MODULES:
        for name in public_types(module):
            homes[name].append(str(module.relative_to(SOURCE)))
    assert len(homes) > 300
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_the_stem_of_a_file_names_one_subject() -> None:
    homes = defaultdict(list)
    for module in MODULES:
        homes[module.stem].append(str(module.relative_to(SOURCE)))
    several = {stem: found for stem, found in homes.items() if len(found) > 1}
    assert {stem: several[stem] for stem in several if stem not in IN_SEVERAL_ROOMS} == {}
    assert IN_SEVERAL_ROOMS.keys() <= several.keys()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_the_modules_that_a_package_lists_are_there(package: Path) -> None:
    text = ast.get_docstring(ast.parse(package.read_text("utf-8"))) or ""
    lists = re.findall(r"(?m)^((?:`\w+`, )*`\w+`)  +\w", text)
    listed = {name for each in lists for name in re.findall(r"\w+", each)}
    there = {path.stem for path in package.parent.iterdir()}
    assert listed <= there
