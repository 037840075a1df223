"""The record of an adaptation in the history of its cube, written and read back from a file.

It is a mapping of plain values in `Provenance.adaptation`: the known spectra as they were used, the
features of their spots, the kernel and the factors of the bands. That is all that error bands need;
the photo is not. Letters: B bands, n spots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.adaptation.process import Kernel, Spots
from napari_mst.arrays import Doubles, Floats, doubles
from napari_mst.cube import Provenance
from napari_mst.cube.spectrum import Spectrum
from napari_mst.errors import CubeError

NOISE = "noise"
JPEG = "JPEG"
_AT = (400, 460, 520, 580, 640, 700)
# Standard deviations of log reflectance at these wavelengths (nm), which single pixels of such
# photos are off: those that simulated scenes give the models, times 0.65 and 0.5. The shares were
# chosen on six scenes of CAVE; lab/results/known_spectra.md shows the other six.
_DEVIATION = {
    NOISE: (0.056, 0.039, 0.038, 0.032, 0.030, 0.030),
    JPEG: (0.066, 0.062, 0.046, 0.037, 0.048, 0.049),
}
METHOD = "Gaussian process on log reflectance"
_PLAIN = ("row", "column", "window", "uncertainty", "hidden", "is_certain")
_DIGITS = 6  # significant, as many as float32 holds


@dataclass(frozen=True, eq=False)
class Adaptation:
    """All that there is to remember: see the module.

    Attributes
    ----------
    spots
        Where the truth is known. Their errors are not kept: variances do not depend on them.
    kernel, band_scale
        See `process.Posterior`.
    reach
        The share of the correction that was made.
    known
        The known spectra; none after an adaptation to a coarse cube.
    source
        In words, what was known.
    doubts
        A sentence for each known spectrum that was wrong, now or before.
    photo
        What the photo adds to its colours: `NOISE`, `JPEG`, or "" for a clean one.
    """

    spots: Spots
    kernel: Kernel
    band_scale: Doubles
    reach: float = 1.0
    known: tuple[KnownSpectrum, ...] = ()
    source: str = ""
    doubts: tuple[str, ...] = ()
    photo: str = ""

    def hidden(self, wavelengths: Doubles) -> Doubles:
        """Mean variance (B,) of the errors that the known spectra do not show.

        They are those of a calibration (see `KnownSpectrum`), and of single pixels of the photo.
        """
        calibrated = np.mean([spot.hidden**2 for spot in self.known] or [0.0])
        photo = np.interp(wavelengths, _AT, _DEVIATION.get(self.photo, np.zeros(len(_AT))))
        # the spots are off as well, which the correction spreads: the more, the fewer they are
        spread = 1 + 1 / np.sqrt(max(len(self.spots), 1))
        return calibrated + spread * np.square(photo)


def to_record(adaptation: Adaptation) -> dict[str, Any]:
    """*adaptation* as plain values, for a `Provenance`."""
    return {
        "method": METHOD,
        "source": adaptation.source,
        "settings": {"doubts": list(adaptation.doubts)} if adaptation.known else {},
        "reach": adaptation.reach,
        "photo": adaptation.photo,
        "kernel": asdict(adaptation.kernel),
        "band scale": _rounded(adaptation.band_scale),
        "features": [_rounded(row) for row in adaptation.spots.features],
        "noise": _rounded(adaptation.spots.noise),
        "known": [_known_record(spot) for spot in adaptation.known],
    }


def from_record(past: Provenance) -> Adaptation | None:
    """The adaptation that *past* records; None if there was none.

    Raises
    ------
    CubeError
        If the record is damaged.
    """
    stored = past.adaptation
    if not stored:
        return None
    try:
        features = np.array(stored["features"], dtype=np.float64).reshape(-1, 6)
        noise = np.array(stored["noise"], dtype=np.float64)
        band_scale = np.array(stored["band scale"], dtype=np.float64)
        spots = Spots(features, np.zeros((len(features), len(band_scale))), noise)
        return Adaptation(
            spots,
            Kernel(**{name: float(value) for name, value in stored["kernel"].items()}),
            band_scale,
            float(stored["reach"]),
            tuple(_known(spot) for spot in stored["known"]),
            str(stored["source"]),
            tuple(stored["settings"].get("doubts", ())),
            str(stored.get("photo", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CubeError(
            "Expected the record of an adaptation in the history of the cube, got damaged text. "
            "Adapt the cube again."
        ) from None


def known_spectra(past: Provenance) -> tuple[KnownSpectrum, ...]:
    """The known spectra to which the cube with the history *past* was adapted."""
    adaptation = from_record(past)
    return () if adaptation is None else adaptation.known


def _known_record(spot: KnownSpectrum) -> dict[str, Any]:
    record = {name: getattr(spot, name) for name in _PLAIN} | {"values": _rounded(spot.values)}
    if isinstance(spot.spectrum, Spectrum):
        record["wavelengths"] = spot.spectrum.wavelengths.tolist()
        record["name"] = spot.spectrum.name
    return record


def _known(stored: Mapping[str, Any]) -> KnownSpectrum:
    values = np.array([np.nan if value is None else value for value in stored["values"]])
    spectrum: Spectrum | Doubles = values
    if "wavelengths" in stored:
        spectrum = Spectrum(np.array(stored["wavelengths"]), values, name=str(stored["name"]))
    return KnownSpectrum(
        spectrum=spectrum, **{name: stored[name] for name in _PLAIN if name in stored}
    )


def _rounded(values: Floats | Sequence[float]) -> list[float | None]:
    """*values* with `_DIGITS` digits; None for a gap, which JSON has no number for."""
    texts = (f"{value:.{_DIGITS}g}" for value in doubles(values))
    return [None if text == "nan" else float(text) for text in texts]
