"""ONNX files: reads foreign files as networks, if they are plain data, and writes our networks.

onnxruntime computes them in float32 on the CPU. Format: https://onnx.ai/onnx/repo-docs/IR.html.
"""

import math
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from napari_mst.base.atomic_save import saving
from napari_mst.base.errors import CheckpointError, ModelError, shown
from napari_mst.networks.measured import MeasuredNetwork, measured
from napari_mst.networks.module import Network
from napari_mst.networks.network import pad

if TYPE_CHECKING:
    from onnx import ModelProto

_DOMAINS = ("", "ai.onnx")

_LOOK = 64
_MOST_NUMBERS = 2**27
"""Largest map for a photo of 64 x 64, in numbers: a tiny graph can ask for any size."""


_OF_SIZES = (
    "Shape",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Mod",
    "Neg",
    "Cast",
    "Floor",
    "Ceil",
    "Min",
    "Max",
    "Gather",
    "Slice",
    "Concat",
    "Squeeze",
    "Unsqueeze",
    "Reshape",
    "Identity",
    "Constant",
)
"""Operators with which graphs compute the sizes of maps."""
_SIZES = 64
"""Largest array that may hold sizes, in numbers."""

_MULTIPLE_KEY = "napari_mst.multiple"
_MULTIPLES = [str(number) for number in range(1, 33)]
"""Metadata key: sides are padded to multiples of this number, and the padding affects attention."""

_TRIED = (97, 150), (61, 83), (16, 23), (32, 40), (120, 72)
"""Photo sizes at which an exported graph is compared; the first size is used for the export.

After padding, its sides are at least twice the multiple, or torch would treat them as fixed.
"""

_PARITY = 1e-5


class OnnxModule(nn.Module):
    """The graph of an ONNX file as a module: (N, C, H, W) -> (N, B, H, W).

    `kernels` are its convolutions, which determine its work and memory.
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
        return self.__dict__ | {"_session": None}  # a session cannot be copied


def read_onnx(data: bytes) -> tuple[MeasuredNetwork, dict[str, str]]:
    """The network in the file *data*, and the metadata of the file.

    Raises
    ------
    CheckpointError
        If onnx or onnxruntime is not installed, or the file is damaged, refers to other files, has
        loops or non-standard operators, needs too much memory, or is not a single graph for photos.
    ModelError
        If the result differs from the photo in size.
    """
    _check_installed()
    import onnx

    try:
        proto = onnx.load_from_string(data)
        fault = _fault(proto) or _bomb(proto)
        kernels = [] if fault else _kernels(proto)
        module = OnnxModule(data, kernels)
        module._session = None if fault else _session(data)
    except Exception as error:  # protobuf, onnx and onnxruntime each raise their own
        raise CheckpointError(
            f"Expected an intact ONNX file, got: {_first_line(error)}."
        ) from error
    if fault:
        raise CheckpointError(f"Expected {fault}. Nothing was run. Export it again, in one file.")
    in_bands = _inputs(proto)[0].type.tensor_type.shape.dim[1].dim_value or 3
    metadata = {each.key: each.value for each in proto.metadata_props}
    least = metadata.get(_MULTIPLE_KEY, "")
    return measured(module, in_bands, least=int(least) if least in _MULTIPLES else 1), metadata


def write_onnx(
    path: Path, network: Network, metadata: Mapping[str, str], *, overwrite: bool = False
) -> None:
    """Save *network* as an ONNX file for any height and width, after comparing the two.

    Raises
    ------
    CheckpointError
        If the packages of the extra `onnx` are not installed.
    ModelError
        If torch cannot export the network, or the graph differs from it at some size.
    SaveError
        See `atomic_save.saving`.
    """
    _check_installed()
    multiple = network.program().multiple
    photos = [
        pad(
            torch.rand(1, network.in_bands, *size, generator=torch.Generator().manual_seed(0)),
            multiple,
        )
        for size in _TRIED
    ]
    try:
        proto = _exported(network, photos[0], multiple)
        for key, value in {**metadata, _MULTIPLE_KEY: str(multiple)}.items():
            proto.metadata_props.add(key=key, value=value)
        data = proto.SerializeToString()
        graph = OnnxModule(data, [])
        with torch.inference_mode():
            pairs = [(graph(photo), network(photo)) for photo in photos]
    except Exception as error:  # torch.export, the exporter and onnxruntime each raise their own
        raise ModelError(
            f"Expected a network that torch exports for any size, got: {_first_line(error)}."
        ) from error
    errors = [float((ours - plain).abs().max() / plain.abs().max()) for ours, plain in pairs]
    if not max(errors) <= _PARITY:
        raise ModelError(
            f"Expected a graph that gives the same at any size, got {max(errors):.2g} of the "
            "largest value off. Nothing was saved."
        )
    with saving(path, needed=len(data), overwrite=overwrite) as (unfinished,):
        unfinished.write_bytes(data)


def _exported(network: Network, photo: Tensor, multiple: int) -> "ModelProto":
    sides = {}
    for axis, name in ((2, "height"), (3, "width")):
        side = torch.export.Dim(name, min=2, max=1 << 16)
        sides[axis] = multiple * side if multiple > 1 else side
    # The exporter warns about itself.
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        program: Any = torch.onnx.export(
            network,
            (photo,),
            input_names=["photo"],
            output_names=["cube"],
            dynamic_shapes={"photo": sides},
            dynamo=True,
            verbose=False,
        )
    proto: ModelProto = program.model_proto
    if any(each.dim_value for each in _inputs(proto)[0].type.tensor_type.shape.dim[2:]):
        raise ValueError("a graph of one size only")
    for part in (*proto.graph.node, *proto.graph.value_info):
        del part.metadata_props[:]  # they name files of this computer
    return proto


def _first_line(error: Exception) -> str:
    line, _, _ = str(error).partition("\n")
    plain, _, _ = line.partition("\x1b")  # the exporter continues in colour
    return shown(plain.rstrip(". "), 100)


def _check_installed() -> None:
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        raise CheckpointError(
            "Expected onnx and onnxruntime, which run ONNX files, got no such packages. "
            "Install them: pip install 'napari-mst[onnx]'."
        )


def _fault(proto: "ModelProto") -> str:
    """The expected and the actual content of *proto* as text; "" if it is harmless."""
    from onnx import AttributeProto, TensorProto

    graph = proto.graph
    domains = {each.domain for each in (*proto.opset_import, *graph.node)}
    if foreign := sorted(domains - set(_DOMAINS)):
        return f"standard operators only, got those of {shown(foreign[0], 40)}"
    attributes = [each for node in graph.node for each in node.attribute]
    names = "FLOAT INT STRING TENSOR FLOATS INTS STRINGS"
    plain = {getattr(AttributeProto, name) for name in names.split()}
    if proto.functions or graph.sparse_initializer or {each.type for each in attributes} - plain:
        return "one plain graph, got loops, functions or sparse tensors"
    tensors = [*graph.initializer, *(each.t for each in attributes if each.HasField("t"))]
    if any(each.external_data or each.data_location != TensorProto.DEFAULT for each in tensors):
        return "all weights in the file, got some in another one"
    inputs = _inputs(proto)
    if len(inputs) != 1 or len(graph.output) != 1:
        return f"one photo and one cube, got {len(inputs)} and {len(graph.output)} tensors"
    if inputs[0].type.tensor_type.elem_type != TensorProto.FLOAT:
        return "a photo of 32-bit floats, got another type"
    return ""


def _inputs(proto: "ModelProto") -> list[Any]:
    weights = {each.name for each in proto.graph.initializer}
    return [each for each in proto.graph.input if each.name not in weights]


def _bomb(proto: "ModelProto") -> str:
    """The largest size allowed for a small photo and the size in *proto*; "" if it fits."""
    import onnx

    small = onnx.ModelProto()
    small.CopyFrom(proto)
    dimensions = _inputs(small)[0].type.tensor_type.shape.dim
    for dimension, size in zip(dimensions, (1, None, _LOOK, _LOOK), strict=True):
        if size and not dimension.dim_value:
            dimension.dim_value = size
    # The sizes stated in the file may be wrong.
    del small.graph.value_info[:]
    small.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = _inferred(small)
    sizes = {name: math.prod(shape) for name, shape in _shapes(inferred).items()}
    for node in inferred.node:
        for name in filter(None, node.output):
            if name not in sizes:
                kind = shown(node.op_type, 40)
                return f"maps whose sizes follow from that of the photo, got a {kind} of any size"
    largest = max(sizes.values(), default=0)
    if largest <= _MOST_NUMBERS:
        return ""
    return (
        f"maps of at most {_MOST_NUMBERS:,} numbers for {_LOOK} x {_LOOK} pixels, got {largest:,}"
    )


def _inferred(proto: "ModelProto") -> Any:
    """The graph of *proto* with the shapes of its maps, after computing sizes.

    onnx's own inference gives up at a divided size, which occurs in all networks with heads.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    opsets = {each.domain: each.version for each in proto.opset_import}
    while True:
        graph = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
        shapes = _shapes(graph)
        known = {
            each.name: onnx.numpy_helper.to_array(each)
            for each in proto.graph.initializer
            if math.prod(each.dims) <= _SIZES
        }
        count = len(known)
        for node in list(proto.graph.node):
            inputs = [name for name in node.input if name]
            feeds = {name: known[name] for name in inputs if name in known}
            if node.op_type == "Shape" and inputs[0] in shapes:
                # Takes no memory: all its elements share one number.
                feeds = {inputs[0]: np.broadcast_to(np.float32(0), shapes[inputs[0]])}
            if node.op_type in _OF_SIZES and len(feeds) == len(set(inputs)):
                (result,) = ReferenceEvaluator(node, opsets=opsets).run(None, feeds)
                if np.size(result) <= _SIZES:
                    known[node.output[0]] = result
                    tensor = onnx.numpy_helper.from_array(np.asarray(result), node.output[0])
                    proto.graph.initializer.append(tensor)
                    proto.graph.node.remove(node)
        if len(known) == count:
            return graph


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the maps of *graph* that are known before a run."""
    shapes = {}
    for each in (*graph.input, *graph.value_info, *graph.output):
        tensor = each.type.tensor_type
        if tensor.HasField("shape") and all(
            side.HasField("dim_value") for side in tensor.shape.dim
        ):
            shapes[each.name] = tuple(side.dim_value for side in tensor.shape.dim)
    return shapes


def _kernels(proto: "ModelProto") -> list[Tensor]:
    from onnx import TensorProto, numpy_helper

    return [
        torch.from_numpy(numpy_helper.to_array(each).copy())
        for each in proto.graph.initializer
        if each.data_type == TensorProto.FLOAT and len(each.dims) == 4
    ]


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The engine runs tiles on its own threads, and plans their memory.
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
