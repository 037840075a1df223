"""The figures of README and of the pages that begin with one; `tools/pictures.py` writes them."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch  # noqa: TID253 (a tool, not the product)
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from skimage import data, filters, measure, morphology
from tools.drawing import (
    COLOURS,
    PHOTO,
    SAMPLES,
    chart,
    coffee,
    figure,
    panels,
    reconstructor,
    show,
    show_feature,
    spectral,
    with_band,
)
from torch import nn  # noqa: TID253

import napari_mst as nm
from lab.simulated import SceneSimulator
from napari_mst.analysis.library import colour_checker

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
SIDE = 20
"""Pixels of a square of paint, along a side."""
LARGEST_ANGLE = 8.0  # degrees
CORNERS = ((32, 32), (32, 312), (200, 312), (200, 32))
"""The corner patches of sample_data/chart.dng."""


@figure
def lamps() -> Figure:
    """The cube as an eye sees it under four lights, without getting used to them."""
    made, all_axes = panels(len(LAMPS), (12, 2.4))
    for axes, (name, title) in zip(all_axes, LAMPS.items(), strict=True):
        show(axes, coffee().render(name, adapted=False), title)
    return made


@figure
def classes() -> Figure:
    """Spectra of four places with their prediction intervals, and the pixels that resemble each."""
    cube = coffee()
    spectra = [
        nm.point_spectrum(cube, row, column, WINDOW, name=name, colour=colour)
        for name, (row, column, colour) in PLACES.items()
    ]
    labels = nm.maps.classes(cube, spectra, LARGEST_ANGLE).data
    made, (picture, curves, map_axes) = panels(3, (12, 3.1))
    show(picture, cube.render(), "photo")
    for spectrum, (row, column, colour) in zip(spectra, PLACES.values(), strict=True):
        picture.plot(column, row, "o", color=colour, markeredgecolor="white", markersize=9)
        with_band(curves, spectrum, nm.interval_of(cube, row, column))
    spectral(curves, "spectra, with uncalibrated 90 % intervals")
    colours = ListedColormap(["#222222", *(colour for _, _, colour in PLACES.values())])
    show(map_axes, labels, "pixels of the same spectral shape", cmap=colours, interpolation="none")
    return made


@figure
def raw_chart() -> Figure:
    """A RAW photo of a chart, where it was read, and four patches beside the truth."""
    photo = nm.Photo.read(SAMPLES / "chart.dng")
    place = nm.Chart(CORNERS)
    calibration = nm.calibrate(photo, place)
    camera = nm.Reconstructor(nm.load_model("mstpp-camera"), acquisition=calibration.acquisition)
    corrected = calibration.corrected(photo)
    cube = calibration.refined(camera.reconstruct(corrected), corrected)
    made, (before, after, curves) = panels(3, (12, 2.9))
    show(
        before,
        np.clip(photo.rows(0, linear=False).transpose(1, 2, 0), 0, 1),
        "values of the sensor",
    )
    show(after, cube.render(), "the cube in daylight, and the squares that were read")
    half = place.window / 2
    for row, column in place.centres:
        x, y = (
            column + half * np.array([-1, 1, 1, -1, -1]),
            row + half * np.array([-1, -1, 1, 1, -1]),
        )
        after.plot(x, y, color="white", linewidth=0.8)
    measured = {each.name: each for each in colour_checker()}
    for name, colour in zip(("foliage", "purplish blue", "red", "yellow"), COLOURS, strict=False):
        truth = measured[name]
        row, column = np.rint(place.centres[place.patches.index(name)]).astype(int)
        spot = nm.point_spectrum(cube, row, column, place.window)
        curves.plot(cube.wavelengths, spot.values, color=colour, label=truth.name)
        curves.plot(truth.wavelengths, truth.values, ":", color=colour)
    spectral(curves, "four patches (dotted: measured by a spectrometer)")
    return made


@figure
def known() -> Figure:
    """The error of a simulated scene of unseen materials before and after eight were known."""
    scene = SceneSimulator(seed=11, size=128, held_out=True).draw_scenes(1)[0].numpy()
    truth = nm.SpectralCube(scene.clip(0, 1), chart().wavelengths)
    photo = truth.render()
    before = reconstructor().reconstruct(photo)
    spots = nm.suggest_measurements(before, photo, count=8)
    true = [nm.ReferenceSpectrum(*spot, nm.point_spectrum(truth, *spot, 3)) for spot in spots]
    after = nm.refine(before, photo, true)
    made, axes = panels(4, (12, 2.9))
    show(axes[0], photo, "photo, and eight spots")
    for row, column in spots:
        axes[0].plot(column, row, "D", color="white", markersize=6, markeredgecolor="black")
    for each, cube, title in ((axes[1], before, "before"), (axes[2], after, "after")):
        error = nm.maps.reference_mrae(cube, truth).data
        shown = f"mean error {title}: {np.nanmean(error):.3f}"
        show(each, error, shown, cmap="magma", vmin=0, vmax=0.4)
    gain = nm.maps.reference_rmse(before, truth).data - nm.maps.reference_rmse(after, truth).data
    row, column = np.unravel_index(np.argsort(gain, axis=None)[gain.size // 2], gain.shape)
    for cube, title, style in (
        (truth, "true", "k:"),
        (before, "before", "-"),
        (after, "after", "-"),
    ):
        axes[3].plot(
            cube.wavelengths, cube.spectrum(int(row), int(column)).values, style, label=title
        )
    spectral(axes[3], "a pixel of middling gain")
    return made


@figure
def index() -> Figure:
    """An index, and the classes of three spectra, of a cube that an instrument wrote."""
    cube = chart()
    spectra = [nm.point_spectrum(cube, 44, column, window=5) for column in (16, 44, 72)]
    made, (picture, map_axes, class_axes) = panels(3, (12, 2.6))
    show(picture, cube.composite(), "the cube")
    show(map_axes, nm.index(cube, "NGRDI").data, "the index NGRDI", cmap="RdYlGn")
    labels = nm.maps.classes(cube, spectra, 8).data
    colours = ListedColormap(["#222222", *COLOURS[:3]])
    show(class_axes, labels, "classes of three spectra", cmap=colours, interpolation="none")
    for column in (16, 44, 72):
        picture.plot(column, 44, "o", color="white", markeredgecolor="black")
    return made


@figure
def labels() -> Figure:
    """Labelled parts of a stained tissue, and the spectra of the largest three."""
    photo = data.immunohistochemistry()[100:400, 100:400]
    cube = reconstructor("pixelwise-srgb").reconstruct(photo)
    dark = cube.sel(wavelength=600)
    parts = morphology.remove_small_objects(dark < filters.threshold_otsu(dark), max_size=60)
    numbered = measure.label(parts)
    spectra = sorted(
        nm.label_spectra(cube, numbered).values(), key=lambda each: -each.origin.pixels
    )[:4]
    made, (picture, map_axes, curves) = panels(3, (12, 3.4))
    show(picture, photo, "photo")
    random = np.random.default_rng(3).random((256, 3)) * 0.7 + 0.3
    random[0] = 0.13
    show(
        map_axes, numbered % 256, f"{numbered.max()} labels", cmap=ListedColormap(random), vmax=255
    )
    for spectrum, colour in zip(spectra, COLOURS, strict=False):
        curves.plot(spectrum.wavelengths, spectrum.values, color=colour, label=spectrum.name)
        curves.fill_between(
            spectrum.wavelengths, spectrum.lower, spectrum.upper, color=colour, alpha=0.15
        )
    spectral(curves, "means of four labels, with one sigma")
    return made


@figure
def stack() -> Figure:
    """The spectra of one place over the pages of a stack: a leaf turns, in six photos."""
    measured = {each.name: each for each in colour_checker()}
    leaf, orange = measured["foliage"], measured["orange yellow"]
    shares = np.linspace(0, 1, 6)
    made = Figure(figsize=(12, 2.9), layout="constrained")
    grid = made.add_gridspec(2, 6)
    curves = made.add_subplot(grid[:, 3:])
    for page, share in enumerate(shares):
        values = (1 - share) * leaf.values + share * orange.values
        flat = np.broadcast_to(values[:, None, None], (31, 64, 64))
        fall = 1 - 0.3 * np.hypot(*np.mgrid[-1:1:64j, -1:1:64j])
        photo = nm.SpectralCube((flat * fall).astype(np.float32), leaf.wavelengths).render()
        cube = reconstructor("pixelwise-srgb").reconstruct(photo)
        show(made.add_subplot(grid[page // 3, page % 3]), photo, f"page {page}")
        colour = tuple(photo[32, 32] / 255)
        curves.plot(
            cube.wavelengths, cube.spectrum(32, 32).values, color=colour, label=f"page {page}"
        )
    spectral(curves, "the middle pixel, page by page")
    return made


@figure
def folder() -> Figure:
    """Four photos, and a band of each of their cubes."""
    photos = {
        "coffee.jpg": coffee().render(),
        "cat.png": data.chelsea(),
        "astronaut.png": data.astronaut()[:340],
        "rocket.jpg": data.rocket(),
    }
    made, axes = panels(4, (12, 4.2), rows=2)
    for column, (name, photo) in enumerate(photos.items()):
        cube = reconstructor("pixelwise-srgb").reconstruct(photo)
        show(axes[column], photo, name)
        title = f"{Path(name).stem}.hdr, 600 nm"
        show(axes[4 + column], cube.sel(wavelength=600), title, cmap="gray", vmin=0)
    return made


@figure
def clusters() -> Figure:
    """The photos of a folder, each named by the run that made its cube, of two at the same time."""
    wholes = (coffee().render(), data.chelsea(), data.astronaut()[:340], data.rocket())
    photos = [half for each in wholes for half in np.array_split(each[:300, :440], 2, axis=1)]
    with tempfile.TemporaryDirectory() as here:
        folder = Path(here, "photos")
        folder.mkdir()
        for number, photo in enumerate(photos):
            Image.fromarray(photo).save(folder / f"{number}.png")
        places = [folder, "-o", folder / "cubes"]
        command = [sys.executable, "-m", "napari_mst", "reconstruct", *places]
        pipe = subprocess.PIPE
        runs = [subprocess.Popen(command, stderr=pipe, text=True) for _ in range(2)]
        notes = [run.communicate()[1] for run in runs]
    made, axes = panels(len(photos), (12, 2.2))
    for number, (each, photo) in enumerate(zip(axes, photos, strict=True)):
        makers = [str(run) for run, lines in enumerate(notes, 1) if f"{number}.png: needs" in lines]
        show(each, photo, f"made by run {' and '.join(makers)}")
    return made


@figure
def balance() -> Figure:
    """A photo in the white of a light bulb, and corrected by what it shows itself."""
    bulb = coffee().render("A", adapted=False)
    found = nm.light.white_balance(nm.Photo.from_array(bulb))
    corrected = found.corrected(nm.Photo.from_array(bulb))
    pixels = nm.Photo.from_array(np.asarray(corrected.pixels)).rows(0, linear=False)
    truth, wrong = coffee(), reconstructor().reconstruct(bulb)
    right = reconstructor().reconstruct(corrected)
    made, (before, after, curves) = panels(3, (12, 2.9))
    show(before, bulb, "a camera took the light bulb for daylight")
    show(after, np.clip(pixels.transpose(1, 2, 0), 0, 1), "corrected by what the photo shows")
    row, column, _ = PLACES["rim"]
    for cube, title, colour in (
        (truth, "of the photo in daylight", "black"),
        (wrong, "as it is", COLOURS[1]),
        (right, "corrected", COLOURS[3]),
    ):
        curves.plot(cube.wavelengths, cube.spectrum(row, column).values, color=colour, label=title)
    spectral(curves, "the rim of the cup")
    return made


@figure
def bands() -> Figure:
    """Spectra with their prediction intervals, beside the true spectra of the patches."""
    truth = chart()
    cube = reconstructor("pixelwise-srgb").reconstruct(truth.render())
    made, all_axes = panels(4, (12, 2.7))
    for axes, (row, column) in zip(
        all_axes, ((16, 16), (44, 44), (72, 100), (100, 128)), strict=True
    ):
        estimate = nm.point_spectrum(cube, row, column, name="estimate", colour=COLOURS[3])
        with_band(axes, estimate, nm.interval_of(cube, row, column))
        axes.plot(truth.wavelengths, truth.spectrum(row, column).values, "k:", label="true")
        spectral(axes)
    return made


@figure
def denoising() -> Figure:
    """A noisy part of a photo, the same denoised, and what one pixel is the mean of."""
    clean = nm.Photo.read(PHOTO).rows(0, linear=False)[:, 60:260, 150:450].astype(float)
    noisy = clean + np.random.default_rng(1).normal(0, 0.05, clean.shape)
    smooth = nm.non_local_means(noisy, h=0.02, sigma=0.05)
    pixel = nm.non_local_weights(noisy, 100, 120, h=0.02, sigma=0.05)
    made, (before, after, weights) = panels(3, (12, 2.9))
    show(before, np.clip(noisy.transpose(1, 2, 0), 0, 1), "noise of 13 codes")
    show(after, np.clip(smooth.transpose(1, 2, 0), 0, 1), "denoised by non-local means")
    show(
        weights, pixel.weights, f"the pixels that one is the mean of ({pixel.effective:.0f} count)"
    )
    return made


@figure
def limits() -> Figure:
    """Two spectra of one colour, and the one estimate that the photo of both gets."""
    leaf = colour_checker()[12]
    family = nm.metamers(leaf)
    wave = family.blacks[1]
    other = family.moved(wave, family.limits(wave)[1] * 0.9)
    both = np.stack([leaf.values, other.values], axis=1)[:, None].repeat(8, 1).repeat(8, 2)
    photo = nm.SpectralCube(both.astype(np.float32), leaf.wavelengths).render()
    estimate = reconstructor("pixelwise-srgb").reconstruct(photo)
    made = Figure(figsize=(12, 2.7), layout="constrained")
    left, right = made.subplots(1, 2, width_ratios=(1, 2))
    show(left, photo, "both in one photo: left and right half")
    right.plot(leaf.wavelengths, leaf.values, color=COLOURS[3], label="left, true")
    right.plot(leaf.wavelengths, other.values, color=COLOURS[1], label="right, true")
    right.plot(leaf.wavelengths, estimate.spectrum(4, 4).values, "k--", label="estimate of both")
    spectral(right, "two reflectances of one colour")
    return made


@figure
def network() -> Figure:
    """A photo on its way through the network."""
    model, photo = reconstructor(), nm.Photo.read(PHOTO)
    first = reconstructor("pixelwise-srgb").reconstruct(PHOTO)
    made, axes = panels(4, (12, 4.4), rows=2)
    show(axes[0], np.clip(photo.rows(0, linear=False).transpose(1, 2, 0), 0, 1), "photo")
    show(axes[1], first.sel(wavelength=600), "first guess, 600 nm", cmap="gray", vmin=0)
    for place, (layer, channel) in enumerate(
        (("stages.0.encoder.0", 4), ("stages.0.encoder.1", 9), ("stages.0.bottleneck", 20)), start=2
    ):
        features = nm.attention.features(model, PHOTO, layer)
        title = f"{layer.removeprefix('stages.0.')}: 1 of {len(features)}"
        show_feature(axes[place], features[channel], title)
    decoder = nm.attention.features(model, PHOTO, "stages.0.decoder.1")
    show_feature(axes[5], decoder[4], f"decoder.1: 1 of {len(decoder)}")
    added = coffee().sel(wavelength=600) - first.sel(wavelength=600)
    limit = float(np.quantile(np.abs(added), 0.99))
    show(axes[6], added, "what the surroundings add", cmap="RdBu_r", vmin=-limit, vmax=limit)
    show(axes[7], coffee().sel(wavelength=600), "the cube, 600 nm", cmap="gray", vmin=0)
    return made


@figure
def tiles() -> Figure:
    """What tiles that are stitched get wrong, and what the tiles of the engine do."""
    photo = data.coffee()  # the pixels of PHOTO, before JPEG; both sides are multiples of 8
    alone = nm.Reconstructor(reconstructor().model, "cpu", denoise="off", correct_colour=False)
    light = torch.from_numpy(nm.Photo.from_array(photo).rows(0, linear=True).copy())[None]
    with torch.no_grad():
        whole = alone.model.network(light)[0].numpy()
    made, axes = panels(2, (12, 4.2))
    for each, numbers, title in (
        (axes[0], stitched(alone, photo), "stitched tiles of 128 with a margin of 32"),
        (axes[1], alone.reconstruct(photo).data, "the tiles of the engine"),
    ):
        error = np.abs(numbers - whole).max(axis=0)
        shown = f"{title}: off by up to {error.max():.0e}"
        show(each, np.log10(error + 1e-9), shown, cmap="magma", vmin=-8, vmax=-1.5)
    scale = made.colorbar(axes[1].images[0], ax=axes, shrink=0.8)
    scale.set_label("largest error of a pixel, log10 of reflectance")
    return made


def stitched(alone: nm.Reconstructor, photo: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The numbers of a cube as tiles are usually made: photos of their own, with a margin."""
    side, margin = 128, 32
    height, width = photo.shape[:2]
    result = np.empty((31, height, width), np.float32)
    for top in range(0, height, side):
        for left in range(0, width, side):
            above, before = max(top - margin, 0), max(left - margin, 0)
            part = photo[above : top + side + margin, before : left + side + margin]
            numbers = alone.reconstruct(part).data[:, top - above :, left - before :]
            place = result[:, top : top + side, left : left + side]
            place[:] = numbers[:, : place.shape[1], : place.shape[2]]
    return result


@figure
def own_network() -> Figure:
    """A torch module of three lines on a photo: whole, and in the tiles of the engine."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 16, 5, padding=2), nn.GELU(), nn.Conv2d(16, 31, 5, padding=2)
    )
    mine = nm.Model.of(module, wavelengths=range(400, 701, 10), is_linear=False)
    cube = nm.Reconstructor(mine, "cpu").reconstruct(PHOTO)
    photo = torch.from_numpy(nm.Photo.read(PHOTO).rows(0, linear=False).copy())[None]
    with torch.no_grad():
        whole = module(photo)[0].numpy()
    made, (picture, band, error) = panels(3, (12, 2.9))
    show(picture, photo[0].permute(1, 2, 0).numpy(), "photo")
    show(band, cube.data[15], "550 nm of a network that has learnt nothing", cmap="gray")
    off = np.abs(cube.data - whole).max()
    shown = f"in tiles less whole: at most {off:.0e}"
    show(error, cube.data[15] - whole[15], shown, cmap="RdBu_r", vmin=-1e-6, vmax=1e-6)
    return made


@figure
def exchange() -> Figure:
    """One file, as three other libraries read it."""
    import rasterio
    import spectral as spectral_python

    made, (qgis, envi, arrays) = panels(3, (12, 2.9))
    with tempfile.TemporaryDirectory() as here:
        tiff, header = Path(here, "cube.tif"), Path(here, "cube.hdr")
        nm.write_cube(tiff, coffee())
        nm.write_cube(header, coffee())
        with rasterio.open(tiff) as opened:
            show(qgis, opened.read(21), f"GDAL: {opened.descriptions[20]}", cmap="gray", vmin=0)
        opened = spectral_python.open_image(str(header))
        title = f"Spectral Python: {opened.bands.centers[20]:.0f} nm"
        show(envi, opened.read_band(20), title, cmap="gray", vmin=0)
    array = coffee().to_xarray().sel(wavelength=600)
    show(arrays, array, f"xarray: {float(array.wavelength):.0f} nm", cmap="gray", vmin=0)
    return made


@figure
def script() -> Figure:
    """The history of a cube, and the script that makes it again."""
    history = coffee().provenance
    names = ("model", "source", "precision", "denoise", "encoding")
    kept = {name: getattr(history, name) for name in names}
    words = "\n".join(f"{name:<12}{value}" for name, value in kept.items())
    code = (
        "import napari_mst as nm\n\n"
        f'model = nm.load_model("{history.model}")\n'
        f'run = nm.Reconstructor(model, denoise="{history.denoise}")\n'
        f'cube = run.reconstruct("{history.source}")'
    )
    made, (left, right) = panels(2, (12, 1.9))
    for axes, text, title in ((left, words, "napari-mst info cube.hdr"), (right, code, "script")):
        axes.text(0.02, 0.9, text, family="monospace", fontsize=10, va="top")
        axes.set_title(title, fontsize=10, loc="left")
        axes.set(xticks=[], yticks=[])
    return made


@figure
def train() -> Figure:
    """The error on paints like no others, before and after tuning to another board of them."""
    learnt, held_out = board(seed=1), board(seed=2)
    with tempfile.TemporaryDirectory() as here:
        nm.write_cube(Path(here, "board.tif"), learnt)
        weights = Path(here, "mine.safetensors")
        command = [sys.executable, "-m", "napari_mst", "train", "--from", "mstpp-srgb"]
        options = ["--cubes", here, "-o", weights, "--steps", "200", "--report-every", "50"]
        subprocess.run([*command, *options, "--size", "48"], check=True)
        models = {"before": nm.load_model("mstpp-srgb"), "after 200 steps": nm.load_model(weights)}
    made, axes = panels(4, (12, 3.0))
    show(axes[0], held_out.render(), "a board that was held out")
    place = (SIDE // 2, SIDE // 2)
    curves = {"true": held_out}
    for each, (title, model) in zip(axes[1:3], models.items(), strict=True):
        cube = curves[title] = nm.Reconstructor(model).reconstruct(held_out.render())
        error = nm.maps.reference_mrae(cube, held_out).data
        shown = f"{title}: mean relative error {np.nanmean(error):.2f}"
        show(each, error, shown, cmap="magma", vmin=0, vmax=0.6)
    for title, cube in curves.items():
        axes[3].plot(cube.wavelengths, cube.spectrum(*place).values, label=title)
    spectral(axes[3], "one paint")
    return made


def board(seed: int) -> nm.SpectralCube:
    """Squares of paints in a random order: those of the chart, times a wave like no other paint."""
    wave = 1 + 0.3 * np.sin(np.linspace(0, 4 * np.pi, len(chart().wavelengths)))
    paints = wave * [each.values for each in nm.read_spectra(SAMPLES / "chart.csv")]
    order = np.random.default_rng(seed).integers(len(paints), size=(6, 6))
    squares = paints[order].transpose(2, 0, 1).repeat(SIDE, axis=1).repeat(SIDE, axis=2)
    return nm.SpectralCube(squares.astype(np.float32), chart().wavelengths)
