"""Cameras that are sold under several names, as they name themselves in EXIF.

Makers give one camera a name for Europe, one for America and one for Asia. The names are those of
Canon's and Panasonic's product pages, and of the tables of LibRaw 0.22.
"""

from types import MappingProxyType

ALIASES = MappingProxyType(
    {
        "Canon EOS 400D DIGITAL": "Canon_Digital_Rebel_XTi",
        "Canon EOS DIGITAL REBEL XTi": "Canon_Digital_Rebel_XTi",
        "Canon EOS Kiss Digital X": "Canon_Digital_Rebel_XTi",
        "Canon EOS Rebel SL1": "Canon_EOS_100D",
        "Canon EOS Kiss X7": "Canon_EOS_100D",
        "Canon EOS Rebel SL2": "Canon_EOS_200D",
        "Canon EOS Kiss X9": "Canon_EOS_200D",
        "Canon EOS 250D": "Canon_EOS_200D_II",
        "Canon EOS Rebel SL3": "Canon_EOS_200D_II",
        "Canon EOS Kiss X10": "Canon_EOS_200D_II",
        "Canon EOS REBEL T3i": "Canon_EOS_600D",
        "Canon EOS Kiss X5": "Canon_EOS_600D",
        "Canon EOS R5 Mark II": "Canon_EOS_R5m2",
        "Canon EOS R6 Mark II": "Canon_EOS_R6m2",
        "Panasonic DC-GX7MK3": "Panasonic_DC-GX9",
    }
)
"""The names of `load_cameras` by another name that a file may give the camera."""
