"""Text in files: percent-encoding (RFC 3986), and cells that no spreadsheet runs."""

import re
import string
from urllib.parse import quote, unquote

_PLAIN = "".join(sorted(set(string.printable) - set("%{}\t\n\r\x0b\x0c")))

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)
_BEFORE_FORMULA = r"(^|[;\t\r\n])"
"""Where a spreadsheet may begin a cell: it takes semicolons and tabs for the ends of cells in some countries."""
_FORMULA = "(?='*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-])"
"""What it takes for a formula (OWASP, "CSV Injection"), also after quotes of the text's own: so reading can undo it."""


def text_cell(text: str) -> str:
    """*text* as a cell that a spreadsheet shows and never runs: a quote before every formula. Numbers stay numbers."""
    return text if _NUMBER.fullmatch(text) else re.sub(_BEFORE_FORMULA + _FORMULA, r"\1'", text)


def cell_text(cell: str) -> str:
    """The inverse of `text_cell`."""
    return re.sub(f"{_BEFORE_FORMULA}'{_FORMULA}", r"\1", cell)


def percent_encode(text: str, reserved: str = "") -> str:
    """*text* as printable ASCII without braces, line breaks, outer spaces or the *reserved* characters."""
    encoded = quote(text, safe="".join(set(_PLAIN) - set(reserved)), errors="replace")
    if encoded.startswith(" "):
        encoded = "%20" + encoded[1:]
    return encoded[:-1] + "%20" if encoded.endswith(" ") else encoded


def percent_decode(text: str) -> str:
    """The inverse of `percent_encode`."""
    return unquote(text)
