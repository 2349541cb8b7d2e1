"""Predictions of the models that the app shows, and the limits on what a browser may ask for.

A browser can send anything, whatever the page's controls allow: every function here checks what it gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbottle.eval.generation import Decoding, continuations, predictions
from unbottle.eval.inference import vocabulary_size
from unbottle.eval.next_words import PROMPTS, ProbedWord, Prompt, probe
from unbottle.eval.order_bias import OrderBiasRow, order_bias_row, renormalised, tried_orders
from unbottle.head import Head
from unbottle.hf.attach import detach, innermost
from unbottle.hf.explain import spelled
from unbottle.hf.knobs import knobs
from unbottle.hf.model_card import base_name
from unbottle.hf.model_identity import backbone_name
from unbottle.hf.modeling import HeadMixin

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
COMPARED = 100  # most likely words of the first model that those of the others are compared with
INDUCTION = ("I1", "I2")  # the partitions that copy what followed a word, and have no knobs
CACHE_HASH = re.compile(r"-[0-9a-f]{8}$")  # at the end of the folder in which unbottle demo keeps its model
BROKEN = "\ufffd"  # what a token decodes to that is only a part of a character
EXAMPLES = (
    *map(str, PROMPTS),
    "I went to Paris and Germany before, and I love one of the places more, which is",
    "The queen and the man met again after many years. The first to speak was the",
    "Priya and Tomasz both applied for the job. After the interviews, the committee chose",
    "Anna lent her bicycle to Boris, and Boris lent it to Carla. When it broke, Anna called",
)


def text_within(text: object, most: int, name: str = "text") -> str:
    """The text, if there is one and it is not too long."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"The {name} is empty. Type some words.")
    if len(text) > most:
        raise ValueError(f"The {name} has {len(text):,} characters, and at most {most:,} are read. Shorten it.")
    return text


def whole_within(value: object, bounds: tuple[int, int], name: str) -> int:
    """A whole number between two bounds."""
    number = number_within(value, bounds, name)
    if number != int(number):
        raise ValueError(f"{name} {value}: expected a whole number from {bounds[0]} to {bounds[1]}.")
    return int(number)


def number_within(value: object, bounds: tuple[int, int], name: str) -> float:
    """A number between two bounds."""
    least, most = bounds
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} that is no number: expected a number from {least} to {most}.")
    if not least <= value <= most:  # true of nan
        raise ValueError(f"{name} {value}: expected a number from {least} to {most}.")
    return float(value)


@dataclass(frozen=True, kw_only=True)
class ShownModel:
    """A model with or without a head, and its tokenizer."""

    name: str
    model: Any
    tokenizer: Any

    @property
    def encoder_decoder(self) -> bool:
        return bool(self.model.config.is_encoder_decoder)

    @property
    def head(self) -> Head | None:
        target = innermost(self.model)
        return target.head if isinstance(target, HeadMixin) else None

    @property
    def method(self) -> str:
        return "no head" if self.head is None else self.head.config.method.title

    @property
    def copies(self) -> bool:
        """Whether the model has knobs: a plain model has none, nor has a head that copies nothing."""
        return self.head is not None and self.head.copies

    def turned(self, *, copy_bias: float = 0.0, source_only: bool = False) -> AbstractContextManager[object]:
        """With these knobs inside the block, if the model has them."""
        return knobs(self.model, copy_bias=copy_bias, source_only=source_only) if self.copies else nullcontext()

    def ignored(self, *, copy_bias: float = 0.0, source_only: bool = False) -> str:
        """A note on the knobs that were asked for and that this model does not have; empty if there are none."""
        names = {"Copy bias": copy_bias != 0, "Only words of the document": source_only}
        asked = [name for name, is_on in names.items() if is_on]
        if self.copies or not asked:
            return ""
        return f"{' and '.join(asked)}: not applied, because this model's output layer copies no words."


def with_base(models: Sequence[ShownModel]) -> list[ShownModel]:
    """The models, after the plain causal model that all their heads share, unless it is one of them.

    It is made of the weights under the first head, so it takes no memory of its own. Heads on different backbones have
    no model in common, and get none.
    """
    causal = [shown for shown in models if not shown.encoder_decoder]
    first = next((shown for shown in causal if shown.head is not None), None)
    backbones = {backbone_name(innermost(shown.model)) for shown in causal if shown.head is not None}
    plain = {backbone_name(shown.model) for shown in causal if shown.head is None}
    if first is None or len(backbones) > 1 or backbones & plain:
        return [*models]
    weights = {id(weight): weight for weight in first.model.parameters()}  # which deepcopy then takes for copied
    name = CACHE_HASH.sub("", Path(base_name(innermost(first.model))).name) or "base model"
    return [ShownModel(name=name, model=detach(deepcopy(first.model, weights)), tokenizer=first.tokenizer), *models]


@dataclass(frozen=True, kw_only=True)
class NextWord(ProbedWord):
    """A word of one model.

    `appendable`: a text can go on with it. `before`: its probability in the first model; None if it is not among the
    COMPARED most likely ones there. `places`: where it stands in the text, if it was copied from there.
    """

    appendable: bool = True
    before: float | None = None
    places: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class NextWords:
    """The most likely next words of one model, the probability of all words by partition, and a note on the knobs."""

    model: str
    method: str
    words: list[NextWord]
    masses: Mapping[str, float]
    note: str = ""

    @property
    def appendable(self) -> frozenset[int]:
        return frozenset(word.id for word in self.words if word.appendable)

    @property
    def gained(self) -> float:
        """The probability that these words have gained over the first model."""
        return sum(max(word.probability - (word.before or 0.0), 0.0) for word in self.words)


def next_words(
    models: Sequence[ShownModel], text: object, *, words: object = 10, copy_bias: object = 0
) -> list[NextWords]:
    """The most likely next words of each model. A space at the end is left aside: it belongs to the next word."""
    prompt = text_within(text, TEXT).rstrip(" ")
    number = whole_within(words, SHOWN_WORDS, "words")
    bias = number_within(copy_bias, COPY_BIAS, "copy bias")
    columns: list[NextWords] = []
    before: dict[int | str, float] = {}  # of the first model, by id and by text
    for shown in models:
        with shown.turned(copy_bias=bias):
            most = min(COMPARED, vocabulary_size(shown.model))
            (probed,) = probe({shown.name: shown.model}, shown.tokenizer, [prompt], k=most).found
        if not columns:
            for word in reversed(probed.words):  # of tokens that are spelled alike, the most likely one
                before |= {word.id: word.probability, word.text: word.probability}
        places = token_places(shown.tokenizer, prompt)
        column = [
            NextWord(
                **vars(word),
                appendable=appendable(shown.tokenizer, word.id, word.text),
                before=before.get(word.id if spelled(models[0].tokenizer, word.id) == word.text else word.text),
                places=tuple(places.get(word.id, ())) if shown.copies or word.partition in INDUCTION else (),
            )
            for word in probed.words[:number]
        ]
        about = {"model": shown.name, "method": shown.method, "note": shown.ignored(copy_bias=bias)}
        columns.append(NextWords(words=column, masses=probed.masses, **about))
    return columns


def examples(models: Sequence[ShownModel]) -> list[str]:
    """Texts to start from; those after which the models differ most come first."""

    def difference(text: str) -> float:
        try:
            return max(column.gained for column in next_words(models, text, words=SHOWN_WORDS[1]))
        except ValueError:  # too long for one of the models
            return 0.0

    return sorted(EXAMPLES, key=difference, reverse=True) if len(models) > 1 else [*EXAMPLES]


def token_places(tokenizer: Any, text: str) -> dict[int, list[tuple[int, int]]]:
    """Where each token stands in a text, without the spaces around it; nothing if the tokenizer does not know."""
    if not tokenizer.is_fast:
        return {}
    encoded = tokenizer(text, return_offsets_mapping=True)
    places: dict[int, list[tuple[int, int]]] = {}
    for token, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        word = text[start:end]
        start, end = end - len(word.lstrip()), start + len(word.rstrip())
        if start < end:
            places.setdefault(token, []).append((start, end))
    return places


def appendable(tokenizer: Any, word: int, text: str) -> bool:
    """A token that adds something to a text: no id beyond the tokenizer, no mark, no part of a character."""
    return 0 <= word < len(tokenizer) and word not in tokenizer.all_special_ids and text != "" and BROKEN not in text


def appended(models: Sequence[ShownModel], text: object, *, model: object, word: object) -> str:
    """The text and one token of one model, both by number, as a click names them.

    What a token adds is seen in a text only: alone, some tokenizers spell it without the space before it.
    """
    prompt = text_within(text, TEXT).rstrip(" ")
    if type(model) is not int or not 0 <= model < len(models) or type(word) is not int:
        raise ValueError("That word is of no model here. Reload the page.")
    tokenizer = models[model].tokenizer
    if not 0 <= word < len(tokenizer):
        raise ValueError(f"Token {word} has no text: the tokenizer of {models[model].name} ends before it.")
    ids = list(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    before, after = (_decoded(tokenizer, row) for row in (ids, [*ids, word]))
    added = after[len(before) :] if after.startswith(before) else _decoded(tokenizer, [word])
    return text_within(prompt + added, TEXT)


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """One model: the options as listed and the share of each, order by order; and all orders summed up."""

    model: str
    method: str
    orders: tuple[tuple[str, ...], ...]
    shares: tuple[dict[str, float], ...]
    row: OrderBiasRow


def shuffled(
    models: Sequence[ShownModel], text: object, *, orders: object = 12, seed: object = 0
) -> Iterator[Shuffled]:
    """For each model, a prompt with its options in brackets in `orders` orders, or in all if there are fewer."""
    prompt = Prompt.parse(text_within(text, TEXT))
    least, most = OPTIONS
    if not least <= len(prompt.options) <= most:
        raise ValueError(
            f"The text has {len(prompt.options)} options in brackets, and {least} to {most} are needed. "
            "Write it as in: [tea] or [milk]? I take the"
        )
    number, chosen = whole_within(orders, ORDERS, "orders"), whole_within(seed, SEED, "seed")
    for shown in models:
        tried = tried_orders(shown.model, shown.tokenizer, [prompt], shuffles=number, seed=chosen)[prompt]
        yield Shuffled(
            model=shown.name,
            method=shown.method,
            orders=tuple(order for order, _ in tried),
            shares=tuple(renormalised(log_probability) for _, log_probability in tried),
            row=order_bias_row(prompt, tried),
        )


@dataclass(frozen=True, kw_only=True)
class Written:
    """A text by one model, and what is to be said about it."""

    model: str
    method: str
    text: str
    note: str = ""


def written(shown: ShownModel, text: str, *notes: str) -> Written:
    note = " ".join(filter(None, ("" if text else "Nothing was written.", *notes)))
    return Written(model=shown.name, method=shown.method, text=text, note=note)


def continued(
    models: Sequence[ShownModel],
    text: object,
    *,
    words: object = 30,
    top_k: object = 1,
    seed: object = 0,
    copy_bias: object = 0,
) -> Iterator[Written]:
    """The next words of each model, sampled from the `top_k` most likely; 1 always takes the most likely.

    Knobs are as before whenever this yields: what is asked in between does not feel them.
    """
    prompt = text_within(text, TEXT).rstrip()
    number = whole_within(words, NEW_WORDS, "new words")
    chosen = {"top_k": whole_within(top_k, TOP_K, "top k"), "seed": whole_within(seed, SEED, "seed")}
    bias = number_within(copy_bias, COPY_BIAS, "copy bias")
    for shown in models:
        with shown.turned(copy_bias=bias):
            (continuation,) = continuations(shown.model, shown.tokenizer, [prompt], words=number, **chosen)
        yield written(shown, continuation, shown.ignored(copy_bias=bias))


def summarized(
    models: Sequence[ShownModel],
    source: object,
    *,
    sampling: object = "beams",
    tokens: object = 80,
    seed: object = 0,
    copy_bias: object = 0,
    source_only: object = False,
) -> Iterator[Written]:
    """A summary by each model. Knobs are as before whenever this yields."""
    prompt = text_within(source, SOURCE, "document")
    decoding = Decoding(
        sampling=str(sampling),
        max_length=whole_within(tokens, SUMMARY_TOKENS, "tokens"),
        seed=whole_within(seed, SEED, "seed"),
    )
    bias = number_within(copy_bias, COPY_BIAS, "copy bias")
    only = bool(source_only)
    for shown in models:
        with shown.turned(copy_bias=bias, source_only=only):
            (summary,) = predictions(shown.model, shown.tokenizer, [prompt], decoding)
        dropped = f"The last {summary.dropped} tokens of the document were not read." if summary.dropped else ""
        yield written(shown, summary.text, dropped, shown.ignored(copy_bias=bias, source_only=only))
