"""Remembers how a person wants to see cubes, from one session to the next.

A script may use the plugin where it is switched off in napari: then nothing is remembered.
"""

from contextlib import suppress
from typing import NamedTuple

from napari_mst.plugin.viewer.remembered import section

SECTION = "pictures"
"""The section of `napari.yaml`, which has a property for each field of `PictureChoices`."""


class PictureChoices(NamedTuple):
    """The choices in the menu "Picture of the cube".

    Attributes
    ----------
    has_pictures
        Whether a new cube opens as a picture.
    light, is_adapted
        The light that new cubes are rendered under, as in `Colours`.
    has_own_contrast
        Whether each band has a contrast of its own.
    has_own_colour
        Whether each band has the colour of its wavelength.
    """

    has_pictures: bool = True
    light: str = ""
    is_adapted: bool = True
    has_own_contrast: bool = True
    has_own_colour: bool = False


def recalled() -> PictureChoices:
    """Return what the last session has left."""
    try:
        kept = section(SECTION)
    except KeyError:
        return PictureChoices()
    return PictureChoices(*(getattr(kept, name) for name in PictureChoices._fields))


def remember(**choices: object) -> None:
    """Keep some of the fields of `PictureChoices` for the next session."""
    with suppress(KeyError):
        kept = section(SECTION)
        for name, choice in choices.items():
            setattr(kept, name, choice)
