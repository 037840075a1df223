"""The command `compare`: how far a cube is from its reference, in total, by band and as a map."""

import argparse
from pathlib import Path

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import add_overwrite
from napari_mst.errors import SpectrumError
from napari_mst.formats import read_cube
from napari_mst.spectra.cube_errors import MEASURES, CubeErrors, cube_errors
from napari_mst.spectra.map_files import FinishedMap, check_map_target, write_map
from napari_mst.spectra.map_kind import MapInputs
from napari_mst.spectra.maps import MAPS
from napari_mst.watch import Watch


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cube", type=Path, metavar="CUBE")
    parser.add_argument("reference", type=Path, metavar="REFERENCE", help="the true cube")
    parser.add_argument(
        "--bands", action="store_true", help="print the errors of every band as well"
    )
    parser.add_argument(
        "--peak",
        type=float,
        default=1.0,
        metavar="VALUE",
        help="value of white, which PSNR refers to (default: 1)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="also write an error map to this file"
    )
    parser.add_argument(
        "--measure",
        choices=MEASURES,
        default="rmse",
        help="what the error map shows (default: rmse)",
    )
    add_overwrite(parser)


def _run(arguments: argparse.Namespace) -> int:
    if not arguments.peak > 0:
        raise SpectrumError(f"Expected a --peak above 0, got {arguments.peak:g}.")
    if arguments.output is not None:
        with asked_to_stop():
            check_map_target(arguments.output, overwrite=arguments.overwrite)
    cube = read_cube(arguments.cube)
    reference = read_cube(arguments.reference)
    with asked_to_stop() as watch:
        errors = cube_errors(cube, reference, arguments.peak, watch=watch)
        _print_errors(errors)
        if arguments.bands:
            _print_bands(errors)
        if arguments.output is not None:
            path = _write_map(MapInputs(cube, reference=reference), arguments, watch)
            print(path)
    return DONE


def _print_errors(errors: CubeErrors) -> None:
    facts = {
        "MRAE": f"{errors.mrae:.4f}",
        "RMSE": f"{errors.rmse:.4f}",
        "PSNR": f"{errors.psnr:.2f} dB",
        "SAM": f"{errors.angle:.2f} deg",
        "pixels": f"{errors.pixels}",
        "bands": f"{len(errors.wavelengths)}",
    }
    for name, value in facts.items():
        print(f"{name:<8}{value}")


def _print_bands(errors: CubeErrors) -> None:
    """A table with tabs between the columns, as `napari-mst spectra` prints one."""
    print(f"wavelength ({errors.unit})\tMRAE\tRMSE\tPSNR (dB)")
    rows = zip(
        errors.wavelengths, errors.band_mrae, errors.band_rmse, errors.band_psnr, strict=True
    )
    for wavelength, mrae, rmse, psnr in rows:
        print(f"{wavelength:g}\t{mrae:.4f}\t{rmse:.4f}\t{psnr:.2f}")


def _write_map(inputs: MapInputs, arguments: argparse.Namespace, watch: Watch) -> Path:
    kind = MAPS[f"reference-{arguments.measure}"]
    with progress_bar(kind.title, watch) as bar:
        result = kind.make(inputs, bar)
    finished = FinishedMap(kind, inputs, result)
    return write_map(arguments.output, finished, overwrite=arguments.overwrite)


COMPARE = Command(
    name="compare",
    help="measure how far a cube is from a reference cube",
    add_arguments=_add_arguments,
    run=_run,
)
