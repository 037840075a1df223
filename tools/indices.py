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
# Where the catalogue's formula is not that of the publication it names. Papers were not at hand:
# beside each formula stands where it was read on 28 November 2026.
CORRECTED = {
    # ESA SNAP, SeaDAS: "ARVI Algorithm Specification", after Kaufman and Tanre, 1992, gamma = 1
    "ARVI": "(N - (R - 1 * (B - R))) / (N + (R - 1 * (B - R)))",
    # GRASS i.wi, and code on GitHub in bands of Landsat TM (2, 5, 4, 7), after Feyisa et al., 2014
    "AWEInsh": "4.0 * (G - S1) - (0.25 * N + 2.75 * S2)",
    # ESA SNAP: "BAIM Algorithm Specification", which lacks the brackets that its BAI has
    "BAIM": "1.0 / ((0.05 - N) ** 2.0 + (0.2 - S2) ** 2.0)",
    # Index Database 372, after Ceccato et al., 2002. Its one short-wave band is from memory that of
    # SPOT-VEGETATION, 1580 to 1750 nm; SNAP and the catalogue take the one at 2200 nm.
    "GVMI": "((N + 0.1) - (S1 + 0.02)) / ((N + 0.1) + (S1 + 0.02))",
    # Table of spectral indices of TERRA-REF, after Sims and Gamon, 2002; mND705 from memory
    "mND705": "(RE2 - RE1) / (RE2 + RE1 - 2 * A)",
    "mSR705": "(RE2 - A) / (RE1 - A)",
    # USGS on Gu et al., 2007: "visible, near infrared, and short wave infrared", so its NDWI is the
    # one of Gao, not that of open water; from memory with band 7 of MODIS, 2130 nm.
    "NDDI": "((N - R) / (N + R) - (N - S2) / (N + S2)) / ((N - R) / (N + R) + (N - S2) / (N + S2))",
    # ARVI's red with the L of SAVI (Kaufman and Tanre, 1992)
    "SARVI": "(1 + 0.5) * (N - (R - (B - R))) / (N + (R - (B - R)) + 0.5)",
    # From memory of Gitelson et al., 2002: not found elsewhere
    "VARI700": "(RE1 - 1.7 * R + 0.7 * B) / (RE1 + 2.3 * R - 1.3 * B)",
}
PUBLISHED = {  # wavelengths in nm of the indices that were published for narrow bands
    "ARI": "G.550 RE1.700",
    "ARI2": "G.550 RE1.700 N.800",
    "CCI": "G1.531 R.645",
    "CRI550": "B.510 G.550",
    "CRI700": "B.510 RE1.700",
    "DSWI1": "N.800 S1.1660",
    "DSWI2": "S1.1660 G.550",
    "DSWI3": "S1.1660 R.680",
    "DSWI4": "G.550 R.680",
    "DSWI5": "N.800 G.550 S1.1660 R.680",
    "GM1": "RE2.750 G.550",
    "GM2": "RE2.750 RE1.700",
    "MCARI": "RE1.700 R.670 G.550",
    "MCARI1": "N.800 R.670 G.550",
    "MCARI2": "N.800 R.670 G.550",
    "MCARI705": "RE2.750 RE1.705 G.550",
    "MCARIOSAVI": "RE1.700 R.670 G.550 N.800",
    "MCARIOSAVI705": "RE2.750 RE1.705 G.550",
    "mND705": "RE2.750 RE1.705 A.445",
    "MSR705": "RE2.750 RE1.705",
    "mSR705": "RE2.750 RE1.705 A.445",
    "MTCI": "RE2.753.75 RE1.708.75 R.681.25",
    "MTVI1": "N.800 R.670 G.550",
    "MTVI2": "N.800 R.670 G.550",
    "ND705": "RE2.750 RE1.705",
    "NDCI": "RE1.708 R.665",
    "NDVI705": "RE2.750 RE1.705",
    "NMDI": "N.860 S1.1640 S2.2130",
    "NPCI": "R.680 A.430",
    "PSRI": "R.678 B.500 RE2.750",
    "RENDVI": "RE2.750 RE1.705",
    "RVI": "RE2.745 R.675",
    "SIPI": "N.800 A.445 R.680",
    "SR2": "N.800 G.550",
    "SR3": "N2.860 G.550 RE1.708",
    "SR555": "RE2.750 G.555",
    "SR705": "RE2.750 RE1.705",
    "TCARI": "RE1.700 R.670 G.550",
    "TCARIOSAVI": "RE1.700 R.670 G.550 N.800",
    "TCARIOSAVI705": "RE2.750 RE1.705 G.550",
    "TCI": "RE1.700 G.550 R.670",
    "TGI": "R.670 G.550 B.480",
    "TriVI": "N.750 G.550 R.670",
    "VARI700": "RE1.700 R.670 B.480",
    "VI700": "RE1.700 R.670",
}
EQUAL = {"MCARI1": "MTVI1", "MTVI1": "MCARI1", "MCARI2": "MTVI2", "MTVI2": "MCARI2"}
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
    rows = [[name, title, formula, DOI + doi, ""] for name, title, formula, doi in MORE]
    for entry in indices.values():
        names = set(entry["bands"])
        values = CONSTANTS.get(entry["short_name"], {})
        if not names <= BANDS | set(values):
            continue
        name, title = entry["short_name"], entry["long_name"]
        formula = CORRECTED.get(name, entry["formula"])
        for constant, value in values.items():
            formula = re.sub(rf"\b{constant}\b", f"{value}", formula)
        if name in EQUAL:
            title += f", by its formula the same as {EQUAL[name]}"
        rows.append([name, title, formula, entry["reference"], PUBLISHED.get(name, "")])
    with TABLE.open("w", newline="") as file:
        distribution = files("spyndex").parent / f"spyndex-{version('spyndex')}.dist-info"
        licence = (distribution / "licenses" / "LICENSE").read_text()
        source = f"spyndex {version('spyndex')}, doi:10.1038/s41597-023-02096-0"
        file.write(f"# Awesome Spectral Indices, from {source}\n")
        file.write(
            f"# Changed here: the formulas of {', '.join(CORRECTED)}, and the last column.\n"
        )
        file.writelines(f"# {line}".rstrip() + "\n" for line in licence.splitlines())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "title", "formula", "source", "published"])
        writer.writerows(sorted(rows, key=lambda row: row[0].lower()))


if __name__ == "__main__":
    main()
