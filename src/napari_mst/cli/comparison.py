"""The command `compare`: how far a cube is from its reference, in total, by band and as a map."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from napari_mst.cli.command import DONE
from napari_mst.cli.console import print_json, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import AsJson, Cube, Overwrite, to_file
from napari_mst.errors import SpectrumError
from napari_mst.formats import read_cube
from napari_mst.option import Option
from napari_mst.spectra.cube_errors import MEASURES, CubeErrors, cube_errors
from napari_mst.spectra.map_files import FinishedMap, check_map_target, write_map
from napari_mst.spectra.map_kind import MapInputs
from napari_mst.spectra.maps import MAPS
from napari_mst.watch import Watch


@dataclass(frozen=True)
class Compare:
    """Two cube files, and the errors of the first that are printed or drawn."""

    cube: Cube
    reference: Annotated[Path, Option("the true cube", is_positional=True)]
    bands: Annotated[bool, Option("print the errors of every band as well")] = False
    peak: Annotated[float, Option("value of white, which PSNR refers to", "VALUE")] = 1.0
    output: Annotated[Path | None, to_file("also write an error map to this file")] = None
    measure: Annotated[str, Option("what the error map shows", choices=MEASURES)] = "rmse"
    overwrite: Overwrite = False
    json: AsJson = False

    examples = ("compare cube.hdr true.hdr --bands", "compare cube.hdr true.hdr -o error.png")

    def __post_init__(self) -> None:
        if not self.peak > 0:
            raise SpectrumError(f"Expected a --peak above 0, got {self.peak:g}.")

    def run(self) -> int:
        """Print the errors, and write a map of them if there is a file for it."""
        if self.output is not None:
            with asked_to_stop():
                check_map_target(self.output, overwrite=self.overwrite)
        cube, reference = read_cube(self.cube), read_cube(self.reference)
        with asked_to_stop() as watch:
            errors = cube_errors(cube, reference, self.peak, watch)
            if self.json:
                print_json(_facts(errors) | {"by_band": _by_band(errors)})
            else:
                _print_errors(errors, self.bands)
            if self.output is not None:
                inputs = MapInputs(cube, reference=reference)
                print(self._write_map(self.output, inputs, watch))
        return DONE

    def _write_map(self, target: Path, inputs: MapInputs, watch: Watch) -> Path:
        kind = MAPS[f"reference-{self.measure}"]
        with progress_bar(kind.title, watch) as bar:
            result = kind.make(inputs, bar)
        return write_map(target, FinishedMap(kind, inputs, result), overwrite=self.overwrite)


def _facts(errors: CubeErrors) -> dict[str, Any]:
    return {
        "MRAE": errors.mrae,
        "RMSE": errors.rmse,
        "PSNR": errors.psnr,
        "SAM": errors.angle,
        "pixels": errors.pixels,
        "bands": len(errors.wavelengths),
    }


def _by_band(errors: CubeErrors) -> list[dict[str, float]]:
    names = ("wavelength", "MRAE", "RMSE", "PSNR")
    columns = (errors.wavelengths, errors.band_mrae, errors.band_rmse, errors.band_psnr)
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


_SHOWN = {"MRAE": "{:.4f}", "RMSE": "{:.4f}", "PSNR": "{:.2f} dB", "SAM": "{:.2f} deg"}


def _print_errors(errors: CubeErrors, has_bands: bool) -> None:
    """Print the totals, then a table of the bands with tabs, as `napari-mst spectra` prints one."""
    for name, value in _facts(errors).items():
        print(f"{name:<8}{_SHOWN.get(name, '{}').format(value)}")
    if has_bands:
        print(f"wavelength ({errors.unit})\tMRAE\tRMSE\tPSNR (dB)")
        for band in _by_band(errors):
            print("{wavelength:g}\t{MRAE:.4f}\t{RMSE:.4f}\t{PSNR:.2f}".format(**band))
