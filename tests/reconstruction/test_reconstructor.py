"""The pipeline: what the card says is done to the photo, what comes out, and what is told about it."""

import hashlib
import json
import re
import threading
import time
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from napari_mst import load_model
from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.colour import SRGB_D65
from napari_mst.cube import NANOMETRES, Provenance
from napari_mst.engine import run as streaming
from napari_mst.engine.device import DeviceChoice, choose_device
from napari_mst.engine.forms import native
from napari_mst.errors import AttentionError, Cancelled, DeviceError, OutOfMemory, PhotoError
from napari_mst.georeference import FIELD, Georeference
from napari_mst.memory import is_out_of_memory
from napari_mst.models import MODELS, Model, ModelCard
from napari_mst.models.cards import card_from_metadata, card_to_metadata
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.photo.cameras import Capture
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction import compiling
from napari_mst.reconstruction.consistency.correction import correct_colours
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.reconstruction.setup import Setup


def model(is_linear: bool = True, normalisation: str = "none", **parameters: int) -> Model:
    """A small network with a card."""
    torch.manual_seed(0)
    network = MSTPlusPlus(**{"stages": 1, **parameters}).eval().requires_grad_(False)
    wavelengths = tuple(np.linspace(400, 700, network.hyperparameters.out_bands))
    card = ModelCard(
        name="test", title="Test", wavelengths=wavelengths, is_linear=is_linear, normalisation=normalisation,
        quantity="reflectance", domain="", training_data="", licence="", accuracy={}, reference="",
    )  # fmt: skip
    return Model(card, network, weights_sha256="0" * 64)


PHOTO = np.random.default_rng(0).integers(0, 256, (20, 13, 3), dtype=np.uint8)


def network_output(chosen: Model, pixels: np.ndarray) -> np.ndarray:
    """What the network itself gives for the numbers that it should have been given."""
    return chosen.network(torch.from_numpy(np.moveaxis(pixels, -1, 0).astype(np.float32))[None])[
        0
    ].numpy()


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, atol=1e-5 * np.abs(expected).max())


def test_srgb_photo_reaches_a_linear_model_as_linear_light():
    chosen = model(is_linear=True)
    codes = PHOTO / 255
    linear = np.where(codes <= 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4)
    assert_close(
        Reconstructor(chosen, "cpu").reconstruct(PHOTO).data, network_output(chosen, linear)
    )


def test_minimum_and_maximum_of_the_whole_photo_become_0_and_1():
    chosen = model(is_linear=False, normalisation="min-max")
    stretched = (PHOTO.astype(float) - PHOTO.min()) / (int(PHOTO.max()) - int(PHOTO.min()))
    assert_close(
        Reconstructor(chosen, "cpu").reconstruct(PHOTO).data, network_output(chosen, stretched)
    )


def test_cube_has_the_size_of_the_photo_its_wavelengths_and_its_provenance():
    cube = Reconstructor(model(), device="cpu").reconstruct(PHOTO)
    assert cube.shape == (31, 20, 13)
    assert cube.data.dtype == np.float32
    assert cube.unit == NANOMETRES
    np.testing.assert_array_equal(cube.wavelengths, np.arange(400, 701, 10))
    assert cube.provenance.model == "test"
    assert cube.provenance.weights_sha256 == "0" * 64
    assert cube.provenance.device.startswith("cpu")
    assert {"napari-mst", "torch", "numpy"} <= cube.provenance.versions.keys()


def test_provenance_names_what_computed(executor):
    engine = Reconstructor(model(), "cpu").reconstruct(PHOTO).provenance.engine
    assert engine.startswith("exact, streamed")
    assert ("by kernels of numba" in engine) == (executor == "numba")
    assert (
        Reconstructor(model(), "cpu", precision="float64").reconstruct(PHOTO).provenance.engine
        == "exact, streamed"
    )


@pytest.mark.parametrize("seconds", [0, 0.3])
def test_preparing_is_said_where_it_takes_long(seconds, monkeypatch):
    monkeypatch.setattr(native, "is_ready", lambda: time.sleep(seconds))
    monkeypatch.setattr(compiling, "LONG", 0.1)
    told: list[str] = []
    Reconstructor(model(), "cpu").prepare(told.append)
    assert told == [compiling.PREPARING] * (seconds > 0)


def test_same_photo_gives_the_same_bits_from_a_file_and_from_an_array(tmp_path):
    from PIL import Image

    Image.fromarray(PHOTO).save(tmp_path / "photo.png")
    reconstructor = Reconstructor(model(), "cpu")
    from_file = reconstructor.reconstruct(tmp_path / "photo.png")
    np.testing.assert_array_equal(from_file.data, reconstructor.reconstruct(PHOTO).data)
    assert from_file.provenance.source == "photo.png"
    assert (
        from_file.provenance.source_sha256
        == hashlib.sha256((tmp_path / "photo.png").read_bytes()).hexdigest()
    )


@pytest.mark.parametrize("normalisation", ["none", "min-max"])
def test_one_nan_pixel_stays_one_nan_pixel(normalisation):
    photo = (PHOTO / 255).astype(np.float32)
    photo[3, 5, 1] = np.nan
    cube = Reconstructor(model(normalisation=normalisation), "cpu").reconstruct(photo)
    missing = np.isnan(cube.data)
    assert missing[:, 3, 5].all()
    assert missing.sum() == 31
    assert np.isfinite(cube.data[~missing]).all()
    assert cube.provenance.assumptions


def test_constant_photo_gives_a_finite_cube_in_every_normalisation():
    for normalisation in ("none", "min-max"):
        cube = Reconstructor(model(normalisation=normalisation), "cpu").reconstruct(
            np.full((9, 9, 3), 77, np.uint8)
        )
        assert np.isfinite(cube.data).all()
        assert cube.provenance.assumptions


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (4, 3), (9, 17)])
def test_any_size_comes_out_as_it_went_in(size):
    cube = Reconstructor(model(), "cpu").reconstruct(
        np.full((*size, 3), 100, np.uint8) + PHOTO[: size[0], :1]
    )
    assert cube.shape == (31, *size)
    assert np.isfinite(cube.data).all()


def test_network_for_other_channels_refuses_a_photo():
    with pytest.raises(PhotoError, match="Expected 4 channels"):
        Reconstructor(model(in_bands=4), "cpu").reconstruct(PHOTO)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), RuntimeError(
    "[enforce fail at alloc_cpu.cpp:116] data. DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."
)], ids=["cuda", "numpy", "cpu"])  # fmt: skip
def test_lack_of_memory_is_one_clear_error_and_the_next_run_works(monkeypatch, error):
    reconstructor = Reconstructor(model(), "cpu")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("napari_mst.engine.run.Slab", fail)
        with pytest.raises(OutOfMemory, match="20 x 13 pixels") as caught:
            reconstructor.reconstruct(PHOTO)
    assert caught.value.__context__ is None
    assert reconstructor.reconstruct(PHOTO).shape == (31, 20, 13)


def run_out_of_memory(monkeypatch: pytest.MonkeyPatch, times: int = 1) -> list[MemoryError]:
    """What still fails: the next *times* runs."""
    make, failures = streaming.Slab, [MemoryError() for _ in range(times)]

    def make_or_fail(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop()
        return make(*arguments, **options)

    monkeypatch.setattr(streaming, "Slab", make_or_fail)
    return failures


def test_run_that_is_out_of_memory_starts_again_within_half_of_it_and_says_so(monkeypatch):
    reconstructor, photo = Reconstructor(model(), "cpu"), np.tile(PHOTO, (25, 40, 1))
    expected = reconstructor.reconstruct(photo).data
    run_out_of_memory(monkeypatch)
    cube = reconstructor.reconstruct(photo)
    np.testing.assert_array_equal(cube.data, expected)
    assert cube.provenance.engine.endswith("through a file")
    assert "out of memory and was started again" in cube.provenance.assumptions[-1]


def test_small_run_that_is_out_of_memory_starts_again_within_the_least_there_is(monkeypatch):
    """Of a small photo nothing is within half of it: the working set of one thread is most of what it takes."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(native, "is_installed", lambda: False)  # whose working set is smaller
    reconstructor, photo = Reconstructor(model(), "cpu"), np.tile(PHOTO, (12, 18, 1))
    expected, first = reconstructor.reconstruct(photo).data, reconstructor.plan(240, 234)
    with pytest.raises(OutOfMemory):
        Reconstructor(model(), "cpu", memory=first.memory // 2).plan(240, 234)
    run_out_of_memory(monkeypatch)
    cube = reconstructor.reconstruct(photo)
    np.testing.assert_array_equal(cube.data, expected)
    assert cube.provenance.engine.endswith("through a file")


def test_run_that_is_out_of_memory_with_the_least_there_is_does_not_start_again(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    photo = np.tile(PHOTO, (12, 18, 1))
    least = Reconstructor(model(), "cpu").plan(240, 234).memory - 1
    reconstructor = Reconstructor(model(), "cpu", memory=least)
    assert reconstructor.plan(240, 234).place == "file"
    left = run_out_of_memory(monkeypatch, times=3)
    with pytest.raises(
        OutOfMemory, match="Expected enough memory on cpu for 240 x 234 pixels, got too little"
    ):
        reconstructor.reconstruct(photo)
    assert len(left) == 2


def test_run_that_is_out_of_memory_twice_is_one_clear_error(monkeypatch):
    reconstructor, left = Reconstructor(model(), "cpu"), run_out_of_memory(monkeypatch, times=3)
    with pytest.raises(
        OutOfMemory, match="Expected enough memory on cpu for 500 x 520 pixels, got too little"
    ):
        reconstructor.reconstruct(np.tile(PHOTO, (25, 40, 1)))
    assert len(left) == 1


def test_other_errors_of_the_run_are_not_called_lack_of_memory(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("device-side assert")

    monkeypatch.setattr("napari_mst.engine.run.Slab", fail)
    with pytest.raises(RuntimeError, match="device-side assert"):
        Reconstructor(model(), "cpu").reconstruct(PHOTO)


def test_cancelled_run_raises_and_leaves_the_model_usable():
    reconstructor = Reconstructor(model(), "cpu")
    with pytest.raises(Cancelled):
        reconstructor.reconstruct(PHOTO, is_cancelled=lambda: True)
    assert reconstructor.reconstruct(Photo.from_array(PHOTO)).shape == (31, 20, 13)


def test_cancel_acts_while_the_engine_is_prepared(monkeypatch):
    """The compiler cannot be stopped: it goes on without us, and nobody who closes the program waits for it."""
    ended, before = threading.Event(), set(threading.enumerate())
    monkeypatch.setattr(native, "is_ready", lambda: ended.wait(20))
    with pytest.raises(Cancelled):
        Reconstructor(model(), "cpu").prepare(print, lambda: True)
    preparing = [
        t for t in set(threading.enumerate()) - before if not isinstance(t, threading.Timer)
    ]
    assert [thread.daemon for thread in preparing] == [True]
    ended.set()


def test_cancel_acts_while_a_photo_is_reduced_for_its_preview(monkeypatch):
    monkeypatch.setattr("napari_mst.reconstruction.pipeline.run", Mock())
    asked = [False, False, True]
    with pytest.raises(Cancelled):
        Reconstructor(model(), "cpu").preview(PHOTO, lambda: asked.pop(0))
    assert asked == []


def test_cancel_acts_while_the_mean_of_an_ensemble_is_added_up(monkeypatch):
    """One band after the other: all of them take seconds on a large photo."""
    asked = [False, False, True]
    monkeypatch.setattr(Setup, "cube_of", lambda *_: np.zeros((31, 13, 20), np.float32))
    with pytest.raises(Cancelled):
        Reconstructor(model(), "cpu").reconstruct(
            PHOTO, is_cancelled=lambda: asked.pop(0), ensemble=True
        )
    assert asked == []


def test_photo_is_never_changed():
    before = PHOTO.copy()
    Reconstructor(model(normalisation="min-max"), "cpu").reconstruct(PHOTO)
    np.testing.assert_array_equal(PHOTO, before)


def test_bundled_models_reconstruct():
    for name, card in MODELS.items():
        if card.file is not None:
            capture = Capture("Nikon_D5100", "A") if card.needs_camera else None
            photo = Photo.from_array(PHOTO, encoding="linear") if capture else PHOTO
            cube = Reconstructor(load_model(name), "cpu", capture=capture).reconstruct(photo)
            assert np.isfinite(cube.data).all()
            assert tuple(cube.wavelengths) == card.wavelengths


def test_colours_are_corrected_by_default_and_it_is_said():
    chosen = load_model("pixelwise-srgb")
    corrected = Reconstructor(chosen, "cpu").reconstruct(PHOTO)
    raw = Reconstructor(chosen, "cpu", correct_colour=False).reconstruct(PHOTO)
    assert corrected.quality is not None
    assert corrected.quality.shape == corrected.data.shape[1:]
    assert corrected.provenance.correction.startswith("spectra moved to the colours of the photo")
    assert (raw.quality, raw.provenance.correction) == (None, "")
    assert (raw.data != corrected.data).any()


def test_model_whose_rendering_is_unknown_is_left_alone():
    cube = Reconstructor(model(), "cpu").reconstruct(PHOTO)
    assert (cube.quality, cube.provenance.correction) == (None, "")


def test_cards_of_our_first_srgb_models_render_srgb():
    stored = json.loads(
        card_to_metadata(replace(model().card, name="first-srgb"))["napari_mst.card"]
    )
    del stored["rendering"]
    card = card_from_metadata({"napari_mst.card": json.dumps(stored)})
    assert card.rendering == SRGB_D65


@pytest.mark.parametrize("normalisation", ["none", "min-max"])
def test_a_region_is_the_network_on_those_pixels_in_the_range_of_the_whole_photo(normalisation):
    chosen = model(is_linear=False, normalisation=normalisation)
    low, high = (PHOTO.min(), PHOTO.max()) if normalisation == "min-max" else (0, 255)
    part = (PHOTO[3:15, 2:13].astype(float) - low) / (int(high) - int(low))
    cube = Reconstructor(chosen, "cpu").reconstruct(PHOTO, region=(3, 15, 2, 13))
    assert_close(cube.data, network_output(chosen, part))
    assert "rows 3 to 14, columns 2 to 12" in cube.provenance.assumptions[-1]
    assert cube.provenance.region == "3:15,2:13"
    assert "its numbers differ from those of the whole photo" in cube.provenance.assumptions[-1]


def test_a_cube_lies_where_its_photo_lies_and_so_do_its_regions():
    photo = replace(
        Photo.from_array(PHOTO), georeference=Georeference((2.0, 0.0, 500.0, 0.0, -3.0, 700.0))
    )
    reconstructor = Reconstructor(model(), "cpu")
    for region, transform in (
        (None, (2, 0, 500, 0, -3, 700)),
        ((3, 15, 2, 13), (2, 0, 504, 0, -3, 691)),
    ):
        found = Georeference.from_json(
            reconstructor.reconstruct(photo, region=region).metadata[FIELD]
        )
        assert found.transform == transform
        assert (
            Georeference.from_json(reconstructor.preview(photo, region=region).metadata[FIELD])
            == found
        )
    assert FIELD not in reconstructor.reconstruct(PHOTO).metadata


def test_a_region_beside_the_photo_is_refused():
    with pytest.raises(PhotoError, match="Expected a region within 20 rows x 13 columns"):
        Reconstructor(model(), "cpu").reconstruct(PHOTO, region=(0, 21, 0, 13))


def test_a_preview_is_the_exact_cube_of_the_photo_averaged_down_and_says_so(monkeypatch):
    monkeypatch.setattr("napari_mst.reconstruction.preparing.PREVIEW_PIXELS", 40)
    reconstructor, photo = Reconstructor(model(), "cpu"), Photo.from_array(PHOTO)
    preview = reconstructor.preview(photo)
    np.testing.assert_array_equal(preview.data, reconstructor.reconstruct(photo.reduced(40)).data)
    assert preview.provenance.is_preview
    assert not reconstructor.reconstruct(photo).provenance.is_preview
    assert (
        f"averaged down to {preview.shape[1]} x {preview.shape[2]} pixels"
        in preview.provenance.assumptions[-1]
    )
    assert preview.provenance.source_sha256 == photo.sha256


def test_a_preview_of_a_region_covers_the_region(monkeypatch):
    monkeypatch.setattr("napari_mst.reconstruction.preparing.PREVIEW_PIXELS", 40)
    reconstructor = Reconstructor(model(), "cpu")
    preview = reconstructor.preview(PHOTO, region=(0, 20, 0, 10))
    np.testing.assert_array_equal(preview.data, reconstructor.preview(PHOTO[:, :10].copy()).data)


def test_the_ensemble_is_the_mean_over_all_flips_and_transposes():
    reconstructor = Reconstructor(model(), "cpu")
    by_hand = []
    for flips in [(), (0,), (1,), (0, 1)]:
        flipped = np.flip(PHOTO, flips)
        by_hand.append(
            np.flip(reconstructor.reconstruct(flipped).data, [axis + 1 for axis in flips])
        )
        transposed = reconstructor.reconstruct(flipped.swapaxes(0, 1)).data.swapaxes(1, 2)
        by_hand.append(np.flip(transposed, [axis + 1 for axis in flips]))
    shares: list[float] = []
    cube = reconstructor.reconstruct(PHOTO, shares.append, ensemble=True)
    np.testing.assert_allclose(cube.data, np.mean(by_hand, axis=0), atol=1e-6)
    assert cube.provenance.is_ensemble
    assert cube.data.flags.c_contiguous
    assert (shares, shares[-1]) == (sorted(shares), 1)
    assert len(set(shares)) >= 8 * 6


def test_the_ensemble_needs_one_more_map_and_leaves_out_pixels_that_are_nan():
    reconstructor, photo = Reconstructor(model(), "cpu"), (PHOTO / 255).astype(np.float32)
    photo[3, 5] = np.nan
    missing = np.isnan(reconstructor.reconstruct(photo, ensemble=True).data)
    assert missing[:, 3, 5].all()
    assert missing.sum() == 31
    more = [
        reconstructor.plan(h, 400, ensemble=True).memory - reconstructor.plan(h, 400).memory
        for h in (800, 1600)
    ]
    assert more[1] - more[0] == 800 * 400 * 31 * 4


def test_float64_is_the_reference_of_float32_and_needs_twice_the_memory(monkeypatch):
    single, double = (
        Reconstructor(model(), "cpu"),
        Reconstructor(model(), "cpu", precision="float64"),
    )
    cube, reference = single.reconstruct(PHOTO), double.reconstruct(PHOTO)
    assert (cube.data.dtype, reference.data.dtype) == (np.float32, np.float64)
    assert (cube.provenance.precision, reference.provenance.precision) == ("float32", "float64")
    assert_close(cube.data, reference.data)
    monkeypatch.setattr(
        native, "is_installed", lambda: False
    )  # whose threads, in float32 only, work in another memory
    assert double.plan(2000, 2000).memory == pytest.approx(
        2 * single.plan(2000, 2000).memory, rel=0.02
    )
    assert single.model.network.conv_in.weight.dtype == torch.float32
    with pytest.raises(
        DeviceError, match=r"Expected a precision of cpu \(float32, .*float64\), got 'int8'\."
    ):
        Reconstructor(model(), "cpu", precision="int8")


def test_progress_grows_through_the_correction_of_the_colours_and_ends_at_one():
    shares: list[float] = []
    Reconstructor(load_model("mstpp-srgb"), "cpu").reconstruct(PHOTO, shares.append)
    assert (shares, shares[-1]) == (sorted(shares), 1)
    assert any(share < 0.9 for share in shares)


@pytest.mark.parametrize(
    ("name", "ensemble", "low", "high"),
    [
        ("mstpp-srgb", False, 0.85, 0.95),
        ("mstpp-srgb", True, 0.98, 0.995),
        ("pixelwise-srgb", False, 0.55, 0.75),
    ],
)
def test_the_correction_of_the_colours_has_its_share_of_the_progress(
    monkeypatch, name, ensemble, low, high
):
    """It takes as long after a network of any cost, and after eight runs, as after a short one."""
    shares, begun = [0.0], []

    def correct(*arguments: Any, **options: Any) -> Any:
        begun.append(shares[-1])
        return correct_colours(*arguments, **options)

    monkeypatch.setattr("napari_mst.reconstruction.correcting.correct_colours", correct)
    Reconstructor(load_model(name), "cpu").reconstruct(PHOTO, shares.append, ensemble=ensemble)
    assert low < begun[0] < high


needs_bfloat16 = pytest.mark.skipif(
    "bfloat16" not in choose_device("cpu").precisions, reason="not on this processor"
)


@needs_bfloat16
def test_the_error_of_16_bits_is_measured_before_the_run_told_and_kept():
    chosen, photo = model(), Photo.from_array(np.tile(PHOTO, (8, 12, 1)))
    narrow = Reconstructor(chosen, "cpu", precision="bfloat16")
    plan = narrow.plan_for(photo)
    assert re.search(
        r"in bfloat16: off float32 by 0\.\d+% .* rms, on 128 x 128 pixels of this photo$", str(plan)
    )
    cube, exact = narrow.reconstruct(photo), Reconstructor(chosen, "cpu").reconstruct(photo)
    off = np.abs(cube.data - exact.data).max() / np.abs(exact.data).max()
    assert cube.provenance.precision == "bfloat16"
    assert off / 2 < cube.provenance.precision_error < off * 2
    assert f"Computed in {plan.precision}: {plan.error}." in cube.provenance.assumptions
    assert cube.provenance.engine == "16 bits, streamed"
    assert narrow.preview(photo).provenance.precision_error == cube.provenance.precision_error
    assert (exact.provenance.precision_error, exact.provenance.assumptions) == (0, ())
    assert Provenance.from_json(cube.provenance.to_json()) == cube.provenance


@needs_bfloat16
def test_the_error_of_a_photo_that_is_no_larger_than_the_sample_is_that_of_the_run():
    chosen = model()
    cube, exact = (
        Reconstructor(chosen, "cpu", precision=name).reconstruct(PHOTO)
        for name in ("bfloat16", "float32")
    )
    off = np.abs(cube.data - exact.data).max() / np.abs(exact.data).max()
    assert cube.provenance.precision_error == pytest.approx(off, rel=1e-4)


@needs_bfloat16
def test_16_bits_are_refused_where_they_give_nothing():
    with pytest.raises(
        DeviceError, match="Expected float32 or float64 for pixelwise-srgb, which keeps no features"
    ):
        Reconstructor(load_model("pixelwise-srgb"), "cpu", precision="bfloat16")
    with pytest.raises(
        AttentionError, match="Expected float32 or float64 to look at attention, got bfloat16"
    ):
        AttentionExplorer(Reconstructor(model(), "cpu", precision="bfloat16"), PHOTO)


@needs_bfloat16
def test_cancel_acts_while_the_error_of_16_bits_is_measured():
    reconstructor = Reconstructor(model(), "cpu", precision="bfloat16")
    with pytest.raises(Cancelled):
        reconstructor.plan_for(PHOTO, is_cancelled=lambda: True)
    assert "off float32" in str(reconstructor.plan_for(PHOTO))


@needs_bfloat16
def test_a_run_in_16_bits_that_is_out_of_memory_starts_again_too(monkeypatch):
    monkeypatch.setattr(
        torch, "get_num_threads", lambda: 64
    )  # whose working sets alone need more than half of it
    monkeypatch.setattr(torch, "set_num_threads", Mock())
    reconstructor, photo = (
        Reconstructor(model(), "cpu", precision="bfloat16"),
        np.tile(PHOTO, (25, 40, 1)),
    )
    expected = reconstructor.reconstruct(photo).data
    source = Photo.from_array(photo)
    reconstructor.plan_for(source)
    run_out_of_memory(monkeypatch)
    cube = reconstructor.reconstruct(source)
    np.testing.assert_array_equal(cube.data, expected)
    assert cube.provenance.engine == "16 bits, streamed through a file"
    (told,) = (
        note
        for note in cube.provenance.assumptions
        if "out of memory and was started again" in note
    )
    assert "the threads: slower, same numbers" in told


def test_budgets_are_kept_and_those_of_a_gpu_are_its_own():
    small = Reconstructor(model(), "cpu", memory=150_000_000)
    assert small.plan(1000, 1000).place == "file"
    assert small.plan(200, 200).place == "device"
    options = RunOptions(memory=150_000_000, device_memory=300_000_000)
    small.setup = replace(small.setup, options=options, device=DeviceChoice("cuda:0", "a GPU"))
    plan = small.plan(300, 300)
    assert (plan.place, plan.device_memory <= 300_000_000) == ("device", True)


@pytest.mark.parametrize(
    "text",
    [
        "MPS backend out of memory (MPS allocated: 5.56 GB, max allowed: 6.80 GB). Tried to allocate 768.00 MB",
        "Invalid buffer size: 18.56 GB",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_lack_of_memory_is_known_by_the_words_of_every_device(text):
    assert is_out_of_memory(RuntimeError(text))
    assert not is_out_of_memory(RuntimeError("device-side assert"))


@pytest.mark.parametrize(
    "allocate", [lambda size: streaming.Slab(size, torch.device("cpu")), torch.empty]
)
def test_lack_of_memory_is_known_on_this_system(allocate):
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        allocate(2**50)
    assert is_out_of_memory(caught.value)


def test_a_gpu_that_is_out_of_memory_starts_again_within_half_of_its_own(monkeypatch):
    reconstructor, plans = Reconstructor(model(), "cpu", memory=10**9, device_memory=4 * 10**8), []

    def fail_once(_, source, plan, watch):
        plans.append(plan)
        if len(plans) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return np.zeros((31, source.height, source.width), np.float32)

    monkeypatch.setattr(Setup, "cube_of", fail_once)
    monkeypatch.setattr("napari_mst.reconstruction.running.free_memory", lambda setup: None)
    reconstructor.setup = replace(reconstructor.setup, device=DeviceChoice("cuda:0", "a GPU"))
    cube = reconstructor.reconstruct(np.tile(PHOTO, (25, 40, 1)))
    assert [plan.place for plan in plans] == ["device", "memory"]
    assert plans[1].device_memory <= plans[0].device_memory / 2
    assert cube.provenance.engine == "exact, streamed through memory"
    assert "the second one needs" in cube.provenance.assumptions[-1]


@needs_bfloat16
def test_lack_of_memory_while_the_error_is_measured_is_the_same_clear_error(monkeypatch):
    reconstructor = Reconstructor(model(), "cpu", precision="bfloat16")
    with monkeypatch.context() as patch:
        patch.setattr(
            streaming, "Slab", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory"))
        )
        with pytest.raises(OutOfMemory, match="Expected enough memory on cpu for 20 x 13 pixels"):
            reconstructor.plan_for(PHOTO)
    assert "in bfloat16: off float32" in str(reconstructor.plan_for(PHOTO))
