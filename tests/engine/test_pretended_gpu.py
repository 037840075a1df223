"""The engine on a pretended GPU, which computes on the CPU and refuses what a real one would.

Its tensors say that they are on "cuda:1" or "mps" and hold one of the CPU. Operations that mix
devices are refused, on MPS float64 too, which it has not, and that one stream uses what another is
not known to have written. The bytes in its memory are added up. Nothing here tells how fast a GPU
is, or how it rounds.
"""

import copy
import math
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.conftest import source_of
from tests.networks.test_programs import camera
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from napari_mst import load_model
from napari_mst.attention.overlays import OVERLAYS, Overlay
from napari_mst.attention.probe import HeadProbe, tapped
from napari_mst.attention.record_views import Selection
from napari_mst.attention.recorder import record_attention
from napari_mst.engine import workers
from napari_mst.engine.device import DeviceChoice
from napari_mst.engine.plan import Place, Plan, PlannedRun, all_plans
from napari_mst.engine.run import execute
from napari_mst.networks import Network
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.options import DEFAULTS
from napari_mst.reconstruction.preparing import prepared_job
from napari_mst.reconstruction.running import try_run
from napari_mst.reconstruction.setup import Setup

COPY, CONVOLUTION = torch.ops.aten.copy_.default, torch.ops.aten.convolution.default
WAITS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
HEIGHT, WIDTH, PIXELS = 30, 20, 450  # two strips
PHOTO = np.random.default_rng(0).random((3, HEIGHT, WIDTH), dtype=np.float32)


class OnGpu(Tensor):
    """A tensor of a pretended GPU: *values* are on the CPU, or on "meta" if only sizes matter."""

    @staticmethod
    def __new__(cls, values: Tensor, gpu: "PretendedGpu") -> "OnGpu":
        layout: dict[str, Any] = {
            "strides": values.stride(),
            "storage_offset": values.storage_offset(),
            "dtype": values.dtype,
        }
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, **layout)

    def __init__(self, values: Tensor, gpu: "PretendedGpu") -> None:
        gpu.take(values)
        self.on_cpu = values
        self.gpu = gpu

    device = property(lambda self: self.gpu.device)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # its stub takes no class
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        gpu = next(tensor.gpu for tensor in tensors if isinstance(tensor, cls))
        return gpu.compute(operation, args, kwargs or {}, tensors)


class PretendedGpu(TorchFunctionMode):
    """A GPU by the name of *device*: a mode of torch for every thread that uses it.

    With *is_empty* it computes nothing.
    """

    def __init__(self, device: str, is_empty: bool = False) -> None:
        super().__init__()
        self.is_current, self.keeps_pinned = device != "cuda:1", True
        self.device, self.home = torch.device(device), torch.device("meta" if is_empty else "cpu")
        self.used = self.peak = self.stalls = 0
        self.limit, self.are_channels_last = math.inf, True
        self._counted: set[int] = set()
        self._written: dict[int, tuple[int, int]] = {}
        self._asked: Counter[int] = Counter()
        self._done: Counter[int] = Counter()
        self._lock = threading.RLock()

    def put(self, network: nn.Module) -> nn.Module:
        """A copy of *network* on this device."""
        own = copy.deepcopy(network)
        for module in own.modules():
            for values in (module._parameters, module._buffers):
                values.update(
                    {
                        name: self._on(value.detach())
                        for name, value in values.items()
                        if value is not None
                    }
                )
        return own

    def take(self, values: Tensor) -> None:
        """Count the memory of *values* as long as it lives."""
        if values.dtype == torch.float64 and self.device.type == "mps":
            raise TypeError("MPS has no float64")
        if self.used > self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        storage = values.untyped_storage()
        with self._lock:
            if storage._cdata not in self._counted:
                self._counted.add(storage._cdata)
                self.used += storage.nbytes()
                self.peak = max(self.peak, self.used)
                weakref.finalize(storage, self._give_back, storage._cdata, storage.nbytes())

    def _give_back(self, key: int, size: int) -> None:
        with self._lock:
            self._counted.remove(key)
            self._written.pop(key, None)
            self.used -= size

    @contextmanager
    def current(self, device: torch.device) -> Iterator[None]:
        """`torch.cuda.device`: of several GPUs, the one whose stream an event is of."""
        self.is_current = device == self.device
        yield
        self.is_current = False

    def give_up_pinned(self) -> None:
        """Torch gives pinned memory back to the computer."""
        self.keeps_pinned = False

    def check_current(self) -> None:
        """Refuse to record an event of another GPU."""
        assert self.is_current

    def stall(self) -> None:
        """Wait, because of what torch was asked for."""
        self.stalls += 1
        self.wait()

    def wait(self) -> None:
        """Wait for the stream of this thread."""
        self._done[threading.get_ident()] = self._asked[threading.get_ident()]

    def compute(self, operation: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """The result of *operation*, on this device."""
        elsewhere = [tensor for tensor in tensors if not isinstance(tensor, OnGpu)]
        if operation is not COPY and any(tensor.dim() for tensor in elsewhere):
            raise TypeError(f"{operation} mixes {self.device} and cpu")
        if operation in WAITS or (
            elsewhere and not kwargs.get("non_blocking") and operation is COPY and not args[2:]
        ):
            self.stall()
        self._check_order(tensors)
        plain_args, plain_kwargs = tree_map(_plain, (args, kwargs))
        if operation is CONVOLUTION:
            self.are_channels_last &= _is_channels_last(plain_args[0])
            if self.device.type == "mps" and not (
                plain_args[1].is_contiguous() and _is_dense(plain_args[0])
            ):
                raise TypeError(
                    "MPS convolves views wrongly"
                )  # pytorch/pytorch, issues 180984 and 192212
        if operation is COPY and self.home.type == "meta":
            return args[0]
        result = operation(*plain_args, **plain_kwargs)
        given = {_key(leaf) for leaf in tree_leaves(plain_args) if isinstance(leaf, Tensor)}
        if operation._schema.is_mutable:
            self._note([_key(plain_args[0])])
            return args[0]
        self._note(
            [
                _key(leaf)
                for leaf in tree_leaves(result)
                if isinstance(leaf, Tensor) and _key(leaf) not in given
            ]
        )
        return tree_map(self._on, result)

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What torch asks the driver of a device for: new tensors and moves."""
        kwargs = dict(kwargs or {})
        if call is Tensor.to:
            return self._moved(*args, **kwargs)
        if call is Tensor.cpu:
            return self._moved(args[0], "cpu")
        if call is Tensor.numpy and isinstance(args[0], OnGpu):
            raise TypeError(f"a tensor on {self.device} is no array")
        if call is Tensor.pin_memory:
            return args[0].clone()
        kwargs.pop("pin_memory", None)
        if (
            kwargs.get("device") is not None
            and torch.device(kwargs["device"]).type == self.device.type
        ):
            return self._on(call(*args, **kwargs | {"device": self.home}))
        return call(*args, **kwargs)

    def _moved(self, own: Tensor, *wishes: Any, non_blocking: bool = False, **more: Any) -> Tensor:
        """`own.to(...)`."""
        more |= _named(wishes)
        target = torch.device(more.pop("device", own.device))
        if target.type == own.device.type:
            return Tensor.to(own, **more) if more else own
        if not non_blocking:
            self.stall()
        if target.type == "cpu":
            self._check_order([own])
            values = (
                torch.zeros(own.shape, dtype=own.dtype)
                if self.home.type == "meta"
                else _plain(own).clone()
            )
            return values.to(**more) if more else values
        moved = self._on(own.to(self.home, copy=True, **more))
        if non_blocking:
            self._note([_key(moved.on_cpu)])
        return moved

    def _on(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return OnGpu(value if value.device == self.home else value.to(self.home), self)

    def _note(self, written: list[int]) -> None:
        """Note that the stream of this thread will have written these storages when it is done."""
        me = threading.get_ident()
        with self._lock:
            self._asked[me] += 1
            self._written |= dict.fromkeys(written, (me, self._asked[me]))

    def _check_order(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            if isinstance(tensor, OnGpu):
                writer, when = self._written.get(_key(tensor.on_cpu), (0, 0))
                if writer != threading.get_ident() and when > self._done[writer]:
                    raise RuntimeError("a stream uses what another has not yet written")


def _named(wishes: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments of `Tensor.to` by name."""
    named: dict[str, Any] = {}
    for wish in wishes:
        if isinstance(wish, Tensor):
            named |= {"device": wish.device, "dtype": wish.dtype}
        elif isinstance(wish, torch.dtype):
            named["dtype"] = wish
        elif isinstance(wish, (torch.device, str)):
            named["device"] = wish
    return named


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_channels_last(x: Tensor) -> bool:
    """Tell whether torch takes *x* as channels-last: the stride of the only photo counts, too."""
    across, down = x.stride()[3], x.stride()[2]
    return x.stride()[1] == 1 <= across <= down and down * x.shape[2] <= x.stride()[0]


def _is_dense(x: Tensor) -> bool:
    return x.is_contiguous() or x.permute(0, 2, 3, 1).is_contiguous()


def _plain(leaf: Any) -> Any:
    return leaf.on_cpu if isinstance(leaf, OnGpu) else leaf


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., PretendedGpu]:
    """Makes the GPU that the engine then finds."""

    autocast = torch.autocast

    def make(device: str, is_empty: bool = False) -> PretendedGpu:
        gpu = PretendedGpu(device, is_empty)
        prepared_job = workers._prepare_thread

        def prepare_thread(device: torch.device) -> None:
            gpu.__enter__()  # type: ignore[no-untyped-call] # until the thread ends
            prepared_job(device)

        monkeypatch.setattr(workers, "_prepare_thread", prepare_thread)
        stream = SimpleNamespace(synchronize=gpu.wait)
        event = SimpleNamespace(record=gpu.check_current, synchronize=gpu.wait)
        module = SimpleNamespace(Event=lambda: event, empty_cache=lambda: None)
        for name in ("set_device", "set_stream", "Stream"):
            monkeypatch.setattr(torch.cuda, name, lambda device: None)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
        monkeypatch.setattr(torch.cuda, "device", gpu.current)
        monkeypatch.setattr(torch._C, "_host_emptyCache", gpu.give_up_pinned, raising=False)
        monkeypatch.setattr(torch, "get_device_module", lambda device: module)
        monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # its tensors cannot be wrapped
        monkeypatch.setattr(torch, "autocast", lambda _, **options: autocast("cpu", **options))
        return gpu

    return make


def mst(**parameters: Any) -> MSTPlusPlus:
    return MSTPlusPlus(**{"stages": 2, "width": 8, "out_bands": 5} | parameters)


NETWORKS: dict[str, Callable[[], Network]] = {
    "published": lambda: mst(stages=1, width=31, out_bands=31),
    "two stages": mst,
    "LayerNorm before S-MSA": lambda: mst(norm_before_attention=True),
    "pixelwise": lambda: PixelwiseNetwork(6, 8),
    "refining": lambda: RefiningMSTPlusPlus(PixelwiseNetwork(6, 8)),
    "camera": lambda: RefiningMSTPlusPlus(camera()),
}


def network(kind: str, dtype: torch.dtype = torch.float32) -> Network:
    torch.manual_seed(0)
    return NETWORKS[kind]().eval().requires_grad_(False).to(dtype)


SOURCE = source_of(PHOTO)


def run_on(gpu: PretendedGpu, own: Network, plan: Plan) -> np.ndarray:
    """The numbers of a run of *own*, which is put there, and no memory stays taken."""
    on_gpu: Any = gpu.put(own)
    before = gpu.used
    with gpu:
        numbers = execute(on_gpu.program(), SOURCE, gpu.device, plan).numbers
        assert gpu.used == before
    return numbers


PLACES: tuple[Place, ...] = ("device", "memory", "file")
GPUS = ("cuda:1", "mps")


@pytest.mark.parametrize(
    ("kind", "device", "place"),
    [
        # One of all GPUs and places for each network, so that each pair of them is there.
        pytest.param(
            *(kind, gpu, place), marks=[] if (at + on + where) % 3 == 0 else pytest.mark.slow
        )
        for at, kind in enumerate(NETWORKS)
        for on, gpu in enumerate(GPUS)
        for where, place in enumerate(PLACES)
    ],
)
def test_every_network_runs_on_every_gpu_and_through_every_memory(
    kind: Any, device: str, place: Place, pretend: Any
) -> None:
    """No operation mixes devices, MPS sees no float64, streams wait, and no memory stays taken."""
    own = network(kind)
    expected = own(torch.from_numpy(PHOTO)[None])[0].numpy()
    result = run_on(pretend(device), own, Plan(place, pixels=PIXELS))
    assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("kind", "precision", "place"),
    [
        pytest.param(kind, name, place, marks=[] if (at + to) % 2 else pytest.mark.slow)
        for kind, at in (("LayerNorm before S-MSA", 0), ("camera", 1))
        for name in ("bfloat16", "float16", "float64")
        for to, place in enumerate(PLACES[:2])
    ],
)
def test_every_precision_of_cuda(kind: str, precision: str, place: Place, pretend: Any) -> None:
    is_narrow = precision != "float64"
    own = network(kind, torch.float32 if is_narrow else torch.float64)
    expected = own(torch.from_numpy(PHOTO)[None].to(own.program().dtype))[0].numpy()
    plan = Plan(place, precision if is_narrow else "", pixels=PIXELS)
    result = run_on(pretend("cuda:1"), own, plan)
    assert result.dtype == expected.dtype
    assert_allclose(
        result, expected, rtol=0, atol=(0.03 if is_narrow else 1e-12) * np.abs(expected).max()
    )


@pytest.mark.parametrize("place", ["device", "memory"])
@pytest.mark.parametrize("precision", ["", "bfloat16"])
def test_all_that_is_convolved_is_channels_last(precision: str, place: Place, pretend: Any) -> None:
    """Otherwise each convolution copies its input, and all that follows is the other way round."""
    gpu = pretend("cuda:1")
    run_on(gpu, network("two stages"), Plan(place, precision, pixels=PIXELS))
    assert gpu.are_channels_last


@pytest.mark.parametrize("kind", ["two stages", "pixelwise"])
def test_a_run_is_exact_where_the_program_casts_by_itself(kind: str, pretend: Any) -> None:
    own = network(kind)
    expected = own(torch.from_numpy(PHOTO)[None])[0].numpy()
    gpu = pretend("cuda:1")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        result = run_on(gpu, own, Plan(pixels=PIXELS))
    assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["camera", "pixelwise"])
def test_cuda_is_waited_for_as_often_however_many_regions_there_are(
    kind: str, pretend: Any
) -> None:
    gpu = pretend("cuda:1")
    stalls = []
    for pixels in (PIXELS, HEIGHT * WIDTH // 6):
        gpu.stalls = 0
        run_on(gpu, network(kind), Plan(pixels=pixels))
        stalls.append(gpu.stalls)
    assert stalls[0] == stalls[1]


def test_pinned_memory_is_given_back_after_a_run(pretend: Any) -> None:
    gpu = pretend("cuda:1")
    run_on(gpu, network("two stages"), Plan("memory", pixels=PIXELS))
    assert not gpu.keeps_pinned


@pytest.mark.filterwarnings(
    "ignore:at..frobenius_norm"
)  # what a norm of such a tensor is, in torch
@pytest.mark.parametrize(
    ("device", "place"),
    [
        ("cuda:1", "memory"),
        ("mps", "device"),
        pytest.param("cuda:1", "device", marks=pytest.mark.slow),
        pytest.param("mps", "memory", marks=pytest.mark.slow),
    ],
)
def test_maps_of_attention_and_its_record_come_from_every_gpu(
    device: str, place: Place, pretend: Any
) -> None:
    selection = Selection("stages.1.bottleneck", head=1, key=2)
    own, plan, maps, records = network("two stages"), Plan(place, pixels=PIXELS), [], []

    def explore(explored: Network, where: torch.device) -> None:
        with record_attention(explored) as record:
            for overlay in OVERLAYS.values():

                def compute(head: HeadProbe, x: Tensor, overlay: Overlay = overlay) -> Tensor:
                    return overlay.compute(head, x)[None]

                shown = tapped(explored.program(), selection, compute)
                maps.append(execute(shown, SOURCE, where, plan).numbers)
        records.append(record["stages.0.encoder.0"].attention)

    explore(own, torch.device("cpu"))
    gpu = pretend(device)
    on_gpu = gpu.put(own)
    with gpu:
        explore(on_gpu, gpu.device)
    assert_allclose(records[1], records[0], atol=1e-5)
    for expected, found in zip(maps[: len(OVERLAYS)], maps[len(OVERLAYS) :], strict=True):
        assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("device", "place"), [("cuda:1", "device"), ("cuda:1", "memory"), ("mps", "device")]
)
def test_a_gpu_that_is_out_of_memory_is_left_empty(device: str, place: Place, pretend: Any) -> None:
    model = load_model("mstpp-srgb")
    gpu = pretend(device)
    setup = Setup(model, DEFAULTS, DeviceChoice(device, ""), gpu.put(model.network))
    before = gpu.used
    gpu.limit = before + 500_000
    photo = Photo.from_array(np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    with gpu:
        assert try_run(prepared_job(setup, photo), Plan(place, pixels=PIXELS)) is None
    assert gpu.peak > gpu.limit
    assert gpu.used == before


LARGE: dict[str, Callable[[], Network]] = {
    "published": lambda: MSTPlusPlus(stages=1),
    "LayerNorm before S-MSA": lambda: MSTPlusPlus(stages=1, norm_before_attention=True),
    "refining": lambda: RefiningMSTPlusPlus(PixelwiseNetwork()),
    "pixelwise": PixelwiseNetwork,
}


@pytest.mark.parametrize(
    ("kind", "device", "place", "precision", "pixels"),
    [
        ("published", "cuda:1", "device", "float32", 1 << 20),
        ("published", "cuda:1", "device", "bfloat16", 1 << 14),
        ("published", "mps", "memory", "float32", 1 << 14),
        ("LayerNorm before S-MSA", "cuda:1", "device", "bfloat16", 1 << 20),
        ("refining", "cuda:1", "device", "bfloat16", 1 << 14),
        ("pixelwise", "cuda:1", "device", "float32", 1 << 20),
        ("pixelwise", "cuda:1", "memory", "float32", 1 << 14),
    ],
)
def test_the_plan_is_within_a_fifth_of_the_tensors_on_a_gpu(
    kind: str, device: str, place: Place, precision: str, pixels: int, pretend: Any
) -> None:
    """The memory that cuDNN takes besides is not in it."""
    height, width = 300, 400
    own = LARGE[kind]().eval().requires_grad_(False)
    run = PlannedRun(own.program(), height, width, torch.device(device), precision)
    plan = next(each for each in all_plans(run) if (each.place, each.pixels) == (place, pixels))
    gpu = pretend(device, is_empty=True)
    on_gpu = gpu.put(own)
    gpu.peak = before = gpu.used
    with gpu:
        black = source_of(np.zeros((3, height, width), np.float32))
        execute(on_gpu.program(), black, gpu.device, plan)
    assert 0.8 < plan.device_memory / (gpu.peak - before) < 1.2
