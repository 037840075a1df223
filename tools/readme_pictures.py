"""Make two pictures of README from the photo in sample_data.

`python tools/readme_pictures.py [FOLDER]` writes lamps.png and classes.png, by default into
docs/images.
"""

import sys
from pathlib import Path

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import napari_mst as nm

ROOT = Path(__file__).parents[1]
PHOTO = ROOT / "sample_data" / "coffee.jpg"

LAMPS = {
    "D65": "daylight (D65)",
    "A": "light bulb (A)",
    "F11": "tube (F11)",
    "LED-RGB1": "LED of three colours (LED-RGB1)",
}
PLACES = {
    "saucer": (270, 130, "#e6194b"),
    "coffee": (160, 270, "#f58231"),
    "table": (345, 530, "#3cb44b"),
    "rim": (95, 184, "#4d8fea"),
}
WINDOW = 5
LARGEST_ANGLE = 8.0  # degrees


def main() -> None:
    """Write the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    cube = nm.Reconstructor(nm.load_model("mstpp-srgb")).reconstruct(PHOTO)
    lamps_figure(cube).savefig(folder / "lamps.png", dpi=100)
    classes_figure(cube).savefig(folder / "classes.png", dpi=100)


def lamps_figure(cube: nm.SpectralCube) -> Figure:
    """The cube as an eye sees it under four lights, without getting used to them."""
    figure = Figure(figsize=(12, 2.4), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, len(LAMPS)), LAMPS.items(), strict=True):
        axes.imshow(cube.render(name, adapted=False))
        axes.set_title(title)
        axes.axis("off")
    return figure


def classes_figure(cube: nm.SpectralCube) -> Figure:
    """Spectra of four places with their error bands, and the pixels that resemble each."""
    spectra = [
        nm.point_spectrum(cube, row, column, WINDOW, name=name, colour=colour)
        for name, (row, column, colour) in PLACES.items()
    ]
    labels = nm.maps.classes(cube, spectra, LARGEST_ANGLE).data
    figure = Figure(figsize=(12, 3.1), layout="constrained")
    picture, curves, classes = figure.subplots(1, 3)
    picture.imshow(cube.render())
    for row, column, colour in PLACES.values():
        picture.plot(column, row, "o", color=colour, markeredgecolor="white", markersize=9)
    for spectrum, (row, column, colour) in zip(spectra, PLACES.values(), strict=True):
        curves.plot(spectrum.wavelengths, spectrum.values, color=colour, label=spectrum.name)
        lower, upper = nm.spectrum_band(cube, row, column)
        curves.fill_between(spectrum.wavelengths, lower, upper, color=colour, alpha=0.15)
    curves.set(xlabel="wavelength (nm)", ylabel="reflectance", xlim=(400, 700), ylim=(0, None))
    curves.legend(frameon=False)
    colours = ["#222222", *(colour for _, _, colour in PLACES.values())]
    classes.imshow(
        labels, cmap=ListedColormap(colours), vmin=0, vmax=len(PLACES), interpolation="nearest"
    )
    titles = (
        "photo",
        "spectra, and their uncalibrated 90 % bands",
        "pixels of the same spectral shape",
    )
    for axes, title in zip((picture, curves, classes), titles, strict=True):
        axes.set_title(title)
    for axes in (picture, classes):
        axes.axis("off")
    return figure


if __name__ == "__main__":
    main()
