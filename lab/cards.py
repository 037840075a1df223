"""The cards of the bundled models for sRGB; what is measured of a model is added to its card."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from napari_mst.cube.colour import SRGB_D65
from napari_mst.models.cards import ModelCard
from napari_mst.training.fit import save
from napari_mst.training.inputs import INPUTS, Input
from napari_mst.training.scenes import read_scenes
from napari_mst.training.scoring import Method, ModelMethod, means, score

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
"""The card of the bundled default model; its accuracy is measured later."""

PIXELWISE_CARD = replace(
    CARD,
    name="pixelwise-srgb",
    title="Pixel by pixel, for sRGB photos: reflectance under D65, at once",
    domain=(
        "Ordinary 8-bit sRGB photos of reflecting surfaces in daylight (D65), well exposed and "
        "clean. It looks at one pixel at a time: noise and JPEG artefacts stay in the spectra. "
        "For previews, and as the baseline to beat."
    ),
    reference="napari_mst.training.fit_pixelwise",
)
"""The card of the bundled pixelwise model; its accuracy is measured later."""


def made_by(name: str, options: str, processes: int = 1) -> str:
    """The end of a reference: the command that makes the bundled model *name*."""
    launch = f"torchrun --nproc-per-node {processes}" if processes > 1 else "python"
    return f"; made by `{launch} -m lab retrain {name} {options}`, one thread each"


def accuracy(method: Method, folder: Path, kind: Input = INPUTS[0]) -> dict[str, float]:
    """The mean of each metric over the scenes in *folder*, as a card has it.

    Raises
    ------
    CubeFileError
        If there is no scene, or one cannot be used.
    """
    (mean,) = means(score({"": method}, [kind], read_scenes(folder)))
    return {label: value for label, value in mean.values.items() if value == value}  # not NaN


def save_measured(network: nn.Module, path: Path, card: ModelCard, scenes: Path | None) -> None:
    """Write weights and card as `save` does, with the accuracy on real *scenes* if given."""
    save(network, path, card)
    if scenes is not None:
        measured = accuracy(ModelMethod(str(path)), scenes)
        rounded = {name: round(value, 4) for name, value in measured.items()}
        title = f"scenes of {scenes.name}, of exactly rendered sRGB"
        save(network, path, replace(card, accuracy={title: rounded}))
