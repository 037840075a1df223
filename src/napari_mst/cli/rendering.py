"""The command `render`: a reflectance cube as an eye sees it under any light."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from napari_mst.cli.command import DONE
from napari_mst.cli.console import progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import Cube, FullScale, Overwrite, to_file
from napari_mst.cube.pictures import WHOLE, paint, rendering
from napari_mst.formats import read_cube
from napari_mst.formats.picture_files import check_picture_target, write_picture
from napari_mst.illuminants import DAYLIGHT, illuminant_names, illuminant_title
from napari_mst.option import Option


@dataclass(frozen=True)
class Render:
    """A cube file and the light under which a picture of it is made."""

    cube: Cube
    output: Annotated[
        Path | None,
        to_file("file to write: .png or .tif, 8-bit sRGB with its profile (default: a .png, here)"),
    ] = None
    overwrite: Overwrite = False
    illuminant: Annotated[
        str,
        Option("light of the list below, or a CSV file of wavelength (nm) and power", "NAME|FILE"),
    ] = DAYLIGHT
    unadapted: Annotated[
        bool,
        Option(
            "keep the colour of the light, as in a photo balanced for daylight; else white is "
            "white under any light"
        ),
    ] = False
    full_scale: FullScale = None

    examples = (
        "render cube.hdr -o cube.png",
        "render cube.hdr --illuminant A --unadapted -o bulb.png",
    )
    more = "\n".join(["illuminants:", *(f"  {name}" for name in illuminant_names())])

    def run(self) -> int:
        """Paint the picture, write it and print its path."""
        target = self.output or Path(f"{self.cube.stem}.png")
        with asked_to_stop():
            check_picture_target(target, overwrite=self.overwrite)
        cube = read_cube(self.cube)
        recipe = rendering(
            cube, self.illuminant, is_adapted=not self.unadapted, full_scale=self.full_scale
        )
        facts = {
            "source": self.cube.name,
            "illuminant": illuminant_title(self.illuminant),
            "adapted": not self.unadapted,
        }
        with asked_to_stop() as watch:
            with progress_bar(recipe.title, watch) as bar:
                picture = paint(cube, recipe, WHOLE, bar)
            print(write_picture(target, picture, recipe.title, facts, overwrite=self.overwrite))
        return DONE
