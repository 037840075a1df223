"""Versions, extras and dependencies are the same wherever they are written."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import napari_mst

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
CONDA_NAMES = {"torch": "pytorch"}
"""Name on PyPI -> name on conda-forge, where they differ."""


def parsed(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def steps(workflow: Any, job: str) -> str:
    return "\n".join(
        str(step.get("run", step.get("uses"))) for step in workflow["jobs"][job]["steps"]
    )


def test_the_full_sets_differ_in_the_binding_of_qt_alone() -> None:
    """Each extra of a user is in both, but for `charts`: OpenCV brings a Qt of its own."""
    full = [set(EXTRAS[extra]) for extra in ("all", "all-pyside6")]
    (own,) = full[0] & full[1]
    wanted = EXTRAS.keys() - {"all", "all-pyside6", "charts", "docs", "evaluate", "test"}
    assert set(re.split(r"[\[\],]", own)) == {"napari-mst", "", *wanted}


def test_the_window_needs_no_extra_and_brings_no_qt() -> None:
    """napari's plugin manager runs `pip install napari-mst`, in an environment with its own Qt."""
    names = {re.split(r"[^\w-]", each)[0].lower() for each in PROJECT["dependencies"]}
    assert {"magicgui", "pyqtgraph", "qtpy", "superqt"} <= names
    assert not {"napari", "pyqt5", "pyqt6", "pyside2", "pyside6"} & names


def test_messages_and_docs_name_extras_that_exist() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]
    named = {
        extra
        for page in pages
        for extras in re.findall(r"napari-mst\[([\w,-]+)\]", page.read_text("utf-8"))
        for extra in extras.split(",")
    }
    assert named <= EXTRAS.keys()


def test_the_conda_package_needs_what_the_wheel_needs_with_napari() -> None:
    recipe = parsed("recipe/recipe.yaml")
    assert recipe["context"]["version"] == napari_mst.__version__
    needed = set()
    for requirement in (*PROJECT["dependencies"], EXTRAS["all"][-1]):
        name, least = re.sub(r"\[all\]|;.*", "", requirement).split(">=")
        needed.add(f"{CONDA_NAMES.get(name, name)} >={least}")
    run = set(recipe["requirements"]["run"])
    assert run - needed == {"python >=${{ python_min }}"}
    assert needed <= run
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
    (script,) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(script)]


def test_the_licence_lists_every_bundled_table() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    tables = {file.name for file in (ROOT / "src/napari_mst/data").iterdir()} - {"README.md"}
    assert tables == set(re.findall(r"(?m)^  (\w+\.\w+)  ", text))


def test_the_citation_is_of_this_version() -> None:
    citation = parsed("CITATION.cff")
    assert citation["version"] == napari_mst.__version__
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]


def test_a_tag_builds_tries_and_uploads_without_a_stored_token() -> None:
    workflow = parsed(".github/workflows/release.yml")
    # YAML 1.1 reads the key `on` as true.
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    assert "twine check --strict" in steps(workflow, "build")
    assert "pyroma --min=9" in steps(workflow, "build")
    assert {"*.whl", "*.tar.gz"} == set(workflow["jobs"]["try"]["strategy"]["matrix"]["file"])
    publish = workflow["jobs"]["publish"]
    assert publish["needs"] == "try"
    assert publish["permissions"] == {"id-token": "write"}
    assert "pypa/gh-action-pypi-publish" in steps(workflow, "publish")
    assert "password" not in (ROOT / ".github/workflows/release.yml").read_text()


def test_each_night_tries_the_oldest_and_newest_versions_and_a_newcomers_first_hour() -> None:
    workflow = parsed(".github/workflows/nightly.yml")
    rows = workflow["jobs"]["versions"]["strategy"]["matrix"]["include"]
    assert {row["resolution"] for row in rows} == {"lowest-direct", "highest"}
    hour = steps(workflow, "first-hour")
    assert "uv pip install napari PyQt6\n" in hour
    assert "[" not in hour  # no extra
    assert "tools/first_hour.py" in hour


def test_a_bug_report_asks_for_what_doctor_prints() -> None:
    assert "napari-mst doctor" in (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()
