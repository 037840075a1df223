"""The state of the attention dock, without Qt: the run, head and channels that are looked at.

The dock forwards clicks to an `Exploration` and draws what it says; a script uses it alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from napari_mst.attention.maps import AttentionSteps, Selection
from napari_mst.attention.pixel_block import PixelBlock
from napari_mst.attention.record import BlockAttention
from napari_mst.plugin.attention.shelf import Shelf
from napari_mst.plugin.jobs.request import Recording


class RecordedHead(NamedTuple):
    """One head of one block of a recorded run."""

    recording: Recording
    block: str
    head: int

    @property
    def matrices(self) -> BlockAttention | None:
        """The matrices of all heads of the block; None if pixels attend to pixels in it."""
        return self.recording.record.blocks.get(self.block)

    @property
    def own_matrix(self) -> NDArray[np.float32]:
        """The matrix of this head. Raises `AttentionError` if it has none."""
        matrix: NDArray[np.float32] = self.recording.record[self.block].attention[self.head]
        return matrix

    @property
    def between_pixels(self) -> PixelBlock | None:
        """The block, if pixels attend to pixels in it."""
        return self.recording.record.pixel_blocks.get(self.block)

    @property
    def channels(self) -> int:
        """Number of channels of a head: the side of its matrix, if it has one."""
        channels, heads = self.recording.record.shapes[self.block]
        return channels // heads


class Exploration:
    """The chosen head and channels, the head that is compared, and the steps that were made.

    `head_changed` and `channels_changed` tell that the choice is another; use the methods to
    change it.
    """

    head_changed = Signal()
    channels_changed = Signal()

    def __init__(self) -> None:
        self.head: RecordedHead | None = None
        self.compared: RecordedHead | None = None
        # The boxes begin at channel 0 rather than at "all", so that a cell of the matrix is marked.
        self.key: int | None = 0
        self.query: int | None = 0
        self.is_new_layer = False
        self.shelf = Shelf()
        self._steps: AttentionSteps | None = None

    @property
    def recording(self) -> Recording | None:
        """The run of the chosen head."""
        return None if self.head is None else self.head.recording

    @property
    def selection(self) -> Selection | None:
        """The chosen block, head and channels."""
        if self.head is None:
            return None
        return Selection(self.head.block, self.head.head, self.key, self.query)

    @property
    def compared_in_run(self) -> tuple[str, int] | None:
        """Block and head that are compared, if they are of the chosen run; None if not."""
        if self.compared is None or self.compared.recording is not self.recording:
            return None
        return self.compared.block, self.compared.head

    @property
    def steps(self) -> AttentionSteps | None:
        """The steps of the chosen head; None if they were not made, or are those of another."""
        steps = self._steps
        if steps is None or self.head is None:
            return None
        made_of = (steps.selection.block, steps.selection.head)
        return steps if made_of == (self.head.block, self.head.head) else None

    def choose_run(self, recording: Recording) -> None:
        """Look at *recording*: at the same head as before, or the first if it has no such head."""
        if self.head is not None and _has(recording, self.head):
            self._set_head(RecordedHead(recording, self.head.block, self.head.head))
        else:
            self._set_head(RecordedHead(recording, next(iter(recording.record.shapes)), 0))

    def choose(self, block: str, head: int) -> None:
        """Look at another head of the chosen run."""
        if self.recording is not None:
            self._set_head(RecordedHead(self.recording, block, head))

    def choose_channels(self, key: int | None, query: int | None) -> None:
        """Choose key channel i and query channel j; None stands for all channels."""
        self.key = key
        self.query = query
        self.channels_changed.emit()

    def compare(self, is_on: bool) -> None:
        """Keep the chosen head beside those that are chosen next, or no longer."""
        self.compared = self.head if is_on else None
        self.head_changed.emit()

    def keep_steps(self, steps: AttentionSteps) -> None:
        """Keep *steps* in place of earlier ones."""
        self._steps = steps
        self.channels_changed.emit()

    def _set_head(self, head: RecordedHead) -> None:
        self.head = head
        # Blocks differ in their channels: a channel that this one lacks becomes its last.
        self.key = _at_most(self.key, head.channels - 1)
        self.query = _at_most(self.query, head.channels - 1)
        self.head_changed.emit()


def _has(recording: Recording, head: RecordedHead) -> bool:
    """Tell whether *recording* has the same head of the same block."""
    _, heads = recording.record.shapes.get(head.block, (0, 0))
    return head.head < heads


def _at_most(channel: int | None, last: int) -> int | None:
    return None if channel is None else min(channel, last)
