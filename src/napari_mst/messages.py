"""Sentences for people: names cut to fit, and what to raise about a file."""

from napari_mst.errors import CubeFileError, OutOfMemory


def shown(text: object, limit: int = 60) -> str:
    """*text* on one line of at most *limit* characters, for a message."""
    line = "".join(character if character.isprintable() else "?" for character in str(text))
    return line if len(line) <= limit else f"{line[: limit - 12]}...{line[-9:]}"


def mismatch(name: str, expected: str, got: str, advice: str) -> CubeFileError:
    """What to raise about the file *name*."""
    return CubeFileError(f"Expected {expected} in {shown(name)}, got {got}. {advice}")


def out_of_memory(name: str) -> OutOfMemory:
    """What to raise where there is too little memory for the file *name*."""
    return OutOfMemory(f"Expected memory for {shown(name)}, got too little. Close other programs.")
