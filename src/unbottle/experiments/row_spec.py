"""RowSpec: what a row of a results table stands for: a method, and options for its head and its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from transformers import PreTrainedModel

from unbottle.experiments.presets import Json
from unbottle.head.config import CONVENTIONS
from unbottle.head.projection import FORMS, OLD_NAMES
from unbottle.hf import attach
from unbottle.method import Method
from unbottle.train.presets import RunSettings

PLAIN = "plain"
LEARNING_RATE = "lr"
SettingsType = TypeVar("SettingsType", bound=RunSettings)


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    return lambda value: choices[choices.index(value)]


HEAD_OPTIONS: dict[str, Callable[[str], object]] = {
    "form": _one_of((*FORMS, *OLD_NAMES)),
    "convention": _one_of(CONVENTIONS),
    "gate_start": float,
    "neighbours": int,
}
TRAINING_OPTIONS: dict[str, Callable[[str], float]] = {LEARNING_RATE: float, "head_lr": float, "eps": float}
NUMBERS = ("gate_start", "neighbours", *TRAINING_OPTIONS)
OPTIONS: Mapping[str, Callable[[str], object]] = {**HEAD_OPTIONS, **TRAINING_OPTIONS}


@dataclass(frozen=True, kw_only=True)
class RowSpec:
    """A method with options, as in "softmax+cpr:20,100+mi form=paper lr=1e-4", or "plain", the untrained backbone.

    A row with several learning rates, as in lr=1e-4,3e-4, is trained with the best of them on the validation part.
    """

    method: Method | None
    options: tuple[tuple[str, str], ...] = ()  # (name, value), sorted by name

    @classmethod
    def parse(cls, text: str) -> RowSpec:
        words = text.split()
        name = " ".join(word for word in words if "=" not in word)
        options = dict(_parse_option(word, text) for word in words if "=" in word)
        method = None if name == PLAIN else Method.parse(name)
        if method is None and options:
            raise ValueError(f"{text!r}: the plain model has no options.")
        return cls(method=method, options=tuple(sorted(options.items())))

    def __str__(self) -> str:
        """The canonical text: what `parse` reads, and the name of the row in results.json."""
        name = PLAIN if self.method is None else str(self.method)
        return " ".join([name, *(f"{name}={value}" for name, value in self.options)])

    @property
    def title(self) -> str:
        """How tables and plots call the row."""
        if self.method is None:
            return "before training"
        options = ", ".join(f"{name} {value}" for name, value in self.options)
        return f"{self.method.title} ({options})" if options else self.method.title

    @property
    def folder_name(self) -> str:
        return str(self).replace(":", "").replace(",", "-").replace(" ", ";")

    @property
    def candidates(self) -> tuple[RowSpec, ...]:
        """One row for each learning rate to choose from; the row itself if there is nothing to choose."""
        rates = dict(self.options).get(LEARNING_RATE, "").split(",")
        if len(rates) == 1:
            return (self,)
        others = tuple(option for option in self.options if option[0] != LEARNING_RATE)
        return tuple(
            replace(self, options=tuple(sorted((*others, (LEARNING_RATE, rate))))) for rate in dict.fromkeys(rates)
        )

    def fits(self, vocabulary: int | None) -> bool:
        """Whether there are as many words as the reranker partitions take; None: any number."""
        return self.method is None or vocabulary is None or max(self.method.ks, default=0) <= vocabulary

    def attach_head(
        self, model: PreTrainedModel, *, form: str, gate_starts: Mapping[str, float] | None = None
    ) -> PreTrainedModel:
        """Attach the head of this row to a model.

        `form` and, by base, `gate_starts` apply unless the row names its own.
        """
        assert self.method is not None, "the plain model has no head"
        options: Json = {name: HEAD_OPTIONS[name](value) for name, value in self.options if name in HEAD_OPTIONS}
        options.setdefault("form", form)
        if gate_starts and self.method.base in gate_starts:
            options.setdefault("gate_start", gate_starts[self.method.base])
        model_with_head: PreTrainedModel = attach(model, self.method, **options)
        return model_with_head

    def training_settings(self, defaults: SettingsType) -> SettingsType:
        """The settings that this row is trained with: `defaults`, and what its options change."""
        options: Json = {
            name: TRAINING_OPTIONS[name](value) for name, value in self.options if name in TRAINING_OPTIONS
        }
        return replace(defaults, **options)


def _parse_option(word: str, text: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    try:
        for part in value.split(",") if name == LEARNING_RATE else [value]:
            OPTIONS[name](part)
    except (KeyError, ValueError):
        raise ValueError(
            f"{text!r}: {word!r} is not an option of a method. Known: form={'|'.join(FORMS)}, "
            f"convention={'|'.join(CONVENTIONS)}, {', '.join(f'{name}=NUMBER' for name in NUMBERS)}."
        ) from None
    return name, value
