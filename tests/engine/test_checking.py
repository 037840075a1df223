"""What a pass says of itself is checked before the engine believes it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.networks.test_programs import MAKERS, Gated, built
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst import Model, Reconstructor, check_network
from napari_mst.base.errors import ModelError
from napari_mst.engine import checking
from napari_mst.models import ModelCard
from napari_mst.networks.module import Network
from napari_mst.networks.network import PHOTO, Pass, Program


class Windows(Network):
    """Adds to each pixel the mean of its window of 4 x 4."""

    in_bands = out_bands = 3

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 1, 1))

    def means(self, x: Tensor) -> Tensor:
        means = F.avg_pool2d(x, 4, ceil_mode=True).repeat_interleave(4, 2).repeat_interleave(4, 3)
        return x + self.weight * means[..., : x.shape[2], : x.shape[3]]

    def program(self) -> Program:
        return Program((Pass("bands", (PHOTO,), self.means, 3, align=4),), multiple=4)


class Changed(Gated):
    """A network whose first pass says something else than is true."""

    changes: ClassVar[dict[str, Any]] = {}

    def program(self) -> Program:
        program = super().program()
        changed = replace(program.passes[0], **self.changes)
        return replace(program, passes=(changed, *program.passes[1:]))


class OtherForward(Gated):
    def forward(self, photo: Tensor) -> Tensor:
        return 1.1 * super().forward(photo)


class Unaligned(Windows):
    def program(self) -> Program:
        program = super().program()
        changed = replace(program.passes[0], align=2, halo=2)
        return replace(program, passes=(changed, *program.passes[1:]))


def wrong(**changes: Any) -> Callable[[], Network]:
    return type("Wrong", (Changed,), {"changes": changes})


def made(make: Callable[[], Network]) -> Network:
    torch.manual_seed(0)
    return make().eval().requires_grad_(False)


@pytest.mark.parametrize("kind", [*MAKERS, "every pixel"])
def test_our_networks_say_the_truth(kind: str) -> None:
    check_network(built(kind))


def test_windows_that_are_aligned_pass() -> None:
    check_network(made(Windows))


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (wrong(halo=0), r"pass features .* got \d+% .* up to 0\.\d+ .* halo \(0\)"),
        (wrong(halo=1), r"pass features .* halo \(1\)"),
        (wrong(channels=4), r"pass features to write 4 channels of .* got \(8, "),
        (wrong(statistic=lambda x: x.double().mean((2, 3))), "statistic of the pass features"),
        (Unaligned, r"pass bands .* align \(2\)"),
        (OtherForward, r"Expected `forward` to be the program, got 100% .* up to 0\.1 "),
    ],
    ids=["halo of 0", "halo of 1", "channels", "mean", "align", "forward"],
)
def test_a_wrong_word_is_named_with_its_error(make: Callable[[], Network], fault: str) -> None:
    with pytest.raises(ModelError, match=fault) as refusal:
        check_network(made(make))
    assert len(str(refusal.value)) < 300


def test_a_network_that_is_not_ours_is_checked_once_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = ModelCard("theirs", "Theirs", tuple(range(6)), False, "none", "reflectance")
    with pytest.raises(ModelError, match="pass features"):
        Reconstructor(Model(card, made(wrong(halo=0)), "0" * 64), "cpu")
    checked: list[Network] = []
    monkeypatch.setattr(checking, "check_network", checked.append)
    model = Model(card, made(Gated), "1" * 64)
    for _ in range(2):
        Reconstructor(model, "cpu").reconstruct(np.zeros((8, 8, 3), np.uint8))
    assert checked == [model.network]
    Reconstructor(Model.of(nn.Conv2d(3, 6, 1), range(6)), "cpu")
    assert checked == [model.network]
