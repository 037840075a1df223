"""The first lines of a notebook: the cube of a photo, and the models to choose from."""

import re
import time
from os import PathLike

import numpy as np

from napari_mst.cube import SpectralCube
from napari_mst.models import MODELS, Model, ModelCard, load_model
from napari_mst.models.cards import WEIGHTS
from napari_mst.photo.cameras import Capture, load_cameras
from napari_mst.photo.photo import Photo, PhotoLike
from napari_mst.reconstruction.reconstructor import Reconstructor

_SIDE, _ROWS = 128, 16
_COLUMNS = "model", "photos", "error", "measured on", "here", "size"


def reconstruct(photo: PhotoLike, model: str | PathLike[str] | Model | None = None) -> SpectralCube:
    """The cube of *photo*: (B, H, W) float32, wavelengths in nm.

    A `Reconstructor` has options, and makes many cubes with one model.

    Parameters
    ----------
    photo
        A file, an array (H, W, 3) or a `Photo`.
    model
        A model, its name or its file; by default the first of `list_models`.

    Raises
    ------
    NapariMstError
        As `load_model` and `Reconstructor.reconstruct`.

    Notes
    -----
    =======  ==================================================================
    photo    a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    returns  (B, H, W) float32, reflectance, 0 to about 1; wavelengths in nm
    =======  ==================================================================

    Examples
    --------
    >>> nm.reconstruct(np.full((4, 6, 3), 128, np.uint8), "pixelwise-srgb").shape
    (31, 4, 6)
    """
    loaded = model if isinstance(model, Model) else load_model(*[model] if model else [])
    return Reconstructor(loaded).reconstruct(photo)


class ModelTable(dict[str, ModelCard]):
    """The cards of all models by name; printed, one short line each.

    `seconds` are those that a megapixel takes on this computer.
    """

    def __init__(self) -> None:
        super().__init__(MODELS)
        self.seconds = {name: _seconds(card) for name, card in self.items() if card.file}

    def __repr__(self) -> str:
        rows = [_COLUMNS, *(self._row(card) for card in self.values())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(lines)

    def _row(self, card: ModelCard) -> tuple[str, ...]:
        scores = [(each["MRAE"], data) for data, each in card.accuracy.items() if "MRAE" in each]
        error, data = min(scores, default=(None, ""))
        seconds = self.seconds.get(card.name)
        path = WEIGHTS / (card.file or "")
        return (
            card.name,
            re.split(r"[,;(.]", card.domain)[0].strip(),
            "" if error is None else f"{error:.1%}",
            data,
            "" if seconds is None else f"{seconds:.2g} s/Mpx",
            f"{path.stat().st_size / 1e6:.2g} MB" if path.is_file() else "",
        )


def list_models() -> ModelTable:
    """The models to choose from: for which photos, how accurate, how fast here, and how large.

    The error is the mean of abs(estimate - truth) / truth. The speed is measured now, which takes
    some seconds: by how much longer 128 rows of 128 pixels take than 16. Large photos take less
    for each pixel, and more where all pixels attend to each other.

    Notes
    -----
    =======  =====================================================
    returns  a dict of cards by name, with `seconds` per megapixel
    =======  =====================================================

    Examples
    --------
    >>> list(nm.list_models())
    ['mstpp-srgb', 'pixelwise-srgb', 'mstpp-camera', 'mstpp-hybrid', 'mstpp-mixed', 'mst-plus-plus']
    """
    return ModelTable()


def _seconds(card: ModelCard) -> float:
    capture = Capture(next(iter(load_cameras())), "D65") if card.needs_camera else None
    model = load_model(card.name)
    runner = Reconstructor(model, denoise="off", capture=capture)
    pixels = np.random.default_rng(0).random((_SIDE, _SIDE, model.network.in_bands), np.float32)
    photo = Photo.from_array(pixels, encoding="linear" if capture else "srgb")

    def run(rows: int) -> float:
        start = time.perf_counter()
        runner.reconstruct(photo, region=(0, rows, 0, _SIDE))
        return time.perf_counter() - start

    # The first run makes kernels ready; what a run costs once is in both of the others.
    _, few, all_rows = map(run, (_ROWS, _ROWS, _SIDE))
    return max(all_rows - few, 0) / ((_SIDE - _ROWS) * _SIDE) * 1e6
