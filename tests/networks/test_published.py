"""The networks of the authors' tool box load by their keys, and give what the authors' code gives.

Outputs of the authors' code (https://github.com/caiyuanhao1998/MST-plus-plus, MIT) are in
../shared/data/networks, with weights that a formula makes of the names and shapes of the keys.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.conftest import source_of, weight_of
from tests.networks.test_programs import CPU, built, photo_of

from napari_mst import load_model
from napari_mst.base.errors import CheckpointError
from napari_mst.engine.run import execute
from napari_mst.networks import NETWORKS

OTHER_NAMES = {"hscnn_plus": "hscnn+", "mst_plus_plus": "mst++"}
PUBLISHED = ["awan", "edsr", "hdnet", "hinet", "hrnet", "hscnn_plus", "mst", "mst_plus_plus"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_network_gives_what_the_authors_code_gives(
    name: str, shared_data: Path, tmp_path: Path
) -> None:
    with np.load(shared_data / "networks" / f"{name}.npz") as stored:
        keys = json.loads(stored["keys"].tobytes())
        photo, expected = stored["input"], stored["output"]
    weights = {
        key: torch.from_numpy(weight_of(key, tuple(shape))) if shape else torch.tensor(7)  # a count
        for key, shape in keys.items()
    }
    torch.save({"state_dict": weights, "epoch": 1}, tmp_path / "net.pth")
    model = load_model(tmp_path / "net.pth")
    assert NETWORKS[OTHER_NAMES.get(name, name)].taken_as in model.assumptions[0]
    assert (model.card.is_linear, model.card.normalisation) == (False, "min-max")
    whole = model.network(torch.from_numpy(photo)[None])[0].numpy()
    # AWAN's last softmax multiplies rounding; with vectors of AVX2 it is 5e-6 off.
    bound = 6e-6 if name == "awan" else 3e-6
    np.testing.assert_allclose(whole, expected, rtol=0, atol=bound * np.abs(expected).max())
    # Tiles are rounded in another order, and softmaxes of these weights multiply that: in HDNet,
    # whose logits are up to 8,000, by fifteen.
    streamed = execute(model.network.program(), source_of(photo), CPU).numbers
    np.testing.assert_allclose(streamed, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "name",
    [
        "mst 0",
        "mst 1",
        "edsr 0",
        "hscnn+ 0",
        "hdnet 0",
        "hrnet 0",
        "hinet 0",
        "awan 0",
    ],
)
def test_the_keys_of_a_file_say_how_many_blocks_and_channels_there_are(
    name: str, tmp_path: Path
) -> None:
    network = built(name)
    path = tmp_path / "net.safetensors"
    save_file(network.state_dict(), path)
    again = load_model(path).network
    photo = torch.from_numpy(photo_of(16, 24, network.in_bands))[None]
    assert type(again) is type(network)
    torch.testing.assert_close(again(photo), network(photo), rtol=0, atol=0)
    save_file(dict(list(network.state_dict().items())[:-1]), path)
    with pytest.raises(
        CheckpointError, match=f"(?i)of {re.escape(name.split()[0])}.*1 missing|whole"
    ):
        load_model(path)
