"""What the demo shows beside perplexities: a text token by token, time and memory, and a verdict on both heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from statistics import fmean

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from unbottle.bench.cases import PLAIN, BenchSettings, CaseGroup, HeadVariant, Point, Shape
from unbottle.bench.run import Bench
from unbottle.eval.inference import evaluating
from unbottle.experiments.paired import PairedLosses, WindowLosses
from unbottle.experiments.presets import Json
from unbottle.experiments.workspace import portion
from unbottle.hf.explain import spelled
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress

CONTEXT_SHOWN = 96  # tokens at the start of the window without colour: a context needs words before it
TOKENS_SHOWN = 128


def marked_text(
    models: Mapping[str, PreTrainedModel], tokenizer: PreTrainedTokenizerBase, window: torch.Tensor
) -> Json:
    """The probability that each model gives to each token, and the partition that set it in the last model."""
    context = min(CONTEXT_SHOWN, len(window) // 2)
    tokens = [spelled(tokenizer, token) for token in window[: context + TOKENS_SHOWN].tolist()]
    ids, shown = window[None, : len(tokens)], slice(context - 1, len(tokens) - 1)
    targets = ids[0, context:, None]
    probabilities, partitions = {}, []
    for name, model in models.items():
        options = {"output_partitions": True} if isinstance(model, HeadMixin) else {}
        with evaluating(model):
            outputs = model(input_ids=ids.to(model.device), use_cache=False, **options)
        chosen = outputs.logits[0, shown].float().softmax(-1).gather(-1, targets)
        probabilities[name] = [round(value, 6) for value in chosen[:, 0].tolist()]
        if options:
            writers = outputs.partitions[0, shown].gather(-1, targets)[:, 0].tolist()
            partitions = [outputs.partition_names[writer] for writer in writers]
    return {
        "read": tokens[:context],
        "tokens": tokens[context:],
        "probabilities": probabilities,
        "partitions": partitions,
    }


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
class Verdict(PairedLosses):
    """Whether CPR, the first, is better than softmax, the second. `str` says it in words."""

    @property
    def is_better(self) -> bool:
        """The claim: with every seed."""
        return self.wins == len(self.first)

    def to_dict(self) -> Json:
        losses = {"softmax": self.second, "cpr": self.first, "low": self.low, "high": self.high}
        return losses | {"wins": self.wins, "is_better": self.is_better, "said": str(self)}

    def __str__(self) -> str:
        softmax, cpr = exp(fmean(self.second)), exp(fmean(self.first))
        numbers = f"perplexity {cpr:.2f} against {softmax:.2f} of the softmax head ({cpr / softmax - 1:+.1%})"
        condition = "on text that neither head was trained on, after the same training on the same data"
        return f"{self._claim()}: {numbers}, {condition}. {self._num_wins()}{self._interval()}"

    def _claim(self) -> str:
        if self.is_better:
            return "CPR is better here" if self.high is None or self.high < 0 else "CPR is slightly better here"
        return "CPR is NOT better here" if self.wins == 0 else "It is undecided here"

    def _num_wins(self) -> str:
        if len(self.first) == 1:
            return f"CPR {'won' if self.wins else 'lost'} with the one seed that was tried: --seeds 3 tries more."
        return f"CPR won with {self.wins} of {len(self.first)} seeds."

    def _interval(self) -> str:
        if self.low is None or self.high is None:
            return ""
        sure = "" if self.high < 0 or self.low > 0 else ", which includes no difference at all"
        return f" The 95 % bootstrap interval of the difference, over held-out windows, is {self.interval}{sure}."


def verdict(softmax: Sequence[WindowLosses], cpr: Sequence[WindowLosses]) -> Verdict:
    """From the losses of each held-out window, for each seed; both have the same windows and seeds."""
    return Verdict.of(cpr, softmax)
