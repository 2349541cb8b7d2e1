"""The alphabet of the method language."""

import pytest

from unbottle.method import LETTERS, Letter, register_letter


def test_a_letter_has_one_meaning() -> None:
    register_letter(LETTERS["c"])
    with pytest.raises(ValueError, match="letter 'c' already means 'context partition', not 'chance'"):
        register_letter(Letter(letter="c", meaning="chance"))


@pytest.mark.parametrize("letter", ["cc", "C", "", "1"])
def test_a_letter_is_one_lower_case_character(letter: str) -> None:
    with pytest.raises(ValueError, match="a letter is one lower-case character"):
        register_letter(Letter(letter=letter, meaning="nothing"))
    assert letter not in LETTERS
