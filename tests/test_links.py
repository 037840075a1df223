"""The links of all pages lead to pages, pictures and headings that are there."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("lab/**/*.md")])
LINK = r"\]\(([^)\s]+)\)"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(LINK, page.read_text("utf-8"))
    broken = [target for target in targets if not is_there(target, page)]
    assert broken == []


def test_on_the_package_page_every_link_leads_into_the_repository() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    home = re.escape(project["project"]["urls"]["Homepage"])
    text = (ROOT / "README.md").read_text("utf-8")
    files = [target for target in re.findall(LINK, text) if not target.startswith("http")]
    assert any(file.endswith(".png") for file in files)
    for change in hook["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    assert re.findall(rf"\]\({home}/(?:raw|blob)/main/([^)]+)\)", text) == files
    assert not [target for target in re.findall(LINK, text) if not target.startswith("http")]


def is_there(target: str, page: Path) -> bool:
    """True for a file and a heading that exist, and for the pages of others; ours are files."""
    if re.match(r"https?:", target):
        return "//github.com/napari-mst/" not in target
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    return file.exists() and (not anchor or anchor in anchors_of(file))


def anchors_of(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\]\((\w+\.md)\)", (DOCS / "README.md").read_text("utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} == {*listed, "README.md"}


def test_a_how_to_is_short_and_begins_with_a_picture() -> None:
    section = (DOCS / "README.md").read_text("utf-8").split("## How to")[1].split("\n## ")[0]
    names = re.findall(r"\((\w+\.md)\)", section)
    texts = {name: (DOCS / name).read_text("utf-8") for name in names}
    assert len(texts) > 10
    assert {name for name, text in texts.items() if len(text.split()) > 700} == set()
    unseen = {name for name, text in texts.items() if not re.match(r"# .+\n\n!\[", text)}
    assert unseen == set()


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    from napari_mst.cli.main import COMMANDS

    page = (DOCS / "command_line.md").read_text("utf-8")
    listed = set(re.findall(r"(?m)^\| `napari-mst ([\w-]+)", page))
    assert listed == {each.name for each in COMMANDS}
