"""One contender of `engine.py` in a process of its own: `contender.py NAME HEIGHT WIDTH DEVICE [AUTHORS]`.

"default: NAME" runs the bundled network `mstpp-srgb` instead of the published one.

Prints the peak memory of one run in bytes above what the idle process had, its error against the
published forward in float64 (small sizes only), and the seconds that this first run at its size
took; then the seconds, and those of its processor, of one run more for every line on its standard
input.
"""

import atexit
import copy
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import torch
from torch import nn

from lab.benchmarks.published import PublishedMSTPlusPlus
from napari_mst.base.arrays import Singles
from napari_mst.engine.fast_paths import native
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import execute
from napari_mst.engine.tensors import exact_products
from napari_mst.models import load_model
from napari_mst.models.onnx_file import write_onnx
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import build_mst_plus_plus
from napari_mst.networks.network import pad

Photo = Singles
Contender = Callable[[Photo], Singles]

CHECKED_PIXELS = 512 * 512
DEFAULT = "default: "
CAPABILITIES = "OPTIMIZATION_CAPABILITIES"


def published_network() -> nn.Module:
    """Our plain form of the published network, with random weights of seed 0."""
    torch.manual_seed(0)
    return PublishedMSTPlusPlus().eval()


def authors_network(path: str, weights: Mapping[str, torch.Tensor]) -> nn.Module:
    """The network of the authors' own file, with the *weights* that all contenders have."""
    spec = spec_from_file_location("authors", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    network = module.MST_Plus_Plus()
    network.load_state_dict(weights)
    return network.eval()


def published(network: nn.Module, device: torch.device) -> Contender:
    """The published forward, as it is."""
    own = copy.deepcopy(network).to(device)
    return lambda photo: own(torch.from_numpy(photo)[None].to(device))[0].cpu().numpy()


def exact(network: nn.Module, device: torch.device) -> Contender:
    """The published forward without TF32, which torch takes for convolutions where nobody forbids it."""
    own = published(network, device)

    def contend(photo: Photo) -> Singles:
        with exact_products(device):
            return own(photo)

    return contend


def channels_last(network: nn.Module, device: torch.device) -> Contender:
    """The published forward with weights and photo in channels-last memory."""
    own, form = (
        copy.deepcopy(network).to(device, memory_format=torch.channels_last),
        torch.channels_last,
    )
    return lambda photo: (
        own(torch.from_numpy(photo)[None].to(device, memory_format=form))[0].cpu().numpy()
    )


def compiled(network: nn.Module, device: torch.device) -> Contender:
    """The published forward through `torch.compile`."""
    own = torch.compile(copy.deepcopy(network).to(device), dynamic=False)
    return lambda photo: own(torch.from_numpy(photo)[None].to(device))[0].cpu().numpy()


def graph(network: nn.Module, device: torch.device) -> Contender:
    """The published forward replayed as a CUDA graph, one for each size."""
    own = copy.deepcopy(network).to(device)
    recorded: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]] = {}

    def contend(photo: Photo) -> Singles:
        given = torch.from_numpy(photo)[None].to(device)
        if photo.shape not in recorded:
            with torch.cuda.stream(
                side := torch.cuda.Stream()
            ):  # as the documentation of graphs asks for
                side.wait_stream(torch.cuda.default_stream())
                for _ in range(3):
                    own(given)
            torch.cuda.synchronize()
            capture = torch.cuda.CUDAGraph()
            with torch.cuda.graph(capture):
                result = own(given)
            recorded[photo.shape] = capture, given, result
        capture, kept, result = recorded[photo.shape]
        kept.copy_(given)
        capture.replay()
        return result[0].cpu().numpy()

    return contend


def engine(network: nn.Module, device: torch.device, plan: Plan | None = None) -> Contender:
    """Our engine; in 16 bits, or with its maps in the memory of the computer, if *plan* says so."""
    own = network if isinstance(network, Network) else build_mst_plus_plus(network.state_dict())
    program = own.to(device).program()

    def contend(photo: np.ndarray) -> np.ndarray:
        source = PhotoRows(lambda start, stop: photo[:, start:stop], *photo.shape[1:])
        return execute(program, source, device, plan).numbers

    return contend


def engine_of_torch(network: nn.Module, device: torch.device) -> Contender:
    """Our engine as it is where numba is not installed."""
    native.is_installed = lambda: False
    return engine(network, device)


def exported(network: Network) -> Path:
    """The file of one of our networks as ONNX, which lasts as long as the process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    write_onnx(folder / "network.onnx", network, {})
    return folder / "network.onnx"


def in_whole_blocks(network: nn.Module, contend: Contender) -> Contender:
    """A contender for any size, of one that takes our *network* at multiples only, as exported."""
    if not isinstance(network, Network):
        return contend
    multiple = network.program().multiple

    def padded(photo: Photo) -> Singles:
        _, height, width = photo.shape
        larger = pad(torch.from_numpy(photo)[None], multiple)[0].numpy()
        return contend(larger)[:, :height, :width]

    return padded


def openvino(network: nn.Module, _: torch.device, precision: str = "f32") -> Contender:
    """The network converted to OpenVINO, ours by way of ONNX."""
    import openvino

    if precision.upper() not in {"F32", *openvino.Core().get_property("CPU", CAPABILITIES)}:
        raise RuntimeError(f"this processor has no instructions for {precision}")

    def compiled(photo: Photo) -> openvino.CompiledModel:
        if isinstance(network, Network):
            model = openvino.convert_model(str(exported(network)))
            model.reshape([1, *photo.shape])
        else:
            model = openvino.convert_model(network, example_input=torch.from_numpy(photo)[None])
        hints = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        return openvino.compile_model(model, "CPU", hints)

    models: dict[tuple[int, ...], openvino.CompiledModel] = {}

    def contend(photo: Photo) -> Singles:
        if photo.shape not in models:
            models[photo.shape] = compiled(photo)
        return models[photo.shape](photo[None])[0][0]

    return in_whole_blocks(network, contend)


def onnx_runtime(network: nn.Module, _: torch.device) -> Contender:
    """The network exported to ONNX, run by ONNX Runtime, float32."""
    import io

    import onnxruntime

    sessions: dict[tuple[int, ...], onnxruntime.InferenceSession] = {}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()

    def contend(photo: Photo) -> Singles:
        if photo.shape not in sessions:
            if isinstance(network, Network):
                model = exported(network).read_bytes()
            else:
                stream = io.BytesIO()
                given = (torch.from_numpy(photo)[None],)
                torch.onnx.export(network, given, stream, dynamo=False, opset_version=17)
                model = stream.getvalue()
            sessions[photo.shape] = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        session = sessions[photo.shape]
        return session.run(None, {session.get_inputs()[0].name: photo[None]})[0][0]

    return in_whole_blocks(network, contend)


CONTENDERS: dict[str, Callable[[nn.Module, torch.device], Contender]] = {
    "published": published,
    "authors": published,
    "published, exact": exact,
    "channels-last": channels_last,
    "compiled": compiled,
    "CUDA graph": graph,
    "engine": engine,
    "bfloat16": partial(engine, plan=Plan(precision="bfloat16")),
    "float16": partial(engine, plan=Plan(precision="float16")),
    "maps in memory": partial(engine, plan=Plan("memory")),
    "engine, oneDNN": engine_of_torch,
    "openvino": openvino,
    "openvino, bfloat16": partial(openvino, precision="bf16"),
    "onnxruntime": onnx_runtime,
}


def main() -> None:
    """Serve rounds until the input ends."""
    name, height, width, device = (
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        torch.device(sys.argv[4]),
    )
    is_default = name.startswith(DEFAULT)
    network = load_model("mstpp-srgb").network if is_default else published_network()
    photo = np.random.default_rng(0).random((3, height, width), dtype=np.float32)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with torch.inference_mode():
        own = authors_network(sys.argv[5], network.state_dict()) if name == "authors" else network
        contend = CONTENDERS[name.removeprefix(DEFAULT)](own, device)
        contend(photo[:, :64, :64])
        idle, start = _idle(device), time.perf_counter()
        result = contend(photo)
        first, peak = time.perf_counter() - start, _peak(device) - idle
        print(peak, _error(result, network, photo), first, flush=True)
        del result
        for _ in sys.stdin:
            start, started = time.perf_counter(), time.process_time()
            contend(photo)
            print(time.perf_counter() - start, time.process_time() - started, flush=True)


def _error(result: Singles, network: nn.Module, photo: Photo) -> float:
    if photo[0].size > CHECKED_PIXELS:
        return float("nan")
    reference = network.double()(torch.from_numpy(photo).double()[None])[0].numpy()
    network.float()
    return float(np.abs(result - reference).max() / np.abs(reference).max())


def _idle(device: torch.device) -> int:
    """Bytes in use; the peak begins anew where it can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    return _peak(device)


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type == "mps":
        return torch.mps.driver_allocated_memory()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
