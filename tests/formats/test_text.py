"""Cells of tables: no spreadsheet runs one, and what was written is read."""

import re

from hypothesis import given
from hypothesis import strategies as st

from napari_mst.formats.wavelengths import cell_text, text_cell


@given(st.text("'=+-@;,\t\r\n 1.ae\uff1d") | st.text())
def test_every_text_is_a_cell_that_reads_back_and_is_no_formula(text: str) -> None:
    cell = text_cell(text)
    assert cell_text(cell) == text
    is_number = bool(re.fullmatch(r"[+-]?([0-9.]+(e[+-]?[0-9]+)?|inf|nan)", text, re.IGNORECASE))
    if not is_number:
        assert not re.search(r"(^|[;\t\r\n])[=+@\uff1d-]", cell)


def test_ordinary_names_are_not_changed() -> None:
    for name in ("Pick 1", "leaf, 2", "a-b", "5 +- 1", "'quoted'", "-0.5", "+1e-9", "", "x = 1"):
        assert text_cell(name) == name
