"""Tensors in a run: passes computed by torch as they are written, and maps unfit for NumPy.

Whatever runs in compiled kernels alone does without this module, and without torch.
Letters: C channels, h, w sides of a region.
"""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from napari_mst.base.arrays import Array
from napari_mst.engine.device import name_of
from napari_mst.engine.fast_paths.torch_forms import is_method, owner
from napari_mst.engine.windows import Window
from napari_mst.networks.attention.spectral import SpectralAttentionBlock
from napari_mst.networks.network import Local

M = TypeVar("M", bound=nn.Module)


def as_tensor(values: Array | Tensor) -> Tensor:
    """Features (1, C, h, w) as a tensor, which shares the memory of an array."""
    if isinstance(values, Tensor):
        return values
    # The new axis comes before the permutation: torch calls a tensor channels-last only if the
    # stride of its single photo fits, too. Otherwise every convolution copies its input.
    return torch.from_numpy(values[0].transpose(1, 2, 0))[None].permute(0, 3, 1, 2)


def taken_by(values: Array | Tensor, dtype: Any, is_plain: bool) -> Tensor:
    """*values* as input of a pass that computes in *dtype*, by torch alone or by a fast path."""
    tensor = as_tensor(values).to(getattr(torch, name_of(dtype)))
    # In any other layout a GPU would copy it for every convolution; MPS convolves views wrongly. On
    # a CPU the last bits of some functions depend on the layout.
    if is_plain and tensor.device.type != "cpu":
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    return tensor


class TensorMap:
    """Features (H, W, C), read and written tile by tile.

    A tile is a (1, C, h, w) channels-last tensor on *device*.

    While a GPU computes, the features may be in the computer's memory. Tiles are then copied by way
    of pinned memory, on the stream of the thread that reads or writes them: one thread copies while
    another computes.
    """

    def __init__(self, values: Array | Tensor, device: Any) -> None:
        self._values = torch.as_tensor(values)
        self._device = device

    def read(self, window: Window) -> Tensor:
        """The features of *window*: a view, if they live on the device."""
        values = self._values[window.rows, window.columns]
        if _is_elsewhere(values, self._device):
            values = sent(values, self._device)
        # As in `as_tensor`.
        return values[None].permute(0, 3, 1, 2)

    def write(self, window: Window, features: Array | Tensor) -> None:
        """Put (1, C, h, w) *features* where *window* is."""
        target = self._values[window.rows, window.columns]
        values = as_tensor(features)[0].permute(1, 2, 0)
        if _is_elsewhere(target, self._device):
            values = _brought_back(values)
        target.copy_(values)


def _is_elsewhere(values: Tensor, device: Any) -> bool:
    return bool(values.device.type != device.type)


def sent(values: Tensor, device: Any) -> Tensor:
    """*values* of the computer's memory on *device*; on CUDA this thread's stream brings them."""
    if device.type == "cuda":
        # From memory that is not pinned, CUDA would make this thread wait for the copy.
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def _brought_back(values: Tensor) -> Tensor:
    """A copy of *values* in the computer's memory; waits for this thread's stream only."""
    if values.device.type != "cuda":
        return values.cpu()
    pinned = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    pinned.copy_(values, non_blocking=True)
    torch.cuda.current_stream(values.device).synchronize()
    return pinned


def room(size: int, device: Any, dtype: torch.dtype, memory: Array | None) -> Tensor:
    """A tensor of *size* numbers on *device*, or a view of *memory* if it is given."""
    if memory is not None:
        return torch.from_numpy(memory).view(dtype)
    return torch.empty(size, device=device, dtype=dtype)


_backends: Any = torch.backends
EXACT_SETTINGS = (
    (_backends.cuda.matmul, "fp32_precision", "ieee"),
    (_backends.cudnn.conv, "fp32_precision", "ieee"),
    (_backends.mkldnn.matmul, "fp32_precision", "ieee"),
    (_backends.mkldnn.conv, "fp32_precision", "ieee"),
    # The benchmark of cuDNN tries algorithms that want memory which nobody has planned.
    (_backends.cudnn, "benchmark", False),
)
"""Settings of torch during a run: owner, name and value."""


@contextmanager
def inferring(device: Any) -> Iterator[None]:
    """The settings of a run on *device*: exact products, and no recording of gradients by torch."""
    with exact_products(device), torch.inference_mode():
        yield


_lock = threading.Lock()
_before: list[list[Any]] = []  # the settings of the program, once for each run


@contextmanager
def exact_products(device: Any) -> Iterator[None]:
    """Compute products of float32 in full, whatever the program has set for *device*.

    Of the 23 bits of a number TF32 keeps 10, bfloat16 7. The settings belong to the process, not to
    a thread: the last run that ends restores them. Left behind, they would also end `torch.export`
    with an error.
    """
    with _lock:
        _before.append(_before[0] if _before else _settings())
        _set([value for *_, value in EXACT_SETTINGS])
    try:
        # A program that has switched on autocast would get 16 bits whatever these settings say.
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before:
                _set(before)


def _settings() -> list[Any]:
    return [getattr(owner, name) for owner, name, _ in EXACT_SETTINGS]


def _set(values: list[Any]) -> None:
    for (place, name, _), value in zip(EXACT_SETTINGS, values, strict=True):
        setattr(place, name, value)


def in_precision(local: Local, dtype: torch.dtype) -> Callable[..., Tensor]:
    """A plain *local* for maps of *dtype*: modules are converted, functions compute in float32."""
    if isinstance(local, nn.Module):
        return _converted(local, dtype)
    if is_method(local, SpectralAttentionBlock.apply_mixing):
        return _converted(owner(local), dtype).apply_mixing
    return partial(_in_float32, local) if dtype.itemsize == 2 else local


def _converted(module: M, dtype: torch.dtype) -> M:
    """*module* with weights of *dtype*."""
    if all(weight.dtype == dtype for weight in module.parameters()):
        return module
    # `deepcopy` uses the converted tensors and copies none of them.
    tensors = (*module.parameters(), *module.buffers())
    converted = {id(each): each.to(dtype) for each in tensors if each.is_floating_point()}
    return copy.deepcopy(module, converted)


def _in_float32(local: Local, *given: Any) -> Tensor:
    """Compute *local* in float32 for maps of 16 bits, and return a result of 16 bits."""
    narrow = given[0].dtype

    def widened(value: Any) -> Any:
        is_narrow = isinstance(value, Tensor) and value.dtype == narrow
        return value.float() if is_narrow else value

    return cast("Tensor", local(*map(widened, given)).to(narrow))
