"""What the demo says beside its numbers: time and memory of both heads, and a verdict on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Self

from transformers import PreTrainedConfig

from unbottle.bench.cases import PLAIN, BenchSettings, CaseGroup, HeadVariant, Point, Shape
from unbottle.bench.run import Bench
from unbottle.experiments.presets import Json
from unbottle.experiments.workspace import portion
from unbottle.progress import Progress

NOT_SHAPE = ("architectures", "dtype", "model_type", "transformers_version", "vocab_size", "_name_or_path")
DECODING_CONTEXT = 128  # tokens before a decoding step
POSITIONS = {"gpt2": "n_positions"}  # name of the maximum length in the config of an architecture


def measure_cost(
    config: PreTrainedConfig,
    methods: Sequence[str],
    *,
    length: int,
    repeats: int,
    memory: bool,
    threads: int,
    progress: Progress,
) -> list[Json]:
    """Time of a forward pass and of a decoding step, and memory of the former, for the plain model and each method.

    Models of the same shape with random weights cost what the trained ones do.
    """
    shape = Shape(
        name="the model",
        model_type=config.model_type,
        config={name: value for name, value in config.to_dict().items() if name not in NOT_SHAPE},
        vocabulary=config.vocab_size,
        positions=POSITIONS.get(config.model_type, "max_position_embeddings"),
    )
    variants = tuple(HeadVariant(method=method) for method in (PLAIN, *methods))
    context = min(DECODING_CONTEXT, length)
    forward = Point(shape=shape, measure="forward", batch=1, length=length)
    decode = Point(shape=shape, measure="decode", batch=1, length=length, context=context)
    runs = (
        (forward, BenchSettings(repeats=repeats, threads=threads, memory=memory)),
        (decode, BenchSettings(repeats=3 * repeats, threads=threads, memory=False)),  # a decoding step is short
    )
    rows: list[Json] = []
    for number, (point, settings) in enumerate(runs):
        report = portion(progress, number, 1, len(runs))
        bench = Bench(settings, report=report, groups=[CaseGroup(point=point, variants=variants)])
        bench.run()
        rows += [row.to_dict() for row in bench.rows]
    return rows


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether CPR is better than softmax on ambiguous contexts and on real text. `str` says it in words."""

    softmax: tuple[float, ...]  # perplexity on ambiguous contexts, with each seed
    cpr: tuple[float, ...]
    groups: Mapping[str, Json]  # as compare_groups returns them

    @classmethod
    def of(cls, contexts: Mapping[str, Sequence[Json]], groups: Mapping[str, Json]) -> Self:
        softmax, cpr = (tuple(run["perplexity"] for run in contexts[name]) for name in ("softmax", "cpr"))
        return cls(softmax=softmax, cpr=cpr, groups=groups)

    @property
    def ratios(self) -> list[float]:
        """How many times lower the perplexity of CPR is on ambiguous contexts, with each seed."""
        return [softmax / cpr for softmax, cpr in zip(self.softmax, self.cpr, strict=True)]

    @property
    def ratio(self) -> float:
        """Their geometric mean."""
        return exp(fmean(map(log, self.ratios)))

    @property
    def is_better(self) -> dict[str, bool | None]:
        """On ambiguous contexts: with every seed. On real text: with every seed, if 95 % of the samples agree.

        None where neither head is better.
        """
        wins = sum(ratio > 1 for ratio in self.ratios)
        every = {len(self.ratios): True, 0: False}
        text, seeds = self.groups["all"], len(self.groups["all"]["models"]["cpr"]["perplexity"])
        sure = text["low"] is None or text["low"] > 0 or text["high"] < 0
        return {"contexts": every.get(wins), "text": {seeds: True, 0: False}.get(text["wins"]) if sure else None}

    def to_dict(self) -> Json:
        return {"ratios": self.ratios, "ratio": self.ratio, "is_better": self.is_better, "said": str(self)}

    def __str__(self) -> str:
        said = {True: "better", False: "NOT better", None: "neither better nor worse"}
        better = self.is_better
        if better["contexts"] == better["text"]:
            claim = f"CPR is {said[better['text']]} here, on ambiguous contexts and on real text."
        else:
            contexts, text = said[better["contexts"]], said[better["text"]]
            claim = f"CPR is {contexts} here on ambiguous contexts, and {text} on real text."
        return f"{claim} {self._contexts()} {self._text()}{self._seeds()}"

    def _contexts(self) -> str:
        softmax, cpr = (exp(fmean(map(log, values))) for values in (self.softmax, self.cpr))
        times = f"{self.ratio:.1f} times lower" if self.ratio >= 1 else f"{1 / self.ratio:.1f} times higher"
        both = f"its perplexity is {cpr:.1f}, that of the softmax head {softmax:.1f}"
        return f"Where two words are equally likely, {both}: {times}."

    def _text(self) -> str:
        names = {"names": "names", "context": "words used before", "all": "all words", "new": "new words"}
        changes = [f"{self._change(group)} for {name}" for group, name in names.items() if group in self.groups]
        return f"On held-out text its perplexity differs by {', '.join(changes[:-1])} and {changes[-1]}."

    def _change(self, group: str) -> str:
        values = self.groups[group]
        around = "" if values["low"] is None else f" ({values['low']:+.1%} to {values['high']:+.1%})"
        return f"{values['change']:+.1%}{around}"

    def _seeds(self) -> str:
        return " One seed: --thorough tries three." if len(self.ratios) == 1 else f" {len(self.ratios)} seeds."
