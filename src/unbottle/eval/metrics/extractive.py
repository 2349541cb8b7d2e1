"""Metrics of a summary and its source: copied fragments, novel and repeated n-grams, supported names and numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from unbottle.eval.metrics.metric import SOURCE, Metric, MetricInput, MetricResult, mean_metric
from unbottle.eval.metrics.tokens import DESCRIPTION, ngrams, sentences, tokens
from unbottle.eval.proper_nouns import Tagger, words_of

FRAGMENTS = f"unbottle.eval.metrics.extractive, after Grusky et al. 2018; {DESCRIPTION}"


def coverage(summary: str, source: str) -> float | None:
    """Share of the words of a summary that lie in a fragment of its source: sum |f| / |S|. None without a word."""
    lengths, number = _lengths(summary, source)
    return sum(lengths) / number if number else None


def density(summary: str, source: str) -> float | None:
    """Mean length of the fragment that a word of the summary lies in: sum |f|^2 / |S|. None without a word."""
    lengths, number = _lengths(summary, source)
    return sum(length**2 for length in lengths) / number if number else None


def _lengths(summary: str, source: str) -> tuple[list[int], int]:
    words = tokens(summary)
    return fragments(words, tokens(source)), len(words)


def fragments(summary: Sequence[str], source: Sequence[str]) -> list[int]:
    """Lengths of the fragments: from left to right, the longest stretch of the source that goes on from here."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(source):
        places.setdefault(word, []).append(place)
    lengths, start = [], 0
    while start < len(summary):
        longest = max((_shared(summary, start, source, place) for place in places.get(summary[start], ())), default=0)
        if longest:
            lengths.append(longest)
        start += max(longest, 1)
    return lengths


def _shared(summary: Sequence[str], start: int, source: Sequence[str], place: int) -> int:
    length = 0
    while (
        start + length < len(summary)
        and place + length < len(source)
        and summary[start + length] == source[place + length]
    ):
        length += 1
    return length


NOVELTY = f"unbottle.eval.metrics.extractive; {DESCRIPTION}; summaries of fewer than n words are left out"


def novelty(summary: str, source: str, n: int) -> float | None:
    """Share of the n-grams of a summary, each as often as it occurs, that do not occur in the source."""
    generated, known = ngrams(tokens(summary), n), {*ngrams(tokens(source), n)}
    return sum(ngram not in known for ngram in generated) / len(generated) if generated else None


REPETITION = f"unbottle.eval.metrics.extractive; {DESCRIPTION}; summaries without any are left out"


def repetition(summary: str, n: int) -> float | None:
    """Share of the n-grams that occurred before: 1 - different n-grams / n-grams."""
    return _again(ngrams(tokens(summary), n))


def repeated_sentences(summary: str) -> float | None:
    """Share of the sentences that occurred before, word by word: 1 - different sentences / sentences."""
    return _again([tuple(tokens(sentence)) for sentence in sentences(summary)])


def _again(items: Sequence[tuple[str, ...]]) -> float | None:
    return (len(items) - len({*items})) / len(items) if items else None


LISTED = """
one two three four five six seven eight nine ten
eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty
"""
WORDS = LISTED.split()
SPELLED = {word: str(number) for number, word in enumerate(WORDS, start=1)}
SPELLED_PATTERN = re.compile(rf"\b(?:{'|'.join(sorted(WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
WRITTEN = re.compile(r"\d+(?:[.,'\u2019\u00a0\u202f]\d+)*")
THOUSANDS = re.compile(r"(?<=\d)(?:[,'\u2019\u00a0\u202f](?=\d{3}(?!\d)))")
APART = re.compile(r"(?<=\d)([.,]) (?=\d)")
MILLIONS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}")  # full stops in groups of three; one alone is a decimal point


def numbers(text: str) -> set[str]:
    """Numbers of a text: 1,000 and 1000 are one, two and 2 too, 1,5 is 1.5, and 5.0 is 5."""
    digits = {_plain(match.group()) for match in WRITTEN.finditer(text)}
    return digits | {SPELLED[match.group().lower()] for match in SPELLED_PATTERN.finditer(text)}


def possible_numbers(text: str) -> set[str]:
    """Numbers of a text that may be cut into words, as corpora are: `235, 000` is 235 and 0, and 235000 as well."""
    return numbers(text) | numbers(APART.sub(r"\1", text))


def _plain(written: str) -> str:
    digits = "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in written)
    if MILLIONS.fullmatch(digits):
        digits = digits.replace(".", "")
    digits = THOUSANDS.sub("", digits)
    digits = re.sub(r"[,'\u2019\u00a0\u202f]", ".", digits)
    whole, _, part = digits.partition(".")
    part = part.rstrip("0") if "." not in part else part  # a version or a date keeps all its parts
    return f"{whole.lstrip('0') or '0'}.{part}" if part else whole.lstrip("0") or "0"


POSSESSIVE = re.compile(r"'s$")
ONE = re.compile(r"\bone\b", re.IGNORECASE)  # more often a pronoun than a number, and in every source


def support(summary: str, source: str, tagger: Tagger) -> float | None:
    """Share of the different names and numbers of a summary that occur in its source; None if it has none.

    A name is a word that the tagger takes for a proper noun. Case, a possessive 's, separators of thousands and
    whether a number up to twenty is spelled make no difference; `one` is not taken for a number of a summary. What
    occurs in the source may still be said of someone else: support finds invented names and numbers, not every error.
    """
    claims = items(summary, tagger)
    words = {*tokens(source)}
    known = words | {part for word in words for part in word.split("'")} | possible_numbers(source)
    return sum(item in known for item in claims) / len(claims) if claims else None


def items(summary: str, tagger: Tagger) -> set[str]:
    """Names and numbers of a summary, each once. The summary is tagged by itself: the source must not decide."""
    names = {POSSESSIVE.sub("", part) for word in words_of(summary, tagger(summary)) for part in tokens(word)}
    names = {name for name in names if name not in SPELLED and not any(char.isdigit() for char in name)}
    return names | numbers(ONE.sub("", summary))


def support_implementation(tagger: Tagger) -> str:
    names = tagger.description
    return f"unbottle.eval.metrics.extractive: names by {names}, and numbers; mean over summaries that have any"


NS = (1, 2, 3, 4)


def _of_sources(measure: Callable[[str, str], float | None]) -> Callable[[MetricInput], list[float | None]]:
    def compute(data: MetricInput) -> list[float | None]:
        return [measure(text, source) for text, source in zip(data.texts, data.sources, strict=True)]

    return compute


def _support(data: MetricInput) -> list[float | None]:
    pairs = zip(data.texts, data.sources, strict=True)
    return [support(text, source, data.tagger) for text, source in pairs]


def _support_note(data: MetricInput, values: Sequence[float | None]) -> str:
    without = sum(value is None for value in values)
    return f"{without} of {len(values)} summaries have no name and no number and are left out" if without else ""


def _copied(data: MetricInput) -> dict[str, MetricResult]:
    return {
        "copy-rate": MetricResult.mean(_of_sources(coverage)(data), f"coverage: {FRAGMENTS}"),
        "copy-density": MetricResult.mean(_of_sources(density)(data), f"density: {FRAGMENTS}"),
    }


def _novel(n: int) -> Metric:
    compute = _of_sources(lambda text, source: novelty(text, source, n))
    return mean_metric(f"novel-{n}", compute, lambda data: NOVELTY, SOURCE)


def _repeated(data: MetricInput) -> dict[str, MetricResult]:
    values = {f"repetition-{n}": [repetition(text, n) for text in data.texts] for n in NS}
    values["repeated-sentences"] = [repeated_sentences(text) for text in data.texts]
    return {name: MetricResult.mean(shares, REPETITION) for name, shares in values.items()}


def _length_note(data: MetricInput, values: Sequence[float | None]) -> str:
    empty = sum(not value for value in values)
    return f"{empty} summaries have no word" if empty else ""


METRICS = {
    "support": mean_metric(
        "support", _support, lambda data: support_implementation(data.tagger), SOURCE, note=_support_note
    ),
    "copy-rate": Metric(compute=_copied, outputs=("copy-rate", "copy-density"), needs=(SOURCE,)),
    **{f"novel-{n}": _novel(n) for n in NS},
    "repetition": Metric(compute=_repeated, outputs=(*(f"repetition-{n}" for n in NS), "repeated-sentences")),
    "length": mean_metric(
        "length",
        lambda data: [float(len(tokens(text))) for text in data.texts],
        lambda data: f"number of {DESCRIPTION}",
        note=_length_note,
    ),
}
