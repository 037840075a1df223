"""Pages of the reference that are made from the code: commands, formats, error sentences."""

import argparse
import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from napari_mst.base import errors
from napari_mst.cli.main import COMMANDS, parser_of
from napari_mst.formats import FORMATS

SOURCE = Path(errors.__file__).parents[1]
ERRORS = {
    name
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and issubclass(thing, errors.NapariMstError)
}

_AS_ASKED = "Give what is expected."
_WORDS = 4
"""A text of fewer words is no sentence: all of it comes from elsewhere."""


@dataclass(frozen=True)
class Sentence:
    """An error of ours, as the code says it: the letter … stands for what is known only then."""

    error: str
    says: str
    cure: str
    room: str


def pages() -> dict[str, str]:
    """The text of each page, by its name."""
    return {"commands": commands(), "formats": formats(), "error_sentences": error_sentences()}


def commands() -> str:
    """Every command with its help."""
    parser = parser_of(COMMANDS)
    chosen = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    parts = ["# Every command\n", "As `napari-mst COMMAND --help` prints it.\n"]
    for command in COMMANDS:
        text = chosen.choices[command.name].format_help()
        parts.append(f"## {command.name}\n\n```text\n{text.rstrip()}\n```\n")
    return "\n".join(parts)


def formats() -> str:
    """Every format of cubes, with its suffixes and the kinds of numbers that it takes."""
    rows = [
        f"| {each.title} | `{each.name}` | {_codes((*each.suffixes, *each.more_suffixes))} "
        f"| {_codes(each.types)} |"
        for each in FORMATS
    ]
    head = "| format | `--format` | suffixes | numbers |\n|---|---|---|---|"
    return "\n".join(
        ["# Formats of cubes\n", head, *rows, "", "What each keeps: {doc}`/docs/files`.", ""]
    )


def _codes(names: tuple[str, ...]) -> str:
    return " ".join(f"`{name}`" for name in names)


def error_sentences() -> str:
    """Every sentence by which something is refused, and what to do."""
    found = sorted(sentences(), key=lambda each: (each.room, each.says))
    parts = [
        "# Every error sentence, and its cure\n",
        f"{len(found)} of them, collected from the code. … stands for a name or a number.\n",
    ]
    room = ""
    for each in found:
        if each.room != room:
            room = each.room
            parts.append(f"\n## {room}\n\n| what it says | what to do | error |\n|---|---|---|")
        parts.append(f"| {_cell(each.says)} | {_cell(each.cure or _AS_ASKED)} | `{each.error}` |")
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"([|<>*_`\[\]$])", r"\\\1", text)


@cache
def sentences() -> set[Sentence]:
    """All sentences of the errors that the source makes."""
    found = set[Sentence]()
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text("utf-8"))
        values = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and _name(node.func) in ERRORS and node.args):
                continue
            text = " ".join(_text(node.args[0], values).split())
            if len(re.findall(r"\w+", text)) >= _WORDS:
                found.add(Sentence(_name(node.func), *_split(text), room))
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _text(node: ast.expr, values: dict[str, ast.expr]) -> str:
    """The words of an expression, with … for what it fills in; *values* are those of names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each, {}) for each in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, values) + _text(node.right, values)
    if isinstance(node, ast.Name) and node.id in values:
        others = {name: value for name, value in values.items() if name != node.id}
        return _text(values[node.id], others)
    return "…"


def _split(text: str) -> tuple[str, str]:
    """What an error says, and what to do: the sentences after the first."""
    says, *cure = re.split(r"(?<!\.)\. (?=[A-Z…])", text, maxsplit=1)
    return f"{says.rstrip('.')}.", cure[0] if cure else ""
