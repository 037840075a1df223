"""Everyday operations beside the libraries that do the same: processor time of each, in one run.

    python -m lab.benchmarks.everyday [--side 1000] [--rounds 3]

Cubes of 31 bands have *side* x *side* pixels, those of 200 bands a quarter of them. The table has
microseconds a pixel (milliseconds a look, for a pixel of a large file) and the ratio to the other.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import spectral
from scipy.io import loadmat
from sklearn.decomposition import PCA

import napari_mst as nm
from lab.benchmarks import common
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.formats.lazy_files import in_file

Call = Callable[[], object]


def mixed(side: int, bands: int) -> tuple[SpectralCube, list[Spectrum]]:
    """A noisy cube that is mixed of four spectra, and these."""
    rng = np.random.default_rng(0)
    at = np.linspace(400, 400 + 10 * (bands - 1), bands)
    members = rng.random((4, bands))
    shares = rng.dirichlet((0.5,) * 4, (side, side))
    data = shares @ members + rng.normal(0, 0.03, (side, side, bands))
    cube = SpectralCube(np.ascontiguousarray(np.moveaxis(data, 2, 0), np.float32), at)
    return cube, [Spectrum(at, member, name=str(number)) for number, member in enumerate(members)]


def maps_of(side: int) -> list[tuple[str, Call, Call, float]]:
    """Name, our call, the other one, and the pixels of each map."""
    cube, spectra = mixed(side, 31)
    wide, _ = mixed(side // 2, 200)
    data, flat = cube.data, cube.data.reshape(31, -1)
    mixing = np.stack([spectrum.values for spectrum in spectra]).astype(np.float32)
    pixels, rows = (np.ascontiguousarray(np.moveaxis(each.data, 0, 2)) for each in (wide, cube))
    # spectral's loop over pixels is slow: a tenth of the rows.
    few = SpectralCube(data[:, : side // 10], cube.wavelengths)

    def free() -> object:
        shares = np.linalg.pinv(mixing.T) @ flat
        return np.sqrt(np.square(flat - mixing.T @ shares).mean(axis=0))

    def ours(constraint: str) -> Call:
        return lambda: nm.maps.abundances(cube, spectra, constraint)  # type: ignore[arg-type]

    return [
        ("abundances, sum to one / free in NumPy", ours("sum to one"), free, side**2),
        ("abundances, 0 or more / free in NumPy", ours("non-negative"), free, side**2),
        ("abundances, free / NumPy", ours("free"), free, side**2),
        (
            "band ratio / NumPy in float64",
            lambda: nm.maps.ratio(cube, 600, 500),
            lambda: (data[20].astype(float) / data[10]).astype(np.float32),
            side**2,
        ),
        (
            "continuum removed / spectral",
            lambda: nm.maps.transformed(few, "continuum removed"),
            lambda: spectral.remove_continuum(rows[: side // 10].astype(float), cube.wavelengths),
            side * (side // 10),
        ),
        (
            "PCA, 200 bands / scikit-learn",
            lambda: nm.maps.components(wide, 3),
            lambda: PCA(3).fit_transform(pixels.reshape(-1, 200)),
            (side // 2) ** 2,
        ),
        (
            "RX, 200 bands / spectral",
            lambda: nm.maps.anomalies(wide),
            lambda: spectral.rx(pixels),
            (side // 2) ** 2,
        ),
    ]


def files_of(side: int, folder: Path) -> list[tuple[str, Call, Call, float]]:
    """The same for files: each written beside ENVI, and what is read from them."""
    cube, _ = mixed(side, 31)

    def write(suffix: str) -> Call:
        return lambda: nm.write_cube(folder / f"a{suffix}", cube, overwrite=True)

    def write_envi() -> object:
        return nm.write_cube(folder / "b.hdr", cube, overwrite=True)

    suffixes = (".tif", ".imagej.tif", ".npz", ".mat", ".nc")
    rows = [(f"write {each} / ENVI", write(each), write_envi, side**2) for each in suffixes]
    mat, raw = folder / "a.mat", folder / "large.img"
    write(".mat")()
    rows.append(("read .mat / SciPy", lambda: nm.read_cube(mat), lambda: loadmat(mat), side**2))
    with raw.open("wb") as file:
        file.truncate(200 * 1250 * 5000 * 4)
    places = np.random.default_rng(0).integers(0, (1250, 5000), (50, 2)).tolist()

    # A new map each time: one that was looked at before has its pages.
    def look(opened: Callable[[Any], Any]) -> Call:
        def call() -> object:
            data = opened(np.memmap(raw, np.float32, "r", shape=(200, 1250, 5000)))
            return [np.array(data[:, row, column]) for row, column in places]

        return call

    rows.append(("pixel of a 5 GB BSQ / memory map", look(in_file), look(np.asarray), 50e3))
    return rows


def main() -> None:
    """Measure and print."""
    parser = common.parser(__doc__)
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = maps_of(options.side) + files_of(options.side, Path(folder))
        print(f"{'':42} {'ours':>8} {'theirs':>8} {'ratio':>6}")
        for name, ours, theirs, pixels in rows:
            ours()
            times = [
                min(common.seconds(call, options.rounds, time.process_time)) / pixels * 1e6
                for call in (ours, theirs)
            ]
            print(f"{name:42} {times[0]:8.3f} {times[1]:8.3f} {times[0] / times[1]:6.2f}")


if __name__ == "__main__":
    main()
