"""The command line: `napari-mst reconstruct | models | cameras | info | spectra | attention | evaluate | train`.

Results go to standard output, notes and errors to standard error. Exit codes: 0 all well; 1 some photos of several
failed, the others were written; 2 the command or its input was refused, in one sentence; 130 Ctrl-C; 141 nobody reads
the output any more, as of `head`.
"""

import argparse
import errno
import gc
import hashlib
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from napari_mst import __version__
from napari_mst.attention_record import Selection, write_attention
from napari_mst.attention_record import check_target as check_attention_target
from napari_mst.cameras import BALANCED, OF_SENSOR, Capture, load_cameras, load_illuminants
from napari_mst.cube import SpectralCube
from napari_mst.errors import CameraError, Cancelled, ModelError, NapariMstError, PhotoError, SaveError
from napari_mst.formats import FORMATS, check_target, find_format, read_cube, write_cube
from napari_mst.formats.text import shown
from napari_mst.models import MODELS, ModelCard
from napari_mst.overlays import OVERLAYS
from napari_mst.photo import Encoding, Photo, Rectangle
from napari_mst.spectra.library import spectra_text, write_spectra
from napari_mst.spectra.regions import point_spectrum
from napari_mst.terminal import harmless_output
from napari_mst.training.commands import add_evaluate, add_train

if TYPE_CHECKING:
    from napari_mst.reconstruction import Reconstructor

DEFAULT_MODEL = "mstpp-srgb"
SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
FOLDERS = tuple(suffix for form in FORMATS if form.is_folder for suffix in form.suffixes)
"""A folder with one of these suffixes is a cube, not a place for several."""
DONE, SOME_FAILED, REFUSED, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141


@harmless_output()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with *arguments* (default: those of the process) and return its exit code."""
    try:
        try:
            return _main(arguments)
        finally:
            print(end="", flush=True)  # here, where it can be caught that nobody reads it
    except OSError as error:
        if not _is_closed_pipe(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left when it ends
        return UNREAD


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (KeyboardInterrupt, Cancelled):
        _tell("cancelled")
        gc.freeze()  # Python would look at every object of torch once more before it ends
        return INTERRUPTED
    except NapariMstError as error:
        _tell(f"error: {error}")
        return REFUSED


def _is_closed_pipe(error: OSError) -> bool:
    """Whether what was printed has no reader: Windows says so in another way (https://bugs.python.org/issue35754)."""
    is_of_windows = os.name == "nt" and error.errno == errno.EINVAL and error.filename is None
    return isinstance(error, BrokenPipeError) or is_of_windows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="napari-mst", description="Hyperspectral cubes from RGB photos with MST++.")
    parser.add_argument("--version", action="version", version=f"napari-mst {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _add_reconstruct,
        _add_attention,
        _add_models,
        _add_cameras,
        _add_info,
        _add_spectra,
        add_evaluate,
        add_train,
    ):
        add(commands)
    return parser


def _add_reconstruct(commands: Any) -> None:
    reconstruct = commands.add_parser("reconstruct", help="photos to cubes")
    reconstruct.add_argument("photos", nargs="+", type=Path, metavar="PHOTO")
    reconstruct.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT", help="file (.hdr, .tif, ...), or folder for several"
    )
    reconstruct.add_argument("--format", choices=SUFFIXES, help="of the cubes in a folder (default: envi)")
    reconstruct.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        metavar="NAME|FILE",
        help=f"a name or a weights file (default: {DEFAULT_MODEL})",
    )
    reconstruct.add_argument("--device", default="auto", help="auto (default), cuda, cuda:1, mps or cpu")
    reconstruct.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16", "float64"),
        default="float32",
        help="float64: the reference; bfloat16, float16, where the device has them: features in half the memory, "
        "not exact, by an error that is measured on each photo (default: float32)",
    )
    reconstruct.add_argument(
        "--memory", type=_gigabytes, metavar="GB", help="of this computer, at most (default: most of what is free)"
    )
    reconstruct.add_argument("--device-memory", type=_gigabytes, metavar="GB", help="of a GPU, likewise")
    reconstruct.add_argument("--linear", action="store_true", help="the photos hold linear light, not sRGB")
    _add_capture(reconstruct)
    reconstruct.add_argument(
        "--no-colour-correction", action="store_true", help="leave the network's spectra as they are"
    )
    reconstruct.add_argument(
        "--error-bands",
        action="store_true",
        help="also write the lower and upper spectra of 90 %%: OUT_lower, OUT_upper",
    )
    reconstruct.add_argument(
        "--region", type=_rectangle, metavar="ROW0:ROW1,COL0:COL1", help="only these pixels; attention is global, so "
        "the numbers differ from those of the whole photo"
    )  # fmt: skip
    reconstruct.add_argument(
        "--ensemble", action="store_true", help="mean of 8 flips and transposes, as published; takes 8 times as long"
    )
    reconstruct.add_argument(
        "--overwrite", action="store_true", help="replace cubes that exist; of several, those of this very run stay"
    )
    reconstruct.set_defaults(command=_reconstruct)


def _add_attention(commands: Any) -> None:
    attention = commands.add_parser("attention", help="the attention matrices of a photo, and a map over it")
    attention.add_argument("photo", type=Path, metavar="PHOTO")
    attention.add_argument("-o", "--output", required=True, type=Path, metavar="OUT.npz", help="file to write")
    attention.add_argument("--model", default=DEFAULT_MODEL, metavar="NAME|FILE", help="as of reconstruct")
    attention.add_argument("--device", default="auto", help="auto (default), cuda, cuda:1, mps or cpu")
    attention.add_argument(
        "--precision", choices=("float32", "float64"), default="float32", help="float64: exact, six times slower"
    )
    attention.add_argument("--linear", action="store_true", help="the photo holds linear light, not sRGB")
    attention.add_argument(
        "--region", type=_rectangle, metavar="ROW0:ROW1,COL0:COL1", help="of these pixels alone: a region has an "
        "attention of its own"
    )  # fmt: skip
    _add_capture(attention)
    attention.add_argument("--overwrite", action="store_true", help="replace a file that exists")
    attention.add_argument("--map", action="append", choices=OVERLAYS, default=[], help="add this map, of the block:")
    attention.add_argument("--block", default="stages.0.encoder.0", metavar="NAME", help="(default: %(default)s)")
    attention.add_argument("--head", type=int, default=0, metavar="N", help="of the block, from 0 (default: 0)")
    attention.add_argument("--key", type=int, metavar="I", help="key channel i, from 0 (default: all)")
    attention.add_argument("--query", type=int, metavar="J", help="query channel j, from 0 (default: all)")
    attention.set_defaults(command=_attention)


def _add_models(commands: Any) -> None:
    models = commands.add_parser("models", help="the models, what they are for and how accurate they are")
    models.set_defaults(command=_models)


def _add_capture(command: argparse.ArgumentParser) -> None:
    """Add what a model for linear camera RGB has to be told of the photos."""
    told = command.add_argument_group("for mstpp-camera", "what took the photos; see `napari-mst cameras`")
    told.add_argument("--camera", default="", metavar="NAME|FILE", help="as Nikon_D5100, or a CSV file: nm, r, g, b")
    told.add_argument("--illuminant", default="", metavar="NAME|FILE", help="as D65, or a CSV file: nm, power")
    told.add_argument(
        "--white",
        type=float,
        default=0.0,
        metavar="VALUE",
        help="stored value of a white surface (default: full scale)",
    )
    told.add_argument(
        "--unbalanced", action="store_true", help="the values are the sensor's own, without any white balance"
    )


def _add_cameras(commands: Any) -> None:
    cameras = commands.add_parser("cameras", help="the cameras and illuminants that mstpp-camera can be told of")
    cameras.set_defaults(command=_cameras)


def _add_info(commands: Any) -> None:
    info = commands.add_parser("info", help="what a cube file holds and where it came from")
    info.add_argument("file", type=Path, metavar="FILE")
    info.add_argument("--variable", metavar="NAME", help="of the array, in a file that has several")
    info.add_argument(
        "--band-axis", type=int, choices=(0, -1), help="0 or -1, first or last, where the file is unclear"
    )
    info.set_defaults(command=_info)


def _add_spectra(commands: Any) -> None:
    spectra = commands.add_parser("spectra", help="spectra of pixels of a cube, as a table")
    spectra.add_argument("file", type=Path, metavar="CUBE")
    spectra.add_argument(
        "--at", type=_pixel, action="append", required=True, metavar="ROW,COLUMN", help="a pixel; may be repeated"
    )
    spectra.add_argument(
        "--window", type=int, default=1, metavar="SIDE", help="mean of SIDE x SIDE pixels (default: 1)"
    )
    spectra.add_argument("-o", "--output", type=Path, metavar="OUT", help=".csv or .sli (default: a table to print)")
    spectra.add_argument("--overwrite", action="store_true", help="replace a file that exists")
    spectra.set_defaults(command=_spectra)


def _rectangle(text: str) -> Rectangle:
    try:
        (top, bottom), (left, right) = (map(int, part.split(":")) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a region like 100:300,0:512, got {text[:40]!r}") from None
    return top, bottom, left, right


def _gigabytes(text: str) -> int:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        raise argparse.ArgumentTypeError(f"Expected a size in GB, as 4 or 0.5, got {text[:40]!r}.")
    return int(size * 1e9)


def _reconstruct(options: argparse.Namespace) -> int:
    photos: list[Path] = options.photos
    targets = _targets(photos, options.output, options.format)
    reconstructor, done = _prepared(photos, targets, options)
    failed = 0
    for photo, target in zip(photos, targets, strict=True):
        if target in done:
            print(target)
            continue
        try:
            _reconstruct_one(reconstructor, photo, target, options)
        except Cancelled:
            raise
        except NapariMstError as error:
            if len(photos) == 1:
                raise
            failed += 1
            _tell(f"error: {error}" if photo.name in str(error) else f"error: {photo.name}: {error}")
    if failed:
        _tell(f"{len(photos) - failed} of {len(photos)} cubes written, {failed} failed")
    return SOME_FAILED if failed else DONE


def _targets(photos: Sequence[Path], output: Path, form: str | None) -> list[Path]:
    """One cube file a photo."""
    is_folder = os.path.isdir(output)  # noqa: PTH112 (Path.is_dir raises where a name is too long)
    if len(photos) > 1 or (is_folder and output.suffix.lower() not in FOLDERS):
        return [output / f"{photo.stem}{SUFFIXES[form or 'envi']}" for photo in photos]
    if form:
        raise SaveError(f"Expected a folder with --format, got {shown(output.name)}. Let its suffix say the format.")
    return [output]


def _check_targets(photos: Sequence[Path], targets: Sequence[Path], overwrite: bool, present: Collection[Path]) -> None:
    """Refuse before computing what would fail after it, or cost a cube or a photo; those *present* may exist."""
    first: dict[str, Path] = {}
    for photo, target in zip(photos, targets, strict=True):
        other = first.setdefault(target.name.casefold(), photo)
        if other is not photo:
            names = f"{shown(other.name)} and {shown(photo.name)}"
            raise SaveError(f"Expected photos of different names, got {names} for {shown(target.name)}. Rename one.")
        check_target(target, overwrite=overwrite or target in present)
        if _is_same_file(photo, target):
            raise SaveError(f"Expected a new name for the cube, got the photo {shown(photo.name)}. Choose another.")


def _is_done(reconstructor: "Reconstructor", photo: Path, target: Path, options: argparse.Namespace) -> bool:
    """Whether *target* holds, undamaged, the cube of *photo* that a run with these options gives."""
    try:
        with photo.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        encoding = "linear" if reconstructor.capture else _encoding(options) or "srgb"
        wanted = reconstructor.origin(digest, encoding, options.region, options.ensemble)
        cube = read_cube(target, verify=True)
    except (NapariMstError, OSError):
        return False
    return "warnings" not in cube.metadata and cube.provenance.gives_the_cube_of(wanted)


def _encoding(options: argparse.Namespace) -> Encoding | None:
    return "linear" if options.linear else None


def _capture(options: argparse.Namespace) -> Capture | None:
    """What the photos were taken with; None if nothing was said of it."""
    if not (options.camera or options.illuminant):
        if options.white or options.unbalanced:
            raise CameraError("Expected --camera and --illuminant with --white or --unbalanced, got none. Add them.")
        return None
    if not (options.camera and options.illuminant):
        missing = "--illuminant" if options.camera else "--camera"
        raise CameraError(f"Expected --camera and --illuminant, got no {missing}. `napari-mst cameras` lists them.")
    return Capture(options.camera, options.illuminant, options.white, OF_SENSOR if options.unbalanced else BALANCED)


def _read_photo(path: Path, options: argparse.Namespace) -> Photo:
    """The photo; with a camera it is linear, and refused where it plainly is not and nobody said that it is."""
    photo = Photo.read(path, encoding="linear" if options.camera else _encoding(options))
    if options.camera and not options.linear:
        try:
            photo.check_linear()
        except PhotoError as error:
            raise PhotoError(f"{photo.name}: {error} (--linear)") from error
    return photo


def _is_same_file(photo: Path, target: Path) -> bool:
    try:
        return photo.samefile(target)
    except OSError:
        return False


def _reconstructor(options: argparse.Namespace, **choices: Any) -> "Reconstructor":
    from napari_mst.models import load_model  # these import torch: not for --help, or a refused target
    from napari_mst.reconstruction import Reconstructor

    capture = _capture(options)
    reconstructor = Reconstructor(load_model(options.model), options.device, capture=capture, **choices)
    _tell(f"note: running on {reconstructor.device.name}, {reconstructor.device.reason}")
    reconstructor.prepare(lambda text: _tell(f"note: {text}"))
    return reconstructor


def _reconstruct_one(reconstructor: "Reconstructor", photo: Path, target: Path, options: argparse.Namespace) -> None:
    source = _read_photo(photo, options)
    _tell(f"note: {photo.name}: {reconstructor.plan_for(source, options.region, ensemble=options.ensemble)}")
    with _bar(photo.name) as bar:
        cube = reconstructor.reconstruct(source, region=options.region, ensemble=options.ensemble, **bar)
    for assumption in cube.provenance.assumptions:
        _tell(f"note: {photo.name}: {assumption}")
    print(write_cube(target, cube, overwrite=options.overwrite))
    if options.error_bands:
        from napari_mst.uncertainty import error_bands

        for path, band in zip(_band_targets(target), error_bands(cube), strict=True):
            print(write_cube(path, band, overwrite=options.overwrite))


def _prepared(
    photos: Sequence[Path], targets: Sequence[Path], options: argparse.Namespace
) -> "tuple[Reconstructor, set[Path]]":
    """What reconstructs, and the targets that are of this very run already; refuses what would fail after it."""
    is_batch = len(photos) > 1 and not options.error_bands
    there = [target for target in targets if is_batch and find_format(target)]
    _check_targets(photos, targets, options.overwrite, there)
    _check_band_targets(targets if options.error_bands else (), options.overwrite)
    correct = not options.no_colour_correction
    budgets = {"memory": options.memory, "device_memory": options.device_memory}
    reconstructor = _reconstructor(options, precision=options.precision, correct_colour=correct, **budgets)
    if options.error_bands and not reconstructor.model.card.error_factor:
        raise ModelError(f"Expected a model with a calibrated error band, got {options.model}. Use a bundled one.")
    if there:
        _tell(f"note: checking {len(there)} cubes that are there already")
    done = {t for p, t in zip(photos, targets, strict=True) if t in there and _is_done(reconstructor, p, t, options)}
    _check_targets(photos, targets, options.overwrite, done)
    if done:
        _tell(f"note: {len(done)} of {len(photos)} cubes are of this run, and stay")
    return reconstructor, done


def _check_band_targets(targets: Sequence[Path], overwrite: bool) -> None:
    names = {target.name.casefold() for target in targets}
    for band in (band for target in targets for band in _band_targets(target)):
        if band.name.casefold() in names:
            raise SaveError(
                f"Expected another name for a photo, got that of the error band {shown(band.name)}. Rename."
            )
        check_target(band, overwrite=overwrite)


def _band_targets(target: Path) -> list[Path]:
    return [target.with_name(f"{target.stem}_{side}{target.suffix}") for side in ("lower", "upper")]


def _attention(options: argparse.Namespace) -> int:
    if options.output.suffix.lower() != ".npz":
        raise SaveError(f"Expected a name that ends in .npz, got {shown(options.output.name)}. Choose another.")
    check_attention_target(options.output, overwrite=options.overwrite)
    from napari_mst.explorer import AttentionExplorer  # imports torch: not for a refused target

    reconstructor = _reconstructor(options, precision=options.precision)
    photo = _read_photo(options.photo, options)
    selection = Selection(options.block, options.head, options.key, options.query)

    def explorer(bar: dict[str, Callable[..., Any]]) -> AttentionExplorer:
        return AttentionExplorer(reconstructor, photo, region=options.region, **bar)

    maps = []
    for overlay in options.map:
        with _bar(f"{photo.name}: {overlay}") as bar:
            maps.append(explorer(bar).map(overlay, selection))
    with _bar(photo.name) as bar:
        record = explorer(bar).record()
    for assumption in record.provenance.assumptions:
        _tell(f"note: {photo.name}: {assumption}")
    print(write_attention(options.output, record, maps, overwrite=options.overwrite))
    return DONE


@contextmanager
def _bar(title: str) -> Iterator[dict[str, Callable[..., Any]]]:
    """A progress bar: what a run takes as *progress*, and as *is_cancelled* whether Ctrl-C was pressed.

    Python would raise that wherever it is, in the middle of a library too. A second Ctrl-C does.
    """
    layout = "{desc}: {percentage:3.0f}% |{bar}| {elapsed} < {remaining}"
    with tqdm(total=1.0, desc=title, bar_format=layout, smoothing=0) as bar, _asked_to_stop() as is_cancelled:
        yield {"progress": lambda share: bar.update(share - bar.n), "is_cancelled": is_cancelled}


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # which Ctrl-C does not reach
        yield asked.is_set
        return

    def ask(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _models(_: argparse.Namespace) -> int:
    print("\n\n".join(_card_lines(card) for card in MODELS.values()))
    return DONE


def _cameras(_: argparse.Namespace) -> int:
    print("cameras (--camera):", *(f"  {name}" for name in load_cameras()), sep="\n")
    print("illuminants (--illuminant):", *(f"  {name}" for name in load_illuminants()), sep="\n")
    return DONE


def _card_lines(card: ModelCard) -> str:
    scores = [
        f"{data}: " + ", ".join(f"{metric} {value:g}" for metric, value in measures.items())
        for data, measures in card.accuracy.items()
    ]
    fields = {
        "for": card.domain,
        "needs": "--camera and --illuminant (see `napari-mst cameras`)" if card.needs_camera else "",
        "gives": f"{len(card.wavelengths)} bands of {card.quantity}, {_range(card.wavelengths, 'nm')}",
        "accuracy": "; ".join(scores) or "not measured",
        "trained on": card.training_data,
        "licence": card.licence,
        "weights": "bundled" if card.file else f"by file: --model FILE, from {card.url}",
    }
    rows = [f"  {name:<10}  {text}" for name, text in fields.items() if text]
    return "\n".join([f"{card.name}: {card.title}", *rows])


def _info(options: argparse.Namespace) -> int:
    wanted = {"variable": options.variable, "band_axis": options.band_axis}
    cube = read_cube(options.file, **{name: value for name, value in wanted.items() if value is not None})
    for name, value in _facts(cube).items():
        print(f"{name:<14}  {shown(value, 200)}")
    for assumption in cube.provenance.assumptions:
        print(f"{'assumed':<14}  {shown(assumption, 300)}")
    for warning in cube.metadata.get("warnings", ()):
        _tell(f"note: {shown(warning, 300)}")
    return DONE


def _pixel(text: str) -> tuple[int, int]:
    row, column = text.split(",")
    return int(row), int(column)


def _spectra(options: argparse.Namespace) -> int:
    cube, name = read_cube(options.file), options.file.name
    found = [point_spectrum(cube, row, column, options.window, cube_name=name) for row, column in options.at]
    if options.output is None:
        print(spectra_text(found), end="")
    else:
        print(write_spectra(options.output, found, overwrite=options.overwrite))
    return DONE


def _facts(cube: SpectralCube) -> dict[str, str]:
    bands, rows, columns = cube.shape
    provenance = asdict(cube.provenance)
    provenance["versions"] = ", ".join(f"{name} {number}" for name, number in cube.provenance.versions.items())
    del provenance["assumptions"]
    return {
        "shape": f"{bands} bands x {rows} rows x {columns} columns",
        "type": str(cube.data.dtype),
        "wavelengths": _range(cube.wavelengths.tolist(), cube.unit)
        if cube.has_wavelengths
        else f"unknown ({cube.unit})",
        "quantity": cube.quantity or "unknown",
        **{name.replace("_", " "): value for name, value in provenance.items() if value},
    }


def _range(wavelengths: Sequence[float], unit: str) -> str:
    return f"{wavelengths[0]:g} to {wavelengths[-1]:g} {unit}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr)
