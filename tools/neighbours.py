"""Who reads whom, our cubes in other programs and theirs here: tables of docs/who_reads_whom.md.

    python tools/neighbours.py           # makes an environment of its own, and rewrites the tables
    python tools/neighbours.py --check   # says what differs from them

Each program runs in that environment, with the versions below. ImageJ is the Debian package
`imagej`, in a virtual display; without it its row stays as it is. A cell has the letters of what is
right: n numbers, w wavelengths, p place on earth; "wrong" where a program reads other numbers
without an error, "no" where it fails, and a dash where it does not claim to know the format.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "who_reads_whom.md"
PINNED = (
    "spectral==0.25", "rasterio==1.4.4", "rioxarray==0.19.0", "xarray==2026.9.0",
    "h5netcdf==1.8.2", "hylite==1.41", "hyperspy==2.5.0", "ngff-zarr==0.50.0", "ome-zarr==0.18.0",
    "napari-ome-zarr==0.10.0", "scipy==1.17.1", "zarr==3.1.6", "tifffile==2026.3.3", "imageio",
    "pyvips==3.2.0", "pyvips-binary==8.18.7", "SimpleITK==2.5.7",
)  # fmt: skip
OURS = (".hdr", ".tif", ".imagej.tif", ".nc", ".mat", ".npz", ".zarr")
SHAPE = (31, 24, 32)
WAVELENGTHS = np.arange(400, 701, 10.0)
TRANSFORM = (2.0, 0.0, 500_000.0, 0.0, -2.0, 5_400_000.0)
EPSG = 32633
IMAGEJ = Path("/usr/share/java/ij.jar")

Seen = tuple[Any, Any, Any]
"""The numbers (B, H, W), the wavelengths in nm or None, and the transform or None."""


def numbers() -> np.ndarray:
    return np.random.default_rng(0).random(SHAPE, dtype=np.float32)


def marks(seen: Seen) -> str:
    """The letters of what is right in *seen*."""
    data, wavelengths, transform = seen
    data = np.asarray(data)
    if data.shape != SHAPE or not np.array_equal(data, numbers()):
        return "wrong"
    letters = ["n"]
    if wavelengths is not None and len(wavelengths) == SHAPE[0]:
        at = np.asarray(wavelengths, dtype=float)
        letters += ["w"] if np.allclose(at, WAVELENGTHS, atol=0.01) else []
    if transform is not None and np.allclose(tuple(transform)[:6], TRANSFORM):
        letters.append("p")
    return " ".join(letters)


# ---------------------------------------------------------------------- others read our files
def spectral_reads(path: Path) -> Seen:
    import spectral

    image = spectral.open_image(str(path))
    info = image.metadata.get("map info")
    place = None
    if info:
        x, y, width, height = map(float, info[3:7])
        place = (width, 0, x, 0, -height, y)
    return np.moveaxis(np.asarray(image.load()), 2, 0), image.bands.centers, place


def gdal_reads(path: Path) -> Seen:
    import rasterio

    name = {".hdr": str(path.with_suffix(".img")), ".nc": f"netcdf:{path}:reflectance"}
    with rasterio.open(name.get(path.suffix, str(path))) as image:
        place = image.transform if image.crs and image.crs.to_epsg() == EPSG else None
        at = [image.tags(band, ns="IMAGERY").get("CENTRAL_WAVELENGTH_UM") for band in image.indexes]
        if None in at:
            at = [image.tags(band).get("NETCDF_DIM_wavelength") for band in image.indexes]
            at = [None if each is None else float(each) / 1000 for each in at]
        wavelengths = None if None in at else [float(each) * 1000 for each in at]
        return image.read(), wavelengths, place


def rioxarray_reads(path: Path) -> Seen:
    import rioxarray

    array: Any = rioxarray.open_rasterio(
        path.with_suffix(".img") if path.suffix == ".hdr" else path
    )
    if hasattr(array, "data_vars"):
        array = next(iter(array.data_vars.values()))
    wavelengths = array.coords["wavelength"].values if "wavelength" in array.coords else None
    place = array.rio.transform() if array.rio.crs and array.rio.crs.to_epsg() == EPSG else None
    return array.values, wavelengths, place


def xarray_reads(path: Path) -> Seen:
    import xarray

    if path.suffix == ".zarr":
        group = xarray.open_zarr(path, consolidated=False)
        return next(iter(group.data_vars.values())).values, None, None
    with xarray.open_dataarray(path, engine="h5netcdf") as array:
        x, y = array.x.values, array.y.values
        a, e = x[1] - x[0], y[1] - y[0]
        place = (a, 0, x[0] - a / 2, 0, e, y[0] - e / 2)
        return (
            array.values,
            array.wavelength.values,
            place if "spatial_ref" in array.coords else None,
        )


def hylite_reads(path: Path) -> Seen:
    from hylite import io

    image = io.load(str(path))
    wavelengths = image.get_wavelengths() if image.has_wavelengths() else None
    return np.asarray(image.data).transpose(2, 1, 0), wavelengths, None


def hyperspy_reads(path: Path) -> Seen:
    import hyperspy.api as hs

    signal = hs.load(str(path))
    return signal.data, None, None


def vips_reads(path: Path) -> Seen:
    import pyvips

    image = pyvips.Image.new_from_file(str(path), n=-1)  # all pages
    data = image.numpy()
    return np.moveaxis(data, 2, 0) if image.bands > 1 else data.reshape(SHAPE), None, None


def simpleitk_reads(path: Path) -> Seen:
    import SimpleITK

    return SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path))), None, None


def ngff_zarr_reads(path: Path) -> Seen:
    import ngff_zarr

    image = ngff_zarr.from_ngff_zarr(str(path)).images[0]
    band, *_ = image.dims
    wavelengths = image.translation[band] + image.scale[band] * np.arange(SHAPE[0])
    return image.data, wavelengths, None


def ome_zarr_reads(path: Path) -> Seen:
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    node = next(iter(Reader(parse_url(str(path)))()))
    ways = node.metadata["coordinateTransformations"][0]
    (scale,), (start,) = (
        [way[kind] for way in ways if kind in way] for kind in ("scale", "translation")
    )
    return node.data[0], start[0] + scale[0] * np.arange(SHAPE[0]), None


def napari_ome_zarr_reads(path: Path) -> Seen:
    from napari_ome_zarr._reader import napari_get_reader

    data, facts, *_ = napari_get_reader(str(path))(str(path))[0]
    affine = facts.get("affine")
    start = np.asarray(affine)[0, -1] if affine is not None else 0
    wavelengths = start + facts["scale"][0] * np.arange(SHAPE[0])
    return data[0] if isinstance(data, list | tuple) else data, wavelengths, None


def scipy_reads(path: Path) -> Seen:
    from scipy.io import loadmat

    stored = loadmat(path)
    return np.moveaxis(stored["cube"], 2, 0), stored["bands"].ravel(), None


def numpy_reads(path: Path) -> Seen:
    stored = np.load(path)
    key = next(key for key in stored.files if stored[key].ndim == 3)
    at = [stored[key] for key in stored.files if stored[key].shape == SHAPE[:1]]
    return stored[key], at[0] if at else None, None


def imagej_reads(path: Path) -> Seen:
    said = imagej(f"""open("{path}"); for (s = 1; s <= nSlices; s++) {{ setSlice(s);
        for (y = 0; y < getHeight(); y++) for (x = 0; x < getWidth(); x++)
            print("value", d2s(getPixel(x, y), -9)); print("label", getInfo("slice.label")); }}""")
    values = [line.split()[1] for line in said if line.startswith("value")]
    labels = [line.split()[1] for line in said if line.startswith("label")]
    data = np.array(values, dtype=np.float32).reshape(SHAPE)
    # It prints 9 digits, which tell numbers of 32 bits apart.
    return data, labels, None


def imagej(macro: str) -> list[str]:
    """The lines that ImageJ prints. Raises `OSError` if there is no ImageJ, or it says an error."""
    if not (IMAGEJ.exists() and shutil.which("java") and shutil.which("xvfb-run")):
        raise FileNotFoundError(IMAGEJ)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "a.ijm")
        script.write_text(
            f'{macro}\nprint("version", getVersion());\neval("script", "System.exit(0)");'
        )
        command = ["xvfb-run", "-a", "java", "-jar", str(IMAGEJ), "-batch", str(script)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired as error:  # a message that nobody sees
            raise OSError(str(error.stdout)[:200]) from None
        said = done.stdout
    if "version" not in said or "Unsupported" in said or "not found" in said:
        raise OSError(said[:200])
    return said.splitlines()


READERS: Mapping[str, tuple[Callable[[Path], Seen], Sequence[str]]] = {
    "spectral": (spectral_reads, [".hdr"]),
    "GDAL (rasterio)": (gdal_reads, [".hdr", ".tif", ".imagej.tif", ".nc", ".zarr"]),
    "rioxarray": (rioxarray_reads, [".hdr", ".tif", ".imagej.tif", ".nc"]),
    "xarray": (xarray_reads, [".nc", ".zarr"]),
    "hylite": (hylite_reads, [".hdr", ".tif", ".imagej.tif"]),
    "HyperSpy": (hyperspy_reads, [".tif", ".imagej.tif"]),
    "ImageJ": (imagej_reads, [".tif", ".imagej.tif"]),
    "libvips": (vips_reads, [".tif", ".imagej.tif"]),
    "SimpleITK": (simpleitk_reads, [".tif", ".imagej.tif"]),
    "SciPy": (scipy_reads, [".mat"]),
    "NumPy": (numpy_reads, [".npz"]),
    "ngff-zarr": (ngff_zarr_reads, [".zarr"]),
    "ome-zarr": (ome_zarr_reads, [".zarr"]),
    "napari-ome-zarr": (napari_ome_zarr_reads, [".zarr"]),
}
"""The reader of each program, and those of our suffixes that it claims to know."""


# ---------------------------------------------------------------------- others write, we read
def spectral_writes(folder: Path) -> Path:
    from spectral.io import envi

    about = {"wavelength": WAVELENGTHS.tolist(), "wavelength units": "Nanometers"}
    about["map info"] = "{UTM, 1, 1, 500000, 5400000, 2, 2, 33, North, WGS-84}"
    envi.save_image(str(folder / "a.hdr"), np.moveaxis(numbers(), 0, 2), metadata=about)
    return folder / "a.hdr"


def gdal_writes(folder: Path, driver: str = "GTiff", name: str = "a.tif") -> Path:
    import rasterio

    count, height, width = SHAPE
    profile = {"driver": driver, "count": count, "height": height, "width": width}
    place = {"crs": f"EPSG:{EPSG}", "transform": rasterio.Affine(*TRANSFORM)}
    with rasterio.open(folder / name, "w", dtype="float32", **profile, **place) as image:
        image.write(numbers())
        for band, at in enumerate(WAVELENGTHS, 1):
            image.update_tags(band, ns="IMAGERY", CENTRAL_WAVELENGTH_UM=f"{at / 1000:g}")
            image.set_band_description(band, f"{at:g} Nanometers")
    return folder / name


def gdal_writes_envi(folder: Path) -> Path:
    return gdal_writes(folder, "ENVI", "a.img")


def _labelled() -> Any:
    import rioxarray  # noqa: F401 (gives arrays their `rio`)
    import xarray

    a, _, c, _, e, f = TRANSFORM
    _, height, width = SHAPE
    places = {"y": f + e * (np.arange(height) + 0.5), "x": c + a * (np.arange(width) + 0.5)}
    at = ("wavelength", WAVELENGTHS, {"units": "nm"})
    array = xarray.DataArray(
        numbers(),
        dims=("wavelength", "y", "x"),
        coords={"wavelength": at, **places},
        name="reflectance",
    )
    return array.rio.write_crs(EPSG)


def rioxarray_writes(folder: Path) -> Path:
    _labelled().rio.to_raster(folder / "a.tif")
    return folder / "a.tif"


def xarray_writes(folder: Path) -> Path:
    _labelled().to_netcdf(folder / "a.nc", engine="h5netcdf")
    return folder / "a.nc"


def xarray_writes_zarr(folder: Path) -> Path:
    _labelled().to_zarr(folder / "a.zarr")
    return folder / "a.zarr"


def hylite_writes(folder: Path) -> Path:
    from hylite import HyImage, io

    image = HyImage(numbers().transpose(2, 1, 0), wav=WAVELENGTHS)
    io.save(str(folder / "a.hdr"), image)
    return folder / "a.hdr"


def _signal() -> Any:
    import hyperspy.api as hs

    count, height, width = SHAPE
    axes = [
        {"name": "y", "size": height, "units": "m"},
        {"name": "x", "size": width, "units": "m"},
        {"name": "wavelength", "size": count, "units": "nm", "offset": 400, "scale": 10},
    ]
    return hs.signals.Signal1D(np.ascontiguousarray(np.moveaxis(numbers(), 0, 2)), axes=axes)


def hyperspy_writes(folder: Path) -> Path:
    _signal().save(str(folder / "a.hspy"))
    return (folder / "a.hspy").rename(folder / "a.h5")


def ngff_zarr_writes(folder: Path) -> Path:
    import ngff_zarr

    image = ngff_zarr.to_ngff_image(
        numbers(),
        dims=["c", "y", "x"],
        scale={"c": 10.0, "y": 1.0, "x": 1.0},
        translation={"c": 400.0, "y": 0.0, "x": 0.0},
    )
    ngff_zarr.to_ngff_zarr(
        str(folder / "a.zarr"), ngff_zarr.to_multiscales(image, scale_factors=[])
    )
    return folder / "a.zarr"


def ome_zarr_writes(folder: Path) -> Path:
    from ome_zarr.writer import write_image

    write_image(numbers(), str(folder / "a.zarr"), axes="cyx", scaler=None)
    return folder / "a.zarr"


def imagej_writes(folder: Path) -> Path:
    import tifffile

    labels = [f"{at:g} nm" for at in WAVELENGTHS]
    source, path = folder / "source.tif", folder / "a.tif"
    tifffile.imwrite(source, numbers(), imagej=True, metadata={"axes": "ZYX", "Labels": labels})
    imagej(f'open("{source}"); saveAs("Tiff", "{path}");')
    source.unlink()
    return path


def vips_writes(folder: Path) -> Path:
    import pyvips

    image = pyvips.Image.new_from_array(np.ascontiguousarray(np.moveaxis(numbers(), 0, 2)))
    image.tiffsave(str(folder / "a.tif"))
    return folder / "a.tif"


def simpleitk_writes(folder: Path) -> Path:
    import SimpleITK

    pixels = np.ascontiguousarray(np.moveaxis(numbers(), 0, 2))
    image = SimpleITK.GetImageFromArray(pixels, isVector=True)
    SimpleITK.WriteImage(image, str(folder / "a.tif"))
    return folder / "a.tif"


def scipy_writes(folder: Path) -> Path:
    from scipy.io import savemat

    savemat(folder / "a.mat", {"cube": np.moveaxis(numbers(), 0, 2), "wavelengths": WAVELENGTHS})
    return folder / "a.mat"


def numpy_writes(folder: Path) -> Path:
    np.savez(folder / "a.npz", cube=numbers(), wavelengths=WAVELENGTHS)
    return folder / "a.npz"


WRITERS: Mapping[str, Callable[[Path], Path]] = {
    "spectral, ENVI": spectral_writes,
    "GDAL (rasterio), ENVI": gdal_writes_envi,
    "GDAL (rasterio), GeoTIFF": gdal_writes,
    "rioxarray, GeoTIFF": rioxarray_writes,
    "xarray, netCDF": xarray_writes,
    "xarray, Zarr": xarray_writes_zarr,
    "hylite, ENVI": hylite_writes,
    "HyperSpy, HDF5": hyperspy_writes,
    "ImageJ, TIFF": imagej_writes,
    "libvips, TIFF": vips_writes,
    "SimpleITK, TIFF": simpleitk_writes,
    "SciPy, MATLAB": scipy_writes,
    "NumPy, npz": numpy_writes,
    "ngff-zarr, OME-Zarr": ngff_zarr_writes,
    "ome-zarr, OME-Zarr": ome_zarr_writes,
}
"""The cube of each program in a format of its own, saved as its documentation shows."""


# ---------------------------------------------------------------------- the two sides
def write_ours(folder: Path) -> None:
    """Save our cube in every format, each in a folder of its own: programs pair names."""
    import napari_mst as nm
    from napari_mst.cube.georeference import FIELD, Georeference

    place = Georeference.of_code(TRANSFORM, EPSG, is_geographic=False).to_json()
    cube = nm.SpectralCube(numbers(), WAVELENGTHS, metadata={FIELD: place})
    for suffix in OURS:
        (folder / suffix[1:]).mkdir(parents=True)
        nm.write_cube(folder / suffix[1:] / f"cube{suffix}", cube)


def read_by_others(folder: Path, names: Sequence[str] = tuple(READERS)) -> dict[str, list[str]]:
    """The cells of the rows *names*: one for each of our formats, in *folder*."""
    rows = {}
    for name in names:
        read, suffixes = READERS[name]
        paths = {suffix: folder / suffix[1:] / f"cube{suffix}" for suffix in suffixes}
        rows[name] = [_tried(read, paths[each]) if each in paths else "\u2013" for each in OURS]
    return rows


def read_by_us(path: Path) -> str:
    """The cell for the file at *path*, which another program wrote."""
    import napari_mst as nm
    from napari_mst.cube.georeference import FIELD, Georeference

    def read(path: Path) -> Seen:
        cube = nm.read_cube(path)
        place = Georeference.from_json(str(cube.metadata.get(FIELD)))
        is_known = place is not None and place.code == EPSG
        wavelengths = cube.wavelengths if cube.has_wavelengths else None
        return cube.data, wavelengths, place.transform if place and is_known else None

    return _tried(read, path)


def write_theirs(folder: Path, names: Sequence[str] = tuple(WRITERS)) -> dict[str, str]:
    """The paths of the files that the programs *names* wrote into *folder*."""
    paths = {}
    for name in names:
        inside = folder / name.replace(", ", "_").replace(" ", "_")
        inside.mkdir(parents=True)
        try:
            with warnings.catch_warnings(action="ignore"):
                paths[name] = str(WRITERS[name](inside))
        except Exception as error:  # noqa: BLE001 (a program may fail in any way)
            print(f"{name}: {error}", file=sys.stderr)
    return paths


def _tried(read: Callable[[Path], Seen], path: Path) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):
            return marks(read(path))
    # A program may fail in any way.
    except Exception as error:  # noqa: BLE001
        print(f"{path.name}: {type(error).__name__} {str(error)[:160]}", file=sys.stderr)
        return "no"


# ---------------------------------------------------------------------- the page
START, END = "<!-- neighbours: {} -->\n", "<!-- end -->"


def table(kind: str) -> dict[str, list[str]]:
    """The rows of the table of a *kind*, "theirs read ours" or "ours reads theirs", on the page."""
    text = PAGE.read_text(encoding="utf-8").partition(START.format(kind))[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines()]
    return {cells[0]: cells[1:] for cells in rows[2:] if len(cells) > 1}


def _written(kind: str, heading: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    lines = [["program", *heading], ["---"] * (len(heading) + 1)]
    lines += [[name, *cells] for name, cells in rows.items()]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    page = PAGE.read_text(encoding="utf-8")
    before, start, rest = page.partition(START.format(kind))
    PAGE.write_text(f"{before}{start}{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _there(folder: Path) -> None:
    """What the environment of the others answers: cells, paths and versions, as JSON."""
    versions = {name.partition("=")[0]: "" for name in PINNED}
    for name in versions:
        versions[name] = metadata.version(name)
    try:
        versions["ImageJ"] = next(line for line in imagej("") if "version" in line).split()[1]
    except OSError:
        versions["ImageJ"] = ""
    answer = {
        "cells": read_by_others(folder / "ours"),
        "paths": write_theirs(folder / "theirs"),
        "versions": versions,
    }
    (folder / "answer.json").write_text(json.dumps(answer))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--there", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--environment", type=Path, help="an environment that has the programs")
    given = parser.parse_args()
    if given.there:
        _there(given.there)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = given.environment or folder / "environment"
        python = str(home / "bin" / "python")
        if not home.exists():
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *PINNED], check=True)
        write_ours(folder / "ours")
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [python, str(Path(__file__).resolve()), "--there", name]
        subprocess.run(command, check=True, env=environment)
        answer = json.loads((folder / "answer.json").read_text())
        theirs = {name: [read_by_us(Path(path))] for name, path in answer["paths"].items()}
    cells = answer["cells"]
    if not answer["versions"]["ImageJ"]:
        cells["ImageJ"] = table("theirs read ours")["ImageJ"]
    if given.check:
        found = {"theirs read ours": cells, "ours reads theirs": theirs}
        differ = [f"{kind}, {row}: {table(kind).get(row)} on the page, {now} now"
                  for kind, rows in found.items() for row, now in rows.items()
                  if table(kind).get(row) != now]  # fmt: skip
        print("\n".join(differ) or "The tables are true.")
        return bool(differ)
    _written("theirs read ours", [f"`{suffix}`" for suffix in OURS], cells)
    _written("ours reads theirs", ["here"], theirs)
    print(json.dumps(answer["versions"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
