"""The process that decodes: `python -m napari_mst.isolation.answering FUNCTION FILE OPTIONS`.

`asking` starts it. It calls the function with the path of the file and the options, and writes one
line of JSON to standard output, then the numbers.
"""

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from napari_mst.errors import ChoiceNeeded, NapariMstError, OutOfMemory
from napari_mst.isolation import Answer


def answer(function: str, path: Path, options: Sequence[Any]) -> Answer:
    """Call *function* on the file at *path*; return its result, or a line about its error."""
    module, _, name = function.partition(":")
    try:
        found: Answer = getattr(import_module(module), name)(path, *options)
        return found
    except ChoiceNeeded as error:
        # JSON would make texts of the choices, which may be numbers, if they were keys.
        choices = list(error.choices.items())
        return {"error": str(error), "option": error.option, "choices": choices}, ()
    except MemoryError as error:
        return {"error": str(error), "kind": OutOfMemory.__name__}, ()
    except NapariMstError as error:
        return {"error": str(error), "kind": type(error).__name__}, ()


def main(function: str, path: str, options: str) -> None:
    """Write the answer to standard output."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints must not come between the line and the numbers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    line, numbers = answer(function, Path(path), json.loads(options))
    out.write(json.dumps(line).encode() + b"\n")
    for part in numbers:
        out.write(part.data)
    out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
