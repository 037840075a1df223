"""A finding: something that a photo itself shows about how it was taken."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari.layers import Image

from napari_mst.cube import Provenance
from napari_mst.photo.cameras import Capture
from napari_mst.photo.flat_field import FlatField
from napari_mst.plugin.jobs.request import PhotoCorrection
from napari_mst.plugin.viewer.marking import Places

if TYPE_CHECKING:
    from napari_mst.adaptation.calibrating import Calibration
    from napari_mst.light.estimate import LightEstimate
    from napari_mst.light.white_balance import WhiteBalance


@dataclass(frozen=True, eq=False)
class Finding:
    """A fact that a photo told: its white by a grey patch, its colours by a chart, or its light.

    Attributes
    ----------
    text
        The finding in a sentence or two, for a person.
    capture
        Camera, light and white of a linear photo; None where they were not found.
    light
        The lights that the photo may have been taken in; None if nobody asked for them.
    calibration
        The colours of a chart; None without a chart.
    balance
        The white of an sRGB photo; None where nobody asked for it.
    flat_field
        The frames by which the photo is divided; None without any.
    corrects_white
        True if the next run corrects the photo by `balance`.
    details
        A table for a person, "" for none.
    layer
        Finds the photo, which the finding does not keep alive.
    """

    text: str
    capture: Capture | None = None
    light: "LightEstimate | None" = None
    calibration: "Calibration | None" = None
    balance: "WhiteBalance | None" = None
    corrects_white: bool = False
    flat_field: FlatField | None = None
    details: str = ""
    layer: Callable[[], Image | None] = lambda: None

    @property
    def provenance(self) -> Provenance:
        """The words that the workspace says at the end of the job."""
        return Provenance(assumptions=(self.text,))

    @property
    def corrections(self) -> tuple[PhotoCorrection, ...]:
        """All that the next run does to the photo first."""
        balance = self.balance if self.corrects_white else None
        found = (self.flat_field, balance, self.calibration)
        return tuple(one for one in found if one is not None)

    def balanced_by(self, balance: "WhiteBalance") -> "Finding":
        """The finding with another white, by which the next run corrects the photo."""
        return replace(self, balance=balance, corrects_white=True)

    @property
    def squares(self) -> tuple[Places, int]:
        """Middles of the patches of a chart, and the side of each in pixels; none without one."""
        if self.calibration is None:
            return (), 0
        chart = self.calibration.chart
        return [(float(row), float(column)) for row, column in chart.centres], chart.window
