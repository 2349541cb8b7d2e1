"""The method language: an output layer written as text, such as softmax+cpr:20,100+mi. Standard library only.

Partitions register their letters, so that the language grows with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

__all__ = ["LETTERS", "PAPER_METHODS", "Letter", "Method", "MethodError", "UnknownLetterError", "register_letter"]


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
    Letter(letter="k", meaning="neighbours of the words of the context"),
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


BASES = {"none": "None", "softmax": "Softmax", "mos": "MoS", "pg": "PG", "ps": "PS", "copynet": "CopyNet"}
DEFAULT_SOFTMAXES = 3
MOST_SOFTMAXES, MOST_STATES = 64, 1024  # of mos and of Mi; far more than helps, and a D x D matrix each
DEFAULT_BLOCK = {False: (3, 3), True: (1, 3)}  # the paper's Mi: decoder-only, encoder-decoder

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class Fields(TypedDict, total=False):
    """What is read from the parts of a method: the arguments of `Method`."""

    base: str
    softmaxes: int
    letters: str
    ks: tuple[int, ...]
    mi: bool
    block: tuple[int, int]
    wbwr: int


class MethodError(ValueError):
    """A method that cannot be parsed or has no meaning."""


class UnknownLetterError(MethodError):
    """A letter that no partition has registered so far."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """An output layer: its base and its parts.

    method = base ("+" part)*      base = none | softmax (or s) | mos[:K] | pg | ps | copynet
    part   = letters of c e i k p r, r with ":" k1,k2,... ascending | mi[:LxW] | wbwr:k
    """

    base: str = "softmax"
    softmaxes: int = 1  # K of mos, 1 elsewhere
    letters: str = ""  # sorted, e.g. "cpr"
    ks: tuple[int, ...] = ()  # ascending sizes of the reranker partitions
    mi: bool = False
    block: tuple[int, int] | None = None  # layers x window of Mi; None: the paper's for the kind of model
    wbwr: int | None = None  # candidates of the word-by-word reranker

    @staticmethod
    def parse(text: str | Method) -> Method:
        """The method that a text describes; case and spaces do not matter."""
        if isinstance(text, Method):
            return text
        if not isinstance(text, str):
            raise MethodError(f"method {text!r}: expected text such as 'softmax+cpr:20,100+mi'.")
        base, *parts = re.sub(r"\s+", "", text).lower().split("+")
        fields = _read_base(text, base)
        for part in map(partial(_read_part, text), parts):
            letters = fields.get("letters", "")
            if repeated := {*part} & {*fields} - {"letters"} | {*part.get("letters", "")} & {*letters}:
                raise _refusal(text, f"{', '.join(sorted(repeated))} appears twice", "Name each part once")
            fields |= part
            if letters:
                fields["letters"] = letters + part.get("letters", "")
        return Method(**fields)

    def __post_init__(self) -> None:
        object.__setattr__(self, "letters", "".join(sorted(self.letters)))
        object.__setattr__(self, "ks", tuple(self.ks))
        self._check_types()
        self._check_base()
        self._check_letters()
        self._check_numbers()

    def __str__(self) -> str:
        return self._spell(self.base, str.lower)

    @property
    def title(self) -> str:
        """The paper's spelling. Its summarization tables shorten Softmax to S: with E, or partitions without Mi."""
        short = "e" in self.letters or (self.letters and not self.mi)
        base = "S" if self.base == "softmax" and short else BASES[self.base]
        return self._spell(base, lambda part: part).replace("+", " + ")

    def mi_block(self, *, encoder_decoder: bool) -> tuple[int, int] | None:
        """Layers x window of the hidden states that feed q; None without Mi."""
        return (self.block or DEFAULT_BLOCK[encoder_decoder]) if self.mi else None

    def check(self, *, encoder_decoder: bool, vocabulary: int) -> None:
        """Raise MethodError if a model of this kind cannot have this output layer."""
        if not encoder_decoder:
            for letter in self.letters:
                if LETTERS[letter].needs_source:
                    allowed = ", ".join(name for name, known in sorted(LETTERS.items()) if not known.needs_source)
                    raise _refusal(
                        self,
                        f"part '{letter}' reads the encoder input, and this model has no encoder",
                        f"Decoder-only models take {allowed}",
                    )
        for k in (*self.ks, *filter(None, [self.wbwr])):
            if k > vocabulary:
                raise _refusal(self, f"k = {k} is more than the {vocabulary} words of the vocabulary", "Use fewer")

    def _spell(self, base: str, case: Callable[[str], str]) -> str:
        parts = [base]
        if self.base == "mos" and self.softmaxes != DEFAULT_SOFTMAXES:
            parts[0] += f":{self.softmaxes}"
        if self.letters:
            ks = ":" + ",".join(map(str, self.ks)) if self.ks else ""
            parts.append(case(self.letters.upper()) + ks)
        if self.wbwr:
            parts.append(case("wbwR") + f":{self.wbwr}")
        if self.mi:
            parts.append(case("Mi") + (":{}x{}".format(*self.block) if self.block else ""))
        return "+".join(parts)

    def _check_types(self) -> None:
        numbers = [*self.ks, *(self.block or ()), self.softmaxes, *([] if self.wbwr is None else [self.wbwr])]
        if not all(type(number) is int for number in numbers) or (self.block and len(self.block) != 2):
            raise MethodError(f"method of {numbers}: sizes are whole numbers, and a block of Mi is layers x window.")

    def _check_base(self) -> None:
        if self.base not in BASES:
            raise MethodError(f"base {self.base!r}: unknown. Known: {', '.join(BASES)}.")
        if self.base == "mos" and self.softmaxes < 2:
            raise _refusal(self, f"a mixture of {self.softmaxes} softmax", "Write mos:K with K >= 2; softmax is K = 1")
        if self.base != "mos" and self.softmaxes != 1:
            raise _refusal(self, f"{self.base} has one softmax, not {self.softmaxes}", "Use mos:K")
        if self.base == "none" and (self.letters or self.mi or self.wbwr):
            raise _refusal(self, "'none' leaves the model as it is and takes no parts", "Start from softmax")

    def _check_letters(self) -> None:
        for letter in self.letters:
            if letter not in LETTERS:
                raise _refusal(self, f"unknown part '{letter}'", f"Known: {_known_parts()}")
            if self.base not in LETTERS[letter].bases:
                raise _refusal(
                    self,
                    f"part '{letter}' does not combine with {self.base}",
                    f"'{letter}' goes with {', '.join(LETTERS[letter].bases)}",
                )
        if len(set(self.letters)) != len(self.letters):
            raise _refusal(self, "a letter appears twice", "Name each part once")
        if self.wbwr and self.base not in ("softmax", "mos"):
            raise _refusal(self, f"wbwr does not combine with {self.base}", "It goes with softmax, mos")

    def _check_numbers(self) -> None:
        takes_ks = any(LETTERS[letter].takes_ks for letter in self.letters)
        if takes_ks and not self.ks:
            raise _refusal(self, "part 'r' needs the number of words it reranks", "Write r:20 or r:20,100")
        if self.ks and not takes_ks:
            raise _refusal(self, f"sizes {self.ks} without a part 'r'", "Write r:20 or r:20,100")
        if any(a >= b for a, b in zip(self.ks, self.ks[1:], strict=False)) or any(k < 1 for k in self.ks):
            raise _refusal(self, f"sizes {','.join(map(str, self.ks))} do not ascend", "Write r:20,100 (k1 < k2 < ...)")
        if self.block and (not self.mi or min(self.block) < 1):
            raise _refusal(self, f"Mi block {self.block}", "Write mi:LxW with L, W >= 1, e.g. mi:3x3")
        if self.block and self.block[0] * self.block[1] > MOST_STATES:
            raise _refusal(
                self,
                f"Mi of {self.block[0]} layers x {self.block[1]} positions would read "
                f"{self.block[0] * self.block[1]} states at a time",
                f"Write mi:LxW with L x W <= {MOST_STATES}",
            )
        if self.softmaxes > MOST_SOFTMAXES:
            raise _refusal(self, f"a mixture of {self.softmaxes} softmaxes", f"Write mos:K with K <= {MOST_SOFTMAXES}")
        if self.wbwr is not None and self.wbwr < 1:
            raise _refusal(self, f"wbwr:{self.wbwr}", "Write wbwr:100 (k >= 1)")


def _read_base(text: str, token: str) -> Fields:
    name, colon, argument = token.partition(":")
    name = {"s": "softmax"}.get(name, name)
    if name not in BASES:
        raise _refusal(text, f"unknown base '{name}'", f"Known: {', '.join(BASES)} (s is short for softmax)")
    if name == "mos":
        return {"base": name, "softmaxes": _number(text, argument, "mos:K") if colon else DEFAULT_SOFTMAXES}
    if colon:
        raise _refusal(text, f"base '{name}' takes no number, got '{argument}'", "Only mos:K does")
    return {"base": name}


def _read_part(text: str, token: str) -> Fields:
    name, colon, argument = token.partition(":")
    if name == "mi":
        if not colon:
            return {"mi": True}
        sizes = argument.split("x")
        if len(sizes) != 2:
            raise _refusal(text, f"part '{token}'", "Write mi:LxW, e.g. mi:3x3 (layers x window)")
        layers, window = (_number(text, size, "mi:LxW") for size in sizes)
        return {"mi": True, "block": (layers, window)}
    if name == "wbwr":
        return {"wbwr": _number(text, argument, "wbwr:k")}
    unknown = [letter for letter in name if letter not in LETTERS]
    if unknown or not name:
        refusal = _refusal(text, f"unknown part '{''.join(unknown) or token}'", f"Known: {_known_parts()}")
        raise UnknownLetterError(*refusal.args) if unknown else refusal
    if not colon:
        return {"letters": name}
    if not any(LETTERS[letter].takes_ks for letter in name):
        raise _refusal(text, f"part '{name}' takes no sizes, got '{argument}'", "Write them behind r: r:20 or cr:20")
    return {"letters": name, "ks": tuple(_number(text, k, "r:k1,k2") for k in argument.split(","))}


def _number(text: str, digits: str, usage: str) -> int:
    if not _NUMBER.fullmatch(digits):
        raise _refusal(text, f"'{digits}' is not a positive whole number", f"Write {usage}")
    return int(digits)


def _known_parts() -> str:
    return ", ".join([*(LETTERS[letter].usage for letter in sorted(LETTERS)), "mi[:LxW]", "wbwr:k"])


def _refusal(method: object, wrong: str, allowed: str) -> MethodError:
    return MethodError(f"method {str(method)!r}: {wrong}. {allowed}.")


PAPER_METHODS: tuple[str, ...] = (
    "Softmax",
    "Softmax + Mi",
    "MoS",
    "MoS + Mi",
    "PG",
    "PS",
    "PG + Mi",
    "PS + Mi",
    "CopyNet",
    "Softmax + R:20 + Mi",
    "Softmax + R:20,100 + Mi",
    "Softmax + C + Mi",
    "Softmax + P + Mi",
    "Softmax + CR:20,100 + Mi",
    "Softmax + CPR:20,100 + Mi",
    "MoS + CPR:20,100 + Mi",
    "Softmax + wbwR:100 + Mi",
    "Softmax + CPR:20,100 + wbwR:100 + Mi",
    "S + R:20",
    "S + E",
    "S + CE",
    "S + CER:20",
    "S + CEPR:20",
    "S + CEPR:20 + Mi",
)
