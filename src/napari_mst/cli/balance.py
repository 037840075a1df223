"""The white balance of sRGB photos: the option `--balance`, and what it does to each photo."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.captures import place
from napari_mst.errors import PhotoError
from napari_mst.photo.cameras import ESTIMATED
from napari_mst.photo.photo import Photo
from napari_mst.photo.white import Place

if TYPE_CHECKING:
    from napari_mst.light.white_balance import WhiteBalance


def add_balance_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--balance`."""
    parser.add_argument(
        "--balance",
        type=_where,
        metavar="estimate|ROW,COLUMN",
        help="correct the white balance of sRGB photos: by the light that each photo itself shows, "
        "if that is far from D65, or by a grey patch in it (a pixel, or a rectangle "
        "ROW0:ROW1,COL0:COL1; see --patch-photo)",
    )


def _where(text: str) -> Place | str:
    """The word "estimate", or the place of a grey patch."""
    return text if text == ESTIMATED else place(text)


@dataclass(frozen=True)
class Balancing:
    """Corrects the white balance of sRGB photos.

    Attributes
    ----------
    measured
        The white of a grey patch, for all photos; None where each photo tells its own.
    """

    measured: "WhiteBalance | None" = None

    def balanced(self, photo: Photo) -> Photo:
        """The *photo* corrected; as it is, with a note, where its own light is near D65.

        Raises
        ------
        PhotoError
            If the photo is not in sRGB, or tells nothing.
        """
        # It imports torch, which --help and a refused argument must not wait for.
        from napari_mst.light.white_balance import white_balance

        white = self.measured or white_balance(photo)
        if white.is_far:
            return white.corrected(photo)
        note = f"The white balance was left as it is: {white}."
        return replace(photo, assumptions=(*photo.assumptions, note))


def balancing_of(arguments: argparse.Namespace, photos: Sequence[Path]) -> Balancing | None:
    """The white balance that the arguments ask for; None if they ask for none.

    Raises
    ------
    PhotoError
        If the patch is none, or nobody says which of several photos shows it.
    """
    where = arguments.balance
    if where is None:
        return None
    if where == ESTIMATED:
        return Balancing()
    from napari_mst.light.white_balance import white_balance

    path = arguments.patch_photo
    if path is None and len(photos) != 1:
        raise PhotoError(
            f"Expected one photo with --balance ROW,COLUMN, got {len(photos)}. "
            "Say with --patch-photo which one shows the patch, or let each photo tell its light: "
            "--balance estimate."
        )
    return Balancing(white_balance(Photo.read(path or photos[0]), where))
