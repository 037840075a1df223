"""The command `spectra`: the spectra of pixels, as a table or a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from napari_mst.cli.command import DONE
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import Cube, Overwrite, pixel_of, to_file
from napari_mst.formats import read_cube
from napari_mst.option import Option
from napari_mst.spectra.library import spectra_text, write_spectra
from napari_mst.spectra.regions import point_spectrum


@dataclass(frozen=True)
class Spectra:
    """A cube file and the pixels of it whose spectra are read."""

    cube: Cube
    at: Annotated[
        tuple[tuple[int, int], ...],
        Option(
            "a pixel; may be repeated",
            "ROW,COLUMN",
            parse=pixel_of,
            is_repeated=True,
            is_required=True,
        ),
    ]
    window: Annotated[int, Option("average SIDE x SIDE pixels", "SIDE")] = 1
    output: Annotated[
        Path | None, to_file("file to write, .csv or .sli (default: print a table)")
    ] = None
    overwrite: Overwrite = False

    examples = (
        "spectra cube.hdr --at 120,80 --at 40,200",
        "spectra cube.hdr --at 9,9 --window 5 -o a.csv",
    )

    def run(self) -> int:
        """Print the spectra, or write them and print the path of the file."""
        cube = read_cube(self.cube)
        spectra = [
            point_spectrum(cube, row, column, self.window, cube_name=self.cube.name)
            for row, column in self.at
        ]
        if self.output is None:
            print(spectra_text(spectra), end="")
            return DONE
        with asked_to_stop():
            print(write_spectra(self.output, spectra, overwrite=self.overwrite))
        return DONE
