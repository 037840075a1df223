"""A package beside ours adds rows to our tables, and a broken one breaks nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

MODULES = {
    "networks": """
from napari_mst.networks import NETWORKS, Kind
NETWORKS["theirs"] = Kind("Theirs", lambda weights: False, lambda weights: None)
""",
    "attention": """
from dataclasses import replace
from napari_mst.networks.attention.kinds import ATTENTIONS
ATTENTIONS["theirs"] = replace(ATTENTIONS["none"], title="theirs")
""",
    "formats": """
from dataclasses import replace
from napari_mst.formats import FORMATS
FORMATS.append(replace(FORMATS[0], name="theirs", suffixes=(".theirs",)))
""",
    "maps": """
from dataclasses import replace
from napari_mst.analysis.maps import MAPS
MAPS["theirs"] = replace(next(iter(MAPS.values())), name="theirs")
""",
}

LOOK = """
from napari_mst.formats import FORMATS
from napari_mst.networks import NETWORKS
from napari_mst.networks.attention.kinds import ATTENTIONS
from napari_mst.analysis.maps import MAPS
for table in (NETWORKS, ATTENTIONS, [each.name for each in FORMATS], MAPS):
    print("theirs" in table, len(table) > 3)
"""


def installed(folder: Path, modules: dict[str, str]) -> None:
    """Put a package with its entry points into *folder*, as pip does."""
    points = "".join(f"[napari_mst.{table}]\nrows = theirs_{table}\n" for table in modules)
    for table, text in modules.items():
        (folder / f"theirs_{table}.py").write_text(text)
    information = folder / "theirs-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(points)


def run_beside(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run *code* in a Python that finds the packages of *folder* too."""
    start = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    command = [sys.executable, "-c", start + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.parametrize(
    "first",
    [
        "",
        "import theirs_networks",
        # They go the same way; each takes an interpreter with torch.
        *(
            pytest.param(f"import theirs_{table}", marks=pytest.mark.slow)
            for table in MODULES
            if table != "networks"
        ),
    ],
)
def test_a_package_brings_a_network_an_attention_a_format_and_a_map(
    first: str, tmp_path: Path
) -> None:
    installed(tmp_path, MODULES)
    done = run_beside(tmp_path, f"{first}\n{LOOK}")
    assert done.stdout.split() == ["True"] * 8
    assert "RuntimeWarning" not in done.stderr


def test_a_package_that_is_broken_is_named_and_our_rows_are_there(tmp_path: Path) -> None:
    broken = {"networks": "import nothing_of_that_name", "formats": "import sys; sys.exit(3)"}
    installed(tmp_path, broken)
    done = run_beside(tmp_path, LOOK)
    assert done.stdout.split() == ["False", "True"] * 4
    for table in broken:
        assert f"Expected the module theirs_{table} to add rows to the {table}" in done.stderr
