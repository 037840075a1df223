"""What the figures share: the table of them, the photos that they show, and panels of axes."""

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import napari_mst as nm

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_data"
PHOTO = SAMPLES / "coffee.jpg"
IMAGES = ROOT / "docs" / "images"

COLOURS = ("#e6194b", "#f58231", "#3cb44b", "#4d8fea", "#911eb4", "#9a6324")

FIGURES: dict[str, Callable[[], Figure]] = {}


def figure(make: Callable[[], Figure]) -> Callable[[], Figure]:
    """Enter *make* into `FIGURES`."""
    FIGURES[make.__name__] = make
    return make


def squeeze(path: Path) -> None:
    """Make the picture at *path* small: at most 256 colours, chosen for it."""
    command = ["pngquant", "--force", "--skip-if-larger", "--quality=70-95", "--output", path, path]
    done = subprocess.run(command, check=False)
    if done.returncode not in (0, 98, 99):  # 98: larger; 99: too many colours to be good
        raise SystemExit(f"Expected pngquant to write {path}, got status {done.returncode}.")


@cache
def reconstructor(name: str = "mstpp-srgb") -> nm.Reconstructor:
    """The bundled model *name*, with the defaults of a run."""
    return nm.Reconstructor(nm.load_model(name))


@cache
def coffee() -> nm.SpectralCube:
    """The cube of the sample photo."""
    return reconstructor().reconstruct(PHOTO)


@cache
def chart() -> nm.SpectralCube:
    """The true cube of the colour chart."""
    return nm.read_cube(SAMPLES / "chart.hdr")


def panels(columns: int, size: tuple[float, float], rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of white paper with rows and columns of axes, row by row."""
    made = Figure(figsize=size, layout="constrained")
    return made, list(made.subplots(rows, columns, squeeze=False).flat)


def show(axes: Axes, image: NDArray[np.generic], title: str = "", **options: object) -> None:
    """An image with a title, and without numbers at its sides."""
    axes.imshow(image, **options)  # type: ignore[arg-type]
    axes.set_title(title, fontsize=10)
    axes.axis("off")


def show_feature(axes: Axes, plane: NDArray[np.floating], title: str) -> None:
    """A map of a network, in the contrast of nearly all of its pixels."""
    low, high = np.quantile(plane, (0.02, 0.98))
    show(axes, plane, title, cmap="viridis", vmin=low, vmax=high)


def spectral(axes: Axes, title: str = "") -> None:
    """Make *axes* those of spectra of reflectance."""
    axes.set(xlabel="wavelength (nm)", ylabel="reflectance", xlim=(400, 700), ylim=(0, None))
    axes.set_title(title, fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)


def with_band(
    axes: Axes, spectrum: nm.Spectrum, band: tuple[NDArray[np.floating], ...] | None
) -> None:
    """A spectrum in its colour, with its band."""
    (line,) = axes.plot(
        spectrum.wavelengths, spectrum.values, color=spectrum.colour, label=spectrum.name
    )
    if band is not None:
        axes.fill_between(spectrum.wavelengths, *band, color=line.get_color(), alpha=0.15)
