"""Loads foreign weights without running code from them, and never partially.

A zip file of torch (`.pth`) is checked against its own checksums and for bombs before torch opens
it with ``weights_only=True``; a safetensors file cannot contain code. CVE-2025-32434,
CVE-2026-24747.
"""

import io
import pickle
import pickletools
import re
import zipfile
from collections.abc import Mapping

import safetensors.torch
import torch
from torch import Tensor

from napari_mst.base.errors import CheckpointError, shown
from napari_mst.base.memory import is_out_of_memory
from napari_mst.models.cards import ModelCard, card_from_metadata, read_metadata
from napari_mst.models.seal import check_seal

_SAFE_TORCH = (2, 10)
"""First version of torch whose ``weights_only`` reader has no known exploit."""

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

_MAX_PICKLE = 2**24
"""Most bytes of a .pth file that are not numbers; MST++ with its optimizer has 100,000."""

_NOTHING_RUN = "Nothing was run. Ask for a .safetensors file or a plain state_dict."

_PLAIN_OBJECTS = re.compile(
    r"""collections\ (OrderedDict|Counter) | (builtins|__builtin__)\ (set|complex) | _codecs\ encode
    | torch(\.cuda)?\ [A-Z]\w+Storage | torch\ (Size|device|[a-z][a-z0-9]*)
    | torch\._utils\ _rebuild_(tensor|tensor_v2|tensor_v3|parameter|parameter_with_state)
    | torch\._tensor\ _rebuild_from_type_v2 | torch\.nn\.parameter\ Parameter
    | torch\.serialization\ _get_layout""",
    re.VERBOSE,
)
"""Objects allowed in a pickled state dict, by module and name.

torch allows more: `bytearray`, which turns one number into gigabytes, and conversions of tensors
that repeat one number a billion times.
"""

_OF_PROGRAM = re.compile(r"(^|/)code/|models/\w+\.json$")
"""Entries written only by `torch.export.save` or `torch.jit.save`."""

_WRAPPERS = (
    "model_state_dict",
    "state_dict",
    "params_ema",
    "params",
    "model",
    "net",
    "state_dict_ema",
    "model_ema",
)
"""Keys under which training scripts store the weights, in order of preference."""

_DEPTH = 5
"""Most dictionaries around a state dict; in a pickle, a dictionary can contain itself."""

_PREFIXES = ("module.", "_orig_mod.", "netG.", "model.", "net.")
"""Prefixes that DataParallel, torch.compile and training frameworks add to every key."""


def parsed(data: bytes, bundled: str | None) -> tuple[dict[str, Tensor], ModelCard | None]:
    """The tensors of a weights file and, if it has one, its card.

    *bundled* is the name of a bundled file.
    """
    if data.startswith(b"PK\3\4"):
        return _read_zip(data), None
    if is_safetensors(data):
        check_seal(data)
        card = card_from_metadata(read_metadata(io.BytesIO(data)), bundled)
        try:
            return _unprefixed(safetensors.torch.load(data)), card
        except Exception as error:  # every fault of a header has its own exception
            raise _refusal(error) from error
    raise CheckpointError(f"Expected a .pth, .safetensors or .onnx file, got {_diagnosis(data)}")


def is_safetensors(data: bytes) -> bool:
    """True if *data* begins as a safetensors file."""
    # The size of the header, eight bytes of any value, is followed by JSON.
    return data[8:9] == b"{"


def _diagnosis(data: bytes) -> str:
    start = data[:64].lstrip().lower()
    if not data:
        return "an empty file. Download it again."
    if start.startswith(b"<"):
        return "an HTML page. Download the file itself, not the page about it."
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer. Run `git lfs pull` or download the file itself."
    if data.startswith(b"\x80"):
        return "a bare pickle, which may run code. Ask for a .safetensors file."
    return "something else, or a part of it. Download it again."


def _refusal(error: Exception) -> Exception:
    """The error for a library's *error*: a damaged file, unless memory is short."""
    return MemoryError() if is_out_of_memory(error) else _damaged()


def _damaged() -> CheckpointError:
    return CheckpointError(
        "Expected an intact weights file, got a truncated or damaged one. Download it again."
    )


def _read_zip(data: bytes) -> dict[str, Tensor]:
    if tuple(map(int, torch.__version__.split(".")[:2])) < _SAFE_TORCH:
        raise CheckpointError(
            "Expected torch 2.10 or later to read .pth safely (CVE-2026-24747), "
            f"got {torch.__version__}. Update torch, or use a .safetensors file."
        )
    _check_zip(data)
    try:
        loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # not passed on: its text recommends unsafe loading
        raise CheckpointError(
            f"Expected nothing but weights, got Python objects that could run code. {_NOTHING_RUN}"
        ) from None
    except Exception as error:  # torch raises RuntimeError, OSError, EOFError, ... about damage
        raise _refusal(error) from error
    return _unprefixed(_unwrapped(loaded))


def _check_zip(data: bytes) -> None:
    """Refuse wrong checksums and decompression bombs, which torch accepts.

    A bomb is a compressed entry, or a call in a pickle that creates far more than the file holds.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            is_program = any(_OF_PROGRAM.search(entry.filename) for entry in entries)
            is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
            size = sum(entry.file_size for entry in entries)
            is_intact = is_stored and size <= len(data) and archive.testzip() is None
            strange = _strange_object(archive) if is_intact else ""
    except Exception as error:  # zipfile raises BadZipFile, struct.error, ... about damage
        raise _refusal(error) from error
    if is_program:
        raise CheckpointError(
            "Expected weights, got a program (.pt2 or TorchScript), which could do anything. "
            "Export it to ONNX, or make a model of its module: `Model.of(module, wavelengths)`."
        )
    if not is_stored or size > len(data):
        raise CheckpointError(
            "Expected the uncompressed entries of torch.save, got compressed ones. Save it again."
        )
    if not is_intact:
        raise _damaged()
    if strange:
        raise CheckpointError(
            f"Expected nothing but plain, dense tensors, got {strange}. {_NOTHING_RUN}"
        )


def _strange_object(archive: zipfile.ZipFile) -> str:
    """The first object in the pickles of *archive* that no state dict needs; "" if none."""
    pickles = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".pkl")]
    if sum(entry.file_size for entry in pickles) > _MAX_PICKLE:
        return f"more than {_MAX_PICKLE:,} bytes of other objects"
    for entry in pickles:
        for operation, argument, _ in pickletools.genops(archive.read(entry)):
            name = str(argument) if operation.name in ("GLOBAL", "INST") else ""
            if name and not _PLAIN_OBJECTS.fullmatch(name):
                return shown(name.replace(" ", "."))
    return ""


def _unwrapped(loaded: object) -> dict[str, Tensor]:
    """The state dict in the file of a training script, without counters and optimizer state."""
    for _ in range(_DEPTH):
        if not isinstance(loaded, Mapping):
            break
        wrapped = [loaded[key] for key in _WRAPPERS if isinstance(loaded.get(key), Mapping)]
        tensors = {str(key): value for key, value in loaded.items() if isinstance(value, Tensor)}
        if tensors and not wrapped:
            return tensors
        nested = [value for value in loaded.values() if isinstance(value, Mapping)]
        loaded = next(iter(wrapped + nested), None)
    raise CheckpointError(
        "Expected a state_dict of tensors, got none in this file. Save `network.state_dict()`."
    )


def _unprefixed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    for prefix in _PREFIXES:
        if state and all(key.startswith(prefix) for key in state):
            return _unprefixed({key.removeprefix(prefix): value for key, value in state.items()})
    # Batch normalisation counts training steps, which is neither a weight nor floating-point.
    return {key: each for key, each in state.items() if not key.endswith(".num_batches_tracked")}


def checked(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """*state* if all its tensors are plain floating-point ones; else raises `CheckpointError`."""
    for key, value in state.items():
        name = key[-60:]
        if value.dtype not in _DTYPES:
            raise CheckpointError(f"Expected floating-point weights, got {value.dtype} in {name}.")
        if value.layout is not torch.strided or value.device.type != "cpu":
            raise CheckpointError(f"Expected dense weights, got a {value.layout} tensor in {name}.")
        if value.untyped_storage().nbytes() < value.numel() * value.element_size():
            raise CheckpointError(
                f"Expected stored weights, got {value.numel():,} repeated numbers in {name}."
            )
    storages = [value.untyped_storage() for value in state.values()]
    stored = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    total = sum(value.nbytes for value in state.values())
    if total > stored:  # conversion to single precision would copy shared numbers
        raise CheckpointError(
            f"Expected stored weights, got {total:,} bytes of numbers in {stored:,} stored ones."
        )
    return state
