"""Sentences for people: names cut to fit, and errors about a file."""

from pathlib import Path

from napari_mst.errors import CubeFileError, OutOfMemory


def shown(text: object, limit: int = 60) -> str:
    """*text* on one line of at most *limit* characters, for a message."""
    line = "".join(character if character.isprintable() else "?" for character in str(text))
    if len(line) <= limit:
        return line
    return f"{line[: limit - 12]}...{line[-9:]}"  # the end tells files of one folder apart


def mismatch(name: str, expected: str, got: str, advice: str) -> CubeFileError:
    """The error to raise about the file *name*."""
    return CubeFileError(f"Expected {expected} in {shown(name)}, got {got}. {advice}")


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device, from which reading may never end. Raises `CubeFileError`."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise CubeFileError(
            f"Expected a file, got a pipe or a device: {shown(path.name)}. Open another file."
        )


def unreadable(name: str, error: OSError) -> CubeFileError:
    """The error to raise where the system cannot read the file *name*."""
    reason = shown(error.strerror or error, 80)
    return CubeFileError(f"Expected {shown(name)} to be readable, got: {reason}. Check the file.")


def out_of_memory(name: str) -> OutOfMemory:
    """The error to raise where there is too little memory for the file *name*."""
    return OutOfMemory(f"Expected memory for {shown(name)}, got too little. Close other programs.")
