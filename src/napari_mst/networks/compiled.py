"""Programs of bundled networks without torch: NumPy weights, and passes computed by kernels.

`compiled_program` lists the same passes as the torch modules of `pixelwise` and of
`refining_mst_plus_plus` with one stage; `tests/networks/test_compiled.py` compares them.
Letters: C channels.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from napari_mst.networks.forms import (
    BlockForm,
    ConvolutionForm,
    DecodingForm,
    DoublingForm,
    EncodingForm,
    EstimateForm,
    FusionForm,
    NamedWeights,
    gram,
)
from napari_mst.networks.network import PHOTO, Pass, Program

FLOAT32 = np.dtype(np.float32)

_POWER_WORK = 8
"""Number of multiplications that take as long as one power."""

_STAGE = "stages.0"


def compiled_program(weights: NamedWeights) -> Program | None:
    """The program of the network with these *weights*, in our layout; None for other networks.

    The weights must be sound, as in a sealed file, since kernels do not check them.
    """
    if "margins.weight" in weights:
        return Program((_estimate(weights, "spectra"),), dtype=FLOAT32)
    is_known = "pixelwise.margins.weight" in weights and f"{_STAGE}.mapping.weight" in weights
    attention = f"{_STAGE}.encoder.0.attention"
    is_published = f"{attention}.to_q.weight" in weights and f"{_STAGE}.norm.weight" not in weights
    if not is_known or not is_published or "stages.1.mapping.weight" in weights:
        return None
    last = ConvolutionForm.of(weights, "conv_out")
    bands = _convolved("bands", (_STAGE, "shallow"), last, is_kept=False)
    decoded = Pass(
        "reflectance", ("bands",), DecodingForm(), bands.channels, work=_POWER_WORK * bands.channels
    )
    passes = [*_first(weights), *_stage(weights), bands, decoded]
    return Program(tuple(passes), multiple=8, dtype=FLOAT32)


def _first(weights: NamedWeights) -> list[Pass]:
    """The encoded estimate of the pixelwise network, and a convolution of the encoded photo."""
    light = Pass("shallow light", (PHOTO,), EncodingForm(), 3, is_kept=False, work=_POWER_WORK * 3)
    spectra = replace(_estimate(weights, "shallow spectra", "pixelwise."), is_kept=False)
    added = ConvolutionForm.of(weights, "conv_in")
    reads = (light.writes, spectra.writes)
    return [light, spectra, _convolved("shallow", reads, added, is_kept=False)]


def _estimate(weights: NamedWeights, name: str, prefix: str = "") -> Pass:
    form = EstimateForm.of(weights, prefix, is_encoded=bool(prefix))
    work = sum(weight.size for weight, _ in form.layers)
    # Working numbers per pixel and channel of the hidden layers: see `pixelwise`.
    return Pass(name, (PHOTO,), form, form.bands, work=work, values=int(2.25 * form.width))


def _stage(weights: NamedWeights) -> list[Pass]:
    """The U-shape of five blocks, from the map "shallow"; see `SpectralTransformer.passes`."""
    passes = [_convolved(f"{_STAGE}.embedding", ("shallow",), _plain(weights, "embedding"))]
    skips = []
    for level in range(2):
        _add_block(passes, weights, f"encoder.{level}")
        skips.append(passes[-1].writes)
        down = _plain(weights, f"down.{level}")
        half = _convolved(f"{_STAGE}.down.{level}", skips[-1:], down, scale=Fraction(1, 2))
        passes.append(half)
    _add_block(passes, weights, "bottleneck")
    for level in range(2):
        up = DoublingForm.of(weights, f"{_STAGE}.up.{level}")
        name, channels = f"{_STAGE}.up.{level}", up.weight.shape[1]
        # A transposed convolution uses one of its 2 x 2 weights per output pixel.
        work = up.numbers / 4
        small = (passes[-1].writes,)
        doubled = Pass(name, small, up, channels, scale=Fraction(2), is_kept=False, work=work)
        fuse = FusionForm.of(weights, f"{_STAGE}.fuse.{level}")
        both = (name, skips.pop())
        fused = Pass(f"{_STAGE}.fuse.{level}", both, fuse, channels, work=fuse.numbers)
        passes += [doubled, fused]
        _add_block(passes, weights, f"decoder.{level}")
    mapping = ConvolutionForm.of(weights, f"{_STAGE}.mapping")
    return [*passes, _convolved(_STAGE, (passes[-1].writes, "shallow"), mapping)]


def _plain(weights: NamedWeights, name: str) -> ConvolutionForm:
    return ConvolutionForm.of(weights, f"{_STAGE}.{name}")


def _convolved(
    name: str,
    reads: "tuple[str, ...] | list[str]",
    form: ConvolutionForm,
    scale: Fraction = Fraction(1),
    is_kept: bool = True,
) -> Pass:
    channels = len(form.weight)
    work = form.numbers
    return Pass(name, tuple(reads), form, channels, halo=1, scale=scale, is_kept=is_kept, work=work)


def _add_block(passes: list[Pass], weights: NamedWeights, name: str) -> None:
    """Add the pass of a block of the stage, and the Gram matrix of the map that it reads."""
    block = BlockForm.of(weights, f"{_STAGE}.{name}")
    source = replace(passes[-1], statistic=gram, fold=block.mixing)
    channels = source.channels
    passes[-1] = source
    passes.append(
        Pass(
            f"{_STAGE}.{name}",
            (source.writes,),
            block,
            channels,
            halo=3,
            uses=source.writes,
            work=block.local_work,
            values=15 * channels,
        )
    )
