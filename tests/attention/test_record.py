"""Records of attention come back the same and say what they are; damage is told in a sentence."""

import json
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tifffile
from numpy.testing import assert_array_equal

from napari_mst.attention.record import AttentionRecord, BlockAttention, attention_figure
from napari_mst.attention.record_files import read_attention, write_attention, write_maps
from napari_mst.attention.record_views import AttentionMap, Selection
from napari_mst.base.errors import AttentionError, SaveError
from napari_mst.cube import Provenance

HISTORY = Provenance(
    model="mstpp-srgb", weights_sha256="ab12", source="photo.jpg", source_sha256="cd34"
)


def make_record(seed: int = 0) -> AttentionRecord:
    rng = np.random.default_rng(seed)
    blocks = {}
    for name, heads in (("stages.0.encoder.0", 1), ("stages.0.encoder.1", 2)):
        logits = rng.normal(size=(heads, 5, 5)).astype(np.float32)
        powers = np.exp(logits)
        blocks[name] = BlockAttention(logits, powers / powers.sum(-1, keepdims=True))
    return AttentionRecord(blocks, HISTORY)


def make_map() -> AttentionMap:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    selection = Selection("stages.0.encoder.1", 1, 2, None)
    return AttentionMap(
        values, "score", "logit", selection, 2, (0.5, 0.5), float(values.sum()), HISTORY
    )


def test_a_record_comes_back_the_same(tmp_path: Path) -> None:
    record = make_record()
    found = read_attention(write_attention(tmp_path / "a.npz", record, [make_map()]))
    assert list(found) == list(record)
    assert found.provenance == HISTORY
    for name in record:
        assert_array_equal(found[name].logits, record[name].logits)
        assert_array_equal(found[name].attention, record[name].attention)


def test_a_record_says_where_all_its_matrices_are_nearly_uniform() -> None:
    logits = np.zeros((2, 5, 5), np.float32)
    even = BlockAttention(logits, np.full_like(logits, 1 / 5))
    assert "all blocks are nearly uniform" in AttentionRecord({"a": even}, HISTORY).uniformity
    assert make_record().uniformity == ""


def test_the_file_says_what_its_numbers_are_to_plain_numpy(tmp_path: Path) -> None:
    write_attention(tmp_path / "a.npz", make_record(), [make_map()])
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        told = json.loads(str(archive["napari_mst"]))
        assert_array_equal(archive["maps/0"], make_map().values)
        assert archive["stages.0.encoder.1/attention"].shape == (2, 5, 5)
    assert "rows sum to 1" in told["convention"]
    one = told["maps"][0]
    assert (one["block"], one["head"], one["key"], one["query"]) == (
        "stages.0.encoder.1",
        1,
        2,
        None,
    )
    assert one["provenance"]["model"] == told["provenance"]["model"] == "mstpp-srgb"
    assert one["provenance"]["source"] == "photo.jpg"


def test_a_map_is_a_tiff_with_all_about_it(tmp_path: Path) -> None:
    write_maps(tmp_path / "a.tif", [make_map()])
    with tifffile.TiffFile(tmp_path / "a.tif") as tif:
        assert_array_equal(tif.asarray(), make_map().values)
        told = json.loads(tif.pages.first.description)["napari_mst"]
    assert told == json.loads(json.dumps(make_map().describe()))
    assert (told["block"], told["pitch"], told["offset"]) == ("stages.0.encoder.1", 2, [0.5, 0.5])


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    writers: dict[str, Callable[..., Path]] = {
        "a.npz": partial(write_attention, record=make_record()),
        "a.tif": partial(write_maps, maps=[make_map()]),
    }
    for name, write in writers.items():
        path = tmp_path / name
        path.write_bytes(b"old")
        with pytest.raises(SaveError, match="which exists"):
            write(path)
        assert path.read_bytes() == b"old"
        write(path, overwrite=True)
        assert path.read_bytes() != b"old"


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-300])


def another(path: Path) -> None:
    np.savez(path, cube=np.zeros((2, 3, 4)))


def misshapen(path: Path) -> None:
    arrays: dict[str, Any] = {
        "a/attention": np.zeros(3),
        "a/logits": np.zeros(3),
        "napari_mst": np.array('{"provenance": {}}'),
    }
    np.savez(path, **arrays)


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("napari_mst.npy", b"\0" * 10_000_000)


def objects(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive, archive.open("napari_mst.npy", "w") as file:
        header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(8))


@pytest.mark.parametrize("harm", [damaged, another, misshapen, bomb, objects, Path.unlink])
def test_a_file_that_is_no_record_is_refused_in_a_sentence(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = write_attention(tmp_path / "a.npz", make_record())
    harm(path)
    with pytest.raises(AttentionError, match=r"Expected a file of attention matrices, got a\.npz"):
        read_attention(path)


def test_nothing_is_allocated_for_numbers_that_a_file_only_declares(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("napari_mst.npy", "w") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (4, 8192, 8192)}
        np.lib.format.write_array_header_1_0(file, header)
    tracemalloc.start()
    try:
        with pytest.raises(AttentionError, match=r"got a\.npz"):
            read_attention(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_figure_shows_every_head(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = attention_figure(make_record())
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == [
        "stage 1, encoder 5, head 0 of 1",
        "stage 1, encoder 10, head 0 of 2",
        "stage 1, encoder 10, head 1 of 2",
    ]
    shown = [axis.images[0].get_array() for axis in figure.axes if axis.get_title()]
    assert_array_equal(shown[2], make_record()["stages.0.encoder.1"].attention[1])
    figure.savefig(tmp_path / "a.png")
    pyplot.close(figure)


def test_a_figure_of_nothing_is_refused() -> None:
    with pytest.raises(AttentionError, match="Expected"):
        attention_figure(AttentionRecord())


@pytest.mark.parametrize(
    "stand_in", [None, MagicMock()], ids=["missing", "mocked by colour-science"]
)
def test_a_figure_without_matplotlib_is_refused(
    stand_in: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    with pytest.raises(AttentionError, match=r"napari-mst\[figures\]"):
        attention_figure(make_record())


@pytest.mark.parametrize("name", ["a.jpg", "a"])
def test_a_record_is_written_under_a_name_of_its_own_formats_only(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(SaveError, match=r"ends with \.npz or \.csv"):
        write_attention(tmp_path / name, make_record())
    assert not list(tmp_path.iterdir())
