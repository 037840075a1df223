"""`napari-mst attention`: matrices and maps of a photo."""

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import (
    Run,
)

import napari_mst


def test_attention_of_a_photo_is_saved_with_its_maps(run: Run, photo: Path, weights: Path) -> None:
    target = photo.with_name("attention.npz")
    code, out, err = run(
        "attention",
        photo,
        "-o",
        target,
        "--map",
        "score",
        "--map",
        "share",
        "--key",
        1,
        "--query",
        2,
    )
    record = napari_mst.read_attention(target)
    model = napari_mst.load_model(weights)
    expected = napari_mst.AttentionExplorer(napari_mst.Reconstructor(model, "cpu"), photo).record()
    assert (code, out) == (0, f"{target}\n")
    assert len(record) == 5
    assert record.provenance == expected.provenance
    np.testing.assert_array_equal(
        record["stages.0.bottleneck"].logits, expected["stages.0.bottleneck"].logits
    )
    with np.load(target) as archive:
        assert archive["maps/0"].shape == archive["maps/1"].shape == (6, 9)
    assert "100%" in err


def test_attention_of_a_region_in_float64(run: Run, photo: Path, weights: Path) -> None:
    target = photo.with_name("attention.npz")
    options = ("--region", "1:5,2:9", "--precision", "float64", "--map", "score")
    assert run("attention", photo, "-o", target, *options)[0] == 0
    reconstructor = napari_mst.Reconstructor(
        napari_mst.load_model(weights), "cpu", precision="float64"
    )
    expected = napari_mst.AttentionExplorer(reconstructor, photo, region=(1, 5, 2, 9)).record()
    record = napari_mst.read_attention(target)
    assert record.provenance == expected.provenance
    np.testing.assert_array_equal(
        record["stages.0.bottleneck"].logits, expected["stages.0.bottleneck"].logits
    )
    with np.load(target) as archive:
        assert archive["maps/0"].shape == (4, 7)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-o", "attention.tif"), "Expected a name that ends in .npz"),
        (
            ("-o", "attention.npz", "--map", "score", "--block", "x"),
            "Expected a block as stages.0.encoder.0",
        ),
        (("-o", "attention.npz", "--map", "score", "--key", "4"), "Expected key 0 to 3"),
    ],
)
def test_attention_that_cannot_be_had_is_refused(
    run: Run,
    photo: Path,
    arguments: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(photo.parent)
    code, out, err = run("attention", photo, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert not list(photo.parent.glob("attention*"))
