"""The errors that a caller may catch, one warning, and the sentences in their messages.

Names of files and layers may contain control characters (ECMA-48). These can retitle the window of
a terminal, hide text, or type into some terminals, so `harmless` replaces them.
"""

import errno
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Control characters other than tabs and line ends, and surrogates, with which Python represents
# bytes of file names that are not valid text.
_COMMANDS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def harmless(text: str) -> str:
    """*text* with a question mark in place of every control character."""
    return _COMMANDS.sub("?", text)


class NapariMstError(Exception):
    """Base of every error that napari-mst raises on purpose.

    Its text fits in a notification and harms no terminal.

    Notes
    -----
    ====  ====================================
    text  one sentence, at most 300 characters
    ====  ====================================

    Examples
    --------
    >>> try:
    ...     nm.load_model("unheard of")
    ... except nm.NapariMstError as error:
    ...     print(type(error).__name__)
    ModelError
    """

    def __str__(self) -> str:
        return harmless(super().__str__())


class PhotoError(NapariMstError, ValueError):
    """The photo cannot be read, or is not a valid input for an RGB network."""


class CubeError(NapariMstError, ValueError):
    """The numbers, wavelengths or shape of a spectral cube do not fit together."""


class SpectrumError(NapariMstError, ValueError):
    """Spectra, a region or a reference do not fit together, or to the cube."""


class CubeFileError(NapariMstError, ValueError):
    """A cube file or a spectral library is damaged, incomplete, or of an unsupported kind."""


class ColourPhoto(CubeFileError):
    """The file to be read as a cube is a colour photo."""


class ChoiceNeeded(CubeFileError):
    """A cube file can be read in several ways.

    The *option* of `read_cube` takes one of the *choices* (value: text).
    """

    def __init__(
        self, message: str, option: str = "", choices: Mapping[str | int, str] | None = None
    ) -> None:
        super().__init__(message)
        self.option = option
        self.choices = dict(choices or {})


class SaveError(NapariMstError, OSError):
    """A file could not be saved; what was there before is intact."""


class CheckpointError(NapariMstError, ValueError):
    """A weights file is damaged, unsafe, or holds another network."""


class ModelError(NapariMstError, ValueError):
    """A network or model has an unknown name, or its parameters are impossible."""


class AttentionError(NapariMstError, ValueError):
    """A block, head or channel is missing, a record is empty, or a file holds no attention."""


class DenoisingError(NapariMstError, ValueError):
    """An image cannot be denoised, or the parameters of a filter are impossible."""


class CameraError(NapariMstError, ValueError):
    """A model lacks the camera or the illuminant of a photo, or a camera is unknown."""


class DeviceError(NapariMstError, RuntimeError):
    """The requested computing device is missing, or was lost during the run."""


class ClusterError(NapariMstError, RuntimeError):
    """One of several processes that compute a cube together ended before the others."""


class OutOfMemory(NapariMstError, MemoryError):
    """The run does not fit into the memory that it may use."""


class Cancelled(NapariMstError, RuntimeError):
    """The caller cancelled the run; nothing of it remains."""


class CurveWarning(UserWarning):
    """A curve file leaves something open; the text states what was assumed."""


def shown(text: object, limit: int = 60) -> str:
    """*text* on one line of at most *limit* characters, for a message."""
    line = "".join(character if character.isprintable() else "?" for character in str(text))
    if len(line) <= limit:
        return line
    return f"{line[: limit - 12]}...{line[-9:]}"  # the end distinguishes files of one folder


def plain(error: Exception) -> str:
    """The message of *error* in the plain words of the window: need, finding and advice."""
    before, expected, rest = str(error).partition("Expected ")
    if not expected:
        return before
    needs = "this needs" if before.endswith(": ") else "This needs"
    return f"{before}{needs} {rest.replace(', got ', ', but found ', 1)}"


def refusal(check: Callable[..., object], *arguments: object) -> str:
    """The message with which *check* refuses *arguments*, in plain words; "" if it accepts them."""
    try:
        check(*arguments)
    except NapariMstError as error:
        return plain(error)
    return ""


def mismatch(name: str, expected: str, got: str, advice: str) -> CubeFileError:
    """The error to raise about the file *name*."""
    return CubeFileError(f"Expected {expected} in {shown(name)}, got {got}. {advice}")


@contextmanager
def complete(name: str, kind: str) -> Iterator[None]:
    """Turn any error that a library raises about damage into one about the file *name*."""
    try:
        yield
    except NapariMstError:
        raise
    except Exception as error:
        # Libraries report damage as an OSError without a number.
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno):
            raise unreadable(name, error) from error
        # The text of some errors is no more than the key that was not found.
        fault = shown(error, 80) if " " in str(error) else "a damaged one"
        # Only the text of the error tells that a codec is not installed.
        is_codec = "imagecodecs" in str(error)
        advice = "Run: pip install imagecodecs" if is_codec else "Get the file again."
        raise mismatch(name, f"a complete {kind}", fault, advice) from error


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device, from which reading may never end. Raises `CubeFileError`."""
    try:
        mode = path.stat().st_mode  # one call: a save may replace the file between two calls
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise CubeFileError(
            f"Expected a file, got a pipe or a device: {shown(path.name)}. Open another file."
        )


def check_pixel(error: type[NapariMstError], row: int, column: int, shape: tuple[int, ...]) -> None:
    """Refuse a pixel outside an image of *shape* (H, W); negative numbers do not count back."""
    rows, columns = shape
    if not (0 <= row < rows and 0 <= column < columns):
        raise error(
            f"Expected a pixel within {rows} rows x {columns} columns, "
            f"got row {row}, column {column}. Choose one that lies on the image."
        )


def unreadable(name: str, error: OSError | MemoryError) -> CubeFileError | OutOfMemory:
    """The error about the file *name* that the system cannot read, or has no memory for."""
    # Python raises OSError, not MemoryError, when a memory map does not fit.
    if isinstance(error, MemoryError) or error.errno == errno.ENOMEM:
        text = f"Expected memory for {shown(name)}, got too little. Close other programs."
        return OutOfMemory(text)
    reason = shown(error.strerror or error, 80)
    return CubeFileError(f"Expected {shown(name)} to be readable, got: {reason}. Check the file.")
