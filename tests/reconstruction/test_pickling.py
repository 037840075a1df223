"""Models and reconstructors that are sent to other processes, as to workers, compute the same."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from tests.conftest import on_cpu

from napari_mst import Acquisition, Model, Photo, Reconstructor, load_model
from napari_mst.base.errors import OutOfMemory

PIXELS = np.random.default_rng(0).integers(0, 256, (21, 34, 3), dtype=np.uint8)
CAPTURE = Acquisition("Nikon_D5100", "A", white=180.0)

ELSEWHERE = """
import hashlib, pickle, sys
from napari_mst import Reconstructor
for sent, photo in pickle.load(sys.stdin.buffer):
    reconstructor = sent if isinstance(sent, Reconstructor) else Reconstructor(sent, "cpu")
    print(hashlib.sha256(reconstructor.reconstruct(photo).data.tobytes()).hexdigest())
"""


def sha256_elsewhere(*sent: tuple[Reconstructor | Model, Photo]) -> list[str]:
    """SHA-256 of the cubes that a fresh process computes from a pickle of what is *sent*."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=pickle.dumps(sent),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().split()


def sha256_here(reconstructor: Reconstructor, photo: Photo) -> str:
    return hashlib.sha256(reconstructor.reconstruct(photo).data.tobytes()).hexdigest()


def test_a_model_or_a_reconstructor_with_its_camera_that_was_sent_gives_the_same_cube() -> None:
    model, photo = load_model("mstpp-srgb"), Photo.from_array(PIXELS)
    linear = Photo.from_array(PIXELS, encoding="linear")
    reconstructor = on_cpu("mstpp-camera", precision="float64", acquisition=CAPTURE)
    assert sha256_elsewhere((model, photo), (reconstructor, linear)) == [
        sha256_here(Reconstructor(model, "cpu"), photo),
        sha256_here(reconstructor, linear),
    ]


def test_a_reconstructor_that_has_run_can_be_sent_with_all_its_options() -> None:
    reconstructor = on_cpu("pixelwise-srgb", memory=10_000_000, correct_colour=False)
    with pytest.raises(OutOfMemory):
        reconstructor.plan(10**9, 10**9)
    reconstructor.reconstruct(PIXELS[:4, :4])
    again = pickle.loads(pickle.dumps(reconstructor))
    assert again.options == reconstructor.options
    assert again.device == reconstructor.device
