"""MST++: multi-stage spectral-wise transformer (Cai et al., CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090).

RGB in, B bands out. Architecture and published weights: https://github.com/caiyuanhao1998/MST-plus-plus (MIT);
this is an independent implementation. Letters: N batch, B bands, C feature channels, H rows, W columns.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from napari_mst.errors import CheckpointError, ModelError
from napari_mst.models.spectral_attention import SpectralAttentionBlock

MULTIPLE = 8
"""Sides are reflect-padded up to a multiple of this before the network runs."""


MAX_STAGES = 64
"""Most stages that a file may have: its keys alone make them, and the modules of each take 0.3 MB."""


@dataclass(frozen=True)
class Hyperparameters:
    """What defines an MST++ network besides its weights; all numbers are at least 1."""

    in_bands: int = 3
    out_bands: int = 31
    stages: int = 3
    width: int = 31
    norm_before_attention: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise ModelError(f"Expected {field.name} to be a positive integer, got {value!r}.")


M = TypeVar("M", bound=nn.Module)


def _modules(modules: list[M]) -> list[M]:
    """A `ModuleList`, which is a list but for its type."""
    return cast("list[M]", nn.ModuleList(modules))


class SpectralTransformer(nn.Module):
    """SST: a U-shape of five SABs (C, 2C, 4C, 2C, C channels; 1, 2, 4, 2, 1 heads) with a residual."""

    def __init__(self, width: int, norm_before_attention: bool = False) -> None:
        super().__init__()

        def block(scale: int) -> SpectralAttentionBlock:
            return SpectralAttentionBlock(width * scale, scale, norm_before_attention)

        self.embedding = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.encoder = _modules([block(1), block(2)])
        self.down = _modules([nn.Conv2d(width * s, width * s * 2, 4, 2, 1, bias=False) for s in (1, 2)])
        self.bottleneck = block(4)
        self.up = _modules([nn.ConvTranspose2d(width * s, width * s // 2, 2, 2) for s in (4, 2)])
        self.fuse = _modules([nn.Conv2d(width * s, width * s // 2, 1, bias=False) for s in (4, 2)])
        self.decoder = _modules([block(2), block(1)])
        self.mapping = nn.Conv2d(width, width, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W), H and W multiples of 4."""
        features = self.embedding(x)
        skips = []
        for block, down in zip(self.encoder, self.down, strict=True):
            features = block(features)
            skips.append(features)
            features = down(features)
        features = self.bottleneck(features)
        for up, fuse, block in zip(self.up, self.fuse, self.decoder, strict=True):
            features = block(fuse(torch.cat([up(features), skips.pop()], dim=1)))
        return x + self.mapping(features)


class MSTPlusPlus(nn.Module):
    """MST++: 3x3 convolution, *stages* spectral transformers, 3x3 convolution, residual.

    `forward` takes (N, in_bands, H, W) of any H, W >= 1 and returns (N, out_bands, H, W). The residual goes
    around the last convolution as published where *width* equals *out_bands*, else it ends before it.
    *width* defaults to *out_bands*.

    Raises
    ------
    ModelError
        If a parameter is not a positive integer.
    """

    def __init__(
        self,
        in_bands: int = 3,
        out_bands: int = 31,
        stages: int = 3,
        width: int | None = None,
        norm_before_attention: bool = False,
    ) -> None:
        super().__init__()
        width = out_bands if width is None else width
        self.hyperparameters = Hyperparameters(in_bands, out_bands, stages, width, norm_before_attention)
        self.conv_in = nn.Conv2d(in_bands, width, 3, padding=1, bias=False)
        self.stages = _modules([SpectralTransformer(width, norm_before_attention) for _ in range(stages)])
        self.conv_out = nn.Conv2d(width, out_bands, 3, padding=1, bias=False)

    @property
    def is_residual_around_output(self) -> bool:
        """Whether the features of the first convolution are added to the bands themselves (as published)."""
        return self.hyperparameters.width == self.hyperparameters.out_bands

    def blocks(self) -> Iterator[tuple[str, SpectralAttentionBlock]]:
        """All SABs in the order in which they run, with their names in this network (`stages.0.encoder.0`)."""
        for name, module in self.named_modules():
            if isinstance(module, SpectralAttentionBlock):
                yield name, module

    def shallow(self, photo: Tensor) -> Tensor:
        """The features that the stages refine: (N, in_bands, H, W) -> (N, width, H, W)."""
        return self.conv_in(photo)

    def forward(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, out_bands, H, W)."""
        height, width = photo.shape[-2:]
        shallow = self.shallow(pad(photo))
        deep = shallow
        for stage in self.stages:
            deep = stage(deep)
        bands = self.conv_out(deep) + shallow if self.is_residual_around_output else self.conv_out(deep + shallow)
        return self.finish(bands[..., :height, :width])

    def finish(self, bands: Tensor) -> Tensor:
        """What is done to every value in the end: nothing, as published."""
        return bands


def pad(photo: Tensor, multiple: int = MULTIPLE) -> Tensor:
    """Reflect-pad the last two axes at the end up to a multiple; sides too short to reflect once reflect again."""
    for axis in (-2, -1):
        rows = reflected_index(photo.shape[axis], multiple)
        if len(rows) != photo.shape[axis]:
            photo = photo.index_select(axis, rows.to(photo.device))
    return photo


def reflected_index(length: int, multiple: int = MULTIPLE) -> Tensor:
    """Index of the source pixel of every padded pixel: `reflected_index(5, 8)` is 0 1 2 3 4 3 2 1."""
    padded = -(-length // multiple) * multiple
    period = max(2 * (length - 1), 1)
    index = torch.arange(padded) % period
    return torch.minimum(index, period - index) if length > 1 else index


def build_mst_plus_plus(state: Mapping[str, Tensor]) -> MSTPlusPlus:
    """Build the network whose weights *state* holds (published or own layout) and load them strictly.

    Raises
    ------
    CheckpointError
        If tensors are missing, left over or of the wrong shape; the message names the first five.
    """
    own = rename_published_keys(state)
    parameters = _hyperparameters(own)
    with torch.device("meta"):
        network = MSTPlusPlus(**{field.name: getattr(parameters, field.name) for field in fields(parameters)})
    _check_layout({key: tuple(value.shape) for key, value in network.state_dict().items()}, own)
    weights = {key: value.to(torch.float32, memory_format=torch.contiguous_format) for key, value in own.items()}
    network.load_state_dict(weights, assign=True)
    return network.eval().requires_grad_(False)


_PUBLISHED = [
    (r"^body\.(\d+)\.", r"stages.\1."),
    (r"\.encoder_layers\.(\d+)\.0\.blocks\.0\.", r".encoder.\1."),
    (r"\.encoder_layers\.(\d+)\.1\.", r".down.\1."),
    (r"\.bottleneck\.blocks\.0\.", ".bottleneck."),
    (r"\.decoder_layers\.(\d+)\.0\.", r".up.\1."),
    (r"\.decoder_layers\.(\d+)\.1\.", r".fuse.\1."),
    (r"\.decoder_layers\.(\d+)\.2\.blocks\.0\.", r".decoder.\1."),
    (r"(encoder\.\d+|decoder\.\d+|bottleneck)\.0\.pos_emb\.", r"\1.attention.pos."),
    (r"(encoder\.\d+|decoder\.\d+|bottleneck)\.0\.", r"\1.attention."),
    (r"(encoder\.\d+|decoder\.\d+|bottleneck)\.1\.norm\.", r"\1.feed_forward.norm."),
    (r"(encoder\.\d+|decoder\.\d+|bottleneck)\.1\.fn\.net\.0\.", r"\1.feed_forward.expand."),
    (r"(encoder\.\d+|decoder\.\d+|bottleneck)\.1\.fn\.net\.2\.", r"\1.feed_forward.depthwise."),
    (r"(encoder\.\d+|decoder\.\d+|bottleneck)\.1\.fn\.net\.4\.", r"\1.feed_forward.reduce."),
]


def rename_published_keys(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Keys of the authors' checkpoints -> keys of this module; keys of this module pass unchanged.

    Raises
    ------
    CheckpointError
        If two keys become one.
    """

    def renamed(key: str) -> str:
        if key.startswith("body."):
            for pattern, name in _PUBLISHED:
                key = re.sub(pattern, name, key)
        return key

    own = {renamed(key): value for key, value in state.items()}
    if len(own) != len(state):
        raise CheckpointError("Expected one tensor of each name, got both the published and our own name of some.")
    return own


def _hyperparameters(state: Mapping[str, Tensor]) -> Hyperparameters:
    stages = {match[1] for key in state if (match := re.match(r"stages\.(\d+)\.", key))}
    conv_in, conv_out = state.get("conv_in.weight"), state.get("conv_out.weight")
    if not stages or conv_in is None or conv_out is None or not conv_in.ndim == conv_out.ndim == 4:
        raise CheckpointError(f"Expected MST++ (conv_in, body, conv_out), got another network ({len(state)} tensors).")
    if len(stages) > MAX_STAGES:
        raise CheckpointError(f"Expected at most {MAX_STAGES} stages, got {len(stages):,}. Ask for another copy.")
    return Hyperparameters(
        in_bands=conv_in.shape[1],
        out_bands=conv_out.shape[0],
        stages=len(stages),
        width=conv_in.shape[0],
        norm_before_attention="stages.0.encoder.0.norm.weight" in state,
    )


def _check_layout(expected: Mapping[str, tuple[int, ...]], state: Mapping[str, Tensor]) -> None:
    missing = [key for key in expected if key not in state]
    unexpected = [key for key in state if key not in expected]
    misshapen = [key for key, shape in expected.items() if key in state and tuple(state[key].shape) != shape]
    counts = ((len(missing), "missing"), (len(unexpected), "unexpected"), (len(misshapen), "of another shape"))
    faults = [f"{count} {name}" for count, name in counts if count]
    if faults:
        first = ", ".join(_shortened(key) for key in (missing + unexpected + misshapen)[:5])
        raise CheckpointError(f"Expected the {len(expected)} tensors of MST++, got {', '.join(faults)}: {first}.")


def _shortened(key: str) -> str:
    return key if len(key) <= 30 else f"{key[:12]}..{key[-16:]}"
