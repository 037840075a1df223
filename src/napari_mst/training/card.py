"""The cards of trained models, but for what is measured of them."""

from napari_mst.colour import SRGB_D65
from napari_mst.models.cards import ModelCard
from napari_mst.networks.hyperparameters import AttentionParameters

CARD = ModelCard(
    name="mstpp-srgb",
    title="MST++ for sRGB photos: reflectance under D65",
    wavelengths=tuple(float(nm) for nm in range(400, 701, 10)),
    is_linear=True,
    normalisation="none",
    quantity="reflectance",
    rendering=SRGB_D65,
    domain=(
        "Ordinary 8-bit sRGB photos of reflecting surfaces in daylight (D65), well exposed, clean "
        "to moderately noisy. "
        "Not for emitters, other lights, strong tone curves, or raw camera values."
    ),
    training_data=(
        "Simulated scenes of 1,935 measured reflectances (CIE CES, ISET, rawtoaces, earthlib, USGS "
        "splib06; permissive licences, see data/README.md), seen by the CIE 1931 observer. "
        "No image of a real scene."
    ),
    licence="MIT",
    reference=(
        "Network: Cai et al., CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090. "
        "Weights: napari_mst.training.fit"
    ),
)
"""The card of the bundled default model, but for its accuracy, which is measured."""


def attention_options(parameters: AttentionParameters) -> str:
    """The options of a command that say how blocks attend; "" for those of the default."""
    kind = parameters.get("attention", "spectral")
    has_norm = parameters.get("norm_before_attention")
    options = "" if kind == "spectral" else f" --attention {kind}"
    if has_norm is None:
        return options
    return f"{options} --{'' if has_norm else 'no-'}norm-before-attention"
