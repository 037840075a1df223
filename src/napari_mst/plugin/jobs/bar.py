"""The bar that shows how far the running job is, and how long it will still take."""

from qtpy.QtWidgets import QProgressBar

from napari_mst.plugin.jobs.workspace import JobState

STEPS = 1000
"""Steps of the bar."""
LONG = 90
"""Seconds from which the time left is given in minutes."""


class JobBar(QProgressBar):
    """A progress bar that is hidden while no job runs."""

    def __init__(self) -> None:
        super().__init__(maximum=STEPS, textVisible=True)

    def show_state(self, state: JobState) -> None:
        """Show how far the job of *state* is."""
        self.setVisible(not state.is_idle)
        self.setValue(round(state.fraction * STEPS))
        # Qt puts the percentage in the place of %p; the second % is the sign itself.
        self.setFormat("" if state.is_idle else f"%p %{time_left(state.seconds_left)}")


def time_left(seconds: float | None) -> str:
    """The time left as the end of a text: ", 40 s left"; "" while it is not known."""
    if seconds is None:
        return ""
    return f", {seconds:.0f} s left" if seconds < LONG else f", {seconds / 60:.0f} min left"
