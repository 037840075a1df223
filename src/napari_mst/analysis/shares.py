"""Constrained least squares for many pixels at once.

Pixels whose zero shares are the same are solved together: block principal pivoting, Kim & Park,
SIAM J. Sci. Comput. 33 (2011) 3261, doi:10.1137/110821172. Letters: p endmembers; n pixels.
"""

from collections.abc import Callable, Iterator

import numpy as np

from napari_mst.base.arrays import Doubles, Indices, Mask

ALL_AT_ONCE = 10
"""Rounds that exchange all wrong shares of a pixel. Later ones exchange one, which always ends."""

MOST_ROUNDS = 100
"""Rounds after which SciPy solves the remaining pixels one by one."""

Line = tuple[Doubles, Doubles]
"""Linear map from the values of a pixel to its shares: matrix (p, p) and constant (p, 1)."""


class Solver:
    """Solves for the shares (p, n) of the columns of *mixing* (p, p) in values (p, n).

    Parameters
    ----------
    is_bounded
        Keep shares at 0 or more.
    is_whole
        Make shares add up to 1.
    """

    def __init__(self, mixing: Doubles, *, is_bounded: bool, is_whole: bool) -> None:
        self._mixing = mixing
        self._is_bounded, self._is_whole = is_bounded, is_whole
        self._lines: dict[bytes, Line] = {}

    def __call__(self, values: Doubles) -> Doubles:
        """Return the least-squares shares of *values* within the bounds."""
        matrix, constant = self._line(np.ones(len(values), bool))
        shares = matrix @ values + constant
        if not self._is_bounded:
            return shares
        left = np.flatnonzero((shares < 0).any(axis=0))
        free = np.ones((len(values), left.size), bool)
        rounding = 1e-14 * np.abs(self._mixing).max() * np.abs(values).max(initial=0)
        for number in range(MOST_ROUNDS):
            now = shares[:, left]
            slopes = self._mixing.T @ (self._mixing @ now - values[:, left])
            if self._is_whole:
                # All free shares share one slope, the slope of the sum.
                slopes -= (slopes * now).sum(axis=0)
            wrong = np.where(free, now < 0, slopes < -rounding)
            is_open = wrong.any(axis=0)
            left, free, wrong = left[is_open], free[:, is_open], wrong[:, is_open]
            if not left.size:
                return shares
            if number >= ALL_AT_ONCE:
                wrong &= np.cumsum(wrong, axis=0) == 1
            free ^= wrong
            for key, places in _alike(free):
                matrix, constant = self._line(key)
                shares[:, left[places]] = matrix @ values[:, left[places]] + constant
        for pixel in left:
            shares[:, pixel] = self._by_scipy(values[:, pixel])
        return shares

    def _line(self, free: Mask) -> Line:
        """Return the solution with unbounded *free* (p,) shares and all others at zero."""
        key = free.tobytes()
        if key not in self._lines:
            base, triangle = np.linalg.qr(self._mixing[:, free])
            inverse = np.linalg.inv(triangle)
            matrix, constant = np.zeros_like(self._mixing), np.zeros((len(free), 1))
            matrix[free] = inverse @ base.T
            if self._is_whole and free.any():
                # Project the least-squares solution onto the plane where shares sum to 1.
                constant[free, 0] = inverse @ inverse.sum(axis=0)
                constant /= constant.sum()
                matrix -= constant * matrix.sum(axis=0)
            self._lines[key] = matrix, constant
        return self._lines[key]

    def _by_scipy(self, values: Doubles) -> Doubles:
        from scipy.optimize import nnls

        if not self._is_whole:
            return np.asarray(nnls(self._mixing, values)[0])
        # The minimum of |D u|^2 + (sum u - 1)^2 is proportional to the minimum of |D a| where
        # sum a = 1.
        differences = (self._mixing - values[:, None]) / np.abs(self._mixing).max()
        goal = np.append(np.zeros(len(values)), 1.0)
        least = np.asarray(nnls(np.vstack([differences, np.ones(len(values))]), goal)[0])
        return least / least.sum()


def _alike(columns: Mask) -> Iterator[tuple[Mask, Indices]]:
    """Yield each distinct column of *columns* (p, n), and the places where it occurs."""
    packed = np.packbits(columns, axis=0)
    order = np.lexsort(packed)
    ranked = packed[:, order]
    is_new = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
    for places in np.split(order, np.flatnonzero(is_new) + 1):
        yield columns[:, places[0]], places


SOLVERS: dict[str, Callable[[Doubles], Solver]] = {
    "sum to one": lambda mixing: Solver(mixing, is_bounded=True, is_whole=True),
    "non-negative": lambda mixing: Solver(mixing, is_bounded=True, is_whole=False),
    "free": lambda mixing: Solver(mixing, is_bounded=False, is_whole=False),
}
"""Makes the solver of each constraint for a mixing matrix."""
