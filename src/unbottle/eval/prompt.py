"""Prompt: a text that lists what may come next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MARKED = re.compile(r"\[(-?)([^\[\]]+)\]")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A text, cut where its options stand: pieces[0] options[0] pieces[1] options[1] ... pieces[n].

    `repeats`: the next word is one of the options, each as likely as the others. Otherwise the next word is none of
    them: a list goes on with something new.
    """

    pieces: tuple[str, ...]
    options: tuple[str, ...] = ()
    repeats: bool = True

    @classmethod
    def parse(cls, text: str) -> Prompt:
        """A prompt with its options in brackets, "[tea] or [milk]? I take"; "[-tea], [-milk] and" if not to repeat."""
        marked = MARKED.findall(text)
        options = tuple(option.strip() for _, option in marked)
        if not text.strip() or not all(options):
            raise ValueError(f"prompt {text!r} has no text, or an empty option. Give a text, options as in [tea].")
        if len({sign for sign, _ in marked}) > 1:
            raise ValueError(f"prompt {text!r} mixes [option] and [-option]. Mark all of them in the same way.")
        if len(set(options)) < len(options):
            raise ValueError(f"prompt {text!r} has the same option twice. Mark each word once.")
        pieces = tuple(MARKED.split(text)[::3])
        pieces = (*pieces[:-1], pieces[-1].rstrip())  # the space belongs to the next word
        return cls(pieces=pieces, options=options, repeats=not any(sign for sign, _ in marked))

    def text(self, options: Sequence[str] | None = None) -> str:
        """The text, with its options in another order if one is given."""
        placed = self.options if options is None else options
        inside = (option + piece for option, piece in zip(placed, self.pieces[1:], strict=True))
        return self.pieces[0] + "".join(inside)

    def marked(self) -> str:
        """What `parse` reads."""
        return self.text([f"[{'' if self.repeats else '-'}{option}]" for option in self.options])

    def __str__(self) -> str:
        return self.text()


# The three contexts of the paper's table of predictions, and its king or woman, in a sentence of our own: the paper
# has theirs only in a picture.
PROMPTS = tuple(
    Prompt.parse(text)
    for text in (
        "There are [plates], [keys], [scissors], [toys], and [balloons] in front of me, and I pick up the",
        "Choosing between [John], [Alex], [Mary], [Kathryn], and [Jack], I decided to first talk to",
        "I like [-tennis], [-baseball], [-golf], [-basketball], and",
        "The [king] and the [woman] both wanted to speak first, so we tossed a coin, and it chose the",
    )
)
