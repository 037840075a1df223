"""Ordinary photos: what cameras make of a scene when nobody says which light, exposure or curve.

A camera measures the scene under its light, balances white with some error, applies the matrix
that its maker fitted, sets the exposure by metering, and applies saturation and a tone curve. Half
size, sharpening and JPEG come on top where pixels have neighbours. `draw_processing` draws all
parameters from one generator, so a seed gives the same photos everywhere: if the order of the draws
changes, so does what a seed gives. One photo in five is rendered exactly to sRGB instead, and one
in five has mixed or coloured light.

How far each parameter spreads was set by judgement, so that photos of ColorChecker charts by two
real cameras lie well inside: their greys are off by 0 to 7 % in red and blue (12 % in the shadows),
mid grey is 0.9 and 2.0 times as bright as its reflectance, white 0.7 and 1.05 times, and black 0.35
and 0.8 times. `lab.benchmarks.ordinary --spread` compares both with the simulation.

Letters: N photos, P pixels, B bands, H rows, W columns.
"""

import functools
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lab.lights import HELD_OUT_LIGHTS, LightSimulator
from napari_mst.base.arrays import Codes, Floats, Singles
from napari_mst.calibration.light.seeing import known_lights
from napari_mst.cube.colour import illuminant, measured_reflectances, srgb_response
from napari_mst.photo.cameras import GRID, load_cameras
from napari_mst.photo.lights import FAMILIES, daylight, planckian
from napari_mst.training.inputs import HELD_OUT_CAMERAS, jpeg, training_cameras

Kind = Literal["camera", "rendered", "mixed light", "coloured light"]
"""Kinds of photos: by a camera in one light; exactly rendered sRGB; and by a camera in two lights,
or in a light that its white balance corrects badly."""

KINDS: tuple[Kind, ...] = get_args(Kind)

SHARES = (0.6, 0.2, 0.1, 0.1)
"""How often a photo is of each of `KINDS`."""

LUMINANCE = torch.tensor([0.2126, 0.7152, 0.0722])
"""Shares of linear sRGB in luminance (IEC 61966-2-1)."""

# How often a light is of each of `FAMILIES`: most photos are taken in daylight.
_FAMILY_SHARES = (0.15, 0.45, 0.15, 0.25)
_LIGHTS = 6000  # training lights that are drawn once
_HELD_OUT_TEMPERATURES = (
    (2250, 2750, 2950, 3350, 3900, 4600),
    (4350, 4900, 5350, 5900, 6800, 7900, 9400),
)
FIRST_TRIAL_CAMERAS = (
    "Canon_EOS-1D_X_Mark_II",
    "Canon_EOS_200D",
    "Canon_EOS_5D_Mark_III",
    "Canon_EOS_M",
    "Canon_EOS_R6",
    "Canon_PowerShot_S90",
    "Hasselblad_L1D-20c",
    "Nikon_D5100",
    "Nikon_D70",
    "Nikon_Z_f",
    "Sony_ILCE-7CM2",
    "Sony_ILCE-7RM3",
    "Sony_ILCE-9",
)
"""Cameras by which the first trial was judged: no training photo has them either."""

_EVALUATIVE = 0.3  # share of the photos
_CURVE_SHARES = torch.tensor([0.3, 0.45, 0.25])  # how often a curve has each shape
_MIRED_OF_A, _MIRED_OF_D65 = 1e6 / 2856, 1e6 / 6504


class Curve(NamedTuple):
    """The tone curve of a maker, from linear light to encoded values, for N photos, each (N,).

    All three shapes keep black and white, and add nothing where their numbers are 0:

    - 0: sRGB, then an S-curve of strength *first* and a gamma of logarithm *second*,
    - 1: filmic, a power of logarithm *first* that saturates; *second* is how strongly,
    - 2: sRGB, then a straight line in the logarithm of the odds: slope of logarithm *first*, and
      shift *second*.
    """

    shape: Tensor
    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class Processing:
    """All parameters of N photos.

    Attributes
    ----------
    kind
        (N,) index in `KINDS`.
    camera, light
        (N,) index in `cameras` and in `lights`, for a record; -1 for rendered photos.
    response, other_response
        (N, B, 3): reflectance to balanced sensor values, in the light and in the second light of
        the scene (the same, but for mixed light); white is 1 in the first.
    noise_gains
        (N, 3): factors of the white balance, which multiply noise too; that of green is 1.
    balance
        (N, 3): error of the automatic white balance, as factors.
    matrix
        (N, 3, 3): the maker's, from sensor to linear sRGB (values in rows).
    aim
        (N,): the metered luminance, after exposure.
    is_evaluative
        (N,): whether *aim* is that of the geometric mean of the mean and the 98th percentile, else
        that of the percentile alone, which protects highlights.
    headroom
        (N,): sensor value, after exposure, at which a channel clips.
    saturation
        (N,): factor on the distance from grey.
    flare
        (N,): light that the lens scatters everywhere, as a share of the mean of the photo.
    curve
        The tone curve.
    shot, read
        (N,): variance of the noise over the signal, and without signal.
    sharpening
        (N,): strength of an unsharp mask of radius 1 pixel.
    quality
        (N,): of the JPEG file; 0 for none.
    is_half
        (N,): whether the photo is kept at half size.
    """

    kind: Tensor
    camera: Tensor
    light: Tensor
    response: Tensor
    other_response: Tensor
    noise_gains: Tensor
    balance: Tensor
    matrix: Tensor
    aim: Tensor
    is_evaluative: Tensor
    headroom: Tensor
    saturation: Tensor
    flare: Tensor
    curve: Curve
    shot: Tensor
    read: Tensor
    sharpening: Tensor
    quality: Tensor
    is_half: Tensor

    def __len__(self) -> int:
        """The number N of photos."""
        return len(self.kind)

    def of(self, index: int) -> Self:
        """The processing of the photo *index* alone (N = 1)."""
        one = slice(index, index + 1)
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        cut = {name: value[one] for name, value in parts.items() if name != "curve"}
        return type(self)(**cut, curve=Curve(*(value[one] for value in self.curve)))

    def record(self, index: int, held_out: bool = False) -> dict[str, Any]:
        """The parameters of the photo *index* in words and numbers, for a log."""
        one = self.of(index)
        is_rendered = one.kind.item() == KINDS.index("rendered")
        plain = ["aim", "is_evaluative", "headroom", "saturation", "flare", "shot", "read"]
        plain += ["sharpening", "quality", "is_half"]
        return {
            "kind": KINDS[int(one.kind)],
            "camera": "sRGB" if is_rendered else cameras(held_out)[int(one.camera)],
            "light": "D65" if is_rendered else _lights(held_out).names[int(one.light)],
            "balance": [round(factor, 3) for factor in one.balance[0].tolist()],
            "curve": [round(float(value), 3) for value in one.curve],
            **{name: round(getattr(one, name).item(), 6) for name in plain},
        }


class _Lights(NamedTuple):
    names: list[str]
    power: Tensor
    family: Tensor


def cameras(held_out: bool) -> list[str]:
    """Names of the cameras of training photos, or of those that are *held_out*."""
    if held_out:
        return list(HELD_OUT_CAMERAS)
    return [name for name in training_cameras() if name not in FIRST_TRIAL_CAMERAS]


def draw_processing(
    count: int,
    random: torch.Generator,
    held_out: bool = False,
    kind: Kind | None = None,
) -> Processing:
    """The processing of *count* photos, all of one *kind* or of all in their usual `SHARES`.

    Photos that are *held_out* have cameras and lights that training never sees.
    """
    draws = _Draws(count, random)
    kinds = torch.multinomial(torch.tensor(SHARES), count, replacement=True, generator=random)
    if kind is not None:
        kinds = torch.full((count,), KINDS.index(kind))
    seen = _draw_seeing(draws, kinds, held_out)
    is_evaluative = draws.uniform() < _EVALUATIVE
    drawn = {
        **seen,
        "balance": _draw_balance(draws, kinds == KINDS.index("coloured light")),
        "aim": (torch.where(is_evaluative, 0.4, 0.8) * (0.42 * draws.normal()).exp()).clamp(
            0.05, 1.6
        ),
        "is_evaluative": is_evaluative,
        "headroom": draws.uniform(0.0, 1.2).exp(),
        "saturation": (0.94 + 0.12 * draws.normal()).clamp(0.7, 1.4),
        "flare": 0.03 * draws.uniform() ** 2,
        "shot": 2e-5 * 250 ** draws.uniform(),
        "read": 1e-7 * 100 ** draws.uniform(),
        "sharpening": draws.uniform(0, 0.9) * (draws.uniform() < 0.8),
        "quality": draws.uniform(75, 95.999).floor(),
        "is_half": draws.uniform() < 0.5,
    }
    curve = _draw_curves(draws)
    is_rendered = kinds == KINDS.index("rendered")
    settled = {name: _settled(name, value, is_rendered) for name, value in drawn.items()}
    curve = Curve(curve.shape, *(torch.where(is_rendered, 0.0, each) for each in curve[1:]))
    return Processing(kind=kinds, curve=curve, **settled)


def photograph(
    pixels: Tensor,
    processing: Processing,
    share: Tensor | None = None,
    random: torch.Generator | None = None,
) -> Tensor:
    """Photos of sets of pixels: encoded values (N, P, 3), 0 to 1 in steps of 8 bits.

    Steps that need neighbours are left out.

    Parameters
    ----------
    pixels
        (N, P, B) apparent reflectance.
    share
        (N, P) share of the second light, for mixed light; by default it grows from pixel to pixel.
    random
        Draws the noise of the sensor; without it there is none.
    """
    if share is None:
        share = torch.linspace(0, 1, pixels.shape[1]).expand(len(pixels), -1)
    sensor = _sensor(pixels, processing, share)
    if random is not None:
        sensor = _noisy(sensor, processing, random)
    return torch.round(_developed(sensor, processing) * 255) / 255


def photograph_scene(
    cube: Floats, processing: Processing, random: torch.Generator
) -> tuple[Codes, Singles]:
    """One photo (3, H, W) of 8 bits of a scene, with all steps, and the scene that it shows.

    Parameters
    ----------
    cube
        (31, H, W) apparent reflectance at `GRID`.
    processing
        That of one photo (N = 1).

    Returns
    -------
    The code values, and the reflectance (31, H, W): *cube*, or its means where the photo is kept
    at half size.
    """
    bands, rows, columns = cube.shape
    pixels = torch.from_numpy(np.ascontiguousarray(cube, np.float32)).reshape(1, bands, -1).mT
    angle = 2 * torch.pi * torch.rand(1, generator=random)
    v, u = torch.meshgrid(
        torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij"
    )
    across = (u * angle.cos() + v * angle.sin()).reshape(1, -1)
    sensor = _noisy(_sensor(pixels, processing, torch.sigmoid(4 * across)), processing, random)
    image = _developed(sensor, processing)[0].T.reshape(3, rows, columns)
    truth = pixels[0].T.reshape(bands, rows, columns)
    if processing.is_half.item():
        image, truth = (F.avg_pool2d(each[None], 2)[0] for each in (image, truth))
    blurred = F.avg_pool2d(F.pad(image[None], (1, 1, 1, 1), mode="replicate"), 3, stride=1)[0]
    sharp = (image + processing.sharpening * (image - blurred)).clamp(0, 1)
    codes = torch.round(sharp * 255).to(torch.uint8).numpy()
    quality = int(processing.quality)
    return (jpeg(codes, quality=quality) if quality else codes), truth.numpy()


def apply_curve(linear: Tensor, curve: Curve) -> Tensor:
    """Encoded values (N, P, 3), 0 to 1, of *linear* light (N, P, 3) of at least 0."""
    shape, first, second = (value[:, None, None] for value in curve)
    clipped = linear.clamp(1e-6, 1)
    encoded = _encoded(clipped)
    bent = encoded + 0.6 * first * (encoded**2 * (3 - 2 * encoded) - encoded)
    s_curve = bent.clamp(1e-4, 1) ** second.exp()
    power = linear.clamp_min(1e-6) ** first.exp()
    filmic = _encoded((power * (1 + second) / (1 + second * power)).clamp(0, 1))
    odds = first.exp() * torch.logit(encoded.clamp(1e-4, 1 - 1e-4)) + second
    sigmoid = torch.where(clipped == 1, 1.0, torch.sigmoid(odds))
    plain = torch.where((first == 0) & (second == 0), encoded, sigmoid)
    return torch.where(shape == 0, s_curve, torch.where(shape == 1, filmic, plain))


class _Draws(NamedTuple):
    """Random numbers for each of N photos."""

    photos: int
    random: torch.Generator

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(self.photos, *shape, generator=self.random)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Tensor:
        return low + (high - low) * torch.rand(self.photos, generator=self.random)

    def below(self, limit: int) -> Tensor:
        return torch.randint(limit, (self.photos,), generator=self.random)


def _settled(name: str, value: Tensor, is_rendered: Tensor) -> Tensor:
    """A parameter (N, ...) with what changes nothing in the photos that are rendered exactly."""
    usual: dict[str, Tensor | float] = {
        "camera": -1,
        "light": -1,
        "response": _srgb(),
        "other_response": _srgb(),
        "noise_gains": 1.0,
        "balance": 1.0,
        "matrix": torch.eye(3),
        "headroom": torch.inf,
        "saturation": 1.0,
    }
    plain = torch.as_tensor(usual.get(name, 0.0), dtype=value.dtype)
    return torch.where(is_rendered.view(-1, *[1] * (value.ndim - 1)), plain, value)


def _draw_seeing(draws: _Draws, kinds: Tensor, held_out: bool) -> dict[str, Tensor]:
    """Cameras and lights, what the cameras see in them, and the makers' matrices."""
    camera = draws.below(len(cameras(held_out)))
    light = _draw_lights(draws, held_out)
    other = torch.where(kinds == KINDS.index("mixed light"), _draw_lights(draws, held_out), light)
    is_coloured = (kinds == KINDS.index("coloured light"))[:, None]
    # Leaves, walls and coloured lamps: a smooth tint that white balance corrects with an error.
    tint = _tints(draws.normal(3) * torch.tensor([0.45, 0.35, 0.25]) * is_coloured)
    power = _lights(held_out).power
    sensitivity = _sensitivities(held_out)[camera]
    response, gains = _balanced(sensitivity, power[light] * tint)
    return {
        "camera": camera,
        "light": light,
        "response": response,
        "other_response": _in_other_light(sensitivity, power[light] * tint, power[other] * tint),
        "noise_gains": gains,
        "matrix": _makers_matrix(sensitivity, power[light], response, draws.uniform() < 0.5),
    }


def _draw_balance(draws: _Draws, is_coloured: Tensor) -> Tensor:
    """Errors (N, 3) of the automatic white balance, as factors.

    Most cameras find a neutral white within some per cent; one in four is clearly off.
    """
    off = torch.where(draws.uniform() < 0.25, 0.09, 0.025)[:, None]
    axis = torch.tensor([1.0, 0.0, -1.0])
    error = off * draws.normal(1) * axis + 0.015 * draws.normal(3)
    strong = 0.15 * draws.normal(1) * axis + 0.05 * draws.normal(3)
    return (error + is_coloured[:, None] * strong).exp()


def _draw_curves(draws: _Draws) -> Curve:
    """Tone curves of all shapes."""
    shape = torch.multinomial(_CURVE_SHARES, draws.photos, replacement=True, generator=draws.random)
    first, second = draws.normal(), draws.normal()
    firsts = ((0.6 + 0.35 * first).clamp(-0.3, 1.4), 0.35 + 0.14 * first, 0.25 + 0.12 * first)
    seconds = (0.1 * second, (0.3 + 0.6 * second).exp(), 0.3 * second)
    own = (torch.stack(each).gather(0, shape[None])[0] for each in (firsts, seconds))
    return Curve(shape, *own)


def _sensor(pixels: Tensor, processing: Processing, share: Tensor) -> Tensor:
    """Exposed sensor values (N, P, 3), balanced with error; they clip where the sensor does."""
    values = torch.bmm(pixels, processing.response)
    if not torch.equal(processing.response, processing.other_response):
        values = torch.lerp(values, torch.bmm(pixels, processing.other_response), share[..., None])
    is_camera = processing.kind != KINDS.index("rendered")
    luminance = values @ LUMINANCE
    top = _percentile(luminance, 0.98)
    both = (luminance.mean(1).clamp_min(0) * top).sqrt()
    metered = torch.where(processing.is_evaluative, both, top)
    exposure = torch.where(is_camera, processing.aim / metered.clamp_min(0.005), 1.0)
    scattered = processing.flare[:, None, None] * values.mean(1, keepdim=True)
    exposed = (values + scattered) * exposure[:, None, None]
    # Balancing comes after the sensor, so a strong gain clips late; one headroom stands for all.
    clipped = torch.minimum(exposed, processing.headroom[:, None, None])
    return clipped * processing.balance[:, None]


def _noisy(sensor: Tensor, processing: Processing, random: torch.Generator) -> Tensor:
    """Balanced *sensor* values (N, P, 3) with noise, which the gains of the balance multiply."""
    shot, read = processing.shot[:, None, None], processing.read[:, None, None]
    gains = processing.noise_gains[:, None].clamp_min(0.2)
    deviation = (shot * gains * sensor.clamp_min(0) + read * gains**2).sqrt()
    return sensor + deviation * torch.randn(sensor.shape, generator=random)


def _developed(sensor: Tensor, processing: Processing) -> Tensor:
    """Encoded values (N, P, 3), 0 to 1, of balanced *sensor* values."""
    linear = torch.bmm(sensor, processing.matrix).clamp_min(0)
    grey = (linear @ LUMINANCE)[..., None]
    linear = (grey + processing.saturation[:, None, None] * (linear - grey)).clamp_min(0)
    return apply_curve(linear, processing.curve)


def _percentile(values: Tensor, share: float) -> Tensor:
    """(N,) of *values* (N, P); `torch.quantile` takes no more than 16 million values."""
    return values.kthvalue(max(1, round(share * values.shape[1])), dim=1).values


def _encoded(linear: Tensor) -> Tensor:
    """The sRGB curve (IEC 61966-2-1)."""
    power = 1.055 * linear.clamp_min(1e-8) ** (1 / 2.4) - 0.055
    return torch.where(linear <= 0.0031308, 12.92 * linear, power)


def _balanced(sensitivity: Tensor, power: Tensor) -> tuple[Tensor, Tensor]:
    """Responses (N, B, 3) whose white is 1, and the gains (N, 3) that made it so, green's 1."""
    weighted = sensitivity * power[..., None]
    white = weighted.sum(1, keepdim=True)
    return weighted / white, (white[..., 1:2] / white)[:, 0]


def _in_other_light(sensitivity: Tensor, power: Tensor, other: Tensor) -> Tensor:
    """The response (N, B, 3) in *other* light, balanced for *power*; as bright in green."""
    white = (sensitivity * power[..., None]).sum(1, keepdim=True)
    weighted = sensitivity * other[..., None]
    return weighted / weighted.sum(1, keepdim=True)[..., 1:2] * white[..., 1:2] / white


def _makers_matrix(
    sensitivity: Tensor, power: Tensor, response: Tensor, is_interpolated: Tensor
) -> Tensor:
    """Matrices (N, 3, 3) from balanced sensor values to linear sRGB that keep white white.

    Each was fitted to measured reflectances: in the light itself, or between those for
    illuminants A and D65 by the temperature that the light seems to have, as DNG files have it.
    """
    ends = [
        _fitted(_balanced(sensitivity, torch.from_numpy(illuminant(name, GRID)).float()[None])[0])
        for name in ("A", "D65")
    ]
    ratio = torch.log(power[:, 22:].mean(1) / power[:, :9].mean(1))
    warm, cool = (
        float(np.log(light[22:].mean() / light[:9].mean()))
        for light in (illuminant("A", GRID), illuminant("D65", GRID))
    )
    warmth = ((ratio - cool) / (warm - cool)).clamp(0, 1)[:, None, None]
    between = torch.lerp(ends[1], ends[0], warmth)
    return torch.where(is_interpolated[:, None, None], between, _fitted(response))


def _fitted(response: Tensor) -> Tensor:
    """The matrices (N, 3, 3) that fit best for measured reflectances, as `Processing` has them."""
    spectra = _spectra_to_fit()
    seen = spectra @ response
    wanted = spectra @ _srgb()
    matrix = torch.linalg.solve(seen.mT @ seen, seen.mT @ wanted)
    return matrix / matrix.sum(1, keepdim=True)


def _tints(strengths: Tensor) -> Tensor:
    """Smooth factors (N, B) on a light, of the *strengths* (N, 3) of slope, bow and wave."""
    axis = torch.from_numpy((GRID - 550) / 150).float()
    shapes = torch.stack([axis, 1.5 * axis**2 - 0.5, torch.sin(torch.pi * axis)])
    return (strengths @ shapes).exp()


def _draw_lights(draws: _Draws, held_out: bool) -> Tensor:
    """Indices (N,) of lights, by the usual shares of their families."""
    shares = torch.tensor(_FAMILY_SHARES)
    family = torch.multinomial(shares, draws.photos, replacement=True, generator=draws.random)
    place = draws.uniform()
    of_family = [torch.where(_lights(held_out).family == f)[0] for f in range(len(FAMILIES))]
    picked = [own[(place * len(own)).long()] for own in of_family]
    return torch.stack(picked).gather(0, family[None])[0]


@functools.cache
def _lights(held_out: bool) -> _Lights:
    """Lights of training photos: drawn ones; and those held out: named ones that are not drawn.

    Daylight and glowing bodies are families of one number, so their held-out lights are other
    temperatures.
    """
    if not held_out:
        power, family = LightSimulator(torch.Generator().manual_seed(47)).draw(_LIGHTS)
        names = [f"{FAMILIES[f]} {index}" for index, f in enumerate(family.tolist())]
        return _Lights(names, power, family)
    named = {name: known_lights()[name] for name in HELD_OUT_LIGHTS}
    glowing, skies = _HELD_OUT_TEMPERATURES
    named |= {f"Planck {kelvin} K": ("Planck", planckian(kelvin)) for kelvin in glowing}
    named |= {f"daylight {kelvin} K": ("daylight", daylight(kelvin)) for kelvin in skies}
    family = torch.tensor([FAMILIES.index(kind) for kind, _ in named.values()])
    power = torch.from_numpy(np.stack([each for _, each in named.values()])).float()
    return _Lights(list(named), power, family)


@functools.cache
def _sensitivities(held_out: bool) -> Tensor:
    """(C, B, 3) of all `cameras`."""
    references = load_cameras()
    return torch.from_numpy(np.stack([references[name] for name in cameras(held_out)])).float()


@functools.cache
def _spectra_to_fit() -> Tensor:
    return torch.from_numpy(measured_reflectances()[::7]).float().clamp(0, 1)


@functools.cache
def _srgb() -> Tensor:
    """(B, 3): reflectance to linear sRGB in daylight (D65)."""
    return torch.from_numpy(srgb_response(GRID)).float()
