"""Maps as files: a cube of one band for each plane, in every format, or a PNG picture.

Letters: B bands, H rows, W columns.
"""

import colorsys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_mst import crash_safe
from napari_mst.arrays import Array, Codes
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.cube.georeference import FIELD
from napari_mst.errors import SaveError, shown
from napari_mst.formats import check_target, write_cube
from napari_mst.formats.picture_files import write_picture
from napari_mst.spectra.map_kind import Limits, MapInputs, MapKind, MapResult
from napari_mst.watch import Watched

PICTURE = ".png"
"""The suffix of a picture; every other file is a cube."""

UNCLASSIFIED = "unclassified"
"""The name of the label 0."""

GOLDEN_TURN = 0.618034
"""The golden section of the colour circle: hues at this distance stay apart, however many."""


class FinishedMap(NamedTuple):
    """A map with all that is said about it in a file."""

    kind: MapKind
    inputs: MapInputs
    result: MapResult

    @property
    def facts(self) -> dict[str, Any]:
        """The kind of the map, its number and its wavelengths, for the metadata of a file."""
        facts: dict[str, Any] = {"map": self.kind.name}
        inputs = self.kind.filled(self.inputs)
        if self.kind.unit:
            facts["map unit"] = self.kind.unit
        if self.kind.number is not None:
            facts[f"map {self.kind.number.label.lower()}"] = inputs.number
        for line, wavelength in zip(self.kind.lines, inputs.wavelengths, strict=False):
            facts[f"map wavelength {line.name}"] = wavelength
        return facts

    def to_cube(self) -> SpectralCube:
        """Return the map as a cube of numbered bands, (B, H, W), with the history of its source.

        A map that is a cube keeps the wavelengths of its source.
        """
        source = self.inputs.cube
        names = [plane.title or self.kind.title for plane in self.result.planes]
        metadata = {"description": self.kind.tip, "band names": names, **self.facts}
        # Without the checksum of the photo, a batch never takes the map for the cube itself; and a
        # map has no error band.
        provenance = replace(source.provenance, source_sha256="", error_band={})
        if self.result.names:
            # ENVI and GDAL take these as the names of the values 0, 1, 2, ...
            metadata["class names"] = [UNCLASSIFIED, *self.result.names]
        if FIELD in source.metadata:
            metadata[FIELD] = source.metadata[FIELD]
        data = np.stack([plane.pixels for plane in self.result.planes])
        if self.kind.content == "cube":
            notes = (*source.provenance.assumptions, self.result.note)
            past = replace(provenance, assumptions=notes)
            entries = {**source.metadata, **self.facts}
            return replace(source, data=data, provenance=past, metadata=entries, quality=None)
        return SpectralCube(
            data,
            np.arange(len(data), dtype=np.float64),
            BAND_INDEX,
            quantity=self.kind.title,
            provenance=provenance,
            metadata=metadata,
        )


def check_map_target(path: Path, *, overwrite: bool = False) -> None:
    """Refuse now what `write_map` would refuse after the map is made. Raises `SaveError`."""
    if path.suffix.lower() == PICTURE:
        crash_safe.check_targets([path], overwrite=overwrite)
    else:
        check_target(path, overwrite=overwrite)


def write_map(
    path: Path, finished: FinishedMap, *, overwrite: bool = False, watch: Watched = None
) -> Path:
    """Save a map, crash-safe, and return the file to open.

    Raises
    ------
    SaveError
        If the suffix is unknown, the target exists (without *overwrite*), or a map of several
        planes is to become one picture.
    """
    if path.suffix.lower() != PICTURE:
        return write_cube(path, finished.to_cube(), overwrite=overwrite, watch=watch)
    if len(finished.result.planes) > 1:
        raise SaveError(
            f"Expected one picture for {shown(path.name)}, got {len(finished.result.planes)}. "
            "Save a .tif or .hdr, which holds them all."
        )
    pixels, facts = _picture(finished)
    write_picture(path, pixels, finished.kind.title, facts, overwrite=overwrite)
    return path


def _picture(finished: FinishedMap) -> tuple[Codes, dict[str, Any]]:
    """Return the picture of the first plane, (H, W, 3) or (H, W, 4), and the facts about it."""
    pixels = finished.result.planes[0].pixels
    facts = finished.facts
    if finished.kind.content == "labels":
        return _label_picture(pixels, finished.result.tints), facts
    low, high = finished.kind.limits_of(pixels)
    scaled = _scaled(pixels, (low, high))
    alpha = np.where(np.isfinite(pixels), 255, 0).astype(np.uint8)
    return np.dstack([scaled, alpha]), {**facts, "black": low, "white": high}


def _scaled(pixels: Array, limits: Limits) -> Codes:
    """*pixels* as 8-bit codes: 0 at the lower limit and for NaN, 255 at the upper limit."""
    low, high = limits
    codes = 255 * np.clip((pixels.astype(np.float64) - low) / (high - low), 0, 1)
    return np.rint(np.nan_to_num(codes)).astype(np.uint8)


def _label_picture(labels: Array, tints: tuple[str, ...]) -> Codes:
    """Labels in their colours, (H, W, 4); the label 0 is transparent."""
    table = np.zeros((int(labels.max()) + 1, 4), dtype=np.uint8)
    for number in range(1, len(table)):
        tint = tints[number - 1] if number <= len(tints) else ""
        table[number] = (*(bytes.fromhex(tint[1:7]) if tint else _hue(number)), 255)
    return np.asarray(table[labels])


def _hue(number: int) -> tuple[int, int, int]:
    """Return a colour for a label that has none."""
    red, green, blue = colorsys.hsv_to_rgb(number * GOLDEN_TURN % 1, 0.65, 0.95)
    return round(255 * red), round(255 * green), round(255 * blue)
