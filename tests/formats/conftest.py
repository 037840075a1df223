"""How these tests expect a file to be refused."""

from pathlib import Path
from typing import Any

import pytest

from napari_mst.base.errors import CubeFileError
from napari_mst.formats import read_cube


def refuse(path: Path, match: str, **options: Any) -> None:
    """*path* is refused in one sentence of fewer than 300 letters."""
    with pytest.raises(CubeFileError, match=match) as caught:
        read_cube(path, **options)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def bad_input(number: str) -> pytest.MarkDecorator:
    """Name a test by the *number* of the bad input that it holds: `test_refuse_bombs[045-bomb]`."""
    return pytest.mark.parametrize((), [pytest.param(id=number)])
