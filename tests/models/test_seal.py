"""Seals: a weights file of ours that has changed loads nothing, and any other opens as before."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from napari_mst.base.errors import CheckpointError
from napari_mst.models import ModelCard, load_model
from napari_mst.models.cards import WEIGHTS
from napari_mst.models.seal import BUNDLED, check_bundled, check_seal, write_weights
from napari_mst.networks.pixelwise import PixelwiseNetwork

torch.manual_seed(0)
STATE = PixelwiseNetwork(out_bands=4, width=6).state_dict()
CARD = ModelCard(
    "tiny",
    "Tiny",
    (400.0, 450.0, 500.0, 550.0),
    True,
    "none",
    "reflectance",
    domain='of "seal": "' + "0" * 64 + '"',
)
SEAL = rb"\"seal\": \""
"""The bytes before a seal: of JSON within JSON."""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    write_weights(tmp_path / "tiny.safetensors", STATE, CARD)
    return tmp_path / "tiny.safetensors"


def test_sealed_file_opens_and_is_a_safetensors_file_for_everybody(ours: Path) -> None:
    model = load_model(ours)
    assert model.card == CARD
    assert model.assumptions == ()
    with safe_open(ours, "pt") as judge:
        assert set(judge.keys()) == set(STATE)
        for key, value in STATE.items():
            torch.testing.assert_close(judge.get_tensor(key), value, rtol=0, atol=0)


def test_no_flipped_bit_loads_other_weights_or_another_card(ours: Path) -> None:
    content = ours.read_bytes()
    expected = load_model(ours)
    generator = torch.Generator().manual_seed(0)
    opened = 0
    for position in torch.randint(8 * len(content), (600,), generator=generator).tolist():
        changed = bytearray(content)
        changed[position // 8] ^= 1 << (position % 8)
        ours.write_bytes(changed)
        try:
            found = load_model(ours)
        except CheckpointError:
            continue
        opened += 1
        assert found.card == expected.card
        for key, value in expected.network.state_dict().items():
            assert torch.equal(found.network.state_dict()[key], value), (position, key)
    assert (
        opened < 10
    )  # flipped in the word before the seal, the file is as one that was never sealed


def test_every_flipped_bit_of_the_numbers_is_seen(ours: Path) -> None:
    content = ours.read_bytes()
    ours.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        CheckpointError, match="Expected the weights that were sealed, got changed ones"
    ):
        load_model(ours)


def test_a_seal_is_the_sha256_of_the_whole_file_with_zeros_in_its_place(ours: Path) -> None:
    content = ours.read_bytes()
    place = content.index(SEAL) + len(SEAL)
    unsealed = content[:place] + b"0" * 64 + content[place + 64 :]
    assert content[place : place + 64].decode() == hashlib.sha256(unsealed).hexdigest()


def test_numbers_that_look_like_a_seal_are_none() -> None:
    numbers = torch.frombuffer(bytearray(SEAL + b"0" * 1000), dtype=torch.uint8)
    check_seal(save({"numbers": numbers}))


def test_same_weights_and_card_are_the_same_file(ours: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.safetensors"
    write_weights(again, STATE, CARD)
    assert again.read_bytes() == ours.read_bytes()


def test_bundled_files_are_those_of_the_list() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in WEIGHTS.glob("*.safetensors")
    }
    assert found == BUNDLED
    for name, sha256 in found.items():
        check_bundled(name, sha256)


@pytest.mark.parametrize("name", BUNDLED)
def test_changed_bundled_file_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_mst.models.loading.WEIGHTS", tmp_path)
    content = (WEIGHTS / name).read_bytes()
    (tmp_path / name).write_bytes(content)
    assert load_model(Path(name).stem).card.file == name
    (tmp_path / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        CheckpointError, match="Expected the weights that came with napari-mst, got changed ones"
    ):
        load_model(Path(name).stem)
