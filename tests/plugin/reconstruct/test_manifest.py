"""What napari remembers of the settings is made from their rows."""

import pytest
from tests.plugin.reconstruct.manifest import FILE, written


@pytest.mark.usefixtures("qapp")
def test_preferences_of_napari_are_made_from_the_rows() -> None:
    text = FILE.read_text("utf-8")
    assert written(text) == text, "Run: python -m tests.plugin.reconstruct.manifest"
