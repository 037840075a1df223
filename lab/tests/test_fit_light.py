"""The fit of the network that tells the light: its batches are right, and it learns from them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from lab.command_options import CommandOptions
from lab.fit_light import (
    LightBatches,
    LightSettings,
    Scenes,
    angles,
    fit_light,
    fit_light_to_file,
    judge,
    light_loss,
    mean_white,
    responses_of,
    start_network,
    with_mixtures,
)
from lab.lights import HELD_OUT_LIGHTS, LightSimulator
from lab.simulated import SceneSimulator
from napari_mst.calibration.light.seeing import (
    CHANNELS,
    common_matrices,
    common_response,
    known_lights,
    posterior_of,
    to_common,
)
from napari_mst.models.cards import card_of_file
from napari_mst.photo.cameras import camera_response
from napari_mst.photo.lights import FAMILIES

CAMERAS = ["Canon_EOS_5D", "Nikon_D700"]
TINY = LightSettings(steps=3, batch=4, scenes=8, kept=8, warm_up=2, judged=4)


def batches(seed: int = 0, kept: int = 16) -> LightBatches:
    random = torch.Generator().manual_seed(seed)
    return LightBatches(random, Scenes(3, 6), responses_of(CAMERAS), kept)


def test_lights_are_of_all_families_and_none_is_held_out() -> None:
    power, family = LightSimulator(torch.Generator().manual_seed(0)).draw(400)
    assert set(family.tolist()) == set(range(len(FAMILIES)))
    torch.testing.assert_close(power.mean(1), torch.ones(400))
    assert (power >= 0).all()
    for name in HELD_OUT_LIGHTS:
        held_out = torch.from_numpy(known_lights()[name][1]).float()
        # A light is tinted a little when it is drawn, so a held-out one would come close.
        assert (power - held_out).abs().mean(1).min() > 0.02, name


def test_a_batch_repeats_for_a_seed_and_has_the_shapes_it_says() -> None:
    first, again = batches().draw(5), batches().draw(5)
    for one, other in zip(first, again, strict=True):
        torch.testing.assert_close(one, other)
    assert first.patches.shape == (5, 16, CHANNELS, 4, 4)
    assert first.places.shape == (5, 16)
    torch.testing.assert_close(first.shares.sum(1), torch.ones(5))
    assert all(len(set(own.tolist())) == 16 for own in first.places)


def test_the_brightest_part_of_a_cell_is_hardly_ever_darker_than_its_mean() -> None:
    scenes = Scenes(3, 6)
    amounts = scenes.amounts.float()
    assert amounts.shape == (6, 2, 64, 16, SceneSimulator.materials + 1)
    brightness = scenes.draw_materials(6).mean(2)
    means, brightest = torch.einsum("scprm,sm->cspr", amounts, brightness).unbind()
    # The choice was made for other materials, which are in the same order of brightness.
    assert (brightest >= means - 1e-3).float().mean() > 0.95
    assert (brightest > 1.05 * means).float().mean() > 0.2


def test_a_composition_is_seen_in_other_materials_every_time() -> None:
    scenes = Scenes(3, 2)
    first, second = scenes.draw_materials(2), scenes.draw_materials(2)
    assert (first[:, :-1] - second[:, :-1]).abs().mean() > 0.05
    for materials in (first, second):
        assert materials[:, :-1].mean(2).diff(dim=1).min() >= 0
        torch.testing.assert_close(materials[:, -1], torch.ones(2, 31))


def test_mixed_cameras_lie_between_measured_ones() -> None:
    measured = responses_of(CAMERAS)
    random = torch.Generator().manual_seed(0)
    cameras = with_mixtures(measured, 20, random)
    torch.testing.assert_close(cameras[:2], measured)
    torch.testing.assert_close(cameras.sum(1), torch.ones(22, 3))
    assert (cameras >= measured.amin(0) - 1e-6).all()
    assert (cameras <= measured.amax(0) + 1e-6).all()
    matrices = common_matrices(responses_of(CAMERAS).double().numpy())
    np.testing.assert_allclose(matrices[0], to_common(CAMERAS[0]), atol=1e-5)


def test_the_learning_rate_rises_is_held_and_falls() -> None:
    settings = LightSettings(steps=1000, warm_up=100, hold=0.6)
    rates = [settings.learning_rate_at(step) for step in range(1000)]
    assert rates[:100] == sorted(rates[:100])
    assert set(rates[100:600]) == {settings.learning_rate}
    assert rates[600:] == sorted(rates[600:], reverse=True)
    assert rates[-1] == pytest.approx(0.01 * settings.learning_rate, rel=0.01)


def test_cameras_are_alike_in_the_common_space() -> None:
    spectra = torch.stack([torch.linspace(0.1, 0.9, 31), torch.linspace(0.8, 0.2, 31)]).double()
    wanted = (spectra @ torch.from_numpy(common_response()).double()).float()
    for camera in CAMERAS:
        seen = spectra @ torch.from_numpy(camera_response(camera, "E"))
        common = (seen @ torch.from_numpy(to_common(camera))).float()
        assert angles(common, wanted).max() < 2


def test_the_first_guess_is_between_the_usual_white_and_the_mean_colour() -> None:
    batch = batches().draw(6)
    told = posterior_of(torch.zeros(6, 24), batch.mean_colour)
    torch.testing.assert_close(told.log_shares.exp().sum(1), torch.ones(6))
    start = start_network(16).eval()
    told = posterior_of(
        start.encoded_patches(batch.patches, batch.places).outputs, batch.mean_colour
    )
    assert angles(mean_white(told), batch.white).mean() < 40


def test_the_density_of_a_family_integrates_to_one() -> None:
    torch.manual_seed(0)
    told = posterior_of(torch.randn(1, 24) * 0.3, torch.zeros(1, 2))
    axis = torch.linspace(-3, 3, 601)
    grid = torch.cartesian_prod(axis, axis)
    total = told.log_densities(grid).exp().sum(1) * 0.01**2
    torch.testing.assert_close(total, torch.ones(1, 4), atol=0.01, rtol=0)


def test_loss_falls_on_photos_that_are_seen_again_and_again() -> None:
    batch = batches(kept=64).draw(6)
    torch.manual_seed(0)
    network = start_network(16)
    optimizer = torch.optim.Adam(network.parameters(), 5e-3)
    before = judge(network, batch)
    for _ in range(40):
        outputs = network.encoded_patches(batch.patches, batch.places).outputs
        loss = light_loss(posterior_of(outputs, batch.mean_colour), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert judge(network, batch) < 0.5 * before


@pytest.mark.slow
def test_a_fit_repeats_for_a_seed() -> None:
    first, again = (fit_light(TINY, report_every=10) for _ in range(2))
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_file_has_a_card_that_says_how_it_was_made(tmp_path: Path) -> None:
    output = tmp_path / "mine.safetensors"
    fit_light_to_file(TINY, CommandOptions(output, report_every=10))
    card = card_of_file(output)
    assert card is not None
    assert (card.name, card.tells_light) == ("mine", True)
    assert "made by `python -m lab retrain light-vit --steps 3 --seed 2026`" in card.reference
