"""The command `adapt`: correct a cube by spectra, or a coarse cube, that somebody measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.cli.arguments import DONE
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import Cube, Overwrite, to_file
from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError, shown
from napari_mst.formats import check_target, read_cube, write_cube
from napari_mst.option import Option
from napari_mst.spectra.library import read_spectra
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch


@dataclass(frozen=True)
class Adapt:
    """A reconstructed cube, its photo, and what was measured in the scene."""

    cube: Cube
    photo: Annotated[
        Path, Option("the photo that the cube was made from", "FILE", is_required=True)
    ]
    known: Annotated[
        Path | None,
        Option(
            "measured spectra with rows and columns: a CSV as `napari-mst spectra` writes it",
            "FILE",
        ),
    ] = None
    uncertainty: Annotated[
        float,
        Option("standard deviation of the measured spectra: 0.03 for 3 % (default: 0)", "SHARE"),
    ] = 0.0
    insist: Annotated[
        bool, Option("use the spectra as they are, even where the photo contradicts them")
    ] = False
    coarse: Annotated[
        Path | None, Option("a measured cube of the same view, with less detail", "CUBE")
    ] = None
    suggest: Annotated[
        int | None, Option("print this many spots where a measurement would help most", "COUNT")
    ] = None
    output: Annotated[Path | None, to_file("file of the better cube")] = None
    overwrite: Overwrite = False

    examples = (
        "adapt cube.hdr --photo photo.jpg --suggest 4",
        "adapt cube.hdr --photo photo.jpg --known measured.csv -o better.hdr",
    )

    def __post_init__(self) -> None:
        if self.output is None and self.suggest is None:
            raise SpectrumError("Expected -o OUT or --suggest COUNT, got neither. Say what to do.")
        if self.output is not None and (self.known is None) == (self.coarse is None):
            given = "both" if self.known else "neither"
            raise SpectrumError(
                f"Expected --known or --coarse to correct the cube by, got {given}. "
                "Give one of them."
            )

    def run(self) -> int:
        """Print where to measure, and write the better cube and print its path."""
        if self.output is not None:
            with asked_to_stop():
                check_target(self.output, overwrite=self.overwrite)
        cube = read_cube(self.cube)
        known = []
        if self.known is not None:
            spectra = read_spectra(self.known, as_reflectance=True)
            known = [_known_spectrum(each, self.known, self.uncertainty) for each in spectra]
            known = [replace(spot, is_certain=self.insist) for spot in known]
        with asked_to_stop() as watch:
            if self.suggest is not None:
                from napari_mst.adaptation.suggesting import suggest_spots  # imports torch

                spots = suggest_spots(cube, self.photo, known, self.suggest, watch=watch)
                print("row\tcolumn")
                for row, column in spots:
                    print(f"{row}\t{column}")
            if self.output is not None:
                better = self._adapted(cube, known, watch)
                print(write_cube(self.output, better, overwrite=self.overwrite))
        return DONE

    def _adapted(
        self, cube: SpectralCube, known: Sequence[KnownSpectrum], watch: Watch
    ) -> SpectralCube:
        # They import torch, which a refused argument must not wait for.
        from napari_mst.adaptation.adapting import adapt
        from napari_mst.adaptation.companion import adapt_to_cube

        with progress_bar("adapting", watch) as bar:
            if self.coarse is None:
                better = adapt(cube, self.photo, known, watch=bar)
            else:
                better = adapt_to_cube(cube, self.photo, read_cube(self.coarse), watch=bar)
        for text in better.provenance.assumptions[len(cube.provenance.assumptions) :]:
            note(text)
        return better


def _known_spectrum(spectrum: Spectrum, file: Path, uncertainty: float) -> KnownSpectrum:
    place = spectrum.origin
    if place.row is None or place.column is None:
        raise SpectrumError(
            f"Expected a row and a column for each spectrum of {shown(file.name)}, got none for "
            f"{shown(spectrum.name)!r}. Write them above its values, as `napari-mst spectra` does."
        )
    return KnownSpectrum(place.row, place.column, spectrum, place.window, uncertainty)
