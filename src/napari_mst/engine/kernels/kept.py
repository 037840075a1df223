"""What is known of the kernels from one process to the next, without numba and torch."""

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_DIGITS = 8


@cache
def sources_digest(folder: Path = Path(__file__).parent) -> str:
    """A few digits that change with any Python file of *folder*."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def are_right() -> bool:
    """True if these very kernels were compared with torch on this processor, and were right."""
    return any(path.exists() for path in _marks())


def keep_right() -> None:
    """Remember that they are right, if some folder is writable."""
    for path in _marks():
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            return


def _marks() -> list[Path]:
    """The files that say so, in the order of preference."""
    from llvmlite import binding
    from platformdirs import user_cache_path

    here = Path(__file__).parent
    numba = find_spec("numba")
    version = Path(numba.origin or "").with_name("_version.py") if numba is not None else here
    facts = (
        *(sources_digest(folder) for folder in (here, here.parent / "fast_paths")),
        *(binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()),
        version.read_bytes() if version.is_file() else b"",
        *(os.environ.get(name) for name in ("NAPARI_MST_LAYOUT", "NUMBA_CPU_NAME")),
    )
    name = f"right-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"
    folders = [here / "__pycache__", user_cache_path("napari-mst")]
    if asked_for := os.environ.get("NUMBA_CACHE_DIR"):
        folders = [Path(asked_for)]
    return [folder / name for folder in folders]
