"""Hyperparameters of MST++: bands, stages, width and the attention of its blocks."""

import math
from dataclasses import dataclass, fields
from typing import TypedDict

from napari_mst.base.errors import ModelError, shown
from napari_mst.networks.attention.kinds import ATTENTIONS, LARGEST_WINDOW, AttentionKind

# Two halvings need only 4, but the padding affects the attention, so it is as published.
MULTIPLE = 8
"""Sides are reflect-padded to a multiple of this before the network runs, as published."""

WINDOW = 8
"""Default side of an attention window, in pixels of its map."""

_LOWEST = 4  # side of a pixel of the smallest map, in pixels of the photo


class AttentionParameters(TypedDict, total=False):
    """The parameters of MST++ for the attention of its blocks.

    Attributes
    ----------
    attention
        A name of `ATTENTIONS`: "spectral" as published, "window", "shifted",
        "overlapping", "hybrid", "global", "mixed" or "none".
    window
        Side of a window in pixels, 1 to 64, for attention in windows; by default 8.
    norm_before_attention
        Put a LayerNorm before the attention, as in the text of the paper. The default is as
        published: no LayerNorm before spectral attention, but before every other kind.
    """

    attention: str
    window: int
    norm_before_attention: bool | None


@dataclass(frozen=True)
class Hyperparameters:
    """The parameters that define an MST++ network besides its weights; numbers are at least 1.

    `AttentionParameters` describes the last three.
    """

    in_bands: int = 3
    out_bands: int = 31
    stages: int = 3
    width: int = 31
    norm_before_attention: bool | None = None
    attention: str = "spectral"
    window: int = WINDOW

    def __post_init__(self) -> None:
        if str(self.attention) not in ATTENTIONS:  # unhashable values cannot be looked up
            known = ", ".join(ATTENTIONS)
            raise ModelError(
                f"Expected an attention of {known}, got {shown(self.attention, 40)}. Choose one."
            )
        if self.norm_before_attention not in (None, True, False):
            raise ModelError(
                "Expected norm_before_attention to be True, False or None (as published), "
                f"got {shown(self.norm_before_attention, 40)}. Choose one."
            )
        if self.norm_before_attention is None:
            object.__setattr__(self, "norm_before_attention", self.kind.has_norm)
        for field in fields(self):
            value = getattr(self, field.name)
            # Not `isinstance`, for which True is an integer.
            if field.type is int and (type(value) is not int or value < 1):
                raise ModelError(f"Expected {field.name} to be a positive integer, got {value!r}.")
        if self.window > LARGEST_WINDOW:
            raise ModelError(
                f"Expected a window of at most {LARGEST_WINDOW} pixels, got {self.window}. "
                f"Choose {WINDOW}, or global attention."
            )
        if not self.kind.has_windows:  # so that equal networks have equal hyperparameters
            object.__setattr__(self, "window", WINDOW)

    @property
    def kind(self) -> AttentionKind:
        """The row of `ATTENTIONS`."""
        return ATTENTIONS[self.attention]

    @property
    def title(self) -> str:
        """Display name of the network, with its attention unless that is the published one."""
        return "MST++" if self.attention == "spectral" else f"MST++ with {self.kind.title}"

    @property
    def multiple(self) -> int:
        """Sides of the photo are padded to a multiple of this, so that windows divide every map."""
        return math.lcm(MULTIPLE, _LOWEST * self.window) if self.kind.has_windows else MULTIPLE

    @property
    def attention_parameters(self) -> AttentionParameters:
        """The hyperparameters of the attention."""
        return {
            "attention": self.attention,
            "window": self.window,
            "norm_before_attention": self.norm_before_attention,
        }
