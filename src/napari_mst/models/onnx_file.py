"""ONNX files from strangers as networks: data and standard operators in one file, or nothing.

onnxruntime computes them in float32 on the CPU. Format: https://onnx.ai/onnx/repo-docs/IR.html.
"""

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from napari_mst.errors import CheckpointError, shown
from napari_mst.networks.measured import MeasuredNetwork, measured

if TYPE_CHECKING:
    from onnx import ModelProto

_DOMAINS = ("", "ai.onnx")

_LOOK = 64
_MOST_NUMBERS = 2**27
"""Most numbers of a map for a photo of 64 x 64: a graph of a few bytes can ask for any number."""


class OnnxModule(nn.Module):
    """The graph of an ONNX file as a module: (N, C, H, W) -> (N, B, H, W).

    `kernels` are its convolutions, which say how much work and memory it takes.
    """

    def __init__(self, data: bytes, kernels: list[Tensor]) -> None:
        super().__init__()
        self._data = data
        self._session: Any = None
        self.kernels = nn.ParameterList(nn.Parameter(each, requires_grad=False) for each in kernels)

    def forward(self, x: Tensor) -> Tensor:
        """Run the graph, in float32."""
        if self._session is None:
            self._session = _session(self._data)
        (name,) = (each.name for each in self._session.get_inputs())
        (result,) = self._session.run(None, {name: np.ascontiguousarray(x.float().cpu().numpy())})
        return torch.from_numpy(result).to(x)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None}  # which cannot be copied


def read_onnx(data: bytes) -> tuple[MeasuredNetwork, dict[str, str]]:
    """The network in the file *data*, and the metadata of the file.

    Raises
    ------
    CheckpointError
        If onnx and onnxruntime are not installed, or if the file is damaged, refers to other files,
        has loops or operators of others, asks for too much memory, or is not one graph of photos.
    ModelError
        If its result has another size than the photo.
    """
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        raise CheckpointError(
            "Expected onnx and onnxruntime, which run ONNX files, got no such packages. "
            "Install them: pip install 'napari-mst[onnx]'."
        )
    import onnx

    try:
        proto = onnx.load_from_string(data)
        fault = _fault(proto) or _bomb(proto)
        kernels = [] if fault else _kernels(proto)
        module = OnnxModule(data, kernels)
        module._session = None if fault else _session(data)
    except Exception as error:  # protobuf, onnx and onnxruntime each have their own
        reason = shown(str(error).splitlines()[0] if str(error) else error, 100)
        raise CheckpointError(f"Expected an intact ONNX file, got: {reason}.") from error
    if fault:
        raise CheckpointError(f"Expected {fault}. Nothing was run. Export it again, in one file.")
    in_bands = _inputs(proto)[0].type.tensor_type.shape.dim[1].dim_value or 3
    return measured(module, in_bands), {each.key: each.value for each in proto.metadata_props}


def _fault(proto: "ModelProto") -> str:
    """What *proto* should be and is not; "" if it is harmless."""
    from onnx import AttributeProto, TensorProto

    graph = proto.graph
    domains = {each.domain for each in (*proto.opset_import, *graph.node)}
    if foreign := sorted(domains - set(_DOMAINS)):
        return f"standard operators only, got those of {shown(foreign[0], 40)}"
    attributes = [each for node in graph.node for each in node.attribute]
    plain = {getattr(AttributeProto, name) for name in ("FLOAT", "INT", "STRING", "TENSOR")}
    plain |= {getattr(AttributeProto, name) for name in ("FLOATS", "INTS", "STRINGS")}
    if proto.functions or graph.sparse_initializer or {each.type for each in attributes} - plain:
        return "one plain graph, got loops, functions or sparse tensors"
    tensors = [*graph.initializer, *(each.t for each in attributes if each.HasField("t"))]
    if any(each.external_data or each.data_location != TensorProto.DEFAULT for each in tensors):
        return "all weights in the file, got some in another one"
    if len(_inputs(proto)) != 1 or len(graph.output) != 1:
        return f"one photo and one cube, got {len(_inputs(proto))} and {len(graph.output)} tensors"
    if _inputs(proto)[0].type.tensor_type.elem_type != TensorProto.FLOAT:
        return "a photo of 32-bit floats, got another type"
    return ""


def _inputs(proto: "ModelProto") -> list[Any]:
    weights = {each.name for each in proto.graph.initializer}
    return [each for each in proto.graph.input if each.name not in weights]


def _bomb(proto: "ModelProto") -> str:
    """What is too large in *proto*, as its shapes say for a small photo; "" if nothing is."""
    import onnx

    small = onnx.ModelProto()
    small.CopyFrom(proto)
    dimensions = _inputs(small)[0].type.tensor_type.shape.dim
    for dimension, size in zip(dimensions, (1, None, _LOOK, _LOOK), strict=True):
        if size and not dimension.dim_value:
            dimension.dim_value = size
    inferred = onnx.shape_inference.infer_shapes(small, data_prop=True)
    sizes = [
        math.prod(each.dim_value for each in value.type.tensor_type.shape.dim)
        for value in (*inferred.graph.value_info, *inferred.graph.output)
    ]
    largest = max(sizes, default=0)
    if largest <= _MOST_NUMBERS:
        return ""
    return (
        f"maps of at most {_MOST_NUMBERS:,} numbers for {_LOOK} x {_LOOK} pixels, got {largest:,}"
    )


def _kernels(proto: "ModelProto") -> list[Tensor]:
    from onnx import TensorProto, numpy_helper

    stored = [each for each in proto.graph.initializer if each.data_type == TensorProto.FLOAT]
    arrays = [numpy_helper.to_array(each) for each in stored]
    return [torch.from_numpy(each.copy()) for each in arrays if each.ndim == 4]


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The engine runs tiles on threads of its own, and knows what memory they take.
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
