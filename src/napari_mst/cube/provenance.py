"""The history of a cube: its model, its photo, and the settings of its run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from napari_mst.base.arrays import Brief
from napari_mst.base.errors import CubeError

UNCALIBRATED = "uncalibrated: a real camera's JPEG may be far off"
"""State of a prediction interval if the colour rendering of the photo is unknown."""

BY_CHART = "by its ColorChecker"
"""The illuminant of a linear photo whose chart gave one response for camera and light."""

# Fields that are unknown before the run, or depend on the machine.
_MAY_DIFFER = frozenset(
    (
        "device",
        "precision_error",
        "engine",
        "source",
        "correction",
        "denoising",
        "error_band",
        "assumptions",
    )
)


@dataclass(frozen=True, repr=False)
class Provenance(Brief):
    """The history of a cube. Empty strings and 0 mean unknown.

    Attributes
    ----------
    precision_error
        Largest difference of 16-bit precision from float32 on a sample of the photo, as a share of
        the largest value.
    estimate_error
        Largest error of a cube whose statistics were estimated from a part of the photo, as a share
        of the largest value; it is measured on that part and never 0. 0 means that the statistics
        come from the whole photo; see `is_estimate`.
    camera, illuminant, white, white_balance
        Acquisition of a linear photo (see `cameras.Acquisition`), for models that need it.
    sensor
        The response of camera and light, red, green and blue for each of 31 bands, if one of the
        two was a file; empty where their names suffice. See `cameras.RecordedCapture`.
    is_light_estimated
        True if the illuminant, a mixture of likely lights, was estimated from the photo.
    denoise, denoising
        The denoising requested: "auto", "off", or h in units of the noise; and the denoising
        applied before the network saw the photo, "" for none.
    error_band
        Numbers from which a prediction interval is computed for the cube, see
        `reconstruction.model_intervals`; empty for a cube without one.
    calibrated_by
        The user's reason why the photo shows colours exactly; "" for none.
    region
        The part of the photo that the cube shows, "row0:row1,column0:column1"; "" for all.
    cut
        Rows, columns and bands that were cut out of a finished cube; "" for an uncut cube. The
        numbers of a cut differ from those of a run on the same region.
    is_ensemble
        True for the mean over flips and transposes.
    is_preview
        True for a cube of the photo averaged down.
    options
        Other options of the run that differ from their defaults.
    assumptions
        Sentences for people.

    Notes
    -----
    ===============  ============================================
    white            a stored value; 0 is unknown
    precision_error  a share of the largest value: 0.001 is 0.1 %
    estimate_error   as `precision_error`
    ===============  ============================================

    Examples
    --------
    >>> history = nm.Provenance(model="mstpp-srgb", source="photo.jpg", source_sha256="5e1f")
    >>> history.to_json()
    '{"model": "mstpp-srgb", "source": "photo.jpg", "source_sha256": "5e1f"}'
    >>> nm.Provenance.from_json(history.to_json()) == history
    True
    >>> history.with_cut("band 3").cut, history.cropped(slice(0, 9), slice(4, 9)).region
    ('band 3', '0:9,4:9')
    >>> history.gives_the_cube_of(nm.Provenance(model="pixelwise-srgb"))
    False
    """

    model: str = ""
    weights_sha256: str = ""
    normalisation: str = ""
    device: str = ""
    precision: str = ""
    precision_error: float = 0.0
    estimate_error: float = 0.0
    engine: str = ""
    denoise: str = ""
    denoising: str = ""
    correction: str = ""
    error_band: Mapping[str, Any] = field(default_factory=dict)
    calibrated_by: str = ""
    source: str = ""
    source_sha256: str = ""
    encoding: str = ""
    camera: str = ""
    illuminant: str = ""
    white: float = 0.0
    white_balance: str = ""
    sensor: Sequence[Sequence[float]] = ()
    is_light_estimated: bool = False
    region: str = ""
    cut: str = ""
    is_ensemble: bool = False
    is_preview: bool = False
    refinement: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()

    @property
    def is_estimate(self) -> bool:
        """True for a cube from estimated statistics, which is not exact yet."""
        return self.estimate_error > 0

    @property
    def calibration(self) -> str:
        """The state of the prediction interval: "calibrated by ...", or `UNCALIBRATED`.

        "" for a cube without a prediction interval.
        """
        if self.refinement:
            count = len(self.refinement.get("references", ()))
            spectra = f"{count} reference spectra" if count != 1 else "1 reference spectrum"
            return f"calibrated by {self.refinement.get('source') or spectra}"
        if not self.error_band:
            return ""
        if len(factors := self.error_band.get("brightness", ())) == 2:
            return "brightness {:.2g} to {:.2g} times, until a grey is named".format(*factors)
        if self.calibrated_by:
            return f"calibrated by {self.calibrated_by}"
        if self.illuminant == BY_CHART:
            return f"calibrated {BY_CHART}"
        if self.camera:
            light = "an estimated light" if self.is_light_estimated else self.illuminant
            return f"calibrated by the sensitivities of {self.camera} under {light}"
        return UNCALIBRATED

    def gives_the_cube_of(self, other: "Provenance") -> bool:
        """True if both histories have the same photo, model, options and versions.

        Device and memory may differ.
        """
        # An estimated light is known only after the run.
        may_differ = _MAY_DIFFER | ({"illuminant"} if self.is_light_estimated else set())
        names = {f.name for f in fields(self)} - may_differ
        is_known = bool(self.source_sha256)
        # Before the run it is known that a correction follows, but not its text.
        is_corrected_alike = bool(self.correction) == bool(other.correction)
        are_equal = all(getattr(self, name) == getattr(other, name) for name in names)
        return is_known and is_corrected_alike and are_equal

    def to_json(self) -> str:
        """One line of JSON, ASCII only, without the empty fields."""
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    @classmethod
    def from_json(cls, text: str) -> "Provenance":
        """The inverse of `to_json`; fields added by later versions are ignored.

        Raises
        ------
        CubeError
            If *text* is not a JSON object.
        """
        try:
            stored = json.loads(text)
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise CubeError(f"Expected provenance as a JSON object, got {text[:40]!r}.")
        entries = {f.name: stored[f.name] for f in fields(cls) if f.name in stored}
        entries["assumptions"] = tuple(entries.get("assumptions", ()))  # JSON has no tuples
        return cls(**entries)

    def with_cut(self, text: str) -> "Provenance":
        """The history of a cut of the cube; *text* names the part."""
        return replace(self, cut=f"{self.cut}; {text}" if self.cut else text)

    def cropped(self, rows: slice, columns: slice) -> "Provenance":
        """The history of the cube cut to *rows* and *columns*."""
        cropped = self.with_cut(
            f"rows {rows.start}:{rows.stop}, columns {columns.start}:{columns.stop}"
        )
        bounds = region_bounds(self.region)
        is_foreign = self.region and bounds is None  # written by another program
        # A pixel of a preview covers several of the photo, so its region stays the averaged one.
        if self.is_preview or is_foreign:
            return cropped
        top, _, left, _ = bounds or (0, 0, 0, 0)
        down = f"{top + rows.start}:{top + rows.stop}"
        across = f"{left + columns.start}:{left + columns.stop}"
        return replace(cropped, region=f"{down},{across}")


def region_bounds(region: str) -> tuple[int, int, int, int] | None:
    """Top, bottom, left and right of a *region* as text, "100:300,0:512"; None if it is not one."""
    try:
        top, bottom, left, right = map(int, region.replace(":", ",").split(","))
    except ValueError:
        return None
    return top, bottom, left, right
