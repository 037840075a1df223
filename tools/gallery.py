"""The pictures of the gallery that no other page has: `tools/pictures.py` makes them too.

Photos are those that scikit-image brings: public domain, CC0, or without known restrictions.
"""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from skimage import data
from tools.drawing import COLOURS, figure, panels, reconstructor, show, spectral, with_band

import napari_mst as nm


def cube_of(photo: np.ndarray) -> nm.SpectralCube:
    """The cube of a photo by the default model."""
    return reconstructor().reconstruct(photo)


@figure
def gallery_cat() -> Figure:
    """Fur, eye and nose of a cat: spectra, and the pixels that resemble each."""
    photo = data.chelsea()
    cube = cube_of(photo)
    places = {"fur": (60, 320), "eye": (112, 175), "nose": (180, 230), "background": (280, 30)}
    spectra = [
        nm.point_spectrum(cube, *place, window=7, name=name, colour=colour)
        for (name, place), colour in zip(places.items(), COLOURS, strict=False)
    ]
    made, (picture, curves, classes) = panels(3, (12, 2.9))
    show(picture, photo, "photo")
    for spectrum, (row, column) in zip(spectra, places.values(), strict=True):
        picture.plot(column, row, "o", color=spectrum.colour, markeredgecolor="white")
        with_band(curves, spectrum, None)
    spectral(curves, "four spectra")
    labels = nm.maps.classes(cube, spectra, 5).data
    colours = ListedColormap(["#222222", *COLOURS[: len(spectra)]])
    show(classes, labels, "within 5 degrees of each", cmap=colours, interpolation="none", vmax=4)
    return made


@figure
def gallery_astronaut() -> Figure:
    """Single bands of a portrait: what is dark in blue is bright in red."""
    photo = data.astronaut()[:340]
    cube = cube_of(photo)
    made, axes = panels(4, (12, 2.3))
    show(axes[0], photo, "photo")
    for each, wavelength in zip(axes[1:], (450, 550, 650), strict=True):
        plane = cube.sel(wavelength=wavelength)
        show(each, plane, f"{wavelength} nm", cmap="gray", vmin=0, vmax=1)
    return made


@figure
def gallery_retina() -> Figure:
    """Vessels of a retina in a ratio of bands."""
    photo = data.retina()[300:1100:2, 300:1100:2]
    cube = cube_of(photo)
    made, axes = panels(3, (12, 3.6))
    show(axes[0], photo, "photo")
    show(axes[1], cube.sel(wavelength=560), "560 nm", cmap="gray")
    ratio = nm.formula(cube, "r560 / r640").data
    show(axes[2], ratio, "560 / 640 nm", cmap="magma", vmin=0, vmax=np.nanquantile(ratio, 0.99))
    return made


@figure
def gallery_tissue() -> Figure:
    """Two stains, unmixed from the spectra of two places and of the glass."""
    photo = data.immunohistochemistry()
    cube = cube_of(photo)
    values = cube.sel(wavelength=450) - cube.sel(wavelength=600)
    brown = np.unravel_index(np.argmin(values), values.shape)
    blue = np.unravel_index(np.argmax(values), values.shape)
    glass = np.unravel_index(np.argmax(cube.data.mean(0)), values.shape)
    spectra = [nm.point_spectrum(cube, int(r), int(c), 3) for r, c in (brown, blue, glass)]
    shares = nm.maps.abundances(cube, spectra)
    made, axes = panels(3, (12, 3.9))
    show(axes[0], photo, "photo")
    for each, plane, title in zip(axes[1:], shares.data, ("brown", "blue"), strict=False):
        show(each, plane, f"share of the {title} stain", cmap="magma", vmin=0, vmax=1)
    return made


@figure
def gallery_rocket() -> Figure:
    """A launch at night: no light of the model's domain, and the white says so."""
    photo = data.rocket()
    light = nm.light.white_balance(nm.Photo.from_array(photo))
    made, (picture, curves) = panels(2, (12, 3.2))
    show(picture, photo, "photo")
    cube = cube_of(photo)
    for (name, place), colour in zip(
        {"flame": (315, 322), "steam": (390, 240)}.items(), COLOURS, strict=False
    ):
        spectrum = nm.point_spectrum(cube, *place, window=5, name=name, colour=colour)
        with_band(curves, spectrum, nm.interval_of(cube, *place))
        picture.plot(place[1], place[0], "o", color=colour, markeredgecolor="white")
    spectral(curves, "its light is far off daylight" if light.is_far else "its light passes")
    return made


@figure
def gallery_hubble() -> Figure:
    """Galaxies: light, not reflectance. Bands show no more than the colours of the photo."""
    photo = data.hubble_deep_field()[200:600, 200:700]
    cube = cube_of(photo)
    components = nm.maps.components(cube, 3).data
    made, axes = panels(4, (12, 2.4))
    show(axes[0], photo, "photo")
    for number, (each, plane) in enumerate(zip(axes[1:], components, strict=True), start=1):
        low, high = np.quantile(plane, (0.01, 0.99))
        show(each, plane, f"component {number}", cmap="gray", vmin=low, vmax=high)
    return made
