"""What a browser sends is checked, whatever the page's own boxes allow."""

from __future__ import annotations

import math

import pytest

from unbottle.app import predictions


@pytest.mark.parametrize("text", ["", "  \n", None, 3, ["a"]])
def test_no_text(text) -> None:
    with pytest.raises(ValueError, match="The text is empty"):
        predictions.text_within(text, 10)


def test_too_long() -> None:
    assert predictions.text_within("a" * 10, 10) == "a" * 10
    with pytest.raises(
        ValueError, match=r"The document has 1,011 characters, and at most 1,010 are read\. Shorten it\."
    ):
        predictions.text_within("a" * 1011, 1010, "document")


@pytest.mark.parametrize("value", [0, 11, -math.inf, math.nan, None, "5", True, 10**400])
def test_numbers_outside(value) -> None:
    with pytest.raises(ValueError, match="expected a number from 1 to 10"):
        predictions.number_within(value, (1, 10), "words")


def test_numbers_inside() -> None:
    assert predictions.number_within(2.5, (1, 10), "words") == 2.5
    assert predictions.whole_within(3.0, (1, 10), "words") == 3
    with pytest.raises(ValueError, match=r"words 2\.5: expected a whole number from 1 to 10"):
        predictions.whole_within(2.5, (1, 10), "words")
