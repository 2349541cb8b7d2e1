"""How much the page may ask for. A browser can send anything, so every handler asks here, whatever a slider allows."""

from __future__ import annotations

from typing import Any

TEXT = 2_000  # characters of a text to go on from
SOURCE = 20_000  # characters of a document to summarize
SHOWN_WORDS = (3, 20)  # next words of a model
NEW_WORDS = (1, 100)  # of a continuation
SUMMARY_TOKENS = (8, 200)
TOP_K = (1, 100)
SEED = (0, 2**31 - 1)
COPY_BIAS = (-10, 10)
ORDERS = (2, 24)  # of the options of a list
OPTIONS = (2, 8)
QUEUE = 16  # requests that wait; the next one is refused


def text_within(text: Any, most: int, name: str = "text") -> str:
    """The text, if there is one and it is not too long."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"The {name} is empty. Type some words.")
    if len(text) > most:
        raise ValueError(f"The {name} has {len(text):,} characters, and at most {most:,} are read. Shorten it.")
    return text


def whole_within(value: Any, bounds: tuple[int, int], name: str) -> int:
    """A whole number between two bounds."""
    number = number_within(value, bounds, name)
    if number != int(number):
        raise ValueError(f"{name} {value}: expected a whole number from {bounds[0]} to {bounds[1]}.")
    return int(number)


def number_within(value: Any, bounds: tuple[int, int], name: str) -> float:
    """A number between two bounds."""
    least, most = bounds
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # nan is not between anything
        shown = value if is_number else "that is no number"
        raise ValueError(f"{name} {shown}: expected a number from {least} to {most}.")
    return float(value)
