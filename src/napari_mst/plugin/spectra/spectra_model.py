"""The model of the spectra docks, without a window: picks, regions, comparisons and maps.

user -> dock or script -> `SpectraModel` -> `resolve` -> a frozen `Snapshot` -> a dock, which draws
it.

    model = SpectraModel(viewer)
    model.attach()
    model.pin((550, 4, 7))
    snapshot = model.finish()
    snapshot.curves.lines[0].spectrum.values
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Labels, Shapes
from napari.utils.colormaps import ensure_colormap

from napari_mst.analysis.classification import Match, best_matches
from napari_mst.analysis.label_table import Table, label_table, write_table
from napari_mst.analysis.library import write_spectra
from napari_mst.analysis.regions import point_spectrum
from napari_mst.base.errors import NapariMstError, SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cube.layer import STACK_KEY
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.jobs.task import Start, Task, run_now
from napari_mst.plugin.spectra import layer_rows
from napari_mst.plugin.spectra.gating import Gating
from napari_mst.plugin.spectra.map_maker import MapMaker
from napari_mst.plugin.spectra.marking import ReferenceSpectra
from napari_mst.plugin.spectra.profiling import Profile
from napari_mst.plugin.spectra.reader import facts_of, label_image
from napari_mst.plugin.spectra.resolve import HINT, Settings, Snapshot
from napari_mst.plugin.spectra.rows import Entry, by_rows, spectra_of
from napari_mst.plugin.spectra.shown_spectra import ShownSpectra
from napari_mst.plugin.spectra.viewer_layers import restore
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at, go_to, page_name
from napari_mst.plugin.viewer.picks import Position

NO_LABELS = "Show a layer of labels over a cube: classes, cells, or regions above a threshold."
NO_STACK = "Select a pick on the cubes of a stack: run a stack of photos with all of its pages."
FIRST_SHADE = 0.3
"""Place of the first page in the colour map; darker colours would vanish on a dark theme."""
MATCHES = 5
"""Number of library spectra that are listed."""


class SpectraModel(ShownSpectra):
    """Carries out user actions, and publishes the resulting snapshots.

    For a dock, cubes are read on another thread; for a script, everything is done at once. The
    model does not keep its viewer alive.

    Attributes
    ----------
    library
        The spectra to match the selected spectrum with.
    maps
        Makes maps of the selected cube.
    gating, profile
        The scatter of two values of the pixels with its gates, and the spectra along a line.
    references
        Marks picks with reference spectra, and refines the cube to them.
    """

    def __init__(
        self, viewer: ViewerModel, start_reading: Start = run_now, start_job: Start = run_now
    ) -> None:
        super().__init__(viewer, start_reading)
        self.library: Sequence[Spectrum] = ()
        self._connected: list[tuple[Any, Callable[..., None]]] = []
        self._start = start_job
        self.references = ReferenceSpectra(self, start_job)
        self.maps = MapMaker(self, start_job)
        self.gating = Gating(self, self.maps, start_job)
        self.profile = Profile(self, self.maps, start_job)

    # ------------------------------------------------------------ listening

    def attach(self) -> None:
        """Start listening to the viewer."""
        if self._connected:
            return
        viewer = self.viewer
        self._connected = [
            (viewer.layers.events, self._on_layers),
            (viewer.layers.selection.events.active, self._on_selected),
            (viewer.dims.events.ndisplay, self.touch),
            (viewer.dims.events.current_step, self._on_step),
        ]
        for emitter, slot in self._connected:
            emitter.connect(slot)
        # The first undo goes back to the present picks, perhaps from a file.
        self.layers.history.record(self.points)
        self.touch()

    def detach(self) -> None:
        """Stop listening, and release every layer and everything that was read."""
        for emitter, slot in self._connected:
            emitter.disconnect(slot)
        self._connected = []
        # A dock may stay hidden for long, and a cube may take gigabytes.
        self.layers.forget()
        self.gating.forget()
        self.profile.forget()
        self._next = self.snapshot = Snapshot(settings=self.settings)

    def _on_layers(self, event: Any) -> None:
        layer = self.layers.layer_of(event)
        if event.type == "selected_label":
            # Select the row of the label that was selected on the image.
            label: Any = layer
            for row, entry in enumerate(self.entries):
                if entry.layer is layer and entry.index == label.selected_label:
                    self.choose([row])
        # napari emits "highlight" all the time; it matters if points and rows differ.
        is_selecting = event.type == "highlight" and layer is self.points
        if self.layers.is_stale_after(event) or (
            is_selecting and self.rows_of_points() is not None
        ):
            self.touch()

    def _on_selected(self) -> None:
        self.maps.follow_selection()
        self.touch()

    def _on_step(self) -> None:
        """Follow the slider; gather everything again only if it depends on the band."""
        # Stacked labels show another page.
        if any(isinstance(layer, Labels) and layer.ndim > 2 for layer in self.viewer.layers):
            self.touch()
        else:
            self.publish()

    # ------------------------------------------------------------ what is shown

    def update(self, *, is_recording: bool = True) -> Snapshot:
        """Gather what is stale, and read the spectra under the mouse.

        *is_recording* is False during a drag, whose intermediate places are no steps to undo.
        """
        if self._is_stale:
            # First, as recording names new picks, which makes everything stale again.
            self._is_stale = False
            if is_recording:
                self.layers.record()
                self.references.follow()
            self.intend(**self.layers.gather(self._next, self.reference))
            rows = self.rows_of_points()
            if rows is not None:
                self._choose(rows)
            elif self.library and not self.chosen:
                self._find_matches()
        self.intend(pointed=self.layers.read_live(self.settings.window))
        self.publish()
        return self.snapshot

    def finish(self) -> Snapshot:
        """Update until nothing is stale. For scripts, which read without another thread."""
        snapshot = self.update()
        # A script reads within `update`, and new results make the snapshot stale again.
        while self._is_stale:
            snapshot = self.update()
        return snapshot

    def publish(self, **changes: Any) -> None:
        """See `ShownSpectra`."""
        super().publish(references=self.references.state, **changes)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Show our errors in the docks instead of raising them."""
        self.intend(problem="", hint=HINT)
        try:
            yield
        except NapariMstError as error:
            self.fail(error)

    # ------------------------------------------------------------ picks

    def pin(self, position: Position) -> bool:
        """Pin the pixel under the world *position*; False if there is none, or no new one."""
        # The sentence about the previous action is out of date.
        self.intend(hint=HINT)
        is_pinned = picks.pin(self.viewer, position, self.settings.window)
        self.end_action()
        return is_pinned

    def click(self, position: Position) -> None:
        """Pin the pixel under the world *position*, if clicks pin, and select it."""
        if self.settings.is_picking:
            self._pick(position)

    def pin_here(self) -> bool:
        """Pin and select the pixel under the mouse; False without a pixel, or if it is pinned."""
        return self.layers.position is not None and self._pick(self.layers.position)

    def _pick(self, position: Position) -> bool:
        is_new = self.pin(position)
        # The user's next command refers to the newest pick, or to the one that was clicked again.
        found = picks.found_at(self.viewer, position)
        if self.points is not None and found:
            self.points.selected_data = found
        return is_new

    def undo(self) -> None:
        """Undo the last change of the picks."""
        self.layers.history.step(self.points, -1)
        self.touch()

    def redo(self) -> None:
        """Redo the change of the picks that was undone last."""
        self.layers.history.step(self.points, 1)
        self.touch()

    def draw_regions(self) -> Shapes | None:
        """Let the user draw regions; None without a cube."""
        return layer_rows.draw(self.viewer)

    @property
    def labels(self) -> Labels | None:
        """The selected layer of labels, or else the topmost visible one."""
        every = [each for each in layer_rows.region_layers(self.viewer) if isinstance(each, Labels)]
        active = self.viewer.layers.selection.active
        return active if active in every else next(reversed(every), None)

    def measure_labels(self, path: str | PathLike[str] = "") -> None:
        """Measure the `labels`, and put the table into the features of their layer.

        The table of `label_table` is also written to a CSV file, if there is a *path*.

        Raises
        ------
        SpectrumError
            If no cube or no labels are shown, or they do not lie in one plane.
        """
        on, layer = active_cube_layer(self.viewer), self.labels
        image = on and layer and label_image(layer, on, self.viewer)
        if on is None or image is None:
            raise SpectrumError(NO_LABELS)
        rows, cube, facts = self.layers.rows_of(layer), cube_at(on), facts_of(on)
        names, (_, labels) = rows.names(), image
        del facts["cube_name"]

        def run(progress: Progress) -> Table:
            table = label_table(cube, labels(), names, **facts, progress=progress)
            if path:
                write_table(path, table, overwrite=True)
            return table

        def use(table: Table) -> None:
            rows.describe(table)
            self.say(f"{len(table['label']):,} labels measured, into the features of their layer.")

        self._start(Task(run, use, self.fail))

    # ------------------------------------------------------------ rows

    def choose(self, rows: Sequence[int]) -> None:
        """Select *rows* and no others; their points are selected on the image as well."""
        # A table answers to a selection with the same rows, which ends here.
        if tuple(rows) != self._next.chosen:
            self._choose(rows)
            self.publish()

    def _choose(self, rows: Sequence[int]) -> None:
        # Rows first: selecting points emits "highlight", and both must agree by then.
        self.intend(chosen=tuple(rows))
        points = self.points
        if points is not None:
            picked = {entry.index for entry in self.chosen if entry.layer is points}
            # napari examines every point again, even if the selection is the same.
            if set(points.selected_data) != picked:
                points.selected_data = picked
        self._find_matches()

    def show(self, entries: Sequence[Entry], is_shown: bool) -> None:
        """Draw the curves of *entries*, or hide them."""
        for rows, indices in by_rows(entries):
            rows.show(indices, is_shown)
        self.end_action()

    def over_pages(self) -> None:
        """Add the spectra of the selected picks on all pages of a stack, coloured by page.

        Raises
        ------
        SpectrumError
            If no pick is selected, or the cube is of a single photo.
        """
        layer = active_cube_layer(self.viewer)
        stack = None if layer is None else layer.metadata.get(STACK_KEY)
        # Spectra on the active cube come first.
        picked = [entry.spectra[0] for entry in self.chosen if entry.layer is self.points]
        if layer is None or stack is None or not any(picked):
            raise SpectrumError(NO_STACK)
        shades = ensure_colormap("viridis").map(np.linspace(FIRST_SHADE, 1, len(stack.cubes)))
        for pick in filter(None, picked):
            at: Any = pick.origin
            for page, colour in enumerate(picks.hexes(shades)):
                name, cube_name = page_name(pick.name, page), page_name(layer.name, page)
                look: dict[str, Any] = {"name": name, "colour": colour, "cube_name": cube_name}
                place = (at.row, at.column, at.window)
                self.layers.files.kept.append(point_spectrum(stack.cubes[page], *place, **look))
        self.end_action()

    def delete(self, entries: Sequence[Entry]) -> None:
        """Delete *entries*; labels stay, as they are pixels of an image."""
        # Rows move up, so their numbers would select other rows.
        self.choose(())
        # All of a layer at once, as each deletion changes the indices of the others.
        for rows, indices in by_rows(entries):
            rows.delete(indices)
        self.end_action()

    def recolour(self, entry: Entry, colour: str) -> None:
        """Give a pick or a shape another colour ("#rrggbb")."""
        entry.rows.recolour(entry.index, colour)
        self.end_action()

    def rename(self, entry: Entry, name: str) -> None:
        """Give *entry* another name."""
        entry.rows.rename(entry.index, name)
        self.end_action()

    # ------------------------------------------------------------ choices

    @property
    def settings(self) -> Settings:
        """The settings in the menus: `model.set(window=3)` changes one of them."""
        return self._next.settings

    def set(self, **choices: Any) -> None:
        """Change some of the settings."""
        before, settings = self.settings, replace(self.settings, **choices)
        self.intend(settings=settings)
        if settings.window != before.window and self.points is not None:
            # Picks added with napari's own tool get the same size.
            picks.set_next(self.points, settings.window)
        self.touch()
        # Settings that only change the drawing need not wait for the next `update`.
        self.publish()

    def match_with(self, library: Sequence[Spectrum]) -> None:
        """Match the selected spectrum with the spectra of *library* from now on."""
        self.library = library
        self._find_matches()
        self.publish()

    def choose_match(self, row: int) -> None:
        """Draw another one of the most similar spectra."""
        self.publish(match_row=row)

    def _find_matches(self) -> None:
        matches: tuple[Match, ...] = ()
        # Without a selection, the newest spectrum counts.
        looked_up = [*self.chosen, *self.shown[::-1]][:1]
        if looked_up and self.library:
            try:
                matches = tuple(best_matches(looked_up[0].first, self.library, MATCHES))
            except NapariMstError as error:
                self.fail(error)
        self.intend(matches=matches, match_row=0)

    def point_at(self, position: Position | None) -> None:
        """Read the spectra under the world *position* at the next `update`."""
        self.layers.position = position

    def point_at_wavelength(self, wavelength: float | None) -> None:
        """Make the table show values at *wavelength*, or at the shown band for None."""
        self.publish(cursor=wavelength)

    def go_to(self, wavelength: float) -> None:
        """Show the band of the selected cube nearest to *wavelength*."""
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            go_to(self.viewer, layer, wavelength)

    # ------------------------------------------------------------ files

    def open_spectra(self, spectra: Sequence[Spectrum]) -> None:
        """Put *spectra* back where they were measured; spectra without a place are only drawn."""
        others = restore(self.viewer, spectra)
        self.layers.files.kept += others
        self.touch()
        self.say(f"{len(spectra) - len(others)} put back on the image, {len(others)} only drawn.")

    def save_spectra(self, path: str | PathLike[str]) -> None:
        """Write the spectra of the visible curves to `.csv` or `.sli`, as measured."""

        def write(spectra: list[Spectrum]) -> str:
            name = write_spectra(path, spectra, overwrite=True).name
            return f"{len(spectra):,} spectra saved as {name}."

        self.use_spectra(write, str)

    def use_spectra(
        self, use: Callable[[list[Spectrum]], Any], message: Callable[[Any], str]
    ) -> None:
        """Call *use* with the spectra of the visible curves; *message* words its result.

        Thousands of spectra take seconds: in a window, *use* is called on another thread.
        """
        entries = self.shown

        def run(_: Progress) -> Any:
            return use(spectra_of(entries))

        # The slot must not hold the entries, as some workers outlive their work with their slots.
        self._start(Task(run, lambda result: self.say(message(result)), self.fail))
