"""marked_text: a stretch of held-out text, token by token: who set the logit of each, and how likely it was.

cost: time and memory of the heads beside the plain model, measured briefly by `unbottle.bench`.

verdict: is CPR better than softmax here? What the numbers say, whatever it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import Any

import torch

from unbottle.bench.cases import PLAIN, BenchSettings, CaseGroup, HeadVariant, Point, Shape
from unbottle.bench.run import Bench
from unbottle.eval.inference import evaluating
from unbottle.experiments.results import Paired, Windows, paired
from unbottle.hf.explain import spelled
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress

READ = 96  # tokens at the start of the window that give no colour: a context needs words before it
SHOWN = 128


def marked_text(models: Mapping[str, Any], tokenizer: Any, window: torch.Tensor) -> dict[str, Any]:
    """The probability that each model gave to the token that stands there, and the partition of the last model."""
    read = min(READ, len(window) // 2)
    tokens = [spelled(tokenizer, word) for word in window[: read + SHOWN].tolist()]
    ids, shown = window[None, : len(tokens)], slice(read - 1, len(tokens) - 1)
    targets = ids[0, read:, None]
    probabilities, partitions = {}, []
    for name, model in models.items():
        asked = {"output_partitions": True} if isinstance(model, HeadMixin) else {}
        with evaluating(model):
            said = model(input_ids=ids.to(model.device), use_cache=False, **asked)
        found = said.logits[0, shown].float().softmax(-1).gather(-1, targets)
        probabilities[name] = [round(value, 6) for value in found[:, 0].tolist()]
        if asked:
            writers = said.partitions[0, shown].gather(-1, targets)[:, 0].tolist()
            partitions = [said.partition_names[writer] for writer in writers]
    return {"read": tokens[:read], "tokens": tokens[read:], "probabilities": probabilities, "partitions": partitions}


LEFT_OUT = ("architectures", "dtype", "model_type", "transformers_version", "vocab_size", "_name_or_path")
CONTEXT = 128  # words before a step of decoding
POSITIONS = {"gpt2": "n_positions"}  # how an architecture calls its longest text


def cost(
    config: Any, methods: Sequence[str], *, length: int, repeats: int, memory: bool, threads: int, report: Progress
) -> list[dict[str, Any]]:
    """A row for each measure and method: a forward pass over one text, a step of decoding; memory of the former.

    Models of this shape with random weights cost what the trained ones do.
    """
    shape = shape_of(config)
    variants = tuple(HeadVariant(method=method) for method in (PLAIN, *methods))
    points = {
        "forward": Point(shape=shape, measure="forward", batch=1, length=length),
        "decode": Point(shape=shape, measure="decode", batch=1, length=length, context=min(CONTEXT, length)),
    }
    rows = []
    for number, (measure, point) in enumerate(points.items()):

        def inner(done: float, total: float, text: str, number: int = number) -> None:
            report(number + done / max(total, 1e-9), len(points), text)

        settings = BenchSettings(
            repeats=repeats * (1 if measure == "forward" else 3),  # a step of decoding is short
            threads=threads,
            memory=memory and measure == "forward",
        )
        bench = Bench(settings, report=inner, groups=[CaseGroup(point=point, variants=variants)])
        bench.run()
        rows += [row.to_dict() for row in bench.rows]
    return rows


def shape_of(config: Any) -> Shape:
    """The shape of a plain model, as data."""
    values = {name: value for name, value in config.to_dict().items() if name not in LEFT_OUT}
    return Shape(
        name="the model",
        model_type=config.model_type,
        config=values,
        vocabulary=config.vocab_size,
        positions=POSITIONS.get(config.model_type, "max_position_embeddings"),
    )


@dataclass(frozen=True, kw_only=True)
class Verdict(Paired):
    """The first is CPR, the second softmax."""

    @property
    def is_better(self) -> bool:
        """The claim: with every seed."""
        return self.wins == len(self.first)

    def to_dict(self) -> dict[str, Any]:
        losses = {"softmax": self.second, "cpr": self.first, "low": self.low, "high": self.high}
        return losses | {"wins": self.wins, "is_better": self.is_better, "said": str(self)}

    def __str__(self) -> str:
        softmax, cpr = exp(fmean(self.second)), exp(fmean(self.first))
        numbers = f"perplexity {cpr:.2f} against {softmax:.2f} of the softmax head ({cpr / softmax - 1:+.1%})"
        where = "on text that neither head was trained on, after the same training on the same data"
        return f"{self._claim()}: {numbers}, {where}. {self._how_often()}{self._drawn_again()}"

    def _claim(self) -> str:
        if self.is_better:
            return "CPR is better here" if self.high is None or self.high < 0 else "CPR is slightly better here"
        return "CPR is NOT better here" if self.wins == 0 else "It is undecided here"

    def _how_often(self) -> str:
        if len(self.first) == 1:
            return f"CPR {'won' if self.wins else 'lost'} with the one seed that was tried: --seeds 3 tries more."
        return f"CPR won with {self.wins} of {len(self.first)} seeds."

    def _drawn_again(self) -> str:
        if self.low is None or self.high is None:
            return ""
        sure = "" if self.high < 0 or self.low > 0 else ", which includes no difference at all"
        return f" Drawing the held-out windows again, 95 % of the differences are {self.interval}{sure}."


def verdict(softmax: Sequence[Windows], cpr: Sequence[Windows]) -> Verdict:
    """From the losses of each held-out window, for each seed; the same windows and seeds for both."""
    return Verdict(**vars(paired(cpr, softmax)))
