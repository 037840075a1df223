"""Make the simulated files of sample_data: a colour chart as cubes, as a RAW photo and as spectra.

`python -m tools.sample_data [FOLDER]` writes them, by default into sample_data. Letters: B bands,
H rows, W columns.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.raw_photos import Camera, write_dng

import napari_mst as nm
from napari_mst.analysis.library import colour_checker
from napari_mst.photo.cameras import unbalanced_response

PATCHES = (4, 6)
"""Rows and columns of patches on the chart."""
PATCH, GAP = 24, 4
"""Pixels: the side of a patch, and the frame around it."""
FRAME_REFLECTANCE = 0.04
FALL_OFF = 0.15
"""Share of the light that is missing in the corners, relative to the centre."""
CODES = 10_000
"""Codes of the ENVI file for a reflectance of 1."""
CAMERA, LIGHT = "Nikon_D5100", "A"
EXPOSURE = 0.8  # share of saturation that the brightest channel of white gets
ELECTRONS = 20_000  # at saturation, for the noise of the photons
TIMES = 2  # pixels of the RAW photo for one of the cube, in rows and columns


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "sample_data")
    codes = np.rint(chart() * CODES).astype("<u2")
    spectra = colour_checker()
    cube = nm.SpectralCube(
        (codes / CODES).astype(np.float32),
        spectra[0].wavelengths,
        provenance=nm.Provenance(source="24 measured reflectances of a colour chart (ISET, MIT)"),
    )
    nm.write_cube(folder / "chart.tif", cube, compress=True, overwrite=True)
    write_envi(folder / "chart.hdr", codes, cube.wavelengths)
    write_raw(folder / "chart.dng", cube.data)
    header = ",".join(["wavelength (nm)", *(spectrum.name for spectrum in spectra)])
    table = np.column_stack([cube.wavelengths, *(spectrum.values for spectrum in spectra)])
    np.savetxt(folder / "chart.csv", table, "%.5g", ",", header=header, comments="")


def chart() -> NDArray[np.float64]:
    """Reflectance of the 24 patches as (B, H, W), under a light that falls off to the corners."""
    rows, columns = PATCHES
    pitch = PATCH + GAP
    shape = (31, rows * pitch + GAP, columns * pitch + GAP)
    data = np.full(shape, FRAME_REFLECTANCE)
    for index, spectrum in enumerate(colour_checker()):
        column, row = divmod(index, rows)
        top = GAP + pitch * row
        left = GAP + pitch * column
        data[:, top : top + PATCH, left : left + PATCH] = spectrum.values[:, None, None]
    down, across = (np.linspace(-1, 1, side) for side in shape[1:])
    return data * (1 - FALL_OFF * (down[:, None] ** 2 + across**2) / 2)


def write_envi(path: Path, codes: NDArray[np.uint16], wavelengths: NDArray[np.float64]) -> None:
    """As instruments write it: integers with a scale factor, line by line."""
    bands, rows, columns = codes.shape
    codes.transpose(1, 0, 2).tofile(path.with_suffix(".img"))
    path.write_text(
        f"ENVI\ndescription = {{colour chart}}\nsamples = {columns}\nlines = {rows}\n"
        f"bands = {bands}\nheader offset = 0\nfile type = ENVI Standard\ndata type = 12\n"
        f"interleave = bil\nbyte order = 0\nreflectance scale factor = {CODES}\n"
        "wavelength units = Nanometers\n"
        f"wavelength = {{{', '.join(f'{value:g}' for value in wavelengths)}}}\n"
    )


def write_raw(path: Path, cube: NDArray[np.float32]) -> None:
    """What the sensor of `CAMERA` sees of *cube* under `LIGHT`, with the noise of its photons."""
    response = unbalanced_response(CAMERA, LIGHT)
    white = response.sum(axis=0)
    seen = np.einsum("bhw,bc->hwc", cube, response) * EXPOSURE / white.max()
    larger = seen.repeat(TIMES, axis=0).repeat(TIMES, axis=1)
    photons = np.random.default_rng(0).poisson(larger * ELECTRONS)
    red, green, blue = (white / white[1]).tolist()
    write_dng(path, (photons / ELECTRONS).clip(0, 1), Camera(neutral=(red, green, blue)))


if __name__ == "__main__":
    main()
