"""From spectra to maps: the `MAPS` table, and the job that makes one on another thread.

A map is one function and one row of `MAPS`. Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from napari.layers import Image
from napari.utils.colormaps import DirectLabelColormap

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin.jobs.worker import Reports
from napari_mst.plugin.spectra.region_layers import ROLE
from napari_mst.plugin.viewer.layers import METADATA_KEY, LayerPhoto, LayerTuple, Placement
from napari_mst.spectra import colours, compare, maps
from napari_mst.spectra.spectrum import Spectrum

MOST_CLASSES = 250
"""Spectra that pixels are classified by; the time grows with each, and a layer of labels may have thousands."""
AB = (("A", "#4d8fea", 0.75), ("B", "#f58231", 0.4))
"""Name, colour and first place (a share of the range of wavelengths) of the two lines of a ratio."""
RGB = (("R", "#e6194b", 0.8), ("G", "#3cb44b", 0.5), ("B", "#4d8fea", 0.2))


@dataclass(frozen=True)
class Number:
    """A number that a map needs."""

    label: str
    default: float
    low: float
    high: float
    decimals: int = 0


@dataclass(frozen=True, eq=False)
class Order:
    """All that the making of a map needs, frozen when it was asked for."""

    kind: "MapKind"
    cube: SpectralCube
    name: str
    placement: Placement
    number: float = 0.0
    wavelengths: tuple[float, ...] = ()
    spectra: tuple[Spectrum, ...] = ()
    photo: LayerPhoto | None = None
    reference: SpectralCube | None = None


Make = Callable[[Order, Reports], tuple[Any, dict[str, Any]]]


@dataclass(frozen=True)
class MapKind:
    """A title, the type of its layer, how it is made, what it needs, and what it says in a tooltip."""

    title: str
    layer_type: str
    make: Make
    tip: str
    number: Number | None = None
    lines: Sequence[tuple[str, str, float]] = ()
    needs: str = ""
    look: dict[str, Any] = field(default_factory=dict)


def make_map(order: Order, reports: Reports) -> list[LayerTuple]:
    """The job: the layers of a map, on the place of its cube, the topmost last.

    Each is a plane: a stack would lie on the slider of the wavelengths, where it has no place.
    """
    data, more = order.kind.make(order, reports)
    if "titles" in more:
        titles = more.pop("titles")
        planes = [(title, plane, _map(plane)[1]) for title, plane in zip(titles, data, strict=True)]
    else:
        planes = [(order.kind.title, data, more)]
    layers = [_layer(order, number, *plane) for number, plane in enumerate(planes)]
    return layers[::-1]


def _layer(order: Order, number: int, title: str, data: Any, more: dict[str, Any]) -> LayerTuple:
    """The layer of one plane; of several, the first is shown."""
    arguments = {
        "name": f"{title}: {order.name}",
        "metadata": {METADATA_KEY: ROLE},
        "visible": number == 0,
        **order.placement.image_kwargs(),
        **order.kind.look,
        **more,
    }
    return data, arguments, order.kind.layer_type


def _classes(order: Order, reports: Reports) -> tuple[Any, dict[str, Any]]:
    if len(order.spectra) > MOST_CLASSES:
        raise SpectrumError(
            f"Expected at most {MOST_CLASSES} spectra to classify by, got more. Hide some curves."
        )
    found = maps.classify(order.cube, order.spectra, order.number, **reports.watch.arguments)
    return found.labels, _coloured(
        [spectrum.colour for spectrum in order.spectra], [s.name for s in order.spectra]
    )


def _clusters(order: Order, reports: Reports) -> tuple[Any, dict[str, Any]]:
    found = maps.cluster(order.cube, int(order.number), **reports.watch.arguments)
    return found.labels, {"features": _named([centre.name for centre in found.centres])}


def _coloured(tints: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Labels 1, 2, ... in the colours and with the names of their spectra."""
    table: dict[int | None, Any] = {
        number: tint or "#888888" for number, tint in enumerate(tints, 1)
    }
    return {
        "colormap": DirectLabelColormap(
            color_dict={None: "transparent", 0: "transparent", **table}
        ),
        "features": _named(names),
    }


def _named(names: Sequence[str]) -> dict[str, list[Any]]:
    return {"index": list(range(len(names) + 1)), "name": ["", *names]}


def _components(order: Order, reports: Reports) -> tuple[Any, dict[str, Any]]:
    found = maps.principal_components(order.cube, int(order.number), **reports.watch.arguments)
    titles = [f"PC {number} ({share:.1%})" for number, share in enumerate(found.explained, 1)]
    return found.bands, {"titles": titles}


def _anomalies(order: Order, reports: Reports) -> tuple[Any, dict[str, Any]]:
    return _map(maps.anomalies(order.cube, **reports.watch.arguments))


def _ratio(order: Order, _: Reports) -> tuple[Any, dict[str, Any]]:
    return _map(maps.band_ratio(order.cube, *order.wavelengths))


def _difference(order: Order, _: Reports) -> tuple[Any, dict[str, Any]]:
    return maps.normalised_difference(order.cube, *order.wavelengths), {
        "contrast_limits": (-1.0, 1.0)
    }


def _composite(order: Order, _: Reports) -> tuple[Any, dict[str, Any]]:
    red, green, blue = order.wavelengths
    return colours.composite(order.cube, (red, green, blue)), {
        "rgb": True,
        "contrast_limits": (0.0, 1.0),
    }


def _true_colour(order: Order, reports: Reports) -> tuple[Any, dict[str, Any]]:
    image = colours.true_colour(order.cube, **reports.watch.arguments)
    return image, {"rgb": True, "contrast_limits": (0.0, 255.0)}


def _from_photo(order: Order, reports: Reports) -> tuple[Any, dict[str, Any]]:
    if order.photo is None:
        raise SpectrumError(
            "Expected a photo of the size of the cube, got none. Open the photo that it was made from."
        )
    photo = order.photo.read()
    return _map(colours.colour_difference(order.cube, photo, **reports.watch.arguments))


def _error(measure: compare.Measure) -> Make:
    def make(order: Order, reports: Reports) -> tuple[Any, dict[str, Any]]:
        if order.reference is None:
            raise SpectrumError("Expected a reference cube, got none. Choose one under Compare.")
        found = compare.error_map(order.cube, order.reference, measure, **reports.watch.arguments)
        if measure != "difference":
            return _map(found)
        most = max(abs(limit) for limit in _limits(found))
        return found, {"contrast_limits": (-most, most), "colormap": "PiYG"}

    return make


def _map(data: Any) -> tuple[Any, dict[str, Any]]:
    return data, {"contrast_limits": _limits(data)}


def _limits(data: Any) -> tuple[float, float]:
    """From the 1st to the 99th percentile of a sample of *data*."""
    sample = data.reshape(-1)[:: max(1, data.size // 2**20)]
    sample = sample[np.isfinite(sample)]
    low, high = (
        (float(one) for one in np.percentile(sample, (1, 99))) if sample.size else (0.0, 1.0)
    )
    return (low, high) if high > low else (low, low + 1.0)


VIRIDIS = {"colormap": "viridis"}
MAPS = (
    MapKind(
        *("Spectral angle classes", "labels", _classes),
        "Each pixel gets the pinned spectrum with the smallest spectral angle, if that is small enough.",
        Number("up to (deg)", maps.LARGEST_ANGLE, 0.1, 90.0, 1),
        needs="spectra",
        look={"opacity": 0.6},
    ),
    MapKind(
        *("k-means clusters", "labels", _clusters),
        "Pixels with similar values, in a number of clusters.",
        Number("clusters", 6, 2, 200),
        look={"opacity": 0.6},
    ),
    MapKind(
        *("Principal components", "image", _components),
        "The directions in which the pixels differ most, and the share of the variance that each explains. "
        "A layer each; the first is shown.",
        Number("components", 3, 1, 20),
        look={"colormap": "gray"},
    ),
    MapKind(
        *("Anomalies (RX)", "image", _anomalies),
        "How far each pixel is from all others, as RX measures it.",
        look={"colormap": "magma"},
    ),
    MapKind(
        *("Ratio A / B", "image", _ratio),
        "Drag the lines A and B in the plot.",
        lines=AB,
        look=VIRIDIS,
    ),
    MapKind(
        *("Normalised difference", "image", _difference),
        "(A - B) / (A + B): drag the lines A and B in the plot.",
        lines=AB,
        look={"colormap": "PiYG"},
    ),
    MapKind(
        *("Composite", "image", _composite),
        "Three bands as red, green and blue: drag their lines in the plot.",
        lines=RGB,
    ),
    MapKind(
        *("True colour", "image", _true_colour), "What an eye sees in daylight (CIE 1931, D65)."
    ),
    MapKind(
        *("Difference from the photo", "image", _from_photo),
        "How far the true colour is from that of the photo (CIEDE2000; about 1 is just seen).",
        needs="photo",
        look={"colormap": "magma"},
    ),
    MapKind(
        *("Difference from the reference", "image", _error("difference")),
        "Mean over the bands of the cube minus the reference that is chosen under Compare.",
        needs="reference",
    ),
    MapKind(
        *("RMSE to the reference", "image", _error("rmse")),
        "Root mean square over the bands.",
        needs="reference",
        look={"colormap": "magma"},
    ),
    MapKind(
        *("SAM to the reference (deg)", "image", _error("angle")),
        "Spectral angle of each pixel to the reference.",
        needs="reference",
        look={"colormap": "magma"},
    ),
)


def fitting_photo(
    photos: Sequence[Image], shape: tuple[int, int], point: Sequence[float]
) -> LayerPhoto | None:
    """The topmost of *photos* that has *shape* (H, W)."""
    fits = (
        LayerPhoto.of(one, point)
        for one in photos
        if one.rgb and one.metadata.get(METADATA_KEY) != ROLE
    )
    return next((photo for photo in fits if np.shape(photo.pixels)[-3:-1] == shape), None)
