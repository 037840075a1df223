"""The network that is told the camera starts as the linear estimate and depends on the response."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from napari_mst import load_model
from napari_mst.base.errors import CheckpointError
from napari_mst.networks.camera import CameraNetwork, build_camera
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus
from napari_mst.photo.cameras import camera_response

torch.manual_seed(0)
FACTORS = torch.linalg.qr(torch.rand(31, 5))[0]
NIKON, CANON = (
    torch.from_numpy(camera_response(name, "D65")) for name in ("Nikon_D5100", "Canon_EOS_5D")
)


def pixelwise(response: torch.Tensor = NIKON) -> CameraNetwork:
    torch.manual_seed(1)
    network = CameraNetwork(FACTORS, width=8).eval().requires_grad_(False)
    network.set_usual(torch.stack([NIKON, CANON]))
    network.set_response(response)
    return network


def test_without_its_last_layer_it_is_the_linear_estimate_where_that_is_sane() -> None:
    network = pixelwise()
    last = network.hidden[-1]
    assert isinstance(last, torch.nn.Linear)
    last.weight.zero_()
    last.bias.zero_()
    spectra = FACTORS @ torch.tensor([-2.0, 0.1, 0.0, 0.1, 0.0])
    spectra = (spectra / spectra.mean() * 0.3).clamp(0.1, 0.8)
    photo = (spectra.double() @ NIKON).float()[None, :, None, None].expand(1, 3, 4, 5)
    linear = network.linear_estimate()[0] @ photo[0, :, 0, 0]
    sane = (linear > 0.05) & (linear < 1)
    assert sane.sum() > 20
    torch.testing.assert_close(network(photo)[0, sane, 0, 0], linear[sane], rtol=1e-4, atol=1e-5)


def test_linear_estimate_shows_the_colour_that_it_was_made_from() -> None:
    colour = torch.tensor([0.3, 0.5, 0.2])
    seen = NIKON.float().T @ pixelwise().linear_estimate()[0] @ colour
    torch.testing.assert_close(seen, colour, atol=0.02, rtol=0.05)


def test_photos_of_several_cameras_go_through_at_once() -> None:
    photo = torch.rand(2, 3, 4, 5)
    both = pixelwise(torch.stack([NIKON, CANON]))(photo)
    for place, response in enumerate((NIKON, CANON)):
        torch.testing.assert_close(both[place], pixelwise(response)(photo[place : place + 1])[0])


def test_without_a_camera_nothing_comes_out() -> None:
    network = CameraNetwork(FACTORS, width=8)
    assert network(torch.rand(1, 3, 2, 2)).isnan().all()


def refining() -> RefiningMSTPlusPlus:
    network = RefiningMSTPlusPlus(pixelwise()).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.03)
    return network


def test_saved_network_comes_back_and_waits_for_its_camera(tmp_path: Path) -> None:
    network = refining()
    (tmp_path / "x.safetensors").write_bytes(save(network.state_dict()))
    loaded = load_model(tmp_path / "x.safetensors").network
    assert isinstance(loaded, RefiningMSTPlusPlus)
    assert isinstance(loaded.pixelwise, CameraNetwork)
    photo = torch.rand(1, 3, 8, 8)
    assert loaded(photo).isnan().all()
    loaded.pixelwise.set_response(NIKON)
    assert torch.equal(loaded(photo), network(photo))


@pytest.mark.parametrize("missing", ["factors", "usual", "of_colour.weight", "hidden.5.bias"])
def test_damaged_network_is_refused(missing: str) -> None:
    state = {key: value for key, value in pixelwise().state_dict().items() if key != missing}
    with pytest.raises(CheckpointError, match="camera network, got"):
        build_camera(state)
