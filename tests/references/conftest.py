"""A simulated scene, its photo and its estimate, which the tests of refinement share."""

from dataclasses import dataclass

import numpy as np
import pytest

from lab.simulated import Curriculum, SceneSimulator
from napari_mst.base.arrays import Codes, Doubles, Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.metrics import mrae
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.reference_spectrum import ReferenceSpectrum

SIZE = 48


@dataclass(frozen=True, eq=False)
class Scene:
    """The true cube (31, H, W), its clean photo (H, W, 3), and the cube that was reconstructed from
    it."""

    truth: Singles
    photo: Codes
    cube: SpectralCube

    def spectrum(self, row: int, column: int, window: int = 3) -> Doubles:
        """The mean true spectrum (31,) of a spot."""
        half = window // 2
        spot = self.truth[:, row - half : row + half + 1, column - half : column + half + 1]
        return np.asarray(spot.mean(axis=(1, 2)), dtype=np.float64)

    def references(self, *spots: tuple[int, int], window: int = 3) -> list[ReferenceSpectrum]:
        """The true spectra of *spots*, as they would be measured."""
        return [ReferenceSpectrum(*spot, self.spectrum(*spot, window), window) for spot in spots]

    def error(self, cube: SpectralCube) -> float:
        """Mean relative error of *cube*."""
        return mrae(cube.data, self.truth)


def simulated(seed: int, size: int = SIZE) -> Scene:
    """The scene that *seed* draws."""
    simulator = SceneSimulator(seed, size, held_out=True, curriculum=Curriculum(degraded=0))
    linear, truth = (drawn[0].numpy() for drawn in simulator.draw(1))
    photo = np.rint(np.moveaxis(linear_to_srgb(linear), 0, -1) * 255).astype(np.uint8)
    cube = Reconstructor(load_model("pixelwise-srgb"), "cpu").reconstruct(photo)
    assert np.array_equal(cube.wavelengths, GRID)
    return Scene(truth, photo, cube)


@pytest.fixture(scope="session")
def scene() -> Scene:
    """A scene with dark and bright parts and some materials."""
    return simulated(12)


@pytest.fixture(scope="session")
def scenes(scene: Scene) -> list[Scene]:
    """Several scenes, for what holds in the mean."""
    return [scene, *(simulated(seed) for seed in (2, 3, 9, 10))]
