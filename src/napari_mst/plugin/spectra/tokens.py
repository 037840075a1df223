"""Tokens: numbers that tell arrays apart for as long as the program runs.

The `id` of an array may be that of another one, once the first is freed.
"""

import itertools
import weakref
from typing import Any

_tokens = dict[int, tuple["weakref.ref[Any]", int]]()
_numbers = itertools.count()


def token_of(array: Any) -> int:
    """The number of *array*, which no other array has, had or will have. It is not kept alive."""
    key = id(array)
    known = _tokens.get(key)
    if known is not None and known[0]() is array:
        return known[1]
    number = next(_numbers)
    _tokens[key] = (weakref.ref(array, lambda _: _forget(key, number)), number)
    return number


def _forget(key: int, number: int) -> None:
    known = _tokens.get(key)
    # A new array may have taken the place of the old one before this was called.
    if known is not None and known[1] == number:
        del _tokens[key]
