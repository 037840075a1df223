"""Faults put into the source on purpose, one at a time, to see whether the tests notice.

    coverage run --data-file=FILE -m pytest    # once, with dynamic_context=test_function
    python -m lab.mutants FILE --lines 100 --seed 2026

Lines are drawn at random over all of src. The fault is the first that the line allows: another
operator, another number, a condition turned round, a result that is dropped. The tests that ran the
line run, those of its own folder first, until one fails. A line whose tests do not end in time is
"late": look at it, the fault may never end.
"""

import argparse
import ast
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path("src/napari_mst")
OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def mutated(node: Any) -> ast.AST | None:  # noqa: C901 - a table of kinds of nodes
    """Return *node* with a fault; None if it allows none."""
    match node:
        case ast.Compare(ops=[operator, *others]):
            return ast.Compare(node.left, [OPERATORS[type(operator)](), *others], node.comparators)
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            return ast.BinOp(node.left, OPERATORS[type(operator)](), node.right)
        case ast.BoolOp(op=operator):
            return ast.BoolOp(OPERATORS[type(operator)](), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return node.operand
        case ast.Constant(value=bool()):
            return ast.Constant(not node.value)
        case ast.Constant(value=int() | float() as number):
            return ast.Constant(number + 1)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return None
        case ast.If() | ast.IfExp() | ast.While():
            copy: Any = ast.parse(ast.unparse(node)).body[0]
            copy = copy.value if isinstance(copy, ast.Expr) else copy
            copy.test = ast.UnaryOp(ast.Not(), copy.test)
            return copy
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            return ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            return ast.Pass()
    return None


def faults(path: Path) -> Iterator[tuple[int, Any, ast.AST]]:
    """All faults of a file: the line, the node and what takes its place, the innermost last."""
    tree: Any = ast.parse(path.read_text("utf-8"))
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for hint in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if hint is not None
        for inner in ast.walk(hint)
    }
    nodes: Iterator[Any] = ast.walk(tree)
    for node in nodes:
        fault = None if id(node) in annotations else mutated(node)
        if fault is not None:
            yield node.lineno, node, fault


def source_with(path: Path, node: Any, fault: ast.AST) -> str:
    """The text of *path* with *fault* in the place of *node*; all else stays as it is written."""
    lines = path.read_text("utf-8").encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1
    before = b"".join(lines[:first]) + lines[first][: node.col_offset]
    after = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])
    text = ast.unparse(ast.fix_missing_locations(fault))
    if isinstance(fault, ast.expr):
        text = f"({text})"
    else:
        indent = " " * node.col_offset
        text = text.replace("\n", f"\n{indent}")
    return before.decode() + text + after.decode()


def drawn(count: int, seed: int) -> list[tuple[Path, int, Any, ast.AST]]:
    """*count* lines of the source, and the first fault of each."""
    first: dict[tuple[Path, int], tuple[Any, ast.AST]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for line, node, fault in faults(path):
            first.setdefault((path, line), (node, fault))
    places = random.Random(seed).sample(sorted(first), count)
    return [(path, line, *first[path, line]) for path, line in places]


def node_ids(contexts: set[str]) -> list[str]:
    """The tests as pytest names them, from the dotted names by which coverage knows them."""
    parts = [re.fullmatch(r"(tests\..*\btest_\w+?)\.(.+)", name) for name in sorted(contexts)]
    return [f"{p[1].replace('.', '/')}.py::{p[2].replace('.', '::')}" for p in parts if p]


def tests_of(data: Path, path: Path, line: int, most: int) -> list[str]:
    """Return *most* tests that ran the *line*, those of the file's own folder first.

    A line that no test ran may belong to an import or to a function that numba compiled: the tests
    that ran another line of the file stand for it.
    """
    from coverage import CoverageData  # type: ignore[import-not-found]

    coverage = CoverageData(str(data))
    coverage.read()
    by_line = coverage.contexts_by_lineno(str(path.resolve()))
    contexts = set(by_line.get(line, ())) - {""} or {c for names in by_line.values() for c in names}
    folder = Path("tests", *path.relative_to(SOURCE).parts[:1])
    names = node_ids(contexts)
    random.Random(len(names)).shuffle(names)
    names.sort(key=lambda name: not name.startswith(f"{folder}/"))
    return names[:most] or [str(folder if folder.exists() else "tests")]


def end_with(path: Path, text: str, tests: list[str], seconds: float) -> str:
    """Return how the tests end while the file at *path* has this *text*: caught, alive or late."""
    original, times = path.read_bytes(), path.stat()
    path.write_text(text, "utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return "late"
    finally:
        path.write_bytes(original)
        # numba compiles a file again that is newer than what it has compiled.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return "caught" if done.returncode else "alive"


def main() -> None:
    """Draw the lines, put a fault into each, and print those that no test notices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the data file of coverage")
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--most", type=int, default=60, help="tests that run at most for a line")
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    alive = []
    for path, line, node, fault in drawn(options.lines, options.seed):
        text = source_with(path, node, fault)
        end = end_with(
            path, text, tests_of(options.data, path, line, options.most), options.seconds
        )
        shown = " ".join(ast.unparse(fault).split())[:80]
        print(f"{end} {path}:{line}: {shown}", flush=True)
        if end != "caught":
            alive.append(f"{path}:{line}")
    print(f"{options.lines - len(alive)} of {options.lines} caught; alive: {', '.join(alive)}")


if __name__ == "__main__":
    main()
