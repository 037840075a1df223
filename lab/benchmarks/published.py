"""The published forward of MST++ in plain PyTorch: the same operations on the same layouts, with the published names.

What the engine is measured against where the authors' own module
(https://github.com/caiyuanhao1998/MST-plus-plus, `predict_code/architecture/MST_Plus_Plus.py`, MIT)
is not at hand. N batch, C channels, H rows, W columns.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class GELU(nn.Module):
    """GELU as a module."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return F.gelu(x)


class MSA(nn.Module):
    """S-MSA on channels-last features, with q, k and v of all pixels."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.num_heads, self.dim = heads, dim
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.rescale = nn.Parameter(torch.ones(heads, 1, 1))
        self.proj = nn.Linear(dim, dim)
        convolutions = (nn.Conv2d(dim, dim, 3, 1, 1, bias=False, groups=dim) for _ in range(2))
        self.pos_emb = nn.Sequential(next(convolutions), GELU(), next(convolutions))

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C) -> (N, H, W, C)."""
        n, h, w, c = x.shape
        pixels = x.reshape(n, h * w, c)
        value = self.to_v(pixels)
        q, k, v = (
            self._heads(projected) for projected in (self.to_q(pixels), self.to_k(pixels), value)
        )
        attention = F.normalize(k, dim=-1) @ F.normalize(q, dim=-1).transpose(-2, -1) * self.rescale
        attended = (attention.softmax(dim=-1) @ v).permute(0, 3, 1, 2).reshape(n, h * w, c)
        position = self.pos_emb(value.reshape(n, h, w, c).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return self.proj(attended).view(n, h, w, c) + position

    def _heads(self, projected: Tensor) -> Tensor:
        n, pixels, c = projected.shape
        return projected.reshape(n, pixels, self.num_heads, c // self.num_heads).permute(0, 2, 3, 1)


class FeedForward(nn.Module):
    """1x1, GELU, depthwise 3x3, GELU, 1x1 on channels-last features."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(dim, 4 * dim, 1, bias=False),
            GELU(),
            nn.Conv2d(4 * dim, 4 * dim, 3, 1, 1, bias=False, groups=4 * dim),
            GELU(),
            nn.Conv2d(4 * dim, dim, 1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C) -> (N, H, W, C)."""
        return self.net(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class PreNorm(nn.Module):
    """LayerNorm, then *fn*."""

    def __init__(self, dim: int, fn: nn.Module) -> None:
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C) -> (N, H, W, C)."""
        return self.fn(self.norm(x))


class MSAB(nn.Module):
    """One spectral attention block."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.ModuleList([MSA(dim, heads), PreNorm(dim, FeedForward(dim))])]
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        x = x.permute(0, 2, 3, 1)
        for attention, feed_forward in self.blocks:
            x = attention(x) + x
            x = feed_forward(x) + x
        return x.permute(0, 3, 1, 2)


class MST(nn.Module):
    """One U-shape."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embedding = nn.Conv2d(dim, dim, 3, 1, 1, bias=False)
        self.encoder_layers = nn.ModuleList(
            nn.ModuleList([MSAB(dim * s, s), nn.Conv2d(dim * s, dim * s * 2, 4, 2, 1, bias=False)])
            for s in (1, 2)
        )
        self.bottleneck = MSAB(dim * 4, 4)
        self.decoder_layers = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.ConvTranspose2d(dim * s, dim * s // 2, 2, 2),
                    nn.Conv2d(dim * s, dim * s // 2, 1, bias=False),
                    MSAB(dim * s // 2, s // 2),
                ]
            )
            for s in (4, 2)
        )
        self.mapping = nn.Conv2d(dim, dim, 3, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        features, skips = self.embedding(x), []
        for block, down in self.encoder_layers:
            features = block(features)
            skips.append(features)
            features = down(features)
        features = self.bottleneck(features)
        for up, fuse, block in self.decoder_layers:
            features = block(fuse(torch.cat([up(features), skips.pop()], dim=1)))
        return self.mapping(features) + x


class PublishedMSTPlusPlus(nn.Module):
    """MST++ with the published layout: 1,619,625 parameters in 227 tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(3, 31, 3, padding=1, bias=False)
        self.body = nn.Sequential(*(MST(31) for _ in range(3)))
        self.conv_out = nn.Conv2d(31, 31, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 31, H, W), H and W at least 8."""
        height, width = x.shape[-2:]
        x = self.conv_in(F.pad(x, (0, -width % 8, 0, -height % 8), mode="reflect"))
        return (self.conv_out(self.body(x)) + x)[:, :, :height, :width]
