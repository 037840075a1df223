"""The command `convert`: a cube file of any kind as a file of another, with its wavelengths."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from napari_mst.cli.command import DONE
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import Cube, Overwrite, Reading, to_file
from napari_mst.formats import check_target, read_cube, write_cube
from napari_mst.messages import shown


@dataclass(frozen=True)
class Convert:
    """A cube file and the file of another format that it becomes."""

    cube: Cube
    output: Annotated[
        Path | None,
        to_file(
            "file to write; its suffix says the format, .hdr, .tif, .npz, ... (default: an ENVI "
            "file of the same name, here)"
        ),
    ] = None
    overwrite: Overwrite = False
    reading: Reading = field(default_factory=Reading)

    examples = (
        "convert cube.mat -o cube.hdr",
        "convert cube.npy --wavelengths 400:700 -o cube.tif",
    )

    def run(self) -> int:
        """Read one file, write the other and print its path."""
        target = self.output or Path(f"{self.cube.stem}.hdr")
        with asked_to_stop():
            check_target(target, overwrite=self.overwrite)
        cube = read_cube(self.cube, **self.reading.given)
        for warning in cube.metadata.get("warnings", ()):
            note(shown(warning, 300))
        with asked_to_stop() as watch, progress_bar(target.name, watch) as bar:
            print(write_cube(target, cube, overwrite=self.overwrite, watch=bar))
        return DONE
