"""Band formulas and named spectral indices.

In a formula, `r800` is the band at 800 nm, `N` a near-infrared band, and `NDVI` an index of the
catalogue Awesome Spectral Indices (Montero et al., Scientific Data 10 (2023) 197,
doi:10.1038/s41597-023-02096-0). Letters: H rows, W columns.
"""

import ast
import csv
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from napari_mst.analysis.strips import raw_strips
from napari_mst.base.arrays import Array, Doubles, Singles
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.gaps import good_bands


def _table(name: str) -> Iterator[list[str]]:
    """Return the rows of a table in the package, without lines that begin with #."""
    text = resources.files("napari_mst").joinpath(f"data/{name}.csv").read_text(encoding="utf-8")
    return csv.reader(line for line in text.splitlines() if not line.startswith("#"))


BROAD = {name: tuple(map(float, range_)) for name, *range_ in _table("bands")}
"""Bands that the catalogue names by letter: shortest, preferred and longest wavelength in nm.

Ranges come from the catalogue, preferred wavelengths from Sentinel-2A (Planet for G1 and Y).
"""

FUNCTIONS: dict[str, np.ufunc] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "min": np.minimum,
    "max": np.maximum,
}

LONGEST = 500
"""Largest number of characters in a formula: Python's parser rejects deeply nested ones."""

WIDEST = 20
"""Largest gap in nm between two bands that are interpolated at a published wavelength."""

BRIGHTEST = 2.0
"""Largest plausible reflectance. Larger values mean per cent, counts or stored integers."""

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.\d+){0,2}")
_NARROW = re.compile(r"r\d+(\.\d+)?", re.IGNORECASE)


class Index(NamedTuple):
    """A spectral index: its name, its formula and its publication.

    *published* gives the wavelengths in nm of a narrow-band index, such as "RE1.700 R.670".
    """

    name: str
    title: str
    formula: str
    source: str
    published: str

    @property
    def narrow_formula(self) -> str:
        """The formula with the published wavelengths: "RE1.700 / R.670" for "RE1 / R"."""
        places = {name.partition(".")[0]: name for name in self.published.split()}
        return _NAME.sub(lambda found: places.get(found[0], found[0]), self.formula)


def _divided(a: Any, b: Any) -> Any:
    ratio = a / b
    # 1 / inf would be finite again.
    return ratio if np.all(b) else np.where(b == 0, np.nan, ratio)


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


@cache
def catalogue() -> dict[str, Index]:
    """Every named index, by name."""
    return {row[0]: Index(*row) for row in _table("indices") if row[0] != "name"}


def index_named(name: str) -> Index:
    """Return the index called *name*, in any case if that is unambiguous, or `SpectrumError`."""
    indices = catalogue()
    alike = [each for each in indices if each.lower() == name.lower()]
    if name in indices or len(alike) == 1:
        return indices[name if name in indices else alike[0]]
    hint = f"one of {' and '.join(alike)}" if alike else "a map, an index, or a band as r650 or R"
    raise SpectrumError(f"Expected {hint}, got {shown(name, 30)!r}. Correct it.")


def expanded(text: str) -> str:
    """Return *text* with every index name replaced by the formula of the index."""

    def bands_of(found: re.Match[str]) -> str:
        name = found[0]
        if _NARROW.fullmatch(name) or name.partition(".")[0] in BROAD or name in FUNCTIONS:
            return name
        formula = index_named(name).narrow_formula
        return formula if text.strip() == name else f"({formula})"

    if len(text) > LONGEST:
        raise _no_formula(text)
    return _NAME.sub(bands_of, text.replace("^", "**"))


def bands_in(text: str) -> list[str]:
    """Return the band names in the *expanded* formula, in order of appearance."""
    return [name for name in dict.fromkeys(_NAME.findall(text)) if name not in FUNCTIONS]


def band_named(cube: SpectralCube, name: str) -> int:
    """Return the index of the good band of *cube* that *name* stands for, such as "r650" or "R".

    The band lies at most half a band step away, or within the range of a broad band.

    Raises
    ------
    SpectrumError
        If there is no such band.
    """
    is_broad = name in BROAD
    least, centre, most = BROAD[name] if is_broad else (float(name[1:]),) * 3
    every, good = cube.wavelengths, good_bands(cube)
    nearest = int(np.abs(every - centre).argmin())
    # The distance to the nearer neighbour; beside a gap, the other neighbour is far away.
    reach = np.sort(np.abs(every - every[nearest]))[:2].max() / 2 * (1 + 1e-9)
    found = int(good[np.abs(every[good] - centre).argmin()])
    is_near = abs(every[found] - centre) <= reach
    if (is_near or least <= every[found] <= most) and not (is_broad and not cube.has_wavelengths):
        return found
    unit = "nm" if is_broad else cube.unit
    is_bad = found != nearest and abs(every[nearest] - centre) <= reach
    got = (
        f"the band at {every[nearest]:g}, which the file marks as bad"
        if is_bad
        else f"{every.min():g}-{every.max():g} {shown(cube.unit, 20)}"
    )
    raise SpectrumError(
        f"Expected a cube with a band at {centre:g} {unit} for {name}, got {got}. "
        "Choose another band."
    )


def _shares(cube: SpectralCube, name: str) -> dict[int, float]:
    """Return the bands of *cube* that *name* stands for, with their weights, which add up to 1.

    "R.670" is interpolated linearly between its two neighbours if they are close enough; otherwise
    it is the broad band R.
    """
    letter, _, at = name.partition(".")
    if letter not in BROAD or not at:
        return {band_named(cube, name): 1.0}
    good = good_bands(cube)
    distances = cube.wavelengths[good] - float(at)
    below, above = distances <= 0, distances >= 0
    if cube.has_wavelengths and below.any() and above.any():
        low = int(np.where(below, distances, -np.inf).argmax())
        high = int(np.where(above, distances, np.inf).argmin())
        step = distances[high] - distances[low]
        if step == 0:
            return {int(good[low]): 1.0}
        if step <= WIDEST:
            share = -distances[low] / step
            return {int(good[low]): 1 - share, int(good[high]): share}
    return {band_named(cube, letter): 1.0}


def bands_taken(cube: SpectralCube, text: str) -> dict[str, float]:
    """Return the wavelength in *cube* of each band in the formula *text*.

    A broad band that replaces a published wavelength is called "B (published at 510 nm)".

    Raises
    ------
    SpectrumError
        If *text* is not a formula, or the cube lacks one of its bands.
    """
    formula = expanded(text)
    names = bands_in(formula)
    try:
        _value(_tree(formula), dict.fromkeys(names, np.float64(1)))
    except (OverflowError, RecursionError) as error:
        raise _no_formula(formula) from error
    if not names:
        raise _no_formula(formula)
    letters = [name.partition(".")[0] for name in names]
    taken = {}
    for letter, name in zip(letters, names, strict=True):
        shares = _shares(cube, name)
        at = sum(share * float(cube.wavelengths[band]) for band, share in shares.items())
        label = name if letters.count(letter) > 1 or letter not in BROAD else letter
        published = name.partition(".")[2] if letter in BROAD else ""
        if published and abs(at - float(published)) > 1e-6:
            label += f" (published at {published} nm)"
        taken[label] = at
    return taken


def indices_of(cube: SpectralCube) -> dict[str, Index]:
    """Return the indices whose bands *cube* has, by name."""

    @cache
    def has(name: str) -> bool:
        try:
            return band_named(cube, name) >= 0
        except SpectrumError:
            return False

    return {
        name: index for name, index in catalogue().items() if all(map(has, bands_in(index.formula)))
    }


def evaluated(cube: SpectralCube, text: str, progress: Progress) -> Singles:
    """Return the value (H, W) of the formula *text* at each pixel; NaN where it is undefined.

    Raises
    ------
    SpectrumError
        If *text* is not a formula, or the cube lacks one of its bands.
    Cancelled
        Soon after *progress* was cancelled.
    """
    bands_taken(cube, text)
    formula = expanded(text)
    tree = _tree(formula)
    shares = {name: _shares(cube, name) for name in bands_in(formula)}
    bands = sorted({band for mix in shares.values() for band in mix})
    may_warn = formula != text and _depends_on_scale(tree, list(shares))
    result, peak = np.empty(cube.shape[1:], np.float32), 0.0
    for rows, strip in raw_strips(cube, progress, bands):
        if may_warn:
            peak = max(peak, float(np.fmax.reduce(strip, axis=None)))
        read = dict(zip(bands, strip, strict=True))
        found = _of_bands(tree, {name: _mixed(read, mix) for name, mix in shares.items()})
        is_number = np.isfinite(found)
        result[rows] = found if is_number.all() else np.where(is_number, found, np.nan)
    if peak > BRIGHTEST:
        warnings.warn(
            f"{text} has constants for reflectance from 0 to 1, but the numbers reach {peak:.4g}: "
            "they look unscaled. Scale them, as by read_cube(..., scale=0.0001).",
            stacklevel=2,
        )
    return result


def _of_bands(tree: ast.expr, values: Mapping[str, Doubles]) -> Singles:
    """Return the value of a formula for float64 *values*; too large ones become infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(_value(tree, values), np.float32)


def _mixed(read: Mapping[int, Array], mix: Mapping[int, float]) -> Doubles:
    """Return the sum of the bands in *mix*, each times its weight, in float64."""
    (first, share), *others = mix.items()
    if not others:
        return read[first].astype(np.float64)
    return share * read[first].astype(np.float64) + sum(
        share * read[band].astype(np.float64) for band, share in others
    )


def _depends_on_scale(tree: ast.expr, names: Sequence[str]) -> bool:
    """True if the result of the formula changes when all values are multiplied by ten."""
    values = dict(zip(names, np.linspace(0.1, 0.5, len(names)), strict=True))
    ten = {name: 10 * value for name, value in values.items()}
    return not np.isclose(_value(tree, values), _value(tree, ten))


def moved(text: str, number: int, wavelength: float) -> str:
    """Return the formula *text* with band *number* moved to *wavelength*, unless that is taken."""
    formula = expanded(text)
    names = bands_in(formula)
    name = f"r{wavelength:.0f}"
    if name in names:
        return text
    return _NAME.sub(lambda found: name if found[0] == names[number] else found[0], formula)


def _tree(formula: str) -> ast.expr:
    """Return the syntax tree of an *expanded* formula; points in names become underscores."""
    try:
        plain = _NAME.sub(lambda found: found[0].replace(".", "_"), formula)
        return ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _no_formula(formula) from error


def _no_formula(formula: str) -> SpectrumError:
    text = shown(formula, 60)
    return SpectrumError(
        f"Expected a formula as (r800 - r670) / (r800 + r670), got {text!r}. Correct it."
    )


def _value(node: ast.AST, bands: Mapping[str, Any]) -> Any:
    """Compute *node* from the values of the bands, without ever running code from the formula."""
    with np.errstate(all="ignore"):
        match node:
            case ast.Constant(value=int() | float() as number):
                return np.float64(number)
            case ast.Name(id=name) if name.replace("_", ".") in bands:
                return bands[name.replace("_", ".")]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](_value(operand, bands))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](_value(left, bands), _value(right, bands))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
                name in FUNCTIONS and len(args) == FUNCTIONS[name].nin
            ):
                return FUNCTIONS[name](*(_value(argument, bands) for argument in args))
    raise _no_formula(ast.unparse(node))
