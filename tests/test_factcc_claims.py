"""Claims for FactCC: a swap changes what it says, only where it can, and to what the document does not say."""

from __future__ import annotations

from random import Random

import pytest
from factcc_claims import SWAPPERS, SWAPS, claims, swapped

from unbottle.eval.proper_nouns import Capitals

DOCUMENT = (
    "In the morning Anna met Boris in Paris at 5 o'clock. He was not late. They have seen 12 films. "
    "She told him that Clara will come tomorrow. It rained."
)


@pytest.mark.parametrize(
    ("kind", "text", "allowed"),
    [
        ("entity", "Then Anna met nobody.", {f"Then {name} met nobody." for name in ("Boris", "Paris", "Clara")}),
        ("number", "They have seen 12 films.", {"They have seen 5 films."}),
        ("pronoun", "He was late.", {f"{word} was late." for word in ("She", "They", "We", "You", "I")}),
        ("negation", "He was not late.", {"He was late."}),
        ("negation", "He didn't come.", {"He did come."}),
        ("negation", "Clara will come tomorrow.", {"Clara will not come tomorrow."}),
    ],
)  # fmt: skip
def test_swaps(kind: str, text: str, allowed: set[str]) -> None:
    found = {SWAPPERS[kind](text, DOCUMENT, Capitals(), Random(seed)) for seed in range(40)}
    assert found == allowed


def test_what_can_not_be_swapped() -> None:
    for kind in SWAPS:
        assert SWAPPERS[kind]("Nothing here.", "Nothing here.", Capitals(), Random(0)) is None
    assert swapped("Nothing here.", "Nothing here.", Capitals(), Random(0)) is None


def test_as_many_of_both_kinds_and_no_negative_is_said() -> None:
    found = claims([DOCUMENT, "Hm. Yes."] * 3, Capitals(), seed=1)
    assert found == claims([DOCUMENT, "Hm. Yes."] * 3, Capitals(), seed=1)
    assert found != claims([DOCUMENT, "Hm. Yes."] * 3, Capitals(), seed=2)
    assert len(found) == 3 * 4
    assert sum(claim.supported for claim in found) == 6
    for claim in found:
        assert (claim.text in claim.document) == claim.supported
        assert claim.swap in (None, *SWAPS)
    many = claims([DOCUMENT] * 60, Capitals())
    assert {claim.swap for claim in many} == {None, *SWAPS}
