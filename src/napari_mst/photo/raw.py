"""RAW photos, developed by LibRaw to the linear values of the sensor.

Black level and saturation are applied, and the photo is demosaiced and turned upright. There is no
white balance, no colour matrix and no tone curve. rawpy (MIT) brings LibRaw (LGPL 2.1 or CDDL 1.0).
It is the extra `raw`, and is imported only in the decoding process (`sandbox`).

Letters: H rows, W columns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.base import sandbox
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import PhotoError, shown
from napari_mst.base.sandbox import SandboxAnswer
from napari_mst.photo.cameras import matching_camera
from napari_mst.photo.raw_header import camera_in_raw, neutral_in_dng

if TYPE_CHECKING:
    from rawpy import RawPy


@dataclass(frozen=True)
class Shot:
    """The circumstances of a RAW photo, as stated in its file; missing texts are empty.

    Attributes
    ----------
    make, model
        The camera, in its maker's words.
    camera
        Its name among the cameras with measured sensitivities; "" if it is not among them.
    neutral
        Sensor values of a white surface according to the camera's white balance ("as shot"): red,
        green and blue, with green 1; None if the file does not state it.
    demosaicing
        The method that computed three colours per pixel from the single colour that it measures.
    is_flat
        True once the photo was divided by a white frame, which also balances it.
    """

    make: str = ""
    model: str = ""
    camera: str = ""
    neutral: tuple[float, float, float] | None = None
    demosaicing: str = ""
    is_flat: bool = False

    @property
    def gains(self) -> Doubles | None:
        """White-balance gains (3,) as shot; None if unknown."""
        return None if self.neutral is None else 1 / np.array(self.neutral)

    @property
    def title(self) -> str:
        """Display name of the camera, with its brand only once."""
        brand = next(iter(self.make.split()), "")
        names_itself = self.model.lower().startswith(brand.lower())
        name = self.model if names_itself else f"{brand} {self.model}"
        return shown(name.strip(), 40) or "an unnamed camera"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the history of a cube."""
        white = "The file does not state the white balance of its camera."
        if self.neutral is not None:
            red, green, blue = self.neutral
            white = f"White as shot, in values of the sensor: {red:.4g}, {green:g}, {blue:.4g}."
        camera = f"The sensitivities of its camera are known as {self.camera}."
        if not self.camera:
            camera = (
                f"The sensitivities of {self.title} are not among the measured ones: name a "
                "similar camera or a CSV file, or calibrate with a chart."
            )
        return (
            f"A RAW photo of {self.title}: black level and saturation were applied, "
            f"demosaicing: {self.demosaicing}. Vignetting and colour fringes of the lens were "
            "left as they are.",
            white,
            camera,
        )


SATURATED = 65535
"""Value of a saturated pixel: the full scale of a developed photo."""

MAX_PIXELS = 178_956_970
"""Largest photo read into memory, in pixels: Pillow's limit against decompression bombs."""

# Memory per pixel: its samples, four colours, the photo developed twice, and as floats.
_PIXEL_BYTES = 64
_AGAIN = "Copy it again."

_XTRANS = (6, 6)
_NO_COLOUR = 1
_COLOURS = b"RGB"
_RARE = 1e-4  # largest share of saturated pixels without a note


def develop_raw(path: Path, notes: list[str]) -> tuple[NDArray[np.uint16], Shot]:
    """The linear sensor values of a RAW photo, (H, W, 3), or (H, W) if grey, and its `Shot`.

    LibRaw runs in a separate process.

    Raises
    ------
    PhotoError
        If rawpy is not installed, LibRaw does not know the file, the file is damaged, the sensor
        has colours other than red, green and blue, or its black level is not below its white level.
    """
    if find_spec("rawpy") is None:
        raise PhotoError(
            "Expected rawpy, which reads RAW photos, got no such package. "
            "Install it: pip install 'napari-mst[raw]'."
        )
    facts, pixels = sandbox.decoded("napari_mst.photo.raw:developed", path, (), _refusal)
    neutral = facts["shot"]["neutral"]
    shot = Shot(**facts["shot"] | {"neutral": neutral and tuple(neutral)})
    notes += [*shot.notes, *saturation_notes(pixels)]
    return (pixels[..., 0] if pixels.shape[-1] == 1 else pixels), shot


def developed(path: Path) -> SandboxAnswer:
    """The facts of a RAW photo and its pixels (H, W, C): the part of `develop_raw` in LibRaw."""
    rawpy = _rawpy()
    sandbox.limit_memory(sandbox.ROOM_BYTES)
    with _explained(), rawpy.RawPy() as raw:
        raw.open_file(str(path))
        columns, rows = raw.sizes.width, raw.sizes.height
        check_size(columns, rows)
        sandbox.limit_memory(sandbox.ROOM_BYTES + _PIXEL_BYTES * columns * rows)
        raw.unpack()
        _check_colours(raw)
        shot = _shot(raw, path)
        scales = _scales(raw)
        pixels = raw.postprocess(
            demosaic_algorithm=rawpy.DemosaicAlgorithm.AHD,
            output_color=rawpy.ColorSpace.raw,
            output_bps=16,
            gamma=(1, 1),
            no_auto_bright=True,
            # Otherwise LibRaw balances for daylight, and changes the saturation with each photo.
            user_wb=[1.0, 1.0, 1.0, 1.0],
            adjust_maximum_thr=0.0,
        )
    if (scales != 1).any():
        factors = scales[: pixels.shape[-1]].astype(np.float32)
        pixels = np.minimum(np.rint(pixels * factors), SATURATED).astype(np.uint16)
    scaled = np.ascontiguousarray(pixels)
    return {"shot": asdict(shot), "shape": scaled.shape, "dtype": scaled.dtype.str}, (scaled,)


def check_size(columns: int, rows: int) -> None:
    """Refuse a photo of more than 178 megapixels. Raises `PhotoError`."""
    if columns * rows > MAX_PIXELS:
        raise too_large()


def too_large() -> PhotoError:
    """The error about a photo with too many pixels."""
    return PhotoError(
        f"Expected at most {MAX_PIXELS:,} pixels, got more. "
        "Crop the photo, pass it as an array, or save it as a TIFF of strips or tiles."
    )


def _refusal(got: str, advice: str) -> PhotoError:
    return PhotoError(f"Expected a RAW photo, got {got}. {advice}")


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of LibRaw into errors with advice."""
    rawpy = _rawpy()
    try:
        yield
    except rawpy.LibRawFileUnsupportedError as error:
        raise PhotoError(
            "Expected a RAW photo of a camera that LibRaw "
            f"{'.'.join(map(str, rawpy.libraw_version))} knows, got something else. "
            "Convert it to DNG, or to a linear 16-bit TIFF."
        ) from error
    except (rawpy.LibRawIOError, rawpy.LibRawDataError) as error:
        raise PhotoError(
            f"Expected an intact RAW file, got one that is cut off or damaged. {_AGAIN}"
        ) from error
    except (
        MemoryError,
        rawpy.LibRawUnsufficientMemoryError,
        rawpy.LibRawMemPoolOverflowError,
        rawpy.LibRawTooBigError,
    ) as error:
        if sandbox.is_limited_from_outside():
            raise MemoryError from error
        raise _refusal("one that asks for more memory than its pixels need", _AGAIN) from error
    except PhotoError:
        raise
    except Exception as error:  # including those of a rawpy without a feature used here
        reason = shown(f"{type(error).__name__}: {error}", 100)
        raise PhotoError(
            f"Expected rawpy {rawpy.__version__} to read the RAW photo, got {reason}. "
            "Update rawpy, or convert the photo to a linear 16-bit TIFF."
        ) from error


def _rawpy() -> Any:
    """The library of the extra `raw`, untyped because its types differ between releases."""
    import rawpy

    return rawpy


def _check_colours(raw: "RawPy") -> None:
    colours = raw.color_desc
    is_colour = raw.num_colors == len(_COLOURS) and set(colours) <= set(_COLOURS)
    if not is_colour and raw.num_colors != _NO_COLOUR:
        names = colours.decode("ascii", "replace")
        raise PhotoError(
            f"Expected a sensor of red, green and blue, got one of {names}. "
            "Convert the file to a linear DNG."
        )


def _shot(raw: "RawPy", path: Path) -> Shot:
    make, model = camera_in_raw(path)
    return Shot(
        make=make,
        model=model,
        camera=matching_camera(make, model),
        # LibRaw ignores the white that Google's cameras state as a chromaticity.
        neutral=_neutral(raw) or (neutral_in_dng(path) if raw.num_colors != _NO_COLOUR else None),
        demosaicing=_demosaicing(raw),
    )


def _scales(raw: "RawPy") -> Doubles:
    """Factors (3,) by which the channels from LibRaw fall short of saturation.

    LibRaw scales all channels by the smallest black level, even that of a missing fourth channel:
    with levels of 64 and 4064, saturation would become 65535 x 4000 / 4064.
    """
    black = np.array(raw.black_level_per_channel, dtype=np.float64)
    white = float(raw.white_level)
    if black[:3].max() >= white:
        raise PhotoError(
            f"Expected a black level below the white level of {white:.0f}, "
            f"got {black[:3].max():.0f}. Convert the file again."
        )
    return (white - black.min()) / (white - black[:3])


def _neutral(raw: "RawPy") -> tuple[float, float, float] | None:
    """The white as shot, from the gains that the camera stored."""
    gains = np.array(raw.camera_whitebalance[:3], dtype=np.float64)
    if raw.num_colors == _NO_COLOUR or not (np.isfinite(gains).all() and (gains > 0).all()):
        return None
    # The gains were 32-bit floats, whose last digits are meaningless.
    red, green, blue = (gains[1] / gains).round(6).tolist()
    return red, green, blue


def _demosaicing(raw: "RawPy") -> str:
    rawpy = _rawpy()
    is_mosaic = raw.raw_type == rawpy.RawType.Flat and raw.num_colors != _NO_COLOUR
    pattern = raw.raw_pattern if is_mosaic else None
    if pattern is None:
        return "none, as each pixel has all its colours"
    method = "Markesteijn's, for X-Trans" if pattern.shape == _XTRANS else "AHD"
    return f"{method} (LibRaw {'.'.join(map(str, rawpy.libraw_version))})"


def saturation_notes(pixels: NDArray[np.uint16]) -> list[str]:
    """A sentence about the share of saturated *pixels* (H, W, C), unless they are rare."""
    share = float((pixels == SATURATED).any(axis=-1).mean())
    if share < _RARE:
        return []
    return [
        f"{share:.2%} of the pixels are at the saturation of the sensor: "
        "their colours, and so their spectra, are not known."
    ]
