"""The command `refine`: corrects a cube by measured spectra or a measured coarse cube."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from napari_mst.analysis.library import read_spectra
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.shared_options import OutputFile, opened, placed
from napari_mst.cube import SpectralCube
from napari_mst.formats import check_target, write_cube
from napari_mst.formats.read_options import AS_THE_FILE_SAYS, ReadOptions
from napari_mst.references.reference_spectrum import ReferenceSpectrum


@dataclass(frozen=True)
class Measured:
    """Measurements of a scene that correct a cube.

    Attributes
    ----------
    references : FILE
        measured spectra with rows and columns: a CSV file as written by `napari-mst spectra`
    uncertainty : SHARE
        standard deviation of the measured spectra: 0.03 for 3 % (default: 0)
    insist
        use the spectra unchanged, even if the photo contradicts them
    coarse : CUBE
        a measured cube of the same view, with less detail
    """

    references: Path | None = None
    uncertainty: float = 0.0
    insist: bool = False
    coarse: Path | None = None

    def spectra(self) -> list[ReferenceSpectrum]:
        """Read the measured spectra. Raises `SpectrumError`."""
        if self.references is None:
            return []
        spectra = read_spectra(self.references, as_reflectance=True)
        return [
            ReferenceSpectrum(
                row, column, each, each.origin.window, self.uncertainty, is_certain=self.insist
            )
            for (row, column), each in placed(spectra, self.references)
        ]


UNMEASURED = Measured()
"""No measurements."""


@dataclass(frozen=True)
class RefineTarget(OutputFile):
    """The destination of a refined cube, and the number of suggested spots.

    Attributes
    ----------
    suggest : COUNT
        print this many spots where a measurement would help most
    """

    suggest: int | None = None


NOTHING = RefineTarget()
"""No cube and no spots."""


def refine_cube(
    cube: Path,
    *,
    photo: Path,
    measured: Measured = UNMEASURED,
    target: RefineTarget = NOTHING,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Suggest where to measure, and write a cube that is corrected by measurements.

    Parameters
    ----------
    cube
        a cube file of any kind
    photo : FILE
        the photo from which the cube was made
    output : OUT
        file for the better cube
    overwrite
        replace an existing file

    Examples
    --------
    napari-mst refine cube.hdr --photo photo.jpg --suggest 4
    napari-mst refine cube.hdr --photo photo.jpg --references measured.csv -o better.hdr
    """
    output, suggest, coarse = target.output, target.suggest, measured.coarse
    if output is None and suggest is None:
        raise SpectrumError("Expected -o OUT or --suggest COUNT, got neither. Say what to do.")
    if output is not None:
        if (measured.references is None) == (coarse is None):
            given = "both" if coarse else "neither"
            raise SpectrumError(
                f"Expected --references or --coarse to correct the cube by, got {given}. "
                "Give one of them."
            )
        with asked_to_stop():
            check_target(output, overwrite=target.overwrite)
    whole = opened(cube, reading, is_alone=coarse is None)
    spots = measured.spectra()
    with asked_to_stop() as progress:
        if suggest is not None:
            from napari_mst.references.suggestions import suggest_measurements  # imports torch

            places = suggest_measurements(whole, photo, spots, suggest, progress=progress)
            print("row\tcolumn")
            for row, column in places:
                print(f"{row}\t{column}")
        if output is not None:
            by = spots if coarse is None else reading.answer(coarse)
            better = _refined(whole, photo, by, progress)
            print(write_cube(output, better, overwrite=target.overwrite))


def _refined(
    cube: SpectralCube,
    photo: Path,
    by: Sequence[ReferenceSpectrum] | SpectralCube,
    progress: Progress,
) -> SpectralCube:
    # These import torch, for which refused arguments must not wait.
    from napari_mst.references.coarse_cube import refine_with_cube
    from napari_mst.references.refining import refine

    with progress_bar("refining", progress) as bar:
        if isinstance(by, SpectralCube):
            better = refine_with_cube(cube, photo, by, progress=bar)
        else:
            better = refine(cube, photo, by, progress=bar)
    for text in better.provenance.assumptions[len(cube.provenance.assumptions) :]:
        note(text)
    return better
