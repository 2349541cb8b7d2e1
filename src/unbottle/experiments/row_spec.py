"""Variant: a row of a table: a method, and what is done otherwise with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from unbottle.head.config import CONVENTIONS
from unbottle.head.projection import FORMS, OLD_NAMES
from unbottle.hf import attach
from unbottle.method import Method

PLAIN = "plain"
HEAD: dict[str, Callable[[str], Any]] = {  # what attach is told
    "form": lambda value: (*FORMS, *OLD_NAMES)[(*FORMS, *OLD_NAMES).index(value)],
    "convention": lambda value: CONVENTIONS[CONVENTIONS.index(value)],
}
TRAINING: dict[str, Callable[[str], Any]] = {"lr": float, "head_lr": float, "eps": float}  # what the training is told
KNOWN = HEAD | TRAINING
RATE = "lr"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """ "softmax+cpr:20,100+mi form=paper lr=1e-4": a method and options; or "plain", the model as it came.

    Of several learning rates, as lr=1e-4,3e-4, one is still to be chosen.
    """

    method: Method | None
    options: tuple[tuple[str, str], ...] = ()  # name and value, in the order of their names

    @classmethod
    def parse(cls, text: str) -> Variant:
        words = text.split()
        name = " ".join(word for word in words if "=" not in word)
        options = dict(_option(word, text) for word in words if "=" in word)
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

    @property
    def choices(self) -> tuple[Variant, ...]:
        """One for each of its learning rates."""
        several = dict(self.options).get(RATE, "").split(",")
        if len(several) == 1:
            return (self,)
        others = tuple(option for option in self.options if option[0] != RATE)
        return tuple(replace(self, options=tuple(sorted((*others, (RATE, rate))))) for rate in dict.fromkeys(several))

    def attached(self, model: Any, *, form: str) -> Any:
        """The model with this head; `form` unless the row names one."""
        assert self.method is not None, "the plain model has no head"
        return attach(model, self.method, **{"form": form} | self._told(HEAD))

    def settings(self, usual: Any) -> Any:
        """How it is trained."""
        return replace(usual, **self._told(TRAINING))

    def _told(self, known: dict[str, Callable[[str], Any]]) -> dict[str, Any]:
        return {name: known[name](value) for name, value in self.options if name in known}


def _option(word: str, text: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    try:
        for each in value.split(",") if name == RATE else [value]:
            KNOWN[name](each)
    except (KeyError, ValueError):
        raise ValueError(
            f"{text!r}: {word!r} is no option of a method. Known: form={'|'.join(FORMS)}, "
            f"convention={'|'.join(CONVENTIONS)}, {', '.join(f'{name}=NUMBER' for name in TRAINING)}."
        ) from None
    return name, value
