"""next_words: what each model may say next, and which of these words can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unbottle.app.bounds import COPY_BIAS, SHOWN_WORDS, TEXT, number_within, text_within, whole_within
from unbottle.app.shown_model import ShownModel
from unbottle.eval.probe import Probed, probe

BROKEN = "\ufffd"  # what a token decodes to that is only a part of a character


@dataclass(frozen=True, kw_only=True)
class NextWords:
    """The words of one model, the ids of those that a text can be continued with, and what is to be said about them."""

    probed: Probed
    appendable: frozenset[int]
    note: str = ""


def next_words(models: Sequence[ShownModel], text: Any, *, words: Any = 10, copy_bias: Any = 0) -> list[NextWords]:
    """The most likely next words of each model. A space at the end is left aside: it belongs to the next word."""
    given = text_within(text, TEXT).rstrip(" ")
    number = whole_within(words, SHOWN_WORDS, "words")
    bias = number_within(copy_bias, COPY_BIAS, "copy bias")
    found = []
    for shown in models:
        with shown.turned(copy_bias=bias):
            (probed,) = probe({shown.name: shown.model}, shown.tokenizer, [given], k=number).found
        ids = frozenset(word.id for word in probed.words if appendable(shown.tokenizer, word.id, word.text))
        found.append(NextWords(probed=probed, appendable=ids, note=shown.ignored(copy_bias=bias)))
    return found


def appendable(tokenizer: Any, word: int, text: str) -> bool:
    """A token that adds something to a text: no id beyond the tokenizer, no mark, no part of a character."""
    return 0 <= word < len(tokenizer) and word not in tokenizer.all_special_ids and text != "" and BROKEN not in text


def appended(models: Sequence[ShownModel], text: Any, *, model: Any, word: Any) -> str:
    """The text and one token of one model, both by number, as a click names them.

    What a token adds is seen in a text only: alone, some tokenizers spell it without the space before it.
    """
    given = text_within(text, TEXT).rstrip(" ")
    if type(model) is not int or not 0 <= model < len(models) or type(word) is not int:
        raise ValueError("That word is of no model here. Reload the page.")
    tokenizer = models[model].tokenizer
    if not 0 <= word < len(tokenizer):
        raise ValueError(f"Token {word} has no text: the tokenizer of {models[model].name} ends before it.")
    ids = list(tokenizer(given, add_special_tokens=False)["input_ids"])
    before, after = (_decoded(tokenizer, row) for row in (ids, [*ids, word]))
    added = after[len(before) :] if after.startswith(before) else _decoded(tokenizer, [word])
    return text_within(given + added, TEXT)


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
