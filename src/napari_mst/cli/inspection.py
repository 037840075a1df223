"""The commands that print information, `models`, `cameras`, `info` and `doctor`; and `export`."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from napari_mst.base.errors import NapariMstError, shown
from napari_mst.base.memory import free_host_memory
from napari_mst.cli.arguments import DONE, REFUSED
from napari_mst.cli.console import note, print_json
from napari_mst.cli.shared_options import DEFAULT_MODEL
from napari_mst.cube import SpectralCube
from napari_mst.formats.read_options import AS_THE_FILE_SAYS, ReadOptions
from napari_mst.models import MODELS
from napari_mst.models.cards import LIGHT_MODELS
from napari_mst.photo.cameras import load_cameras, load_illuminants


def list_models(*, json: bool = False) -> None:
    """Print the models with their errors, or everything about them.

    Parameters
    ----------
    json
        print JSON, for programs

    Examples
    --------
    napari-mst models
    napari-mst models --json
    """
    if json:
        cards = (*MODELS.values(), *LIGHT_MODELS.values())
        print_json({card.name: asdict(card) for card in cards})
        return
    from napari_mst.models.model_table import list_models

    print(list_models())


def export_model(output: Path, *, model: str = DEFAULT_MODEL, overwrite: bool = False) -> None:
    """Save a model as a file for other programs, and print its name.

    Parameters
    ----------
    output : OUT.onnx
        the file to write
    model : NAME|FILE
        name of a model or its weights file
    overwrite
        replace an existing file

    Examples
    --------
    napari-mst export model.onnx
    napari-mst export mine.onnx --model mine.safetensors
    """
    from napari_mst.models import load_model

    print(load_model(model).to_onnx(output, overwrite=overwrite))


def list_cameras() -> None:
    """Print the names of the cameras and the lights.

    Examples
    --------
    napari-mst cameras
    """
    print("cameras (--camera):", *load_cameras(), sep="\n  ")
    print("illuminants (--illuminant):", *load_illuminants(), sep="\n  ")


def describe_cube(
    cube: Path, *, reading: ReadOptions = AS_THE_FILE_SAYS, json: bool = False
) -> None:
    """Print the content of a cube file and its origin.

    Parameters
    ----------
    cube
        a cube file of any kind
    json
        print JSON, for programs

    Examples
    --------
    napari-mst info cube.hdr
    napari-mst info cube.mat --variable reflectance --json
    """
    whole = reading.read(cube)
    assumptions = list(whole.provenance.assumptions)
    warnings = list(whole.metadata.get("warnings", ()))
    if json:
        print_json({**_facts(whole), "assumed": assumptions, "warnings": warnings})
        return
    for name, value in _facts(whole).items():
        print(f"{name:<14}  {shown(value, 200)}")
    for assumption in assumptions:
        print(f"{'assumed':<14}  {shown(assumption, 300)}")
    for warning in warnings:
        note(shown(warning, 300))


def _facts(cube: SpectralCube) -> dict[str, str]:
    bands, rows, columns = cube.shape
    wavelengths = f"unknown ({cube.unit})"
    if cube.has_wavelengths:
        wavelengths = f"{cube.wavelengths[0]:g} to {cube.wavelengths[-1]:g} {cube.unit}"
    facts = {
        "shape": f"{bands} bands x {rows} rows x {columns} columns",
        "type": str(cube.data.dtype),
        "wavelengths": wavelengths,
        "quantity": cube.quantity or "unknown",
    }
    provenance = asdict(cube.provenance)
    versions = cube.provenance.versions.items()
    provenance["versions"] = ", ".join(f"{name} {number}" for name, number in versions)
    del provenance["assumptions"]  # each has a separate line
    del provenance["sensor"]  # 93 numbers, too many to read
    for name, value in provenance.items():
        if value:
            facts[name.replace("_", " ")] = value
    if "map" in cube.metadata:  # notes of `Map.to_cube`, such as the formula and its bands
        made = {name: str(value) for name, value in cube.metadata.items() if name[:3] == "map"}
        facts |= {name: value for name, value in made.items() if name != "map info"}
    return facts


PACKAGES = (
    "napari-mst",
    "torch",
    "numpy",
    "numba",
    "tifffile",
    "imagecodecs",
    "pillow",
    "spectral",
    "scikit-image",
    "h5py",
    "zarr",
    "xarray",
    "matplotlib",
    "napari",
    "npe2",
    "magicgui",
    "qtpy",
    "superqt",
    "pyqtgraph",
    "vispy",
)
"""Packages whose versions, or absence, are reported."""

BINDINGS = ("PyQt6", "PySide6", "PyQt5", "PySide2")
"""Qt bindings; napari uses the first one that it finds."""

MEGAPIXELS = ((1, 1000, 1000), (12, 3000, 4000), (100, 10_000, 10_000))
"""Photo sizes whose plans are printed: megapixels, rows, columns."""

_OPENGL = "napari_mst.plugin.opengl"
"""Program that queries Qt; it runs in another process and is never imported here."""

SECONDS = 60
"""Time limit for Qt to open a window's surface."""


class ReportLine(NamedTuple):
    """A line of the report.

    Attributes
    ----------
    name
        Subject, in a few words.
    text
        Finding about the subject.
    advice
        Sentence on how to fix a fault; "" if there is none.
    """

    name: str
    text: str
    advice: str = ""


def findings() -> Iterator[ReportLine]:
    """Yield the lines of the report as soon as they are known."""
    yield ReportLine("python", f"{platform.python_version()} in {sys.prefix}")
    yield ReportLine("system", f"{platform.platform()}, {os.cpu_count()} processors")
    versions = {name: _version(name) for name in PACKAGES}
    yield from (ReportLine(name, number) for name, number in versions.items() if number)
    missing = [name for name, number in versions.items() if not number]
    if missing:
        yield ReportLine("not installed", ", ".join(missing))
    for subject in (_device, _kernels, _models, _memory, _window):
        yield from _told(subject)


def _told(subject: Callable[[], Iterator[ReportLine]]) -> Iterator[ReportLine]:
    """Yield the findings of *subject*, including its failure."""
    try:
        yield from subject()
    except (NapariMstError, ImportError, OSError, RuntimeError) as error:
        name = subject.__name__.strip("_")
        yield ReportLine(name, f"{type(error).__name__}: {error}", "Install napari-mst again.")


def _version(name: str) -> str:
    """Return the version of a package; "" if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _device() -> Iterator[ReportLine]:
    from napari_mst.engine.device import choose_device

    choice = choose_device()
    yield ReportLine("device", f"{choice.name}, {choice.reason}")
    yield ReportLine("precisions", ", ".join(choice.precisions))


def _kernels() -> Iterator[ReportLine]:
    from napari_mst.engine.fast_paths import native

    if not native.is_installed():
        yield ReportLine("kernels", "none; a CPU is faster with: pip install numba")
    elif native.is_ready():
        yield ReportLine("kernels", "compiled, and right on this processor")
    else:
        yield ReportLine("kernels", "cannot be used here", "Report this; everything works, slower.")
    yield ReportLine("processor", native.description())


def _models() -> Iterator[ReportLine]:
    from napari_mst.models import load_model

    bundled = [name for name, card in MODELS.items() if card.file]
    for name in bundled:
        load_model(name)
    yield ReportLine("models", f"{', '.join(bundled)}: as they came with this version")


def _memory() -> Iterator[ReportLine]:
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    yield ReportLine("free memory", f"{free_host_memory() / 2**30:.1f} GiB")
    reconstructor = Reconstructor(load_model("mstpp-srgb"))
    for millions, rows, columns in MEGAPIXELS:
        try:
            text = str(reconstructor.plan(rows, columns))
        except NapariMstError as error:
            text = str(error)
        yield ReportLine(f"{millions} megapixels", text)


def _window() -> Iterator[ReportLine]:
    versions = [f"{name} {_version(name)}" for name in BINDINGS if _version(name)]
    if not versions or not _version("napari"):
        yield ReportLine("window", "napari or Qt is not installed: Python and command line only")
        return
    yield ReportLine("Qt", ", ".join(versions), _advice_on(versions))
    is_served = map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))
    if sys.platform == "linux" and not any(is_served):
        text = "no display here (DISPLAY is not set): Python and command line only"
        yield ReportLine("window", text)
        return
    yield _opengl()


def _advice_on(versions: Sequence[str]) -> str:
    """Return advice on unusable Qt bindings, given as "name version"; "" if they are usable."""
    # This version drops a reference to None at each signal; from 3.12 on, None is not counted.
    if "PySide6 6.12.0" in versions and sys.version_info < (3, 12):
        return 'It ends napari after some thousand mouse moves: pip install "PySide6!=6.12.0"'
    # Two bindings in one process crash it, for example if a package imports the other one.
    return "Uninstall all but one." if len(versions) > 1 else ""


def _opengl() -> ReportLine:
    """Return the OpenGL version of a window, from another process, since Qt may abort."""
    advice = "Look at the display and its driver: napari draws with OpenGL."
    try:
        asked = subprocess.run(
            [sys.executable, "-m", _OPENGL], capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return ReportLine("window", f"Qt did not answer within {SECONDS} s", advice)
    where, _, version = asked.stdout.strip().partition(" ")
    if asked.returncode:
        complaints = asked.stderr.strip().splitlines() or ["it said nothing"]
        # Qt states the cause first and ends with a list of plugins; Python states the cause last.
        cause = next((line for line in complaints if line.startswith("qt.")), complaints[-1])
        return ReportLine("window", f"Qt ended: {shown(cause, 160)}", advice)
    if not version:
        return ReportLine("window", f"Qt on {shown(where)} without OpenGL", advice)
    return ReportLine("window", f"Qt on {shown(where)}, OpenGL {shown(version)}")


def _compile_all() -> Iterator[ReportLine]:
    """Compile and cache all kernels, including those for denoising."""
    import numpy as np

    from napari_mst.denoising.nl_bayes import fastest
    from napari_mst.denoising.non_local_means import non_local_means

    yield from _told(_kernels)
    non_local_means(np.zeros((3, 9, 9)), h=1.0, distance=1)
    fastest()


def check_installation(*, compile: bool = False, json: bool = False) -> int:
    """Print findings about the installation, and the number of faults.

    Parameters
    ----------
    compile
        only compile the kernels for this processor, for example when building a container
    json
        print JSON, for programs

    Examples
    --------
    napari-mst doctor
    napari-mst doctor --json > report.json

    Notes
    -----
    Lines with ! are faults; the exit status is then 2.
    """
    lines = []
    for line in _compile_all() if compile else findings():
        lines.append(line._asdict())
        if not json:
            print(f"{line.name:<14}  {shown(line.text, 300)}", flush=True)
            if line.advice:
                print(f"{'':<14}  ! {line.advice}", flush=True)
    faults = sum(bool(line["advice"]) for line in lines)
    if json:
        print_json(lines)
    else:
        print("no fault was found" if faults == 0 else f"faults (!): {faults}")
    return REFUSED if faults else DONE
