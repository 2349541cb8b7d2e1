"""The letters a method may combine. New partitions register theirs, so the grammar grows with them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One letter of the method language and where it may stand."""

    letter: str
    meaning: str
    needs_source: bool = False  # reads the encoder input, so it needs an encoder
    takes_ks: bool = False  # followed by ":k1,k2,..."
    bases: tuple[str, ...] = ("softmax", "mos", "pg", "ps")

    @property
    def usage(self) -> str:
        return f"{self.letter}:k1,k2" if self.takes_ks else self.letter


BUILT_IN = (  # here, and not beside their partitions: a typo in a method is refused without torch
    Letter(letter="c", meaning="context partition"),
    Letter(letter="e", meaning="encoder partition", needs_source=True),
    Letter(letter="i", meaning="induction: what followed before"),
    Letter(letter="p", meaning="local embeddings (pointer)", bases=("softmax", "mos")),
    Letter(letter="r", meaning="reranker partition", takes_ks=True),
)
LETTERS: dict[str, Letter] = {letter.letter: letter for letter in BUILT_IN}


def register_letter(letter: Letter) -> None:
    """Add a letter to the grammar. Registering the same letter again with another meaning is an error."""
    known = LETTERS.setdefault(letter.letter, letter)
    if known != letter:
        raise ValueError(f"letter {letter.letter!r} already means {known.meaning!r}, not {letter.meaning!r}.")
    if len(letter.letter) != 1 or not letter.letter.islower():
        del LETTERS[letter.letter]
        raise ValueError(f"letter {letter.letter!r}: a letter is one lower-case character.")
