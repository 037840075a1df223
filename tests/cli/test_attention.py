"""`napari-mst attention`: matrices and maps of a photo."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from safetensors.torch import save_file
from tests.cli.conftest import CARD, Run
from tests.conftest import on_cpu

import napari_mst
from napari_mst.attention.pixels import PixelExplorer
from napari_mst.models.cards import card_to_metadata
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.photo.photo import Rectangle

HEADS = 1 + 2 + 4 + 2 + 1
"""Heads of all blocks of a stage."""


@pytest.mark.parametrize(
    ("options", "precision", "region", "shapes"),
    [
        ("--map score --map share --key 1 --query 2", "float32", None, [(6, 9), (6, 9)]),
        ("--map score --region 1:5,2:9 --precision float64", "float64", (1, 5, 2, 9), [(4, 7)]),
    ],
    ids=["photo", "region"],
)
def test_attention_is_saved_with_its_maps(
    run: Run,
    photo: Path,
    weights: Path,
    options: str,
    precision: Any,
    region: Rectangle | None,
    shapes: list[tuple[int, int]],
) -> None:
    target = photo.with_name("attention.npz")
    code, out, err = run("attention", photo, "-o", target, *options.split())
    assert (code, out) == (0, f"{target}\n")
    assert "100%" in err
    model = napari_mst.load_model(weights)
    reconstructor = napari_mst.Reconstructor(model, "cpu", precision=precision)
    expected = napari_mst.attention.Explorer(reconstructor, photo, region=region).record()
    record = napari_mst.attention.read(target)
    assert len(record) == 5
    assert record.provenance == expected.provenance
    assert_array_equal(record["stages.0.bottleneck"].logits, expected["stages.0.bottleneck"].logits)
    with np.load(target) as archive:
        assert [archive[f"maps/{number}"].shape for number in range(len(shapes))] == shapes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained networks with windows, `shifted.safetensors` and `hybrid.safetensors`."""
    folder = tmp_path_factory.mktemp("kinds")
    for kind in ("shifted", "hybrid"):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            state = MSTPlusPlus(out_bands=4, stages=1, attention=kind, window=2).state_dict()
        save_file(state, folder / f"{kind}.safetensors", metadata=card_to_metadata(CARD))
    return folder


def test_weights_of_pixels_are_saved_for_every_head_and_block(
    run: Run, photo: Path, folder: Path
) -> None:
    target = photo.with_name("weights.npz")
    model = folder / "shifted.safetensors"
    pixels = ("--pixel", "2,3", "--pixel", "5,8", "--region", "1:6,2:9")
    code, out, err = run("attention", photo, "-o", target, "--model", model, *pixels)
    assert (code, out) == (0, f"{target}\n"), err
    with np.load(target) as archive:
        told = json.loads(str(archive["napari_mst"]))
        images = [archive[f"maps/{number}"] for number in range(2 * HEADS)]
    assert len(told["maps"]) == 2 * HEADS
    assert [one["pixel"] for one in told["maps"][::HEADS]] == [[2, 3], [5, 8]]
    assert len(told["pixel_blocks"]) == 5
    explorer = PixelExplorer(on_cpu(model), photo, region=(1, 6, 2, 9))
    for image, one in zip(images[HEADS:], told["maps"][HEADS:], strict=True):
        assert image.sum() == pytest.approx(one["total"], rel=1e-6) == pytest.approx(1)
        planes, corner = explorer.weights(one["block"], 4, 6).planes()
        assert_allclose(image, planes[one["head"]], rtol=0, atol=1e-6)
        assert np.subtract(one["offset"], (one["pitch"] - 1) / 2).tolist() == [
            corner[0] + 1,
            corner[1] + 2,
        ]


def test_weights_of_one_block_are_the_pages_of_a_tiff_beside_maps_of_the_other_half(
    run: Run, photo: Path, folder: Path
) -> None:
    target = photo.with_name("weights.tif")
    options = ("--pixel", "0,0", "--block", "stages.0.encoder.1", "--map", "score")
    model = ("--model", folder / "hybrid.safetensors")
    assert run("attention", photo, "-o", target, *model, *options)[0] == 0
    with tifffile.TiffFile(target) as file:
        told = [json.loads(page.aspage().description)["napari_mst"] for page in file.pages]
        sums = [float(page.asarray().sum()) for page in file.pages]
    assert [one["overlay"] for one in told] == ["score", "weights", "weights"]
    assert [one["head"] for one in told[1:]] == [0, 1]
    assert sums[1:] == pytest.approx([1, 1])


def test_the_mean_over_a_folder_is_that_of_the_matrices_of_its_photos(
    run: Run, photo: Path, weights: Path
) -> None:
    folder = photo.parent / "photos"
    folder.mkdir()
    for seed in range(3):
        noise = np.random.default_rng(seed).integers(0, 256, (8, 7, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{seed}.png")
    target = photo.with_name("mean.npz")
    assert run("attention", folder, "--mean", "-o", target)[:2] == (0, f"{target}\n")
    reconstructor = on_cpu(weights)
    block = "stages.0.bottleneck"
    matrices = [
        napari_mst.attention.Explorer(reconstructor, path).record()[block].attention
        for path in sorted(folder.iterdir())
    ]
    record = napari_mst.attention.read(target)
    assert record.provenance.source == "mean of 3 photos of photos"
    assert_allclose(record[block].attention, np.mean(matrices, axis=0), atol=1e-6)
    spread = record[block].spread
    assert spread is not None
    assert_allclose(spread, np.std(matrices, axis=0), atol=1e-6)
    table = napari_mst.attention.write(photo.with_name("mean.csv"), record).read_text()
    lines = [line.split(",") for line in table.splitlines()]
    assert lines[0] == ["block", "head", "key", "query", "logit", "attention", "spread"]
    stored = [float(line[5]) for line in lines if line[0] == block]
    assert_allclose(stored, record[block].attention.ravel(), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("a.png", "Expected a name that ends in .npz, .csv, got a.png"),
        ("a.csv --map score", "Expected a name that ends in .npz, .tif, .tiff, got a.csv"),
        ("a.tif", "--map and --pixel into .npz and .tif"),
        ("a.npz --pixel 2,3", "Expected a network with attention between"),
        ("a.npz {}", "Expected --pixel ROW,COLUMN, for pixels attend to pixels in shifted.safet"),
        ("a.npz {} --pixel 1,1 --block x", "stages.0.decoder.1, got 'x'"),
        ("a.npz {} --pixel 1,1 --map score", "Expected a network with spectral attention"),
    ],
)
def test_attention_that_cannot_be_had_is_refused(
    run: Run,
    photo: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(photo.parent)
    windows = f"--model {folder / 'shifted.safetensors'}"
    code, out, err = run("attention", photo, "-o", *arguments.format(windows).split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert not list(photo.parent.glob("a.*"))


def test_a_folder_of_photos_is_refused_with_the_option_that_takes_one(
    run: Run, photo: Path
) -> None:
    code, out, err = run("attention", photo.parent)
    assert (code, out) == (2, "")
    assert "Add --mean for the mean of all its photos" in err
