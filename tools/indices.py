"""Write the table of spectral indices from an installed spyndex: `python tools/indices.py`.

spyndex holds the catalogue Awesome Spectral Indices. Left out is what needs radar, heat, kernels,
or a constant that the user must choose, such as the line of a soil; narrow bands are added.
"""

import csv
import json
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

TABLE = Path(__file__).parents[1] / "src" / "napari_mst" / "data" / "indices.csv"
BANDS = {"A", "B", "G", "G1", "Y", "R", "RE1", "RE2", "RE3", "N", "N2", "WV", "S1", "S2"}
DOI = "https://doi.org/"
CONSTANTS = {  # as published: spyndex has one default for all indices, such as L = 1 for SAVI too
    "ARVI": {"gamma": 1},
    "BWDRVI": {"alpha": 0.1},
    "EVI": {"g": 2.5, "C1": 6, "C2": 7.5, "L": 1},
    "EVI2": {"g": 2.5, "L": 1},
    "GDVI": {"nexp": 2},
    "GSAVI": {"L": 0.5},
    "MBWI": {"omega": 2},
    "MNLI": {"L": 0.5},
    "NDPI": {"alpha": 0.74},
    "OCVI": {"cexp": 1.16},
    "SARVI": {"L": 0.5},
    "SAVI": {"L": 0.5},
    "SEVI": {"fdelta": 0.581},
    "WDRVI": {"alpha": 0.1},
}
MORE = (
    (
        "PRI",
        "Photochemical Reflectance Index",
        "(r531 - r570) / (r531 + r570)",
        "10.1007/s004420050337",
    ),
    ("WBI", "Water Band Index", "r970 / r900", "10.1080/01431169308954010"),
    (
        "NDWI1240",
        "Normalized Difference Water Index of leaves",
        "(r860 - r1240) / (r860 + r1240)",
        "10.1016/S0034-4257(96)00067-3",
    ),
    ("VOG1", "Vogelmann Red Edge Index", "r740 / r720", "10.1080/01431169308953986"),
)


def main() -> None:
    """Write the table, with the licence of its source above it."""
    data = files("spyndex") / "data"
    indices = json.loads((data / "spectral-indices-dict.json").read_text())["SpectralIndices"]
    rows = [[name, title, formula, DOI + doi] for name, title, formula, doi in MORE]
    for entry in indices.values():
        names = set(entry["bands"])
        values = CONSTANTS.get(entry["short_name"], {})
        if not names <= BANDS | set(values):
            continue
        formula = entry["formula"]
        for name, value in values.items():
            formula = re.sub(rf"\b{name}\b", f"{value}", formula)
        rows.append([entry["short_name"], entry["long_name"], formula, entry["reference"]])
    with TABLE.open("w", newline="") as file:
        distribution = files("spyndex").parent / f"spyndex-{version('spyndex')}.dist-info"
        licence = (distribution / "licenses" / "LICENSE").read_text()
        source = f"spyndex {version('spyndex')}, doi:10.1038/s41597-023-02096-0"
        file.write(f"# Awesome Spectral Indices, from {source}\n")
        file.writelines(f"# {line}".rstrip() + "\n" for line in licence.splitlines())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "title", "formula", "source"])
        writer.writerows(sorted(rows, key=lambda row: row[0].lower()))


if __name__ == "__main__":
    main()
