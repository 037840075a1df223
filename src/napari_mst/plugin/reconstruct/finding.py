"""A finding: something that a photo itself told of how it was taken."""

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari.layers import Image

from napari_mst.cube import Provenance
from napari_mst.photo.cameras import Capture
from napari_mst.plugin.viewer.marking import Places

if TYPE_CHECKING:
    from napari_mst.adaptation.calibrating import Calibration
    from napari_mst.light.estimate import LightEstimate


@dataclass(frozen=True, eq=False)
class Finding:
    """A fact that a photo told: its white by a grey patch, its colours by a chart, or its light.

    Attributes
    ----------
    layer
        The photo, which the finding does not keep alive.
    text
        The finding in a sentence or two, for a person.
    capture
        Camera, light and white of a linear photo; None where they were not found.
    light
        The lights that the photo may have been taken in; None if nobody asked for them.
    calibration
        The colours of a chart; None without a chart.
    details
        A table for a person, "" for none.
    """

    layer: "weakref.ref[Image]"
    text: str
    capture: Capture | None = None
    light: "LightEstimate | None" = None
    calibration: "Calibration | None" = None
    details: str = ""

    @property
    def provenance(self) -> Provenance:
        """The words that the workspace says at the end of the job."""
        return Provenance(assumptions=(self.text,))

    @property
    def squares(self) -> tuple[Places, int]:
        """Middles of the patches of a chart, and the side of each in pixels; none without one."""
        if self.calibration is None:
            return (), 0
        chart = self.calibration.chart
        return [(float(row), float(column)) for row, column in chart.centres], chart.window
