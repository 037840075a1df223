"""The loss of JPEG in the colours of real scenes, part by part: it bounds what restoring one part can win back.

`python -m lab.benchmarks.jpeg_floor FOLDER [--quality 75 50]`

Mean CIEDE2000 between each scene's photo before and after JPEG, over the scenes in FOLDER: as
Pillow writes it; if luma (Y') or chroma (Cb, Cr) came through unharmed; and with colour at half the
resolution (4:2:0) and no other loss.
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lab.benchmarks import common
from napari_mst.cube.colour import XYZ_TO_SRGB, srgb_to_linear
from napari_mst.cube.metrics import delta_e
from napari_mst.training.inputs import INPUTS
from napari_mst.training.scenes import read_scenes

Codes = NDArray[np.floating]  # (3, H, W), 0 to 255: sRGB, or Y' Cb Cr

RGB_TO_YCC = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)
"""JFIF 1.02, which Pillow writes; Cb and Cr about 0."""


def ycc(codes: Codes) -> Codes:
    """Y' Cb Cr of sRGB codes."""
    return np.tensordot(RGB_TO_YCC, codes, axes=1)


def rgb(codes: Codes) -> Codes:
    """sRGB codes of Y' Cb Cr, clipped."""
    return np.tensordot(np.linalg.inv(RGB_TO_YCC), codes, axes=1).clip(0, 255)


def compressed(codes: Codes, quality: int, subsampling: int = 2) -> Codes:
    """The photo after JPEG: 4:2:0 by default, 4:4:4 with a *subsampling* of 0."""
    stream = io.BytesIO()
    image = Image.fromarray(np.moveaxis(codes, 0, -1).astype(np.uint8))
    image.save(stream, "jpeg", quality=quality, subsampling=subsampling)
    return np.moveaxis(np.asarray(Image.open(stream)), -1, 0).astype(float)


def mixed(luma: Codes, chroma: Codes) -> Codes:
    """The photo with the Y' of one and the Cb, Cr of another."""
    return rgb(np.concatenate([ycc(luma)[:1], ycc(chroma)[1:]]))


def halved_colour(codes: Codes) -> Codes:
    """The photo with colour as 4:2:0 can hold it at best: means of 2 x 2 pixels, back by bicubic interpolation."""
    rows, columns = codes.shape[1:]
    luma, *chroma = ycc(codes)
    small = [
        Image.fromarray(c.astype(np.float32)).resize(
            (columns // 2, rows // 2), Image.Resampling.BOX
        )
        for c in chroma
    ]
    back = [np.asarray(c.resize((columns, rows), Image.Resampling.BICUBIC)) for c in small]
    return rgb(np.stack([luma, *back]))


WAYS: dict[str, Callable[[Codes, int], Codes]] = {
    "JPEG as Pillow writes it": compressed,
    "... luma unharmed": lambda codes, quality: mixed(codes, compressed(codes, quality)),
    "... chroma unharmed": lambda codes, quality: mixed(compressed(codes, quality), codes),
    "4:4:4 instead of 4:2:0": lambda codes, quality: compressed(codes, quality, 0),
    "4:2:0 and no other loss": lambda codes, _: halved_colour(codes),
}


def lab(codes: Codes) -> NDArray[np.float64]:
    """CIELAB under D65."""
    xyz = np.tensordot(np.linalg.inv(XYZ_TO_SRGB), srgb_to_linear(codes / 255), axes=1)
    relative = xyz / np.linalg.inv(XYZ_TO_SRGB).sum(axis=1)[:, None, None]
    f = np.where(relative > (6 / 29) ** 3, np.cbrt(relative), relative * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.stack([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def main() -> None:
    """Print one row a way to lose."""
    parser = common.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quality", type=int, nargs="+", default=[75, 50])
    options = parser.parse_args()
    photos = [
        INPUTS[0].photograph(scene.cube).astype(float) for scene in read_scenes(options.folder)
    ]
    print(f"{'dE D65':28}" + "".join(f"{quality:8}" for quality in options.quality))
    for name, way in WAYS.items():
        values = [
            np.mean([delta_e(lab(way(codes, quality)), lab(codes)).mean() for codes in photos])
            for quality in options.quality
        ]
        print(f"{name:28}" + "".join(f"{value:8.2f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
