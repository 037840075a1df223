"""The command `adapt`: correct a cube by spectra, or a coarse cube, that somebody measured."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import add_overwrite
from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.formats import check_target, read_cube, write_cube
from napari_mst.messages import shown
from napari_mst.spectra.library import read_spectra
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cube", type=Path, metavar="CUBE", help="a reconstructed cube")
    parser.add_argument(
        "--photo", type=Path, required=True, metavar="FILE", help="the photo that it was made from"
    )
    parser.add_argument(
        "--known",
        type=Path,
        metavar="FILE",
        help="measured spectra with rows and columns: a CSV as `napari-mst spectra` writes it",
    )
    parser.add_argument(
        "--uncertainty",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="standard deviation of the measured spectra: 0.03 for 3 %% (default: 0)",
    )
    parser.add_argument(
        "--coarse",
        type=Path,
        metavar="CUBE",
        help="a measured cube of the same view, with less detail",
    )
    parser.add_argument(
        "--suggest",
        type=int,
        metavar="COUNT",
        help="print so many spots where a measurement would help most",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="file of the better cube")
    add_overwrite(parser)


def _run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    cube = read_cube(arguments.cube)
    known = _known(arguments)
    with asked_to_stop() as watch:
        if arguments.suggest is not None:
            _print_spots(cube, known, arguments, watch)
        if arguments.output is not None:
            better = _adapted(cube, known, arguments, watch)
            print(write_cube(arguments.output, better, overwrite=arguments.overwrite))
    return DONE


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that do not go together, before anything is read."""
    if arguments.output is None and arguments.suggest is None:
        raise SpectrumError("Expected -o OUT or --suggest COUNT, got neither. Say what to do.")
    if arguments.output is None:
        return
    if (arguments.known is None) == (arguments.coarse is None):
        given = "both" if arguments.known else "neither"
        raise SpectrumError(
            f"Expected --known or --coarse to correct the cube by, got {given}. Give one of them."
        )
    with asked_to_stop():
        check_target(arguments.output, overwrite=arguments.overwrite)


def _known(arguments: argparse.Namespace) -> list[KnownSpectrum]:
    """The measured spectra of the file; none if there is no file."""
    if arguments.known is None:
        return []
    spectra = read_spectra(arguments.known)
    return [_known_spectrum(one, arguments.known, arguments.uncertainty) for one in spectra]


def _known_spectrum(spectrum: Spectrum, file: Path, uncertainty: float) -> KnownSpectrum:
    place = spectrum.origin
    if place.row is None or place.column is None:
        raise SpectrumError(
            f"Expected a row and a column for each spectrum of {shown(file.name)}, got none for "
            f"{shown(spectrum.name)!r}. Write them above its values, as `napari-mst spectra` does."
        )
    return KnownSpectrum(place.row, place.column, spectrum, place.window, uncertainty)


def _print_spots(
    cube: SpectralCube, known: Sequence[KnownSpectrum], arguments: argparse.Namespace, watch: Watch
) -> None:
    """A table with tabs between the columns, the most helpful spot first."""
    from napari_mst.adaptation.suggesting import suggest_spots

    spots = suggest_spots(cube, arguments.photo, known, arguments.suggest, watch=watch)
    print("row\tcolumn")
    for row, column in spots:
        print(f"{row}\t{column}")


def _adapted(
    cube: SpectralCube, known: Sequence[KnownSpectrum], arguments: argparse.Namespace, watch: Watch
) -> SpectralCube:
    # They import torch, which `napari-mst --help` must not wait for.
    from napari_mst.adaptation.adapting import adapt
    from napari_mst.adaptation.companion import adapt_to_cube

    with progress_bar("adapting", watch) as bar:
        if arguments.coarse is None:
            better = adapt(cube, arguments.photo, known, watch=bar)
        else:
            coarse = read_cube(arguments.coarse)
            better = adapt_to_cube(cube, arguments.photo, coarse, watch=bar)
    for text in better.provenance.assumptions[len(cube.provenance.assumptions) :]:
        note(text)
    return better


ADAPT = Command(
    name="adapt",
    help="correct a cube by spectra that you measured in the scene",
    add_arguments=_add_arguments,
    run=_run,
)
