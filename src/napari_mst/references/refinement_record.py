"""The record of a refinement in the history of a cube, which survives in files.

The record is a mapping of plain values in `Provenance.refinement`: the reference spectra as used,
the features of their spots, the kernel and the factors of the bands. Prediction intervals need
nothing else, not even the photo. Letters: B bands, n spots.
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
# Errors of single pixels in such photos, as standard deviations of log reflectance at these
# wavelengths (nm): those of the models on simulated scenes, times 0.65 and 0.5. The shares were
# chosen on six scenes of CAVE; lab/results/reference_spectra.md shows the other six. The values for
# ordinary photos were chosen on photos of `lab.benchmarks.knowledge` that are not test photos.
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
    """Everything that the history records of a refinement.

    Attributes
    ----------
    spots
        Places where the truth is known. A record drops their errors, as variances do not depend on
        them.
    kernel, band_scale
        See `process.Posterior`.
    reach
        Share of the correction that was applied.
    references
        The reference spectra; empty after a refinement to a coarse cube.
    source
        Description of the references.
    doubts
        A sentence for each wrong reference spectrum.
    photo
        Disturbance of the photo's colours: `NOISE`, `JPEG`, `CAMERA`, or "" for a clean photo.
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
        """True if an unknown camera took the photo, so that its colours are uncertain."""
        return self.photo == CAMERA

    def hidden(self, wavelengths: Doubles) -> Doubles:
        """Return the mean variance (B,) of errors that the reference spectra do not show.

        These errors come from a calibration (see `ReferenceSpectrum`) and from single pixels of the
        photo.
        """
        calibrated = np.mean([spot.hidden**2 for spot in self.references] or [0.0])
        photo = np.interp(wavelengths, _AT, _DEVIATION.get(self.photo, np.zeros(len(_AT))))
        # The spots have such errors as well, and the correction spreads them. More spots dilute
        # them.
        spread = 1 + 1 / np.sqrt(max(len(self.spots), 1))
        return calibrated + spread * np.square(photo)


def to_record(refinement: Refinement) -> dict[str, Any]:
    """Return *refinement* as plain values for a `Provenance`."""
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
    """Return the refinement recorded in *past*; None if there was none.

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
    """Return the reference spectra to which the cube with the history *past* was refined."""
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
    """Round *values* to `_DIGITS` digits; gaps become None, since JSON has no NaN."""
    texts = (f"{value:.{_DIGITS}g}" for value in doubles(values))
    return [None if text == "nan" else float(text) for text in texts]
