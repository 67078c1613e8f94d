"""Numbers as users write them: ASCII digits and a decimal point, nothing in between.

Python itself reads 1_0 as 10, and digits of other scripts; a decimal comma it does not read.
"""

from collections.abc import Callable
from typing import Any

WORDS: dict[Any, str] = {int: "whole number such as 64", float: "number such as 0.5"}


def number(kind: Callable[[str], Any], text: str) -> Any:
    """The text as a number of this kind; a ValueError that says what is read."""
    if text.isascii() and "_" not in text:
        try:
            return kind(text)
        except ValueError:
            pass
    raise ValueError(f"{text[:40]!r} is not a {WORDS[kind]}")
