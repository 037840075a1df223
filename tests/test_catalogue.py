"""Each kind of bad input has a number, 1 to 89, and a test that carries it: `[047-grey]`."""

import re
from pathlib import Path


def numbers_with_a_test() -> set[int]:
    sources = (
        file.read_text(encoding="utf-8") for file in Path(__file__).parent.rglob("test_*.py")
    )
    identifiers = (re.findall(r'"(\d{3})-[\w{]', text) for text in sources if "bad_input(" in text)
    return {int(number) for numbers in identifiers for number in numbers}


def test_no_number_is_missing() -> None:
    assert sorted(set(range(1, 90)) - numbers_with_a_test()) == []
