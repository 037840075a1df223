"""Speed of spectra and maps: medians in milliseconds, and of the maps those of `spectral` called directly.

`python -m lab.benchmarks.spectra [--pixels 4000x3000] [--bands 31] [--rounds 7] [--folder DIR]`

Points and windows are at random places of the whole cube, in memory and memory-mapped (BSQ, in the system's cache).
Regions and maps are of 1 MP.
"""

import logging
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import spectral

from lab.benchmarks import common
from napari_mst.cube import SpectralCube
from napari_mst.spectra.classification import classify
from napari_mst.spectra.compare import compare_region, error_map
from napari_mst.spectra.library import colour_checker
from napari_mst.spectra.maps import colour_difference, normalised_difference
from napari_mst.spectra.matching import best_matches
from napari_mst.spectra.regions import Region, point_spectrum, region_spectrum
from napari_mst.spectra.statistics import anomalies, cluster, principal_components


def median(call: Callable[[], object], rounds: int) -> float:
    """Milliseconds."""
    return 1000 * statistics.median(common.seconds(call, rounds))


def show(
    name: str, call: Callable[[], object], rounds: int, direct: Callable[[], object] | None = None
) -> None:
    """Print one row of the table."""
    judge = "" if direct is None else f"{median(direct, rounds):12.2f} by spectral directly"
    print(f"  {name:36} {median(call, rounds):10.2f} {judge}", flush=True)


def points(title: str, cube: SpectralCube, rounds: int) -> None:
    """Spectra at random places."""
    print(f"\n{title}, {'x'.join(map(str, cube.shape))}")
    rng = np.random.default_rng(1)
    for window in (1, 3, 5, 9):
        show(
            f"window {window} x {window}",
            lambda window=window: point_spectrum(
                cube, *(int(rng.integers(side)) for side in cube.shape[1:]), window
            ),
            100 * rounds,
        )
    rows, columns = (min(side, 1000) for side in cube.shape[1:])
    grid = np.hypot(*np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j]) < 1
    corners = [
        (rows * (1 + np.sin(a)) / 2, columns * (1 + np.cos(a)) / 2)
        for a in np.linspace(0, 6.28, 200)
    ]
    square = Region(0, 0, np.ones((rows, columns), dtype=bool))
    show(f"mean and std, {square.size} pixels", lambda: region_spectrum(cube, square), rounds)
    disc = Region(0, 0, grid)
    show(f"mean and std, disc of {disc.size} pixels", lambda: region_spectrum(cube, disc), rounds)
    show(
        "the polygon of it, 200 corners", lambda: Region.of_polygon(corners, cube.shape[1:]), rounds
    )
    show("percentiles, the disc", lambda: region_spectrum(cube, disc, (5, 95)), rounds)


def all_maps(cube: SpectralCube, rounds: int) -> None:
    """Every map of a cube of 1 MP."""
    print(f"\nmaps, {'x'.join(map(str, cube.shape))}")
    image = np.moveaxis(cube.data, 0, -1).astype(np.float64)
    picks = [point_spectrum(cube, 10 * n, 10 * n) for n in range(5)]
    members = np.stack([pick.values for pick in picks])
    other = SpectralCube(cube.data[:, ::-1], cube.wavelengths)
    photo = cube.render()
    whole = Region(0, 0, np.ones(cube.shape[1:], dtype=bool))
    rows: Sequence[tuple[str, Callable[[], object], Callable[[], object] | None]] = [
        (
            "classify, 5 spectra",
            lambda: classify(cube, picks),
            lambda: spectral.spectral_angles(image, members),
        ),
        (
            "cluster, 5 of 3 iterations",
            lambda: cluster(cube, 5, 3),
            lambda: spectral.kmeans(image, 5, 3),
        ),
        (
            "principal components, 3",
            lambda: principal_components(cube, 3),
            lambda: components(image),
        ),
        ("anomalies (RX)", lambda: anomalies(cube), lambda: spectral.rx(image)),
        ("normalised difference", lambda: normalised_difference(cube, 500, 600), None),
        ("composite", lambda: cube.composite((650, 550, 450)), None),
        ("true colour", lambda: cube.render(), None),
        ("its CIEDE2000 from a photo", lambda: colour_difference(cube, photo), None),
        ("RMSE map", lambda: error_map(cube, other, "rmse"), None),
        ("angle map", lambda: error_map(cube, other, "angle"), None),
        ("metrics of the whole", lambda: compare_region(cube, other, whole), None),
        ("24 matches", lambda: best_matches(picks[0], colour_checker()), None),
    ]
    for name, call, direct in rows:
        show(name, call, rounds, direct)


def components(image: np.ndarray) -> np.ndarray:
    """Three principal components, by `spectral`."""
    return np.asarray(spectral.principal_components(image).reduce(num=3).transform(image))


def main() -> None:
    """Command line."""
    options = common.cube_parser(__doc__, rounds=7).parse_args()
    rows, columns = common.sides(options.pixels)
    logging.getLogger("spectral").setLevel(logging.WARNING)
    wavelengths = np.linspace(400, 700, options.bands)
    data = np.random.default_rng(0).random((options.bands, rows, columns), dtype=np.float32)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data.tofile(Path(folder) / "cube.img")
        mapped = np.memmap(Path(folder) / "cube.img", np.float32, "r", shape=data.shape)
        points("in memory", SpectralCube(data, wavelengths), options.rounds)
        points("memory-mapped", SpectralCube(mapped, wavelengths), options.rounds)
    all_maps(
        SpectralCube(np.ascontiguousarray(data[:, :1000, :1000]), wavelengths),
        max(1, options.rounds // 2),
    )


if __name__ == "__main__":
    main()
