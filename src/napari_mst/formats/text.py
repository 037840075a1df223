"""Text in files: percent-encoding (RFC 3986), and cells that no spreadsheet runs."""

import re
import string
from urllib.parse import quote, unquote

_PLAIN = "".join(sorted(set(string.printable) - set("%{}\t\n\r\x0b\x0c")))

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)
# A semicolon or a tab ends a cell in the spreadsheets of some countries, so a cell may begin
# after one as well as at the start of the text.
_BEFORE_FORMULA = r"(^|[;\t\r\n])"
# What a spreadsheet takes for a formula (OWASP, "CSV Injection"). Quotes of the text's own may
# precede it: `text_cell` adds one more to them, so that `cell_text` knows which to take away.
_FORMULA = "(?='*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-])"


def text_cell(text: str) -> str:
    """*text* as a cell that a spreadsheet shows and never runs.

    A quote is put before everything that may be a formula. Numbers stay numbers.
    """
    if _NUMBER.fullmatch(text):
        return text
    return re.sub(_BEFORE_FORMULA + _FORMULA, r"\1'", text)


def cell_text(cell: str) -> str:
    """The inverse of `text_cell`."""
    return re.sub(f"{_BEFORE_FORMULA}'{_FORMULA}", r"\1", cell)


def percent_encode(text: str, reserved: str = "") -> str:
    """*text* as printable ASCII without braces, line breaks, outer spaces or *reserved* characters.

    Outer spaces are encoded too, because readers of headers strip them.
    """
    encoded = quote(text, safe="".join(set(_PLAIN) - set(reserved)), errors="replace")
    # Readers of headers strip outer spaces.
    if encoded.startswith(" "):
        encoded = "%20" + encoded[1:]
    if encoded.endswith(" "):
        encoded = encoded[:-1] + "%20"
    return encoded


def percent_decode(text: str) -> str:
    """The inverse of `percent_encode`."""
    return unquote(text)
