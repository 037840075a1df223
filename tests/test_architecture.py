"""The walls of the house: which imports may load what, each tried in a fresh interpreter."""

import ast
import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import napari_mst

GUI = ("napari", "qtpy", "superqt", "magicgui", "pyqtgraph", "vispy", "PyQt6", "PySide6")
TORCH_FREE = (
    "attention.record_files",
    "attention.overlays",
    "attention.record",
    "cli.main",
    "cube",
    "cube.metrics",
    "denoising.kernel",
    "denoising.sensor_noise",
    "denoising.non_local_means",
    "base.errors",
    "formats",
    "models",
    "photo.files",
    "photo.photo",
    "reconstruction.options",
    "analysis.library",
    "analysis.maps",
)

CORE = sorted(
    module.name
    for module in pkgutil.walk_packages(napari_mst.__path__, "napari_mst.")
    if not module.name.startswith("napari_mst.plugin")
)


def run_python(code: str, *arguments: str) -> str:
    """Run *code* in an interpreter of its own and return its output; a traceback fails the test."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(statement: str, packages: tuple[str, ...]) -> set[str]:
    return set(run_python(f"{statement}\nimport sys\nprint(*sys.modules)").split()) & set(packages)


def test_core_works_without_napari_and_qt() -> None:
    """Imports every module of the core, and reads a photo, with the GUI's libraries blocked."""
    code = """
import importlib, sys
blocked, modules = (argument.split(",") for argument in sys.argv[1:])
sys.modules.update(dict.fromkeys(blocked))
for name in modules:
    importlib.import_module(name)
import napari_mst, numpy
napari_mst.Photo.from_array(numpy.full((4, 5, 3), 9, numpy.uint8))
"""
    run_python(code, ",".join(GUI), ",".join(CORE))


def test_importing_the_package_imports_no_library() -> None:
    assert not loaded_by("import napari_mst", (*GUI, "torch", "numpy", "tifffile"))


def test_modules_that_need_no_torch_do_not_import_it() -> None:
    statement = "import " + ", ".join(f"napari_mst.{module}" for module in TORCH_FREE)
    if not loaded_by(statement, ("torch", *GUI)):  # one interpreter for all is quicker than many
        return
    culprits = [
        module for module in TORCH_FREE if loaded_by(f"import napari_mst.{module}", ("torch", *GUI))
    ]
    assert culprits == []


def test_docks_open_without_waiting_for_torch() -> None:
    docks = ("workspace_dock", "attention.dock", "metamers.dock")
    statement = "import " + ", ".join(f"napari_mst.plugin.{dock}" for dock in docks)
    assert not loaded_by(statement, ("torch", "spectral", "scipy.ndimage"))


def test_spectral_and_scikit_image_are_loaded_on_first_use() -> None:
    modules = ("cli.main", "analysis.maps", "cube.metrics", "analysis.comparison")
    statement = "import " + ", ".join(f"napari_mst.{module}" for module in modules)
    assert not loaded_by(statement, ("spectral", "skimage", "scipy"))


def test_a_first_run_does_not_wait_for_the_compiler_of_torch() -> None:
    photo = "numpy.full((8, 8, 3), 99, numpy.uint8)"
    run = f"napari_mst.Reconstructor(napari_mst.load_model('mstpp-srgb')).reconstruct({photo})"
    assert not loaded_by(f"import napari_mst, numpy\n{run}", ("sympy",))


PACKAGES = (napari_mst, napari_mst.attention, napari_mst.calibration.light)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_can_be_imported(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'napari_mst' has no attribute 'cubes'"):
        napari_mst.cubes  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_type_checkers_see_the_names_that_python_sees(package: ModuleType) -> None:
    """Python splits the lines of the list; an import over several lines would be lost on it."""
    text = (Path(package.__path__[0]) / "__init__.pyi").read_text("utf-8")
    imports = [each for each in ast.parse(text).body if isinstance(each, ast.ImportFrom)]
    names = [alias.asname for each in imports for alias in each.names]
    assert [name for name in package.__all__ if name != "__version__"] == names
    assert dir(package) == sorted(package.__all__)


def test_public_names_are_found_in_a_zip_file(tmp_path: Path) -> None:
    package = Path(napari_mst.__path__[0])
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        for file in package.rglob("*.py*"):
            packed.write(file, file.relative_to(package.parent))
    code = "import sys; sys.path.insert(0, sys.argv[1])\nfrom napari_mst import Provenance as P"
    printed = run_python(f"{code}\nprint(sys.modules[P.__module__].__file__)", str(packed.filename))
    assert "packed.zip" in printed
