"""The user's answers for ambiguous cube files, for every format and command."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from napari_mst.base.errors import ChoiceNeeded
from napari_mst.cube import SpectralCube
from napari_mst.formats import read_cube


def wavelengths_of(text: str) -> tuple[float, ...] | slice:
    """Wavelengths: "400:700" from the first band to the last, or "400,410,..."."""
    first, colon, last = text.partition(":")
    try:
        if colon:
            return slice(float(first), float(last))
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"Expected wavelengths as 400:700 or as 400,410,420, got {text[:40]!r}."
        ) from None


@dataclass(frozen=True)
class ReadOptions:
    """The options of `read_cube`.

    what the cube file leaves open
    ------------------------------
    variable : NAME
        name of the array, where the file holds several
    band_axis
        axis of the bands, first (0) or last (-1), where the file does not say
    wavelengths : NM
        wavelengths of the bands: 400:700 from the first to the last, or 400,410,...
    unit : UNIT
        unit of the wavelengths, as um, where they are not in nm
    scale : FACTOR
        number to multiply the stored ones by, in place of the scaling of the file
    """

    variable: str | None = None
    band_axis: Literal[0, 1, -1] | None = None
    wavelengths: Annotated[tuple[float, ...] | slice, wavelengths_of] | None = None
    unit: str = ""
    scale: float | None = None

    def read(self, path: Path) -> SpectralCube:
        """The cube at *path*. Raises as `read_cube`, which refuses options that do not apply."""
        return read_cube(path, **self._given)

    def answer(self, path: Path) -> SpectralCube:
        """The cube at *path*, read with only those options that the file needs."""
        options: dict[str, Any] = {}
        while True:
            try:
                cube = read_cube(path, **options)
                break
            except ChoiceNeeded as question:
                value = self._given.get(question.option)
                if value is None or question.option in options:
                    raise
                options[question.option] = value
        if cube.has_wavelengths or self.wavelengths is None:
            return cube
        return read_cube(path, **options, wavelengths=self.wavelengths, unit=self.unit)

    @property
    def _given(self) -> dict[str, Any]:
        answers = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: answer for name, answer in answers.items() if answer not in (None, "")}


AS_THE_FILE_SAYS = ReadOptions()
"""For files that need no answers."""
