"""The command line: `napari-mst reconstruct | models | cameras | info | spectra | attention | evaluate | train | ...`.

Results go to standard output, notes and errors to standard error. Exit codes: 0 all well; 1 some photos of several
failed, the others were written; 2 the command or its input was refused, in one sentence; 74 the output could not be
written, as to a full disk; 130 Ctrl-C; 141 nobody reads the output any more, as of `head`.
"""

import argparse
import errno
import math
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from napari_mst import __version__
from napari_mst.attention.overlays import OVERLAYS
from napari_mst.attention.record import AttentionMap, AttentionRecord, Selection, write_attention
from napari_mst.attention.record import check_target as check_attention_target
from napari_mst.batch import (
    FOLDERS,
    Job,
    band_targets,
    check_names,
    check_outputs,
    claimed,
    find_photos,
    finished,
    folders_for,
    is_there,
    may_stay,
    plan_jobs,
)
from napari_mst.cli.control_c import INTERRUPTED, asked_to_stop
from napari_mst.cli.training import add_calibrate, add_evaluate, add_retrain, add_train
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import (
    CameraError,
    Cancelled,
    ModelError,
    NapariMstError,
    PhotoError,
    SaveError,
)
from napari_mst.formats import FORMATS, read_cube, write_cube
from napari_mst.messages import shown
from napari_mst.models import MODELS, ModelCard
from napari_mst.photo.cameras import BALANCED, OF_SENSOR, Capture, load_cameras, load_illuminants
from napari_mst.photo.photo import Encoding, Photo, Rectangle
from napari_mst.reconstruction.options import RunOptions
from napari_mst.spectra.library import spectra_text, write_spectra
from napari_mst.spectra.regions import point_spectrum
from napari_mst.terminal import harmless_output
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor

DEFAULT_MODEL = "mstpp-srgb"
SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
BATCHES = (
    "A run into a folder that was interrupted goes on when it is started again: cubes that are there, undamaged and of "
    "the same photo, model and options, stay. Several such runs at once share the work."
)
DONE, SOME_FAILED, REFUSED, UNWRITTEN, UNREAD = 0, 1, 2, 74, 141


@harmless_output()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with *arguments* (default: those of the process) and return its exit code."""
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()  # here, where it can be caught that it cannot be written
    except OSError as error:
        _silence_broken_streams()
        if _is_closed_pipe(error):
            return UNREAD
        with suppress(OSError):  # of standard error itself
            reason = error.strerror or error
            _tell(
                f"error: Expected to print and save all, got: {reason}. Make room, or write elsewhere."
            )
        return UNWRITTEN


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (KeyboardInterrupt, Cancelled):
        _tell("cancelled")
        return INTERRUPTED
    except NapariMstError as error:
        _tell(f"error: {error}")
        return REFUSED


def _silence_broken_streams() -> None:
    """Let a stream that cannot be written lead nowhere: Python writes what is left in it when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_closed_pipe(error: OSError) -> bool:
    """Whether what was printed has no reader: Windows says so in another way (https://bugs.python.org/issue35754)."""
    is_of_windows = os.name == "nt" and error.errno == errno.EINVAL and error.filename is None
    return isinstance(error, BrokenPipeError) or is_of_windows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="napari-mst", description="Hyperspectral cubes from RGB photos with MST++."
    )
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
        add_retrain,
        add_calibrate,
    ):
        add(commands)
    return parser


def _add_reconstruct(commands: Any) -> None:
    reconstruct = commands.add_parser("reconstruct", help="photos to cubes", epilog=BATCHES)
    reconstruct.add_argument(
        "photos",
        nargs="+",
        type=Path,
        metavar="PHOTO",
        help="a file, a folder (with all folders in it) or a pattern, as '*.png'; again for several",
    )
    reconstruct.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="OUT",
        help="a file (.hdr, .tif, ...); or, for several photos, a folder: it is made if it is missing, and the folders "
        "of the photos are mirrored in it",
    )
    reconstruct.add_argument(
        "--format", choices=SUFFIXES, help="of the cubes in a folder (default: envi)"
    )
    reconstruct.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        metavar="NAME|FILE",
        help=f"a name or a weights file (default: {DEFAULT_MODEL})",
    )
    reconstruct.add_argument(
        "--device", default="auto", help="auto (default), cuda, cuda:1, mps or cpu"
    )
    reconstruct.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16", "float64"),
        default="float32",
        help="float64: the reference; bfloat16, float16, where the device has them: features in half the memory, "
        "not exact, by an error that is measured on each photo (default: float32)",
    )
    reconstruct.add_argument(
        "--memory",
        type=_gigabytes,
        metavar="GB",
        help="of this computer, at most (default: most of what is free)",
    )
    reconstruct.add_argument(
        "--device-memory", type=_gigabytes, metavar="GB", help="of a GPU, likewise"
    )
    reconstruct.add_argument(
        "--linear", action="store_true", help="the photos hold linear light, not sRGB"
    )
    _add_capture(reconstruct)
    reconstruct.add_argument(
        "--no-colour-correction",
        action="store_true",
        help="leave the network's spectra as they are",
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
        "--ensemble",
        action="store_true",
        help="mean of 8 flips and transposes, as published; takes 8 times as long",
    )
    reconstruct.add_argument(
        "--overwrite",
        action="store_true",
        help="replace cubes that exist; in a folder, those that this run would give again stay all the same",
    )
    reconstruct.set_defaults(command=_reconstruct)


def _add_attention(commands: Any) -> None:
    attention = commands.add_parser(
        "attention", help="the attention matrices of a photo, and a map over it"
    )
    attention.add_argument("photo", type=Path, metavar="PHOTO")
    attention.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT.npz", help="file to write"
    )
    attention.add_argument(
        "--model", default=DEFAULT_MODEL, metavar="NAME|FILE", help="as of reconstruct"
    )
    attention.add_argument(
        "--device", default="auto", help="auto (default), cuda, cuda:1, mps or cpu"
    )
    attention.add_argument(
        "--precision",
        choices=("float32", "float64"),
        default="float32",
        help="float64: exact, six times slower",
    )
    attention.add_argument(
        "--linear", action="store_true", help="the photo holds linear light, not sRGB"
    )
    attention.add_argument(
        "--region", type=_rectangle, metavar="ROW0:ROW1,COL0:COL1", help="of these pixels alone: a region has an "
        "attention of its own"
    )  # fmt: skip
    _add_capture(attention)
    attention.add_argument("--overwrite", action="store_true", help="replace a file that exists")
    attention.add_argument(
        "--map", action="append", choices=OVERLAYS, default=[], help="add this map, of the block:"
    )
    attention.add_argument(
        "--block", default="stages.0.encoder.0", metavar="NAME", help="(default: %(default)s)"
    )
    attention.add_argument(
        "--head", type=int, default=0, metavar="N", help="of the block, from 0 (default: 0)"
    )
    attention.add_argument(
        "--key", type=int, metavar="I", help="key channel i, from 0 (default: all)"
    )
    attention.add_argument(
        "--query", type=int, metavar="J", help="query channel j, from 0 (default: all)"
    )
    attention.set_defaults(command=_attention)


def _add_models(commands: Any) -> None:
    models = commands.add_parser(
        "models", help="the models, what they are for and how accurate they are"
    )
    models.set_defaults(command=_models)


def _add_capture(command: argparse.ArgumentParser) -> None:
    """Add what a model for linear camera RGB has to be told of the photos."""
    told = command.add_argument_group(
        "for mstpp-camera", "what took the photos; see `napari-mst cameras`"
    )
    told.add_argument(
        "--camera",
        default="",
        metavar="NAME|FILE",
        help="as Nikon_D5100, or a CSV file: nm, r, g, b",
    )
    told.add_argument(
        "--illuminant", default="", metavar="NAME|FILE", help="as D65, or a CSV file: nm, power"
    )
    told.add_argument(
        "--white",
        type=float,
        default=0.0,
        metavar="VALUE",
        help="stored value of a white surface (default: full scale)",
    )
    told.add_argument(
        "--unbalanced",
        action="store_true",
        help="the values are the sensor's own, without any white balance",
    )


def _add_cameras(commands: Any) -> None:
    cameras = commands.add_parser(
        "cameras", help="the cameras and illuminants that mstpp-camera can be told of"
    )
    cameras.set_defaults(command=_cameras)


def _add_info(commands: Any) -> None:
    info = commands.add_parser("info", help="what a cube file holds and where it came from")
    info.add_argument("file", type=Path, metavar="FILE")
    info.add_argument("--variable", metavar="NAME", help="of the array, in a file that has several")
    info.add_argument(
        "--band-axis",
        type=int,
        choices=(0, -1),
        help="0 or -1, first or last, where the file is unclear",
    )
    info.set_defaults(command=_info)


def _add_spectra(commands: Any) -> None:
    spectra = commands.add_parser("spectra", help="spectra of pixels of a cube, as a table")
    spectra.add_argument("file", type=Path, metavar="CUBE")
    spectra.add_argument(
        "--at",
        type=_pixel,
        action="append",
        required=True,
        metavar="ROW,COLUMN",
        help="a pixel; may be repeated",
    )
    spectra.add_argument(
        "--window",
        type=int,
        default=1,
        metavar="SIDE",
        help="mean of SIDE x SIDE pixels (default: 1)",
    )
    spectra.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help=".csv or .sli (default: a table to print)"
    )
    spectra.add_argument("--overwrite", action="store_true", help="replace a file that exists")
    spectra.set_defaults(command=_spectra)


def _rectangle(text: str) -> Rectangle:
    try:
        (top, bottom), (left, right) = (map(int, part.split(":")) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a region like 100:300,0:512, got {text[:40]!r}"
        ) from None
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
    jobs, is_batch = _jobs(options)
    with folders_for(jobs if is_batch else ()):
        with asked_to_stop():  # to see whether a file can be made, one is made for a moment
            _check(jobs, options.overwrite, is_batch)
        chosen = _run_options(options)
        run = _Run(_reconstructor_for(chosen, options), chosen, options, is_batch)
        return _make_all(run, jobs, _done(run, jobs))


def _jobs(options: argparse.Namespace) -> tuple[list[Job], bool]:
    """The cubes to make, and whether it is a batch: into a folder, where finished cubes stay."""
    output: Path = options.output
    found = find_photos(options.photos, output, _tell)
    is_place = os.path.isdir(output) and output.suffix.lower() not in FOLDERS  # noqa: PTH112 (raises on a long name)
    if is_place or len(found) > 1 or any(os.path.isdir(path) for path in options.photos):  # noqa: PTH112
        if not is_place and output.suffix.lower() in SUFFIXES.values():
            raise SaveError(
                f"Expected a folder for several cubes, got {shown(output.name)}. Leave its suffix out."
            )
        return plan_jobs(
            found, output, SUFFIXES[options.format or "envi"], options.error_bands
        ), True
    if options.format:
        raise SaveError(
            f"Expected a folder with --format, got {shown(output.name)}. Let its suffix say the format."
        )
    bands = band_targets(output) if options.error_bands else ()
    return [Job(one.photo, output, one.photo.name, bands) for one in found], False


def _check(jobs: Sequence[Job], overwrite: bool, is_batch: bool) -> None:
    """Refuse before computing what would fail after it, or cost a cube or a photo."""
    check_names(jobs)
    for job in jobs:
        check_outputs(job, overwrite, may_stay(job) if is_batch else ())


def _done(run: "_Run", jobs: Sequence[Job]) -> dict[Job, set[Path]]:
    """The outputs of each job that are of this very run; refuses others that would have to be replaced."""
    there = [job for job in jobs if run.is_batch and is_there(job.target)]
    if there:
        _tell(f"note: checking {len(there)} cubes that are there already")
    done = {job: run.finished(job) for job in jobs}
    for job in jobs:
        check_outputs(job, run.options.overwrite, done[job])
    if stay := sum(job.target in done[job] for job in jobs):
        _tell(f"note: {stay} of {len(jobs)} cubes are of this run, and stay")
    return done


def _make_all(run: "_Run", jobs: Sequence[Job], done: Mapping[Job, set[Path]]) -> int:
    """Make what is not done, and at last what another run was making; returns the exit code."""
    failed = 0
    todo = deque((job, False) for job in jobs)
    while todo:
        job, waits = todo.popleft()
        try:
            is_over = run.make(job, done[job], waits)
        except Cancelled:
            raise
        except NapariMstError as error:
            if len(jobs) == 1:
                raise
            is_over = True
            failed += 1
            _tell(f"error: {job.name}: {str(error).removeprefix(f'{job.photo.name}: ')}")
        if not is_over:
            todo.append((job, True))
    if failed:
        _tell(f"{len(jobs) - failed} of {len(jobs)} cubes written, {failed} failed")
    return SOME_FAILED if failed else DONE


@dataclass(frozen=True)
class _Run:
    """A reconstructor, and what to do with it; a batch lets what is done stay, and shares the rest with other runs."""

    reconstructor: "Reconstructor"
    chosen: RunOptions
    options: argparse.Namespace
    is_batch: bool

    def finished(self, job: Job) -> set[Path]:
        """The outputs of *job* that are there, undamaged, and of this very run."""
        return finished(job, self._wanted) if self.is_batch else set()

    def make(self, job: Job, done: set[Path], waits: bool) -> bool:
        """Make what is not *done* of *job*; false if another run is at it, and this one does not wait."""
        with asked_to_stop() as is_cancelled:
            watch = Watch(is_cancelled=is_cancelled)
            if not self.is_batch:
                self._make(job, done, watch)
                return True
            with claimed(job, watch, waits=waits) as is_ours:
                if is_ours:
                    is_done = done.issuperset(job.outputs)
                    self._make(job, done if is_done else self.finished(job), watch)
                elif not waits:
                    _tell(
                        f"note: {job.name}: another run is making it; it is looked at again at the end"
                    )
                return is_ours

    def _wanted(self, sha256: str) -> Provenance:
        encoding = "linear" if self.chosen.capture else _encoding(self.options) or "srgb"
        return self.reconstructor.origin(sha256, encoding, **self.chosen.for_photo)

    def _make(self, job: Job, done: set[Path], watch: Watch) -> None:
        overwrite = self.options.overwrite
        check_outputs(job, overwrite, done)
        for path, cube in self._cubes(job, done, watch):
            if cube is not None:
                path = write_cube(
                    path, cube, overwrite=overwrite, progress=watch.reach
                )  # Ctrl-C ends a save
            print(path, flush=True)  # a batch takes long, and Ctrl-C may end it

    def _cubes(
        self, job: Job, done: set[Path], watch: Watch
    ) -> Iterator[tuple[Path, SpectralCube | None]]:
        """The outputs of *job*, with the cube to save there, or None for what is *done*."""
        made = None if job.target in done else self._reconstructed(job, watch)
        yield job.target, made
        if done.issuperset(job.bands):
            yield from ((path, None) for path in job.bands)
            return
        from napari_mst.reconstruction.error_bands import error_bands

        bands = error_bands(read_cube(job.target) if made is None else made)
        for path, band in zip(job.bands, bands, strict=True):
            yield path, None if path in done else band

    def _reconstructed(self, job: Job, watch: Watch) -> SpectralCube:
        source = _read_photo(job.photo, self.options)
        plan = self.reconstructor.plan_for(
            source, **self.chosen.for_photo, is_cancelled=watch.is_cancelled
        )
        _tell(f"note: {job.name}: {plan}")
        with _bar(job.name, watch) as shown_on:
            cube = self.reconstructor.reconstruct(
                source, **shown_on.arguments, **self.chosen.for_photo
            )
        for assumption in cube.provenance.assumptions:
            _tell(f"note: {job.name}: {assumption}")
        return cube


def _run_options(options: argparse.Namespace) -> RunOptions:
    return RunOptions(
        device=options.device,
        memory=options.memory,
        device_memory=options.device_memory,
        precision=options.precision,
        correct_colour=not options.no_colour_correction,
        capture=_capture(options),
        region=options.region,
        ensemble=options.ensemble,
    )


def _reconstructor_for(chosen: RunOptions, options: argparse.Namespace) -> "Reconstructor":
    reconstructor = _reconstructor(options.model, chosen)
    if options.error_bands and not reconstructor.model.card.error_factor:
        raise ModelError(
            f"Expected a model with a calibrated error band, got {options.model}. Use a bundled one."
        )
    return reconstructor


def _encoding(options: argparse.Namespace) -> Encoding | None:
    return "linear" if options.linear else None


def _capture(options: argparse.Namespace) -> Capture | None:
    """What the photos were taken with; None if nothing was said of it."""
    if not (options.camera or options.illuminant):
        if options.white or options.unbalanced:
            raise CameraError(
                "Expected --camera and --illuminant with --white or --unbalanced, got none. Add them."
            )
        return None
    if not (options.camera and options.illuminant):
        missing = "--illuminant" if options.camera else "--camera"
        raise CameraError(
            f"Expected --camera and --illuminant, got no {missing}. `napari-mst cameras` lists them."
        )
    return Capture(
        options.camera,
        options.illuminant,
        options.white,
        OF_SENSOR if options.unbalanced else BALANCED,
    )


def _read_photo(path: Path, options: argparse.Namespace) -> Photo:
    """The photo; with a camera it is linear, and refused where it plainly is not and nobody said that it is."""
    photo = Photo.read(path, encoding="linear" if options.camera else _encoding(options))
    if options.camera and not options.linear:
        try:
            photo.check_linear()
        except PhotoError as error:
            raise PhotoError(f"{photo.name}: {error} (--linear)") from error
    return photo


def _reconstructor(model: str, chosen: RunOptions) -> "Reconstructor":
    from napari_mst.models import (
        load_model,
    )  # these import torch: not for --help, or a refused target
    from napari_mst.reconstruction.reconstructor import Reconstructor

    reconstructor = Reconstructor(load_model(model), **chosen.for_reconstructor)
    _tell(f"note: running on {reconstructor.device.name}, {reconstructor.device.reason}")
    # asked for a cancel, it compiles in another thread: this one hears Ctrl-C meanwhile, which ends the process
    reconstructor.prepare(lambda text: _tell(f"note: {text}"), is_cancelled=lambda: False)
    return reconstructor


def _attention(options: argparse.Namespace) -> int:
    if options.output.suffix.lower() != ".npz":
        raise SaveError(
            f"Expected a name that ends in .npz, got {shown(options.output.name)}. Choose another."
        )
    with asked_to_stop():
        check_attention_target(options.output, overwrite=options.overwrite)
    chosen = RunOptions(
        device=options.device, precision=options.precision, capture=_capture(options)
    )
    reconstructor = _reconstructor(options.model, chosen)
    with asked_to_stop() as is_cancelled:
        record, maps = _explored(reconstructor, options, Watch(is_cancelled=is_cancelled))
        for assumption in record.provenance.assumptions:
            _tell(f"note: {options.photo.name}: {assumption}")
        print(write_attention(options.output, record, maps, overwrite=options.overwrite))
    return DONE


def _explored(
    reconstructor: "Reconstructor", options: argparse.Namespace, watch: Watch
) -> tuple[AttentionRecord, list[AttentionMap]]:
    """The matrices of the photo, and the maps that were asked for."""
    from napari_mst.attention.explorer import (
        AttentionExplorer,
    )  # imports torch: not for a refused target

    photo = _read_photo(options.photo, options)
    selection = Selection(options.block, options.head, options.key, options.query)

    def explorer(shown_on: Watch) -> AttentionExplorer:
        return AttentionExplorer(reconstructor, photo, region=options.region, **shown_on.arguments)

    maps = []
    for overlay in options.map:
        with _bar(f"{photo.name}: {overlay}", watch) as shown_on:
            maps.append(explorer(shown_on).map(overlay, selection))
    with _bar(photo.name, watch) as shown_on:
        return explorer(shown_on).record(), maps


@contextmanager
def _bar(title: str, watch: Watch) -> Iterator[Watch]:
    """A progress bar as a watch, which is cancelled as *watch* is."""
    layout = "{desc}: {percentage:3.0f}% |{bar}| {elapsed} < {remaining}"
    with tqdm(total=1.0, desc=title, bar_format=layout, smoothing=0) as bar:
        yield Watch(lambda share: bar.update(share - bar.n), watch.is_cancelled)


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
        "needs": "--camera and --illuminant (see `napari-mst cameras`)"
        if card.needs_camera
        else "",
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
    cube = read_cube(
        options.file, **{name: value for name, value in wanted.items() if value is not None}
    )
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
    found = [
        point_spectrum(cube, row, column, options.window, cube_name=name)
        for row, column in options.at
    ]
    if options.output is None:
        print(spectra_text(found), end="")
    else:
        with asked_to_stop():
            print(write_spectra(options.output, found, overwrite=options.overwrite))
    return DONE


def _facts(cube: SpectralCube) -> dict[str, str]:
    bands, rows, columns = cube.shape
    provenance = asdict(cube.provenance)
    provenance["versions"] = ", ".join(
        f"{name} {number}" for name, number in cube.provenance.versions.items()
    )
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
