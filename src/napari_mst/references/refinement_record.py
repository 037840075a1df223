"""The record of a refinement in the history of its cube, written and read back from a file.

It is a mapping of plain values in `Provenance.refinement`: the reference spectra as they were used,
the features of their spots, the kernel and the factors of the bands. That is all that prediction
intervals need; the photo is not. Letters: B bands, n spots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from napari_mst.base.arrays import Doubles, Floats, doubles
from napari_mst.base.errors import CubeError
from napari_mst.cube import Provenance
from napari_mst.cube.spectrum import Spectrum
from napari_mst.references.process import Kernel, Spots
from napari_mst.references.reference_spectrum import ReferenceSpectrum

NOISE = "noise"
JPEG = "JPEG"
CAMERA = "a usual camera's JPEG"
_AT = (400, 460, 520, 580, 640, 700)
# Standard deviations of log reflectance at these wavelengths (nm), which single pixels of such
# photos are off: those that simulated scenes give the models, times 0.65 and 0.5. The shares were
# chosen on six scenes of CAVE; lab/results/reference_spectra.md shows the other six. Those of an
# ordinary photo were chosen on other photos of `lab.benchmarks.knowledge` than it judges by.
_DEVIATION = {
    NOISE: (0.056, 0.039, 0.038, 0.032, 0.030, 0.030),
    JPEG: (0.066, 0.062, 0.046, 0.037, 0.048, 0.049),
    CAMERA: (0.41, 0.165, 0.145, 0.135, 0.135, 0.21),
}
METHOD = "Gaussian process on log reflectance"
_PLAIN = ("row", "column", "window", "uncertainty", "hidden", "is_certain")
_DIGITS = 6  # significant, as many as float32 holds


@dataclass(frozen=True, eq=False)
class Refinement:
    """All that there is to remember: see the module.

    Attributes
    ----------
    spots
        Where the truth is known. Their errors are not kept: variances do not depend on them.
    kernel, band_scale
        See `process.Posterior`.
    reach
        The share of the correction that was made.
    references
        The reference spectra; none after a refinement to a coarse cube.
    source
        In words, what was known.
    doubts
        A sentence for each reference spectrum that was wrong, now or before.
    photo
        What the photo adds to its colours: `NOISE`, `JPEG`, `CAMERA`, or "" for a clean one.
    """

    spots: Spots
    kernel: Kernel
    band_scale: Doubles
    reach: float = 1.0
    references: tuple[ReferenceSpectrum, ...] = ()
    source: str = ""
    doubts: tuple[str, ...] = ()
    photo: str = ""

    @property
    def is_by_camera(self) -> bool:
        """True if an unknown camera took the photo: its colours are uncertain."""
        return self.photo == CAMERA

    def hidden(self, wavelengths: Doubles) -> Doubles:
        """Mean variance (B,) of the errors that the reference spectra do not show.

        The errors come from a calibration (see `ReferenceSpectrum`), and from single pixels of the
        photo.
        """
        calibrated = np.mean([spot.hidden**2 for spot in self.references] or [0.0])
        photo = np.interp(wavelengths, _AT, _DEVIATION.get(self.photo, np.zeros(len(_AT))))
        # the spots are off as well, which the correction spreads: the more, the fewer they are
        spread = 1 + 1 / np.sqrt(max(len(self.spots), 1))
        return calibrated + spread * np.square(photo)


def to_record(refinement: Refinement) -> dict[str, Any]:
    """*refinement* as plain values, for a `Provenance`."""
    return {
        "method": METHOD,
        "source": refinement.source,
        "settings": {"doubts": list(refinement.doubts)} if refinement.references else {},
        "reach": refinement.reach,
        "photo": refinement.photo,
        "kernel": asdict(refinement.kernel),
        "band scale": _rounded(refinement.band_scale),
        "features": [_rounded(row) for row in refinement.spots.features],
        "noise": _rounded(refinement.spots.noise),
        "references": [_reference_record(spot) for spot in refinement.references],
    }


def from_record(past: Provenance) -> Refinement | None:
    """The refinement that *past* records; None if there was none.

    Raises
    ------
    CubeError
        If the record is damaged.
    """
    stored = past.refinement
    if not stored:
        return None
    try:
        features = np.array(stored["features"], dtype=np.float64).reshape(-1, 6)
        noise = np.array(stored["noise"], dtype=np.float64)
        band_scale = np.array(stored["band scale"], dtype=np.float64)
        spots = Spots(features, np.zeros((len(features), len(band_scale))), noise)
        return Refinement(
            spots,
            Kernel(**{name: float(value) for name, value in stored["kernel"].items()}),
            band_scale,
            float(stored["reach"]),
            tuple(_references(spot) for spot in stored["references"]),
            str(stored["source"]),
            tuple(stored["settings"].get("doubts", ())),
            str(stored.get("photo", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CubeError(
            "Expected the record of a refinement in the history of the cube, got damaged text. "
            "Refine the cube again."
        ) from None


def reference_spectra(past: Provenance) -> tuple[ReferenceSpectrum, ...]:
    """The reference spectra to which the cube with the history *past* was refined."""
    refinement = from_record(past)
    return () if refinement is None else refinement.references


def _reference_record(spot: ReferenceSpectrum) -> dict[str, Any]:
    record = {name: getattr(spot, name) for name in _PLAIN} | {"values": _rounded(spot.values)}
    if isinstance(spot.spectrum, Spectrum):
        record["wavelengths"] = spot.spectrum.wavelengths.tolist()
        record["name"] = spot.spectrum.name
    return record


def _references(stored: Mapping[str, Any]) -> ReferenceSpectrum:
    values = np.array([np.nan if value is None else value for value in stored["values"]])
    spectrum: Spectrum | Doubles = values
    if "wavelengths" in stored:
        spectrum = Spectrum(np.array(stored["wavelengths"]), values, name=str(stored["name"]))
    return ReferenceSpectrum(
        spectrum=spectrum, **{name: stored[name] for name in _PLAIN if name in stored}
    )


def _rounded(values: Floats | Sequence[float]) -> list[float | None]:
    """*values* with `_DIGITS` digits; None for a gap, which JSON has no number for."""
    texts = (f"{value:.{_DIGITS}g}" for value in doubles(values))
    return [None if text == "nan" else float(text) for text in texts]
