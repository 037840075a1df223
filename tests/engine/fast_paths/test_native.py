"""The kernels that numba compiles give what torch gives at every border, width and shape."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.base.arrays import Array
from napari_mst.engine.fast_paths import native
from napari_mst.engine.fast_paths.table import form_of
from napari_mst.engine.fast_paths.torch_forms import array, estimate_of
from napari_mst.engine.kernels import fault_of, kept
from napari_mst.engine.windows import kernel_tile
from napari_mst.networks.attention.spectral import SpectralAttentionBlock, gram
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.forms import ConvolutionForm
from napari_mst.networks.mst_plus_plus import Concatenated
from napari_mst.networks.pixelwise import OnePixel, PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import decoded, encoded

if native.is_ready():
    from napari_mst.engine.fast_paths.compiled_passes import (
        CompiledBlock,
        CompiledConvolution,
        CompiledSpectra,
        CompiledUpFusion,
        compiled_decoding,
        compiled_encoding,
        compiled_gram,
    )

Sides = tuple[int, int, int, int]

needs_numba = pytest.mark.skipif(
    not native.is_ready(), reason="numba is not installed, or has no kernels for this processor"
)
WIDTHS = [1, 4, 9, 31, 33, 62]


def features(channels: int, height: int, width: int) -> Tensor:
    """Channels-last features that lie in a larger map."""
    torch.manual_seed(channels + height * width)
    return torch.randn(1, height + 5, width + 4, channels).permute(0, 3, 1, 2)[
        ..., 2 : 2 + height, 1 : 1 + width
    ]


def assert_equal(ours: Array, theirs: Tensor, tolerance: float = 1e-6) -> None:
    found, exact = torch.from_numpy(ours), theirs
    assert found.shape == exact.shape
    torch.testing.assert_close(
        found.double(), exact, rtol=0, atol=tolerance * float(exact.abs().max())
    )


def block_and_mixing(channels: int, window: Tensor) -> tuple[SpectralAttentionBlock, Tensor]:
    torch.manual_seed(channels)
    block = SpectralAttentionBlock(channels, 1).requires_grad_(False)
    for parameter in block.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    return block, block.mixing(block.input_gram(window))


def compiled(block: SpectralAttentionBlock, mixing: Tensor) -> "CompiledBlock":
    return CompiledBlock(form_of(block.apply_mixing), array(mixing))


def test_kernels_for_this_processor_are_right() -> None:
    # Wrong ones are not used, so that all tests of them would be left out.
    pytest.importorskip("numba")
    fault = fault_of(native.largest_error)
    assert fault == "" or fault.startswith("ImportError: no vector unit"), fault


@needs_numba
@pytest.mark.parametrize("channels", WIDTHS)
@pytest.mark.parametrize(
    "halo", [(0, 0, 0, 0), (3, 3, 3, 3), (0, 3, 3, 0), (1, 2, 3, 1), (2, 0, 0, 2)], ids=str
)
def test_block_is_that_of_torch_at_every_border(channels: int, halo: Sides) -> None:
    top, bottom, left, right = halo
    window = features(channels, 8 + top + bottom, 14 + left + right)
    block, mixing = block_and_mixing(channels, window)
    sides = cast("Sides", tuple(3 - side for side in halo))
    ours = compiled(block, mixing)(array(window), sides)
    exact = block.double().apply_mixing(window.double(), mixing)
    assert_equal(ours, exact[..., top : top + 8, left : left + 14])


@needs_numba
@pytest.mark.parametrize("size", [*product((1, 2, 5), (1, 2, 11, 12, 13)), (3, 150)], ids=str)
def test_block_of_every_small_size_is_that_of_torch(size: tuple[int, int]) -> None:
    window = features(9, *size)
    block, mixing = block_and_mixing(9, window)
    ours = compiled(block, mixing)(array(window), (3, 3, 3, 3))
    assert_equal(ours, block.double().apply_mixing(window.double(), mixing))


@needs_numba
def test_gelu_of_large_and_small_values_is_that_of_torch() -> None:
    """All weights are zero but the middles of the filters, so the values are those of the input."""
    block = SpectralAttentionBlock(1, 1).requires_grad_(False)
    attention, (first, second) = block.attention, block.attention.pos.parameters()
    for parameter in (*attention.parameters(), *block.feed_forward.parameters()):
        parameter.zero_()
    for weight in (first, second):
        weight[..., 1, 1] = 1
    attention.to_v.weight.fill_(1)
    values = torch.cat(
        [
            torch.linspace(-12, 12, 4001),
            torch.tensor([0.0, 1e-30, -1e-30, 200.0, -200.0, 1e5, -1e5]),
        ]
    )
    found = compiled(block, torch.zeros(1, 1, 1))(array(values.view(1, 1, 1, -1)), (3, 3, 3, 3))
    ours = torch.from_numpy(found).flatten()
    exact = F.gelu(values.double())
    close = values.abs() < 1000
    difference = (ours.double() - values - exact).abs()
    assert (
        difference[values.abs() <= 2].max() < 4e-7
    )  # of which half is rounding of the sum with the input
    assert (difference[close] / values.abs().clamp_min(1)[close]).max() < 4e-7
    assert_equal(array(ours), values + exact)


@needs_numba
@pytest.mark.parametrize(
    ("inside", "outside"), [(3, 31), (31, 31), (31, 3), (1, 9), (40, 8), (33, 66)]
)
@pytest.mark.parametrize(
    "missing", [(0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0)], ids=str
)
@pytest.mark.parametrize(("side", "stride"), [(3, 1), (4, 2)])
def test_convolutions_are_those_of_torch_at_every_border(
    inside: int, outside: int, missing: Sides, side: int, stride: int
) -> None:
    top, bottom, left, right = missing
    x = features(inside, 12 - top - bottom, 30 - left - right)
    convolution = nn.Conv2d(inside, outside, side, stride).requires_grad_(False)
    assert convolution.bias is not None
    bias = array(convolution.bias)
    form = ConvolutionForm(array(convolution.weight), bias)
    ours = CompiledConvolution(form)(array(x), missing)
    padded = F.pad(x.double(), (left, right, top, bottom))
    assert_equal(
        ours, F.conv2d(padded, convolution.weight.double(), convolution.bias.double(), stride)
    )


@needs_numba
@pytest.mark.parametrize("channels", WIDTHS)
@pytest.mark.parametrize("size", [(1, 1), (5, 12), (4, 70)], ids=str)
def test_doubled_features_are_fused_as_by_torch(channels: int, size: tuple[int, int]) -> None:
    height, width = size
    x, skip = features(2 * channels, height, width), features(channels, 2 * height, 2 * width)
    up = nn.ConvTranspose2d(2 * channels, channels, 2, 2).requires_grad_(False)
    fuse = Concatenated(nn.Conv2d(2 * channels, channels, 1, bias=False)).requires_grad_(False)
    ours = CompiledUpFusion(form_of(up), form_of(fuse))(array(x), array(skip))
    assert_equal(ours, fuse.double()(up.double()(x.double()), skip.double()), tolerance=2e-6)


@needs_numba
@pytest.mark.parametrize("channels", WIDTHS)
def test_gram_is_summed_in_float64(channels: int) -> None:
    x = features(channels, 7, 150) + 3
    ours = compiled_gram(array(x))
    assert ours.dtype == np.float64
    assert_equal(ours, gram(x.double()), tolerance=1e-14)
    assert_array_equal(ours, ours.swapaxes(1, 2))


@needs_numba
def test_threads_do_not_share_memory() -> None:
    maps = [features(9, 20 + i % 3, 40 + i) for i in range(24)]
    windows = [array(each) for each in maps]
    apply = compiled(*block_and_mixing(9, maps[0]))
    expected = [apply(window, (3, 3, 3, 3)) for window in windows]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda window: apply(window, (3, 3, 3, 3)), windows))
    assert all(np.array_equal(ours, alone) for ours, alone in zip(found, expected, strict=True))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has yet tried the kernels, before the test and after it."""
    monkeypatch.setattr(kept, "are_right", lambda: False)
    native.check_kernels.cache_clear()
    yield
    native.check_kernels.cache_clear()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("fault", ["fails", "is wrong"])
def test_kernels_that_cannot_be_used_are_not_and_that_is_logged_once(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def error() -> float:
        if fault == "fails":
            raise ImportError("no vector unit")
        return 0.1

    monkeypatch.setattr(native, "is_installed", lambda: True)
    monkeypatch.setattr(native, "largest_error", error)
    with caplog.at_level(logging.WARNING, "napari_mst"):
        assert not native.is_ready()
        assert not native.is_ready()
    assert len(caplog.records) == 1
    assert "Running without them" in caplog.text


@pytest.mark.usefixtures("unchecked")
def test_without_numba_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    assert not native.is_ready()
    assert not caplog.records


@needs_numba
def test_to_find_out_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert native.largest_error() < 1e-6
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    "size", [(2, 2), (8, 8), (64, 64), (128, 96), (488, 512), (2000, 3000)], ids=str
)
def test_regions_are_even_and_many(size: tuple[int, int]) -> None:
    rows, columns = kernel_tile(*size)
    assert rows % 2 == columns % 2 == 0
    height, width = size
    count = -(-height // rows) * -(-width // columns)
    assert rows == 16 or count >= 8


def test_the_ring_around_a_tile_of_windows_is_a_small_part_of_it() -> None:
    rows, columns = kernel_tile(64, 64, has_windows=True)
    assert (rows + 16) * (columns + 16) < 1.3 * rows * columns


def test_the_halo_of_passes_that_reach_far_is_no_larger_than_a_tile() -> None:
    rows, columns = kernel_tile(1000, 1000, reach=31)
    assert (rows + 62) * (columns + 62) < 2 * rows * columns
    assert kernel_tile(1000, 1000, reach=8) == kernel_tile(1000, 1000)


def test_the_processor_and_the_layout_of_its_kernels_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if native.is_ready():
        from napari_mst.engine.kernels.processor import LAYOUT, PROCESSOR

        assert native.description().startswith(f"{PROCESSOR}, {LAYOUT}: ")
    monkeypatch.setattr(native, "is_ready", lambda: False)
    assert native.description().endswith(", without compiled kernels")


def printed(code: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The output of *code* in a fresh process."""
    command = [sys.executable, "-c", code]
    run = partial(subprocess.run, check=True, capture_output=True, text=True)
    return str(run(command, cwd=folder, env=environment).stdout)


PRODUCTS_FOR_ARM = """
import llvmlite.binding
llvmlite.binding.initialize_all_targets()
llvmlite.binding.initialize_all_asmprinters()
llvmlite.binding.get_process_triple = lambda: "aarch64-unknown-linux-gnu"
from numba import types
from napari_mst.engine.kernels.products import Layer, Taps, Target, multiply_row
from napari_mst.engine.kernels.packed_rows import PackedRow
kinds = (PackedRow, Taps, Layer, Target)
records = [types.NamedUniTuple(types.int64, len(kind._fields), kind) for kind in kinds]
multiply_row.compiled.compile((*records, types.int64))
print(*multiply_row.compiled.inspect_asm().values())
"""


@needs_numba
@pytest.mark.slow
def test_products_on_arm_multiply_by_a_lane_and_stay_in_the_registers(tmp_path: Path) -> None:
    """The innermost loop takes four channels of four vectors and five pixels.

    It is compiled here for a processor that is not here.
    """
    environment = {"NUMBA_CPU_NAME": "cortex-a72", "NUMBA_CPU_FEATURES": "+neon"}
    assembly = printed(PRODUCTS_FOR_ARM, tmp_path, os.environ | environment)
    (loop,) = (part for part in assembly.split(":\n") if re.search(r"fmla\s.*\.s\[3\]", part))
    assert len(re.findall(r"fmla\s.*\.s\[[0-3]\]", loop)) == 4 * 4 * 5
    assert not re.search(r"q\d+.*\[sp", loop)


KERNELS = Path(native.__file__).parents[1] / "kernels"


@needs_numba
def test_a_kernel_is_compiled_again_when_any_file_of_the_kernels_changes(tmp_path: Path) -> None:
    from napari_mst.engine.kernels.kept import sources_digest

    for path in KERNELS.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert sources_digest(tmp_path) == sources_digest()
    for path in tmp_path.glob("*.py"):
        before = path.read_bytes()
        path.write_bytes(before + b"#\n")
        sources_digest.cache_clear()
        assert sources_digest(tmp_path) != sources_digest()
        path.write_bytes(before)


KERNEL = """
import sys
from callee import add
from napari_mst.engine.kernels.caching import kernel

@kernel
def one(number: int) -> int:
    return add(number)

print(one(0), "numba" in sys.modules)
"""
CALLEE = """
from napari_mst.engine.kernels.caching import part

@part
def add(number: int) -> int:
    return number + {}
"""


@pytest.fixture
def called(tmp_path: Path) -> Callable[[int], tuple[str, str]]:
    """The result of a kernel that adds a step, in a fresh process, and whether that took numba."""
    (tmp_path / "caller.py").write_text(KERNEL)
    # Python's own bytecode is taken again if a file changes within a second but keeps its size.
    kept_here = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = os.environ | kept_here

    def call(step: int) -> tuple[str, str]:
        (tmp_path / "callee.py").write_text(CALLEE.format(step))
        number, has_numba = printed("import caller", tmp_path, environment).split()
        return number, has_numba

    return call


@needs_numba
def test_a_kept_kernel_needs_no_numba_and_is_not_taken_after_what_it_calls_has_changed(
    called: Callable[[int], tuple[str, str]],
) -> None:
    assert called(1) == ("1", "True")
    assert called(1) == ("1", "False")
    assert called(2) == ("2", "True")


@needs_numba
def test_a_damaged_kernel_is_compiled_again(
    called: Callable[[int], tuple[str, str]], tmp_path: Path
) -> None:
    called(1)
    (kept_file,) = (tmp_path / "kept").iterdir()
    code = kept_file.read_bytes()
    for damaged in (code[:-1], code + b"0", b""):
        kept_file.write_bytes(damaged)
        assert called(1) == ("1", "True")
    assert called(1) == ("1", "False")


@needs_numba
@pytest.mark.parametrize(
    ("kept", "processes"),
    [((), ["0", "1", "2", "3"]), (("apply_block",), ["1", "2", "3"]), (None, [])],
)
def test_only_groups_of_kernels_that_are_not_on_disk_are_compiled_ahead_and_once(
    kept: tuple[str, ...] | None, processes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_mst.engine.kernels import ahead
    from napari_mst.engine.kernels.caching import CompiledKernel

    def is_kept(kernel: Any) -> bool:
        return kept is None or kernel.__name__ in kept

    started: list[str] = []

    def start(command: list[str], **_: object) -> Mock:
        started.append(command[-1])
        return Mock()

    monkeypatch.setattr(CompiledKernel, "is_kept", is_kept)
    monkeypatch.setattr(subprocess, "Popen", start)
    ahead.begin.cache_clear()
    try:
        begun = cast("list[Mock]", ahead.begin())
        ahead.compile_missing()
    finally:
        ahead.begin.cache_clear()
    assert started == processes
    assert [process.wait.call_count for process in begun] == [1] * len(processes)


def pixelwise(width: int) -> OnePixel:
    torch.manual_seed(width)
    return PixelwiseNetwork(7, width).requires_grad_(False)


def told_the_camera(width: int) -> OnePixel:
    torch.manual_seed(width)
    network = CameraNetwork(torch.linalg.qr(torch.rand(7, 4))[0], width).requires_grad_(False)
    network.set_usual(torch.rand(5, 7, 3))
    network.set_response(torch.rand(7, 3).double() / 7)
    return network


@needs_numba
@pytest.mark.parametrize("size", [(1, 1), (2, 9), (3, 47), (2, 101)], ids=str)
@pytest.mark.parametrize("width", [5, 64])
@pytest.mark.parametrize("build", [pixelwise, told_the_camera])
@pytest.mark.parametrize("is_encoded", [True, False])
def test_estimate_of_a_network_that_sees_one_pixel_is_that_of_torch(
    is_encoded: bool, build: Callable[[int], OnePixel], width: int, size: tuple[int, int]
) -> None:
    network = build(width)
    # From below black to beyond white, of every brightness; in a photo whose rows are longer.
    photo = 10 ** torch.empty(1, 3, size[0], size[1] + 3).uniform_(-9, 1)
    photo[..., 0] = -0.5
    window = photo[..., : size[1]]
    ours = CompiledSpectra(estimate_of(network, is_encoded))(array(window))
    exact = network.double()(window.double())
    assert_equal(ours, encoded(exact) if is_encoded else exact)


@needs_numba
@pytest.mark.parametrize("colours", [1, 40, 5000])
def test_pixels_of_one_colour_have_the_bits_of_its_spectrum_wherever_they_lie(colours: int) -> None:
    palette = torch.rand(colours, 3)  # more colours than there are slots for, or few
    photo = palette[torch.randint(colours, (90, 130))].permute(2, 0, 1)[None]
    network = pixelwise(5)
    estimate = CompiledSpectra(estimate_of(network))
    ours = estimate(array(photo))
    assert_equal(ours, network.double()(photo.double()))
    one_by_one = [estimate(array(photo)[:, :, row : row + 1]) for row in range(90)]
    assert_array_equal(ours, np.concatenate(one_by_one, axis=2))


@needs_numba
@pytest.mark.parametrize("bands", [1, 8, 31])
def test_spectra_are_decoded_as_by_torch(bands: int) -> None:
    torch.manual_seed(bands)
    codes = torch.randn(1, 3, 13, bands).permute(0, 3, 1, 2)
    codes[0, 0, 0, :3] = torch.tensor([0.0, 20.0, -3.0])
    assert_equal(compiled_decoding(array(codes)), decoded(codes.double()))


@needs_numba
def test_light_is_encoded_as_by_torch() -> None:
    photo = 2 * torch.rand(1, 3, 4, 30) - 0.5
    assert_equal(compiled_encoding(array(photo)[..., 3:]), encoded(photo.double())[..., 3:])


@needs_numba
def test_number_that_is_none_stays_none_in_its_pixel() -> None:
    network = PixelwiseNetwork(7, 5).requires_grad_(False)
    photo = torch.rand(1, 3, 2, 9)
    photo[0, 1, 1, 4] = torch.nan
    spectra = CompiledSpectra(estimate_of(network))(array(photo))
    expected = np.zeros((2, 9), bool)
    expected[1, 4] = True
    assert_array_equal(np.isnan(spectra[0, 0]), expected)
    assert_array_equal(np.isnan(compiled_decoding(spectra)[0, 0]), expected)
