"""Regions, previews and ensembles: cubes of part of a photo, of less of it, and of more runs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.reconstruction.conftest import (
    PHOTO,
    Normalisation,
    assert_close,
    network_output,
    small_model,
)

from napari_mst.base.errors import PhotoError
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.reconstructor import Reconstructor


@pytest.mark.parametrize("normalisation", ["none", "min-max"])
def test_a_region_is_the_network_on_those_pixels_in_the_range_of_the_whole_photo(
    normalisation: Normalisation,
) -> None:
    chosen = small_model(is_linear=False, normalisation=normalisation)
    low, high = (PHOTO.min(), PHOTO.max()) if normalisation == "min-max" else (0, 255)
    part = (PHOTO[3:15, 2:13].astype(float) - low) / (int(high) - int(low))
    cube = Reconstructor(chosen, "cpu").reconstruct(PHOTO, region=(3, 15, 2, 13))
    assert_close(cube.data, network_output(chosen, part))
    assert "rows 3 to 14, columns 2 to 12" in cube.provenance.assumptions[-1]
    assert cube.provenance.region == "3:15,2:13"
    assert "its numbers differ from those of the whole photo" in cube.provenance.assumptions[-1]


def test_a_cube_lies_where_its_photo_lies_and_so_do_its_regions() -> None:
    photo = replace(
        Photo.from_array(PHOTO), georeference=Georeference((2.0, 0.0, 500.0, 0.0, -3.0, 700.0))
    )
    reconstructor = Reconstructor(small_model(), "cpu")
    for region, transform in (
        (None, (2.0, 0.0, 500.0, 0.0, -3.0, 700.0)),
        ((3, 15, 2, 13), (2.0, 0.0, 504.0, 0.0, -3.0, 691.0)),
    ):
        found = Georeference.from_json(
            reconstructor.reconstruct(photo, region=region).metadata[FIELD]
        )
        assert found is not None
        assert found.transform == transform
        preview = reconstructor.preview(photo, region=region)
        assert Georeference.from_json(preview.metadata[FIELD]) == found
    assert FIELD not in reconstructor.reconstruct(PHOTO).metadata


def test_a_region_beside_the_photo_is_refused() -> None:
    with pytest.raises(PhotoError, match="Expected a region within 20 rows x 13 columns"):
        Reconstructor(small_model(), "cpu").reconstruct(PHOTO, region=(0, 21, 0, 13))


def test_a_preview_is_the_exact_cube_of_the_photo_averaged_down_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("napari_mst.reconstruction.preparing.PREVIEW_PIXELS", 40)
    reconstructor, photo = Reconstructor(small_model(), "cpu"), Photo.from_array(PHOTO)
    preview = reconstructor.preview(photo)
    assert_array_equal(preview.data, reconstructor.reconstruct(photo.reduced(40)).data)
    assert preview.provenance.is_preview
    assert not reconstructor.reconstruct(photo).provenance.is_preview
    assert (
        f"averaged down to {preview.shape[1]} x {preview.shape[2]} pixels"
        in preview.provenance.assumptions[-1]
    )
    assert preview.provenance.source_sha256 == photo.sha256


def test_a_preview_of_a_region_covers_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("napari_mst.reconstruction.preparing.PREVIEW_PIXELS", 40)
    reconstructor = Reconstructor(small_model(), "cpu")
    preview = reconstructor.preview(PHOTO, region=(0, 20, 0, 10))
    assert_array_equal(preview.data, reconstructor.preview(PHOTO[:, :10].copy()).data)


def test_the_ensemble_is_the_mean_over_all_flips_and_transposes() -> None:
    reconstructor = Reconstructor(small_model(), "cpu")
    by_hand = []
    for rows, columns in product((1, -1), repeat=2):
        flipped = PHOTO[::rows, ::columns]
        straight = reconstructor.reconstruct(flipped).data
        by_hand.append(straight[:, ::rows, ::columns])
        transposed = reconstructor.reconstruct(flipped.swapaxes(0, 1)).data.swapaxes(1, 2)
        by_hand.append(transposed[:, ::rows, ::columns])
    shares: list[float] = []
    cube = reconstructor.reconstruct(PHOTO, shares.append, ensemble=True)
    assert_allclose(cube.data, np.mean(by_hand, axis=0), atol=1e-6)
    assert cube.provenance.is_ensemble
    assert cube.data.flags.c_contiguous
    assert (shares, shares[-1]) == (sorted(shares), 1)
    assert len(set(shares)) >= 8 * 6


def test_the_ensemble_needs_one_more_map_and_leaves_out_pixels_that_are_nan() -> None:
    reconstructor, photo = Reconstructor(small_model(), "cpu"), (PHOTO / 255).astype(np.float32)
    photo[3, 5] = np.nan
    missing = np.isnan(reconstructor.reconstruct(photo, ensemble=True).data)
    assert missing[:, 3, 5].all()
    assert missing.sum() == 31
    more = [
        reconstructor.plan(h, 400, ensemble=True).memory - reconstructor.plan(h, 400).memory
        for h in (800, 1600)
    ]
    assert more[1] - more[0] == 800 * 400 * 31 * 4
