"""The command `refine`: correct a cube by spectra, or a coarse cube, that somebody measured."""

from collections.abc import Sequence
from pathlib import Path

from napari_mst.analysis.library import read_spectra
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.shared_options import Output, opened, placed
from napari_mst.cube import SpectralCube
from napari_mst.formats import check_target, write_cube
from napari_mst.formats.read_options import AS_THE_FILE_SAYS, ReadOptions
from napari_mst.references.reference_spectrum import ReferenceSpectrum


def refine_cube(
    cube: Path,
    *,
    photo: Path,
    references: Path | None = None,
    uncertainty: float = 0.0,
    insist: bool = False,
    coarse: Path | None = None,
    suggest: int | None = None,
    output: Output = None,
    overwrite: bool = False,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Print where to measure, and write a cube that is corrected by what was measured.

    Parameters
    ----------
    cube
        a cube file of any kind
    photo : FILE
        the photo that the cube was made from
    references : FILE
        measured spectra with rows and columns: a CSV as `napari-mst spectra` writes it
    uncertainty : SHARE
        standard deviation of the measured spectra: 0.03 for 3 % (default: 0)
    insist
        use the spectra as they are, even where the photo contradicts them
    coarse : CUBE
        a measured cube of the same view, with less detail
    suggest : COUNT
        print this many spots where a measurement would help most
    output : OUT
        file of the better cube
    overwrite
        replace an existing file

    Examples
    --------
    napari-mst refine cube.hdr --photo photo.jpg --suggest 4
    napari-mst refine cube.hdr --photo photo.jpg --references measured.csv -o better.hdr
    """
    if output is None and suggest is None:
        raise SpectrumError("Expected -o OUT or --suggest COUNT, got neither. Say what to do.")
    if output is not None:
        if (references is None) == (coarse is None):
            given = "both" if references else "neither"
            raise SpectrumError(
                f"Expected --references or --coarse to correct the cube by, got {given}. "
                "Give one of them."
            )
        with asked_to_stop():
            check_target(output, overwrite=overwrite)
    whole = opened(cube, reading, is_alone=coarse is None)
    spots = []
    if references is not None:
        spectra = read_spectra(references, as_reflectance=True)
        spots = [
            ReferenceSpectrum(row, column, each, each.origin.window, uncertainty, is_certain=insist)
            for (row, column), each in placed(spectra, references)
        ]
    with asked_to_stop() as progress:
        if suggest is not None:
            from napari_mst.references.suggestions import suggest_measurements  # imports torch

            places = suggest_measurements(whole, photo, spots, suggest, progress=progress)
            print("row\tcolumn")
            for row, column in places:
                print(f"{row}\t{column}")
        if output is not None:
            better = _refined(whole, photo, spots, coarse, progress, reading)
            print(write_cube(output, better, overwrite=overwrite))


def _refined(
    cube: SpectralCube,
    photo: Path,
    references: Sequence[ReferenceSpectrum],
    coarse: Path | None,
    progress: Progress,
    reading: ReadOptions,
) -> SpectralCube:
    # They import torch, which a refused argument must not wait for.
    from napari_mst.references.coarse_cube import refine_with_cube
    from napari_mst.references.refining import refine

    with progress_bar("refining", progress) as bar:
        if coarse is None:
            better = refine(cube, photo, references, progress=bar)
        else:
            better = refine_with_cube(cube, photo, reading.answer(coarse), progress=bar)
    for text in better.provenance.assumptions[len(cube.provenance.assumptions) :]:
        note(text)
    return better
