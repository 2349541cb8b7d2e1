"""Variant: a row of a table: a method, and what is done otherwise with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from unbottle.hf import attach
from unbottle.spec import Method

PLAIN = "plain"
HEAD: dict[str, Callable[[str], Any]] = {"form": str, "convention": str}  # what attach is told
TRAINING: dict[str, Callable[[str], Any]] = {"lr": float, "head_lr": float, "eps": float}  # what the training is told
KNOWN = HEAD | TRAINING


@dataclass(frozen=True, kw_only=True)
class Variant:
    """ "softmax+cpr:20,100+mi form=difference lr=1e-4": a method and options; or "plain", the model as it came."""

    method: Method | None
    options: tuple[tuple[str, str], ...] = ()  # name and value, in the order of their names

    @classmethod
    def parse(cls, text: str) -> Variant:
        name, *rest = text.split() or [""]
        options = dict(_option(word, text) for word in rest)
        method = None if name == PLAIN else Method.parse(name)
        if method is None and options:
            raise ValueError(f"{text!r}: the plain model has no options.")
        return cls(method=method, options=tuple(sorted(options.items())))

    def __str__(self) -> str:
        name = PLAIN if self.method is None else str(self.method)
        return " ".join([name, *(f"{name}={value}" for name, value in self.options)])

    @property
    def title(self) -> str:
        if self.method is None:
            return "before training"
        told = ", ".join(f"{name} {value}" for name, value in self.options)
        return f"{self.method.title} ({told})" if told else self.method.title

    @property
    def folder(self) -> str:
        """Its name as that of a folder."""
        return str(self).replace(":", "").replace(",", "-").replace(" ", ";")

    def attached(self, model: Any) -> Any:
        """The model with this head."""
        assert self.method is not None, "the plain model has no head"
        return attach(model, self.method, **self._told(HEAD))

    def settings(self, usual: Any) -> Any:
        """How it is trained."""
        return replace(usual, **self._told(TRAINING))

    def _told(self, known: dict[str, Callable[[str], Any]]) -> dict[str, Any]:
        return {name: known[name](value) for name, value in self.options if name in known}


def _option(word: str, text: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    try:
        KNOWN[name](value)
    except (KeyError, ValueError):
        equals = ""
    if not (equals and value):
        raise ValueError(
            f"{text!r}: {word!r} is no option of a method. Write NAME=VALUE, names: {', '.join(KNOWN)}."
        ) from None
    return name, value
