"""What napari calls to open and to save cubes: thin, over the `FORMATS` table; what is not clear, the user is asked."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari import current_viewer
from napari.utils.notifications import show_warning

from napari_mst.cube import BAND_INDEX, NANOMETRES, SpectralCube
from napari_mst.errors import Cancelled, ChoiceNeeded, SaveError
from napari_mst.formats import FORMATS, find_format, read_cube, write_cube
from napari_mst.formats.arrays import band_axis_of
from napari_mst.plugin import picks, questions
from napari_mst.plugin.layers import LayerTuple, cube_layer, cube_of_data, show_wavelength

Paths = str | list[str]
PICKS = "picks"
"""The metadata field of a saved cube that holds the picks on it."""
NO_LAYERS: list[Any] = [(None,)]
"""By which a reader tells napari that there is nothing to add, and that this is no fault."""


def cube_reader(path: Paths) -> Callable[[Paths], list[LayerTuple]] | None:
    """What opens the cube files at *path*; None, so that napari asks another reader, if one of them is no cube file."""
    return read_layers if all(find_format(one) for one in _listed(path)) else None


def read_layers(path: Paths) -> list[LayerTuple]:
    """A cube layer for each file but those that the user gave up, and the picks that were saved with it.

    Raises
    ------
    CubeFileError
        If a file is damaged.
    """
    read = {Path(one): _read(Path(one)) for one in _listed(path)}
    cubes = {path: cube for path, cube in read.items() if cube is not None}
    return [*(_layer(path, cube) for path, cube in cubes.items()), *_saved_picks(cubes)] or NO_LAYERS


def write_layer(path: str, data: Any, attributes: Mapping[str, Any], suffix: str = "") -> list[str]:
    """Save an Image layer in the format of the suffix of *path*, else of *suffix*.

    What the dialog of napari let the user replace is replaced, and nothing else. Without wavelengths the user is asked
    for them; where there is nobody to ask, the bands are numbered. The picks on the image are saved with it.

    Raises
    ------
    SaveError
        If the layer is not (B, H, W), or as `napari_mst.write_cube`.
    Cancelled
        If the user was asked, and cancelled.
    """
    target = Path(path)
    if target.suffix.lower() not in {known for form in FORMATS for known in form.suffixes}:
        target = target.with_name(target.name + suffix)
    may_replace = target.name == Path(path).name and target.exists()
    cube = _with_picks(_cube(data, attributes), data)
    return [str(write_cube(target, cube, overwrite=may_replace))]


write_envi = partial(write_layer, suffix=".hdr")
write_tiff = partial(write_layer, suffix=".tif")
write_npz = partial(write_layer, suffix=".npz")
write_matlab = partial(write_layer, suffix=".mat")
write_zarr = partial(write_layer, suffix=".zarr")


def _listed(path: Paths) -> list[str]:
    return path if isinstance(path, list) else [path]


def _read(path: Path) -> SpectralCube | None:
    """The cube at *path*, read as the user says where the file does not; None if they cancel."""
    options: dict[str, Any] = {}
    while True:
        try:
            return read_cube(path, **options)
        except ChoiceNeeded as question:
            parent = questions.window()
            if parent is None:
                raise
            answer = questions.ask_choice(path.name, question, parent)
            if answer is None:
                return None
            options[question.option] = answer


def _saved_picks(cubes: Mapping[Path, SpectralCube]) -> list[LayerTuple]:
    """The layer of the picks that were saved with one of *cubes*, if there are none in the viewer yet."""
    viewer, layers = current_viewer(), list[LayerTuple]()
    has_picks = viewer is not None and picks.picks_layer(viewer) is not None
    for path, cube in cubes.items():
        text = cube.metadata.get(PICKS)
        if text and (has_picks or layers):
            show_warning(f"{path.name}: the picks that were saved with it were left out, as there are others.")
        elif text:
            try:
                layers.append(picks.picks_of_text(str(text), cube.shape[1:]))
            except ValueError:
                show_warning(f"{path.name}: the picks that were saved with it are damaged, and were left out.")
    return layers


def _with_picks(cube: SpectralCube, data: Any) -> SpectralCube:
    """*cube* with the picks on the layer of *data*, if that is in the viewer."""
    viewer = current_viewer()
    layer = next((layer for layer in viewer.layers if layer.data is data), None) if viewer is not None else None
    points = picks.picks_layer(viewer) if layer is not None else None
    if layer is None:
        return cube
    text = picks.picks_text(points, layer) if points is not None else ""
    others = {key: value for key, value in cube.metadata.items() if key != PICKS}
    return replace(cube, metadata=others | ({PICKS: text} if text else {}))


def _layer(path: Path, cube: SpectralCube) -> LayerTuple:
    for sentence in cube.metadata.get("warnings", ()):
        show_warning(f"{path.name}: {sentence}")
    viewer = current_viewer()
    if viewer is not None:
        show_wavelength(viewer)
    return cube_layer(cube, path.stem)


def _cube(data: Any, attributes: Mapping[str, Any]) -> SpectralCube:
    """The cube to save of a layer's *data* and *attributes*."""
    pixels = data[0] if attributes.get("multiscale") else data
    cube = cube_of_data(pixels, attributes.get("metadata", {}))
    if cube is None and (np.ndim(pixels) != 3 or attributes.get("rgb")):
        raise SaveError(f"Expected a layer of (bands, rows, columns), got {np.shape(pixels)}. Select a cube layer.")
    axis = _likely_axis(pixels.shape) if cube is None else 0
    if cube is None:
        cube = SpectralCube(pixels, np.arange(len(pixels), dtype=np.float64), unit=BAND_INDEX, quantity="")
    parent = questions.window()
    if cube.unit != BAND_INDEX or parent is None:
        return cube
    known = _calibrated(attributes, len(pixels)) if axis == 0 else None
    return _completed(cube, questions.WavelengthsDialog(attributes.get("name", ""), pixels.shape, axis, known, parent))


def _completed(cube: SpectralCube, dialog: questions.WavelengthsDialog) -> SpectralCube:
    """*cube*, whose bands have but numbers, as the user says in *dialog*. Raises `Cancelled`."""
    is_accepted = dialog.exec()
    dialog.deleteLater()
    if not is_accepted:
        raise Cancelled("Saving was cancelled; nothing was written.")
    data = np.moveaxis(cube.data, -1, 0) if dialog.band_axis else cube.data
    wavelengths = dialog.wavelengths
    if wavelengths is None:
        return replace(cube, data=data, wavelengths=np.arange(len(data), dtype=np.float64))
    return replace(cube, data=data, wavelengths=wavelengths, unit=NANOMETRES)


def _likely_axis(shape: tuple[int, ...]) -> int:
    """The axis of the bands of any stack: the one that is clearly shortest, else the first."""
    try:
        return band_axis_of(shape, 0, None)
    except ChoiceNeeded:
        return 0


def _calibrated(attributes: Mapping[str, Any], bands: int) -> tuple[float, float] | None:
    """Where the first axis of a layer begins and ends, if its unit is nm."""
    if str(next(iter(attributes.get("units") or ()), "")) != "nanometer":
        return None
    start, step = float(attributes["translate"][0]), float(attributes["scale"][0])
    return start, start + (bands - 1) * step
