"""Kernels on disk, for later processes: their machine code, and a mark that it was right.

Nothing here imports numba, which takes longer than the kernels of a small photo.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkstemp

_DIGITS = 16
_SEAL = hashlib.sha256().digest_size


@cache
def sources_digest(folder: Path = Path(__file__).parent) -> str:
    """A few digits that change with any Python file of *folder*."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]


@cache
def machine() -> tuple[str, str, str]:
    """The kind of machine, its processor and what that can do, in the words of LLVM.

    As for numba, the environment may name another processor.
    """
    from llvmlite import binding

    processor = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or binding.get_host_cpu_features().flatten()
    return binding.get_process_triple(), processor, features


@cache
def _version_of_numba() -> bytes:
    numba = find_spec("numba")
    version = Path((numba and numba.origin) or "").with_name("_version.py")
    return version.read_bytes() if version.is_file() else b""


def places(name: str, folder: Path, *facts: object) -> Iterator[Path]:
    """The files that may hold *name*, made of the sources of *folder*, in the order of preference.

    They are others for any other processor, numba, layout or *facts*.
    """
    asked_for = os.environ.get("NAPARI_MST_LAYOUT")
    known = sources_digest(folder), machine(), _version_of_numba(), asked_for, *facts
    file = f"{name}-{hashlib.sha256(repr(known).encode()).hexdigest()[:_DIGITS]}"
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named) / file
        return
    yield folder / "__pycache__" / file
    from platformdirs import user_cache_path

    yield user_cache_path("napari-mst") / file


def read(files: Iterator[Path]) -> bytes | None:
    """The content of the first of these *files* that is there and whole; None if none is."""
    for path in files:
        with suppress(OSError):
            content = path.read_bytes()
            if hashlib.sha256(content[_SEAL:]).digest() == content[:_SEAL]:
                return content[_SEAL:]
    return None


def keep(files: Iterator[Path], content: bytes) -> None:
    """Keep *content* in the first of these *files* that can be written, whole or not at all."""
    for path in files:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            number, name = mkstemp(prefix=path.name, dir=path.parent)
            with os.fdopen(number, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            Path(name).replace(path)
            return


def are_right() -> bool:
    """True if these very kernels were compared with torch on this processor, and were right."""
    return read(_marks()) is not None


def keep_right() -> None:
    """Remember that they are right, if some folder is writable."""
    keep(_marks(), b"")


def _marks() -> Iterator[Path]:
    here = Path(__file__).parent
    return places("right", here, sources_digest(here.parent / "fast_paths"))
