"""The spectra workbench without a window, for a dock or a script.

It knows the picks, regions, comparisons and maps of one viewer.

user -> dock or script -> `Bench` -> `resolve` -> a frozen `Snapshot` -> a dock, which draws it.

    bench = Bench(viewer)
    bench.attach()
    bench.pin((550, 4, 7))
    snapshot = bench.finish()
    snapshot.curves.lines[0].spectrum.values
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image, Shapes
from psygnal import Signal

from napari_mst.errors import NapariMstError, SpectrumError, plain
from napari_mst.plugin.jobs.job import Job, Start, run_now
from napari_mst.plugin.spectra import regions
from napari_mst.plugin.spectra.known import KnownSpectra
from napari_mst.plugin.spectra.maps import MapMaker
from napari_mst.plugin.spectra.resolve import resolve
from napari_mst.plugin.spectra.rows import Entry, by_rows, spectra_of
from napari_mst.plugin.spectra.scene import SpectraScene, restore
from napari_mst.plugin.spectra.snapshot import HINT, Settings, Snapshot
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, go_to
from napari_mst.plugin.viewer.picks import Position
from napari_mst.spectra.library import write_spectra
from napari_mst.spectra.matching import Match, best_matches
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch

TWO_ROWS = "Select two rows of the table: click on one, and with Ctrl on the other."
MATCHES = 5
"""Spectra of a library that are listed."""
READ_AGAIN = ("spread", "has_regions", "has_error_bands")
"""The settings after which cubes are read again; others only change the drawing."""


class Bench:
    """Does what a person asks for, and says what is then to be seen.

    A dock has cubes read on another thread; for a script everything is done at once. The bench
    does not keep its viewer alive.

    Attributes
    ----------
    snapshot
        What is to be seen, since the last `changed`.
    changed
        Emitted with the new snapshot.
    became_stale
        Emitted when layers or choices have changed: call `update` soon. Many changes need only
        one update.
    failed
        Emitted with an error that the person should read.
    maps
        Makes maps of the selected cube.
    history
        Remembers the changes of the picks.
    known
        Marks picks as known, and adapts the cube to them.
    """

    changed = Signal(Snapshot)
    became_stale = Signal()

    def __init__(
        self, viewer: ViewerModel, start_reading: Start = run_now, start_job: Start = run_now
    ) -> None:
        self.snapshot = Snapshot()
        self._scene = SpectraScene(viewer, start_reading)
        self._next = self.snapshot  # it becomes the snapshot when it is published
        self._library: Sequence[Spectrum] = ()
        self._position: Position | None = None
        self._is_stale = True
        self._connected: list[tuple[Any, Callable[..., None]]] = []
        self._start = start_job
        self.history = self._scene.history
        self.maps = MapMaker(self._scene, self._measured, start_job)
        self.known = KnownSpectra(self._scene, start_job)
        self.failed = self._scene.failed
        for signal, slot in (
            (self._scene.reader.read_more, self.touch),
            (self._scene.touched, self.touch),
            (self._scene.acted, self._end_action),
            (self._scene.said, self.say),
            (self.known.changed, self._publish),
            (self.failed, self._on_failed),
            (self.maps.busy_changed, self._on_map),
        ):
            signal.connect(slot)

    @property
    def viewer(self) -> ViewerModel:
        """The viewer whose layers hold picks and regions."""
        return self._scene.viewer

    # ------------------------------------------------------------ listening

    def attach(self) -> None:
        """Listen to the viewer from now on."""
        if self._connected:
            return
        viewer = self.viewer
        self._connected = [
            (viewer.layers.events, self._on_layers),
            (viewer.layers.selection.events.active, self.touch),
            (viewer.dims.events.ndisplay, self.touch),
            (viewer.dims.events.current_step, self._on_step),
        ]
        for emitter, slot in self._connected:
            emitter.connect(slot)
        # Picks that are there already, perhaps from a file, are what the first undo goes back to.
        self._scene.history.record(self._scene.points)
        self.touch()

    def detach(self) -> None:
        """Listen no more, and let go of every layer and of everything that was read."""
        for emitter, slot in self._connected:
            emitter.disconnect(slot)
        self._connected = []
        # A dock may stay hidden for long, and a cube takes gigabytes.
        self._scene.forget()
        self._next = self.snapshot = Snapshot(settings=self.settings)

    def touch(self) -> None:
        """Mark everything as stale: it will be gathered again at the next `update`."""
        self._is_stale = True
        self.became_stale.emit()

    def _on_layers(self, event: Any) -> None:
        layer = self._scene.layer_of(event)
        if event.type == "selected_label" and layer is not None:
            # The row of a label that was selected on the image.
            for row, entry in enumerate(self.entries):
                if entry.layer is layer and entry.index == layer.selected_label:
                    self.choose([row])
        # napari emits "highlight" all the time: it matters where points and rows differ.
        is_selecting = event.type == "highlight" and layer is self._scene.points
        if is_selecting and self._rows_of_points() is not None:
            self.touch()
        if self._scene.is_stale_after(event):
            self.touch()

    def _on_step(self) -> None:
        """Follow the slider; everything is only gathered again where it depends on the band."""
        if self._scene.has_pages:
            self.touch()
        else:
            self._publish()

    # ------------------------------------------------------------ what is shown

    @property
    def is_busy(self) -> bool:
        """True while a cube is being read."""
        return self._scene.reader.is_busy

    @property
    def entries(self) -> Sequence[Entry]:
        """The rows: picks, regions, and spectra from files."""
        return self._next.entries

    @property
    def shown(self) -> list[Entry]:
        """The rows whose curves are drawn."""
        return [entry for entry in self.entries if entry.is_shown]

    def _measured(self) -> list[Entry]:
        return [entry for entry in self.shown if entry.rows.is_measured]

    @property
    def chosen(self) -> list[Entry]:
        """The rows that are selected."""
        entries = self.entries
        return [entries[row] for row in self._next.chosen if row < len(entries)]

    def update(self, *, is_recording: bool = True) -> Snapshot:
        """Gather what is stale, and read the spectra under the mouse.

        *is_recording* is False while the user drags something: places on the way are no steps to
        undo.
        """
        if self._is_stale:
            # Before the rest: recording names new picks, and that makes everything stale again.
            self._is_stale = False
            if is_recording:
                self._scene.record()
                self.known.follow()
            self._next = self._scene.gathered(self._next)
            rows = self._rows_of_points()
            if rows is not None:
                self._choose(rows)
        self._next = self._scene.with_live(self._next, self._position)
        return self._publish()

    def finish(self) -> Snapshot:
        """Update until nothing is stale: for a script, where no read goes on meanwhile."""
        snapshot = self.update()
        # A script reads within `update`: what was read then makes it stale again.
        while self._is_stale:
            snapshot = self.update()
        return snapshot

    def _intend(self, **changes: Any) -> None:
        self._next = replace(self._next, **changes)

    def _publish(self) -> Snapshot:
        if not self._scene.is_closed:  # the viewer may be closed while a file is written
            self._next = self._scene.with_bands(self._next)
            self._intend(known=self.known.state)
            self.snapshot = self._next = resolve(self._next, self.snapshot)
            self.changed.emit(self.snapshot)
        return self.snapshot

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Show an error of ours where the spectra are shown, instead of raising it."""
        self._intend(problem="")
        try:
            yield
        except NapariMstError as error:
            self.failed.emit(error)

    def _on_failed(self, error: Exception) -> None:
        self._intend(problem=plain(error))
        self._publish()

    def _on_map(self) -> None:
        if self.maps.is_busy:
            self._intend(problem="")
            self._publish()

    def _end_action(self) -> None:
        """Close an action of the user: it is one step to undo, however much it has changed."""
        self._intend(problem="")
        self._scene.record()
        self.touch()

    # ------------------------------------------------------------ picks

    def pin(self, position: Position) -> bool:
        """Pin the pixel under the world *position*; False if there is none, or no new one."""
        # The sentence about the action before is out of date.
        self._intend(hint=HINT)
        is_pinned = picks.pin(self.viewer, position, self.settings.window)
        self._end_action()
        return is_pinned

    def click(self, position: Position) -> None:
        """Pin the pixel under the world *position* and select it, if clicks pin."""
        if self.settings.is_picking:
            self._pick(position)

    def pin_here(self) -> bool:
        """Pin and select the pixel under the mouse; False if there is none, or it is pinned."""
        return self._position is not None and self._pick(self._position)

    def _pick(self, position: Position) -> bool:
        # The newest pick is what the next command of the person means.
        points = self._scene.points if self.pin(position) else None
        if points is not None:
            points.selected_data = {len(points.data) - 1}
        return points is not None

    def undo(self) -> None:
        """Undo the last change of the picks."""
        self.history.undo(self._scene.points)
        self.touch()

    def redo(self) -> None:
        """Make the change of the picks again that was undone last."""
        self.history.redo(self._scene.points)
        self.touch()

    def draw_regions(self) -> Shapes | None:
        """Let the user draw regions; None without a cube."""
        layer = regions.draw(self.viewer)
        if layer is not None:
            # Where regions are switched off, the user would draw one that gets no curve.
            self.set(has_regions=True)
        return layer

    # ------------------------------------------------------------ rows

    def choose(self, rows: Sequence[int]) -> None:
        """Select *rows* and no others; their points are selected on the image as well."""
        # A table whose rows are selected here answers with the same rows: that ends here.
        if tuple(rows) != self._next.chosen:
            self._choose(rows)
            self._publish()

    def _choose(self, rows: Sequence[int]) -> None:
        # The rows first: napari answers to the points with "highlight", and both must agree then.
        self._intend(chosen=tuple(rows))
        points = self._scene.points
        if points is not None:
            picked = {entry.index for entry in self.chosen if entry.layer is points}
            # napari looks at every point again, even where the same ones are selected.
            if set(points.selected_data) != picked:
                points.selected_data = picked
        self._find_matches()

    def _rows_of_points(self) -> list[int] | None:
        return self._scene.rows_of_points(self.entries, self._next.chosen)

    def show(self, entries: Sequence[Entry], is_shown: bool) -> None:
        """Draw the curves of *entries*, or hide them."""
        for rows, indices in by_rows(entries):
            rows.show(indices, is_shown)
        self._end_action()

    def subtract(self) -> None:
        """Add a row with the difference of the two that are selected.

        Raises
        ------
        SpectrumError
            If others than two are selected.
        """
        if len(self.chosen) != 2:
            raise SpectrumError(TWO_ROWS)
        self._scene.differences.add(*self.chosen)
        self._end_action()

    def delete(self, entries: Sequence[Entry]) -> None:
        """Take *entries* away; labels stay, as they are pixels of an image."""
        # Rows move up: what is selected by its number would be others.
        self.choose(())
        # All of a layer at once: after the first was removed, the others would have other indices.
        for rows, indices in by_rows(entries):
            rows.delete(indices)
        self._end_action()

    def recolour(self, entry: Entry, colour: str) -> None:
        """Give a pick or a shape another colour ("#rrggbb")."""
        entry.rows.recolour(entry.index, colour)
        self._end_action()

    def rename(self, entry: Entry, name: str) -> None:
        """Give *entry* another name."""
        entry.rows.rename(entry.index, name)
        self._end_action()

    # ------------------------------------------------------------ choices

    @property
    def settings(self) -> Settings:
        """The choices in the menus: `bench.set(window=3)` changes one of them."""
        return self._next.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        before = self.settings
        self._intend(settings=settings)
        points = self._scene.points
        if settings.window != before.window and points is not None:
            # So that picks that are added with napari's own tool are of the same size.
            picks.set_next(points, settings.window)
        # Spectra that were read keep their bands, or are without.
        if settings.has_error_bands != before.has_error_bands:
            self._scene.forget_picks()
        if any(getattr(settings, name) != getattr(before, name) for name in READ_AGAIN):
            self.touch()
        # Choices that only change the drawing need not wait for the next `update`.
        self._publish()

    def set(self, **choices: Any) -> None:
        """Change some of the settings."""
        self.settings = replace(self.settings, **choices)

    @property
    def reference(self) -> Image | None:
        """The cube layer that the others are compared with, if it is still there."""
        return self._scene.reference

    @reference.setter
    def reference(self, layer: Image | None) -> None:
        self._scene.reference = layer
        # Without a reference there are no errors to show, and the plot would be empty.
        if layer is None:
            self.set(is_error_shown=False)
        self.touch()

    @property
    def library(self) -> Sequence[Spectrum]:
        """The spectra that the selected one is matched with."""
        return self._library

    @library.setter
    def library(self, spectra: Sequence[Spectrum]) -> None:
        self._library = spectra
        self._find_matches()
        self._publish()

    def choose_match(self, row: int) -> None:
        """Draw another one of the spectra that the selected one is most like."""
        self._intend(match_row=row)
        self._publish()

    def _find_matches(self) -> None:
        matches: tuple[Match, ...] = ()
        if self.chosen and self.library:
            try:
                matches = tuple(best_matches(self.chosen[0].first, self.library, MATCHES))
            except NapariMstError as error:
                self.failed.emit(error)
        self._intend(matches=matches, match_row=0)

    def point_at(self, position: Position | None) -> None:
        """Read the spectra under the world *position* at the next `update`."""
        self._position = position

    def point_at_wavelength(self, wavelength: float | None) -> None:
        """Have the table read values at *wavelength*; at the band that is shown if it is None."""
        self._intend(cursor=wavelength)
        self._publish()

    def go_to(self, wavelength: float) -> None:
        """Show the band of the selected cube that is nearest to *wavelength*."""
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            go_to(self.viewer, layer, wavelength)

    def say(self, text: str) -> None:
        """Show *text* until the mouse moves over the image."""
        # A spectrum under the mouse would have its place shown instead of *text*.
        self._position = None
        self._intend(hint=text, pointed=())
        self._publish()

    # ------------------------------------------------------------ files

    def open_spectra(self, spectra: Sequence[Spectrum]) -> None:
        """Put *spectra* back where they were taken from; those of no place here are only drawn."""
        others = restore(self.viewer, spectra)
        self._scene.files.kept += others
        self.touch()
        self.say(f"{len(spectra) - len(others)} put back on the image, {len(others)} only drawn.")

    def save_spectra(self, path: str | PathLike[str]) -> None:
        """Write the spectra whose curves are shown to `.csv` or `.sli`, as they were measured."""

        def write(spectra: list[Spectrum]) -> str:
            name = write_spectra(path, spectra, overwrite=True).name
            return f"{len(spectra):,} spectra saved as {name}."

        self.use_spectra(write, str)

    def use_spectra(self, use: Callable[[list[Spectrum]], Any], said: Callable[[Any], str]) -> None:
        """Have *use* called with the spectra that are shown; *said* words its result.

        Thousands of spectra take seconds: in a window, *use* is called on another thread.
        """
        # The slot must not hold the entries: some workers outlive their work, and keep their slots.
        run = partial(_used, use, self.shown)
        say = self._scene.said.emit
        self._start(Job(run, lambda result: say(said(result)), self.failed.emit))


def _used(use: Callable[[list[Spectrum]], Any], entries: Sequence[Entry], _: Watch) -> Any:
    return use(spectra_of(entries))
