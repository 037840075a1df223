"""Every kernel gives any tile the bits of the whole, in every layout that can run here.

`python tests/engine/fast_paths/test_layouts.py FILE` does so in one layout and saves the numbers.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from napari_mst.engine.fast_paths import native
from napari_mst.engine.fast_paths.table import form_of
from napari_mst.engine.fast_paths.torch_forms import array, estimate_of
from napari_mst.engine.windows import Window, whole
from napari_mst.networks.attention.spectral import HALO, SpectralAttentionBlock
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.mst_plus_plus import Concatenated
from napari_mst.networks.pixelwise import PixelwiseNetwork

if not native.is_ready():
    pytest.skip("numba is missing, or has no kernels here", allow_module_level=True)

from napari_mst.engine.fast_paths.compiled_passes import (
    CompiledBlock,
    CompiledConvolution,
    CompiledSpectra,
    CompiledUpFusion,
    compiled_decoding,
    compiled_encoding,
    compiled_gram,
)
from napari_mst.engine.kernels.processor import ASKED_FOR, LAYOUT, LAYOUTS, layouts_of
from napari_mst.reconstruction.colour_fidelity.code_cells import Bounds, linear_light, srgb_codes
from napari_mst.reconstruction.colour_fidelity.moving import moved_by_kernel

SIZE = HEIGHT, WIDTH = 13, 47
"""The size of the results; no layout divides it."""

Apply = Callable[[Window], Tensor]
"""The numbers of a window of the result, (C, h, w)."""


def on_tensors(kernel: Callable[..., Any]) -> Callable[..., Tensor]:
    """*kernel*, which computes in NumPy, for tensors."""

    def apply(*given: Any) -> Tensor:
        arrays = (array(each) if isinstance(each, Tensor) else each for each in given)
        return torch.from_numpy(kernel(*arrays))

    return apply


def kernels() -> dict[str, Apply]:
    """All kernels whose numbers are those of pixels, with weights and an input of their own."""
    torch.manual_seed(0)
    x = torch.randn(1, HEIGHT, WIDTH, 9).permute(0, 3, 1, 2)
    double = torch.randn(1, 2 * HEIGHT, 2 * WIDTH, 9).permute(0, 3, 1, 2)
    photo = torch.rand(1, 3, HEIGHT, WIDTH) * 1.4 - 0.2
    pixelwise = PixelwiseNetwork(31, 20).requires_grad_(False)
    camera = CameraNetwork(torch.linalg.qr(torch.rand(31, 5))[0], 20).requires_grad_(False)
    camera.set_response(torch.rand(31, 3).double() / 31)
    block = SpectralAttentionBlock(9, 1).requires_grad_(False)
    mixing = array(block.mixing(block.input_gram(x)))
    apply_block = on_tensors(CompiledBlock(form_of(block.apply_mixing), mixing))
    near = on_tensors(CompiledConvolution(form_of(nn.Conv2d(9, 10, 3, padding=1))))
    half = on_tensors(CompiledConvolution(form_of(nn.Conv2d(9, 18, 4, 2, padding=1))))
    up, both = nn.ConvTranspose2d(9, 4, 2, 2), Concatenated(nn.Conv2d(8, 4, 1, bias=False))
    fuse = on_tensors(CompiledUpFusion(form_of(up), form_of(both)))
    estimate = on_tensors(CompiledSpectra(estimate_of(pixelwise)))
    encode = on_tensors(CompiledSpectra(estimate_of(pixelwise, is_encoded=True)))
    see = on_tensors(CompiledSpectra(estimate_of(camera)))
    decode, light = on_tensors(compiled_decoding), on_tensors(compiled_encoding)
    response = np.random.default_rng(0).random((9, 3), dtype=np.float32)

    def of_block(window: Window) -> Tensor:
        reach = window.grown(HALO)
        return apply_block(_cut(x, reach.clipped(SIZE)), reach.missing(SIZE))[0]

    def of_neighbours(window: Window) -> Tensor:
        reach = window.grown(1)
        return near(_cut(x, reach.clipped(SIZE)), reach.missing(SIZE))[0]

    def halved(window: Window) -> Tensor:
        size = 2 * HEIGHT, 2 * WIDTH
        reach = Window(*(2 * side for side in window)).grown(1)
        return half(_cut(double, reach.clipped(size)), reach.missing(size))[0]

    def doubled(window: Window) -> Tensor:
        skip = double[:, :4].contiguous(memory_format=torch.channels_last)
        # The four pixels of each square, so that the window is that of the squares.
        squares = fuse(_cut(x, window), _cut(skip, Window(*(2 * side for side in window))))
        return nn.functional.pixel_unshuffle(squares, 2)[0]

    def moved(window: Window) -> Tensor:
        spectra: np.ndarray = np.ascontiguousarray(_cut(x, window)[0].abs().numpy() / 3)
        wanted = _cut(photo, window)[0].clamp(0.1, 0.9).numpy()
        shown = np.einsum("bc,bhw->chw", response, spectra)
        # Some are within their cells already, and some are open on one side.
        high = np.where(wanted > 0.8, np.float32(np.inf), wanted + 0.05)
        moved_by_kernel(spectra, shown, Bounds(wanted - 0.05, high), response)
        return torch.from_numpy(spectra)

    def each_number(compute: Callable[[np.ndarray], np.ndarray], window: Window) -> Tensor:
        return torch.from_numpy(compute(_cut(photo, window)[0].numpy()))

    return {
        "block": of_block,
        "convolution": of_neighbours,
        "halving": halved,
        "doubling": doubled,
        "estimate": lambda window: estimate(_cut(photo, window))[0],
        "encoded estimate": lambda window: encode(_cut(photo, window))[0],
        "camera": lambda window: see(_cut(photo, window))[0],
        "decoding": lambda window: decode(_cut(x, window).abs())[0],
        "encoding": lambda window: light(_cut(photo, window))[0],
        "colours": moved,
        "codes": lambda window: each_number(srgb_codes, window),
        "light": lambda window: each_number(linear_light, window),
    }


def _cut(features: Tensor, window: Window) -> Tensor:
    return features[..., window.rows, window.columns]


with torch.inference_mode():
    KERNELS = kernels()
    WHOLE = {name: apply(whole(SIZE)) for name, apply in KERNELS.items()}

ENDS = st.tuples(st.integers(0, HEIGHT - 1), st.integers(1, HEIGHT)).filter(lambda e: e[0] < e[1])
SIDES = st.tuples(st.integers(0, WIDTH - 1), st.integers(1, WIDTH)).filter(lambda e: e[0] < e[1])


@pytest.mark.parametrize("name", KERNELS)
@settings(deadline=None, max_examples=40)
@given(ends=ENDS, sides=SIDES)
def test_any_tile_has_the_bits_of_the_whole(
    name: str, ends: tuple[int, int], sides: tuple[int, int]
) -> None:
    window = Window(*ends, *sides)
    with torch.inference_mode():
        own = KERNELS[name](window)
    assert torch.equal(own, _cut(WHOLE[name], window))


OTHERS = [{ASKED_FOR: str(layout)} for layout in LAYOUTS if layout != LAYOUT]
AVX2 = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+sse4.2,+avx,+avx2,+fma", ASKED_FOR: ""}


@pytest.mark.parametrize(
    "environment",
    [
        *(pytest.param(other, id=other[ASKED_FOR]) for other in OTHERS),
        pytest.param(
            AVX2,
            id="AVX2",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(LAYOUT.lanes < 8, reason="processors of one family only"),
            ],
        ),
    ],
)
def test_every_layout_gives_the_same_numbers_and_any_tile_its_bits(
    environment: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, __file__, str(tmp_path / "numbers.npz")]
    subprocess.run(command, env=os.environ | environment, check=True)
    with np.load(tmp_path / "numbers.npz") as others:
        assert str(others["layout"]) == environment[ASKED_FOR] or environment is AVX2
        for name, own in numbers().items():
            np.testing.assert_allclose(
                others[name], own, rtol=0, atol=1e-6 * np.abs(own).max(), err_msg=name
            )


def numbers() -> dict[str, Any]:
    """The numbers of all kernels for their whole inputs."""
    gram = on_tensors(compiled_gram)(WHOLE["block"][None])
    return {name: values.numpy() for name, values in (WHOLE | {"gram": gram}).items()}


X86 = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("target", "names"),
    [
        # LLVM may know neither the processor nor its NEON.
        (("aarch64-unknown-linux-gnu", "generic", "-sve"), ["4x4"]),
        (("arm64-apple-darwin24.6.0", "apple-m1", ""), ["4x4"]),
        (("x86_64-pc-windows-msvc", "haswell", "+sse4.2,+avx2,+fma"), ["8x2"]),
        ((X86, "skylake-avx512", "+avx2,+fma,+avx512f,+avx512vl"), ["16x2", "8x4", "8x2"]),
        ((X86, "znver4", "+avx2,+fma,+avx512f,+avx512vl"), ["16x2", "8x4", "8x2"]),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_every_family_of_processors_has_layouts_of_its_own(
    target: tuple[str, str, str], names: list[str]
) -> None:
    assert [str(layout) for layout in layouts_of(*target)] == names


def test_a_processor_without_fitting_vectors_has_no_kernels() -> None:
    with pytest.raises(ImportError, match="of nehalem"):
        layouts_of(X86, "nehalem", "+sse4.2")


@pytest.mark.skipif(len(LAYOUTS) == 1, reason="this processor has one layout")
def test_the_widest_layout_is_taken_unless_another_one_is_asked_for() -> None:
    code = "from napari_mst.engine.kernels.processor import LAYOUT; print(LAYOUT)"
    run = partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    names = [str(layout) for layout in LAYOUTS]
    assert run(env=os.environ | {ASKED_FOR: ""}).stdout == f"{names[0]}\n"
    assert run(env=os.environ | {ASKED_FOR: names[-1]}).stdout == f"{names[-1]}\n"
    refused = run(env=os.environ | {ASKED_FOR: "32x1"}).stderr
    assert f"{ASKED_FOR} is one of {', '.join(names)} here, not 32x1" in refused


if __name__ == "__main__":
    for kernel in KERNELS:
        test_any_tile_has_the_bits_of_the_whole(kernel)
    np.savez(sys.argv[1], **numbers(), layout=np.array(str(LAYOUT)))
