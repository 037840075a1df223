"""The state of the page "What if", without Qt, and its short jobs.

The photo is averaged down so that the cube can follow a slider, and less so once the slider rests.
One job runs at a time. Of the choices made meanwhile, only the last one is computed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from psygnal import Signal

from napari_mst.attention.record import AttentionRecord
from napari_mst.base.arrays import Array, Floats
from napari_mst.base.errors import NapariMstError, plain
from napari_mst.cube.colour import linear_to_srgb, render_srgb
from napari_mst.cube.metrics import mrae
from napari_mst.plugin.attention.attention_model import (
    AttentionModel,
    RecordedHead,
    fingerprint,
    source_of_run,
)
from napari_mst.plugin.attention.drawings import Drawing
from napari_mst.plugin.jobs.task import Cancel, Reports, Start, Task, ignore
from napari_mst.plugin.jobs.workspace import Request
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.plugin.viewer.sharing import ViewerHelper

PIXELS = 256 * 256
"""Most pixels of the averaged photo."""
ROUGH_PIXELS = 128 * 128
"""Most pixels while choices are made: 0.16 s on two cores, where `PIXELS` takes 0.45 s."""

COMPUTING = "Computing the cube of the photo, averaged down ..."

Weights = Literal["kept", "all equal", "head equal", "head silent"]


class WhatIfOutcome(NamedTuple):
    """The cubes (B, H, W) before and after a change, and how they look: (H, W, 3), 0-255."""

    wavelengths: tuple[float, ...]
    before: Floats
    after: Floats
    looks: tuple[Array, Array]
    text: str
    is_rough: bool = False

    @classmethod
    def of(
        cls, wavelengths: tuple[float, ...], cubes: tuple[Floats, Floats], shape: tuple[int, int]
    ) -> "WhatIfOutcome":
        """Compare two cubes; rough ones are enlarged to *shape*."""
        before, after = cubes
        looks = _look(before, wavelengths), _look(after, wavelengths)
        mean = float(np.abs(before).mean(dtype=np.float64))
        change = float(np.abs(after - before).mean(dtype=np.float64)) / mean if mean else np.nan
        text = f"The cube changes by {change:.1%} in the mean; MRAE {mrae(after, before):.3f}."
        if before.shape[1:] == shape:
            return cls(wavelengths, before, after, looks, text)
        pairs = zip(shape, before.shape[1:], strict=True)
        rows, columns = (np.arange(size) * small // size for size, small in pairs)
        before, after = (cube[:, rows[:, None], columns] for cube in (before, after))
        looks = looks[0][rows[:, None], columns], looks[1][rows[:, None], columns]
        return cls(wavelengths, before, after, looks, f"{text[:-1]} (first look).", True)


class WhatIfView(NamedTuple):
    """The contents of the page: a sentence, two pictures, and the spectra (2, B) of a pixel."""

    text: str = ""
    pictures: tuple[Drawing, ...] = ()
    wavelengths: tuple[float, ...] = ()
    spectra: Floats = np.empty((2, 0))


class WhatIf(ViewerHelper):
    """Computes the cube of the chosen run with other attention weights, while it is on.

    Use the methods to change it. `changed` is emitted with the `WhatIfView` to show.

    Attributes
    ----------
    temperature
        Divisor of the scores of all heads; above 1 the weights become more even.
    weights
        The heads that get other weights, and the kind of weights that they get.
    other
        A photo layer whose matrices replace the matrices of the photo; None for the photo's own.
    """

    changed = Signal(WhatIfView)

    def __init__(self, viewer: ViewerModel, model: AttentionModel, start: Start) -> None:
        super().__init__(viewer)
        self.temperature = 1.0
        self.weights: Weights = "kept"
        self.other: Image | None = None
        self.is_on = False
        self._model = model
        self._start = start
        self._is_busy = self._waits = self._is_refined = False
        self._cancel: Cancel = ignore
        # The prepared photo, which one job leaves to the next.
        self._ready: dict[Any, _Small] = {}
        self._outcome: WhatIfOutcome | None = None
        self._pixel: tuple[int, int] | None = None
        model.head_changed.connect(self._on_head)
        self._head: RecordedHead | None = model.head

    @property
    def own_layer(self) -> Image | None:
        """The layer of the chosen run; None for a stack, whose other pages can lend matrices."""
        head = self._model.head
        photo = None if head is None else head.recording.reference()
        return None if photo is None or photo.index else photo.layer()

    def turn(self, is_on: bool) -> None:
        """Start to compute, or stop and release the photos."""
        self.is_on = is_on
        if is_on:
            self.compute()
        else:
            self._waits = False
            self._ready, self._outcome = {}, None

    def choose(self, **choices: Any) -> None:
        """Set any of `temperature`, `weights` and `other`, and compute."""
        before = self.temperature, self.weights, self.other
        for name, value in choices.items():
            setattr(self, name, value)
        if before != (self.temperature, self.weights, self.other):
            self.compute()

    def pick(self, row: int, column: int) -> None:
        """Show the spectrum of another pixel of the pictures, without computing the cube again."""
        self._pixel = row, column
        self._emit()

    def compute(self) -> None:
        """Compute the chosen change after the running job; a job that only refines is cancelled."""
        if not self.is_on or self._model.head is None:
            return
        self._waits = self._is_busy
        if not self._is_busy:
            self._run(is_refined=False)
        elif self._is_refined:
            self._cancel()

    def _run(self, *, is_refined: bool) -> None:
        self._is_refined = is_refined
        try:
            run = self._order()
        except NapariMstError as error:
            self._fail(error)
            return
        if self._outcome is None:
            self.changed.emit(WhatIfView(COMPUTING))
        self._is_busy = True
        done = partial(self._show, self._model.chosen.recording)
        self._cancel = self._start(
            Task(run, on_done=done, on_failed=self._fail, on_end=self._on_end)
        )

    def _order(self) -> Callable[[Reports], WhatIfOutcome]:
        """Freeze the choices. Raises `AttentionError`, or `PhotoError` if a photo is gone."""
        head = self._model.chosen
        run = head.recording
        sources = [source_of_run(self.viewer, run)]
        if self.other is not None and self.has(self.other):
            sources.append(LayerPhoto.of(self.other, self.viewer.dims.point))
        requests = [
            Request(each, run.model, run.options, None, run.corrections) for each in sources
        ]
        shapes = run.record.shapes
        every = {block: range(heads) for block, (_, heads) in shapes.items()}
        one = {head.block: [head.head]}
        heads: dict[Weights, dict[str, Any]] = {
            "kept": {},
            "all equal": {"equal": every},
            "head equal": {"equal": one},
            "head silent": {"silent": one},
        }
        fields = {"temperature": self.temperature, **heads[self.weights]}
        pixels = PIXELS if self._is_refined else ROUGH_PIXELS
        return partial(self._make, self._ready, requests, fields, pixels)

    @staticmethod
    def _make(
        ready: "dict[Any, _Small]",
        requests: list[Request],
        fields: dict[str, Any],
        pixels: int,
        reports: Reports,
    ) -> WhatIfOutcome:
        """Do the work of a job; *ready* keeps the prepared photo for the next job."""
        from napari_mst.attention.what_if import AttentionChange

        request, *others = requests
        key = _key(request)
        if key not in ready:
            small = _Small(request, reports)
            ready.clear()
            ready[key] = small
        small = ready[key]
        effects = small.effects[pixels]
        for other in others:
            fields = fields | {"record": small.record_of(other, pixels, reports)}
        cubes = effects.unchanged(reports), effects.changed(AttentionChange(**fields), reports)
        return WhatIfOutcome.of(small.wavelengths, cubes, small.effects[PIXELS].shape)

    def _show(self, recording: Any, outcome: WhatIfOutcome) -> None:
        head = self._model.head
        # Another run may have been chosen meanwhile.
        if self.is_on and head is not None and head.recording is recording:
            self._outcome = outcome
            self._emit()

    def _emit(self) -> None:
        outcome = self._outcome
        if outcome is None:
            return
        rows, columns = outcome.before.shape[1:]
        row, column = self._pixel or (rows // 2, columns // 2)
        row, column = min(row, rows - 1), min(column, columns - 1)
        frame = (column - 2, row - 2, 5, 5)
        titles = "<b>before</b>", "<b>after</b>"
        pictures = tuple(
            Drawing(title, look, (0.0, 255.0), "Click a pixel for its spectrum.", frame, True)
            for title, look in zip(titles, outcome.looks, strict=True)
        )
        spectra = np.stack([cube[:, row, column] for cube in (outcome.before, outcome.after)])
        self.changed.emit(WhatIfView(outcome.text, pictures, outcome.wavelengths, spectra))

    def _fail(self, error: Exception) -> None:
        self._outcome = None
        if self.is_on:
            self.changed.emit(WhatIfView(plain(error)))

    def _on_end(self) -> None:
        self._is_busy = False
        if self._viewer_ref() is None:
            return
        if self._waits:
            self.compute()
        elif self.is_on and self._outcome is not None and self._outcome.is_rough:
            self._run(is_refined=True)

    def _on_head(self) -> None:
        """Compute again if the change concerns the chosen head, or the run is another."""
        head, before = self._model.head, self._head
        self._head = head
        is_other_run = before is None or head is None or head.recording is not before.recording
        if is_other_run:
            self._outcome = self._pixel = None
        if is_other_run or (head != before and self.weights.startswith("head")):
            self.compute()


class _Small:
    """A photo averaged down to both sizes, its network, and the records of another photo."""

    def __init__(self, request: Request, reports: Reports) -> None:
        from napari_mst.attention.what_if import HeadEffects

        self.reconstructor = request.reconstructor(reports)
        self.wavelengths = tuple(map(float, self.reconstructor.model.card.wavelengths))
        photo = _reduced(request, reports)
        self.effects = {
            pixels: HeadEffects(self.reconstructor, photo.reduced(pixels, reports))
            for pixels in (ROUGH_PIXELS, PIXELS)
        }
        self._records: dict[tuple[Any, int], AttentionRecord] = {}

    def record_of(self, request: Request, pixels: int, reports: Reports) -> AttentionRecord:
        """Return the attention record of another photo; the records of the last one are kept."""
        from napari_mst.attention.explorer import AttentionExplorer

        key = _key(request)
        if (key, pixels) not in self._records:
            photo = _reduced(request, reports).reduced(pixels, reports)
            record = AttentionExplorer(self.reconstructor, photo).record()
            kept = {at: old for at, old in self._records.items() if at[0] == key}
            self._records = {**kept, (key, pixels): record}
        return self._records[key, pixels]


def _reduced(request: Request, reports: Reports) -> Any:
    return request.source.cut(request.read()).reduced(PIXELS, reports)


def _key(request: Request) -> tuple[Any, ...]:
    return (*fingerprint(request), request.source.region)


def _look(cube: Floats, wavelengths: tuple[float, ...]) -> Array:
    """The cube in daylight, (H, W, 3), 0-255."""
    linear = render_srgb(cube.astype(np.float32, copy=False), wavelengths).clip(0, 1)
    return np.moveaxis(np.rint(linear_to_srgb(linear) * 255).astype(np.uint8), 0, -1)
