"""The reach of a pixelwise network that has seen the very camera and kind of scenes that it is judged on.

`python -m lab.benchmarks.reachable FOLDER [--folds 3]`

The scenes in FOLDER are dealt to folds, and of each fold a network judges the scenes that it was
not fitted to: clean photos, colours corrected, as `napari-mst evaluate` does. One line each for
more training pixels, more steps, wider networks, and for pixels of which half are simulated.
Nothing that ships is fitted to such scenes.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lab.benchmarks import common
from lab.cards import PIXELWISE_CARD
from lab.fit_pixelwise import PixelwiseSettings, fit_pixelwise
from lab.simulated import SceneSimulator
from napari_mst.cube.colour import srgb_to_linear
from napari_mst.photo.cameras import GRID
from napari_mst.training.fit import save
from napari_mst.training.inputs import INPUTS
from napari_mst.training.scenes import Scene, read_scenes
from napari_mst.training.scoring import ModelMethod, Score, means, score

COLUMNS = ("MRAE", "core MRAE", "PSNR (dB)", "SAM (deg)", "dE D65", "dE A")
ALL = 10**9
USUAL = PixelwiseSettings(steps=1000)
STUDIES = {
    "pixels": [(pixels, USUAL, False) for pixels in (1_000, 10_000, ALL)],
    "steps": [(ALL, replace(USUAL, steps=steps), False) for steps in (250, 4000)],
    "width": [(ALL, replace(USUAL, width=width), False) for width in (16, 128)],
    "simulated": [(ALL, replace(USUAL, steps=2000), True)],
}


class ScenePixels:
    """Draws from *pixels* pixels of clean photos of *scenes* in place of simulated ones, or of half of them."""

    def __init__(self, scenes: Sequence[Scene], pixels: int, seed: int, is_half: bool) -> None:
        photos = [
            srgb_to_linear(INPUTS[0].photograph(scene.cube) / 255).reshape(3, -1)
            for scene in scenes
        ]
        spectra = np.concatenate([scene.cube.reshape(len(GRID), -1) for scene in scenes], axis=1)
        kept = np.random.default_rng(seed).permutation(spectra.shape[1])[:pixels]
        self._photo = torch.from_numpy(np.concatenate(photos, axis=1).T[kept].astype(np.float32))
        self._spectra = torch.from_numpy(spectra.T[kept])
        self._random = torch.Generator().manual_seed(seed)
        self._simulator = SceneSimulator(seed) if is_half else None

    def draw_pixels(self, count: int) -> tuple[Tensor, Tensor]:
        """As of `SceneSimulator`."""
        simulated = self._simulator.draw_pixels(count // 2) if self._simulator else ()
        chosen = torch.randint(
            len(self._photo), (count // (2 if simulated else 1),), generator=self._random
        )
        seen = self._photo[chosen], self._spectra[chosen]
        return tuple(map(torch.cat, zip(seen, simulated, strict=True))) if simulated else seen


def judged(
    scenes: Sequence[Scene], folds: int, pixels: int, settings: PixelwiseSettings, is_half: bool
) -> Score:
    """The mean over all *scenes*, each judged by a network that has not seen it."""
    scores: list[Score] = []
    for fold in range(folds):
        seen = [scene for place, scene in enumerate(scenes) if place % folds != fold]
        network = fit_pixelwise(
            settings, report_every=ALL, simulator=ScenePixels(seen, pixels, settings.seed, is_half)
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fitted-to-scenes-srgb.safetensors"
            save(network, path, replace(PIXELWISE_CARD, name=path.stem))
            scores += score({"": ModelMethod(str(path))}, [INPUTS[0]], scenes[fold::folds])
    return means(scores)[0]


def main() -> None:
    """Print one row a fit."""
    parser = common.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--study", action="append", choices=STUDIES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    scenes = list(read_scenes(options.folder))
    print(f"{'pixels':>10}{'steps':>7}{'width':>7}" + "".join(f"{name:>11}" for name in COLUMNS))
    for name in options.study or STUDIES:
        for pixels, settings, is_half in STUDIES[name]:
            values = judged(scenes, options.folds, pixels, settings, is_half).values
            shown = "+ simul." if is_half else "all" if pixels == ALL else f"{pixels}"
            row = "".join(f"{values[column]:11.4f}" for column in COLUMNS)
            print(f"{shown:>10}{settings.steps:7}{settings.width:7}{row}", flush=True)


if __name__ == "__main__":
    main()
