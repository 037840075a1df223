"""Files of the attention explorer: matrices and maps in `.npz`, matrices in CSV, maps in TIFF."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from napari_mst.attention.record import AttentionRecord, BlockAttention, PixelBlock
from napari_mst.attention.record_views import AttentionMap
from napari_mst.base import atomic_save
from napari_mst.base.arrays import Array, Singles
from napari_mst.base.errors import AttentionError, OutOfMemory, SaveError, shown
from napari_mst.cube import Provenance
from napari_mst.formats.numpy_files import read_arrays

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONVENTION = (
    "A[head, i, j]: key channel i in rows, query channel j in columns; "
    "rows sum to 1; channels, not wavelengths"
)
"""Order of the matrix indices, as stated in files."""

_RECORD = "napari_mst"  # name of the metadata entry in .npz and TIFF
_DOTS = 130  # of a figure, per inch
_ROW = 80  # approximate largest size of a table row in bytes
_HEADERS = 2**20  # bytes that a file may take beside its arrays


def write_attention(
    path: str | Path,
    record: AttentionRecord,
    maps: Sequence[AttentionMap] = (),
    *,
    overwrite: bool = False,
) -> Path:
    """Save a record and maps as `.npz`, or the matrices alone as `.csv`.

    An `.npz` holds the arrays `<block>/attention`, `<block>/logits` and `maps/<n>`, and the history
    as JSON. For a mean over several photos, `<block>/spread` is the standard deviation. A `.csv`
    has a row for each matrix entry.

    Raises
    ------
    SaveError
        If the name ends otherwise; and see `atomic_save.saving`. An older file stays intact.

    Notes
    -----
    ======  ======================
    record  shares 0-1
    maps    float32 in their units
    ======  ======================

    Examples
    --------
    >>> nm.attention.write("attention.npz", nm.attention.Record()).name
    'attention.npz'
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        return _write_table(Path(path), record, overwrite=overwrite)
    if suffix != ".npz":
        raise SaveError(
            f"Expected a name that ends with .npz or .csv, got {shown(Path(path).name, 60)!r}. "
            "Choose one of these; a figure is a .png or .svg."
        )
    arrays: dict[str, Array] = {}
    for name, block in record.blocks.items():
        arrays[f"{name}/attention"] = block.attention
        arrays[f"{name}/logits"] = block.logits
        if block.spread is not None:
            arrays[f"{name}/spread"] = block.spread
    for number, made in enumerate(maps):
        arrays[f"maps/{number}"] = made.values
    described = {
        "convention": CONVENTION,
        "provenance": json.loads(record.provenance.to_json()),
        "maps": [made.describe() for made in maps],
        "pixel_blocks": {name: asdict(block) for name, block in record.pixel_blocks.items()},
    }
    arrays[_RECORD] = np.array(json.dumps(described))
    save: Callable[..., None] = np.savez  # NumPy's stub takes named arrays for options
    target = Path(path)
    needed = sum(array.nbytes for array in arrays.values()) + _HEADERS
    saving = atomic_save.saving(target, needed=needed, overwrite=overwrite)
    with saving as (temporary,), temporary.open("wb") as file:
        save(file, **arrays)
    return target


def _write_table(target: Path, record: AttentionRecord, *, overwrite: bool) -> Path:
    needed = sum(_ROW * block.attention.size for block in record.blocks.values()) + _HEADERS
    saving = atomic_save.saving(target, needed=needed, overwrite=overwrite)
    with saving as (temporary,), temporary.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["block", "head", "key", "query", "logit", "attention", "spread"])
        for name, block in record.blocks.items():
            for at, attention in np.ndenumerate(block.attention):
                spread = "" if block.spread is None else f"{block.spread[at]:.9g}"
                numbers = f"{block.logits[at]:.9g}", f"{attention:.9g}"  # all that float32 holds
                table.writerow([name, *at, *numbers, spread])
    return target


def read_attention(path: str | Path) -> AttentionRecord:
    """Read a record written by `write_attention`, without its maps.

    Raises
    ------
    AttentionError
        If the file is missing, damaged or of another kind, or declares more data than it holds.
    OutOfMemory
        If the record does not fit into memory.

    Notes
    -----
    =======  ===========================================
    returns  shares 0-1, and logits of any sign; float32
    =======  ===========================================

    Examples
    --------
    >>> record = nm.attention.Record(provenance=nm.Provenance(model="mstpp-srgb"))
    >>> path = nm.attention.write("attention.npz", record)
    >>> nm.attention.read(path).provenance.model
    'mstpp-srgb'
    """
    source = Path(path)
    try:
        arrays = read_arrays(source)
        described = json.loads(str(arrays[_RECORD]))
        blocks = {}
        for key, attention in arrays.items():
            name = key.removesuffix("/attention")
            if name != key:
                logits = _matrices(arrays[f"{name}/logits"])
                spread = arrays.get(f"{name}/spread")
                spread = None if spread is None else _matrices(spread)
                blocks[name] = BlockAttention(logits, _matrices(attention), spread)
        between = {
            name: PixelBlock(**sides) for name, sides in described.get("pixel_blocks", {}).items()
        }
        past = Provenance.from_json(json.dumps(described["provenance"]))
        return AttentionRecord(blocks, past, between)
    except OutOfMemory:
        raise
    except Exception as error:  # a damaged record can fail in countless ways
        raise AttentionError(
            f"Expected a file of attention matrices, got {shown(source.name)} "
            f"({shown(error, 60)}). Record it again."
        ) from error


def write_figure(path: str | Path, figure: "Figure", *, overwrite: bool = False) -> Path:
    """Save a figure as PNG. Raises `SaveError`, see `atomic_save.saving`."""
    target = Path(path)
    saving = atomic_save.saving(target, needed=_HEADERS, overwrite=overwrite)
    with saving as (temporary,), temporary.open("wb") as file:
        figure.savefig(file, format="png", dpi=_DOTS)
    return target


def write_maps(path: str | Path, maps: Sequence[AttentionMap], *, overwrite: bool = False) -> Path:
    """Save maps as pages of a float32 TIFF, each described by JSON in its image description.

    Pages may differ in size, as the blocks of a network do.

    Raises
    ------
    SaveError
        See `atomic_save.saving`; an older file stays intact.
    """
    import tifffile

    target = Path(path)
    needed = sum(made.values.nbytes for made in maps) + _HEADERS
    with (
        atomic_save.saving(target, needed=needed, overwrite=overwrite) as (temporary,),
        tifffile.TiffWriter(temporary) as pages,
    ):
        for made in maps:
            metadata = {"axes": "CYX"[-made.values.ndim :], _RECORD: made.describe()}
            pages.write(made.values, photometric="minisblack", metadata=metadata)
    return target


def _matrices(stored: Array) -> Singles:
    if stored.ndim != 3 or stored.shape[1] != stored.shape[2]:
        raise AttentionError(f"Expected matrices of shape (heads, d, d), got {stored.shape}.")
    return np.asarray(stored, dtype=np.float32)
