"""unbottle demo: a real model on ambiguous contexts, then on real text, with a softmax head and with a CPR head.

Act one (`demo_contexts`) trains heads for seconds where two words are equally likely. Act two (`demo_text`) is a
comparison of two output layers on one frozen model and one text. Act three is what it costs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Self, cast

import torch
from transformers import AutoConfig

from unbottle.bench.cases import BenchSettings, CaseGroup, HeadVariant, Point, Shape
from unbottle.bench.run import Bench, machine
from unbottle.eval.inference import LanguageModel
from unbottle.experiments.corpora import LICENCE
from unbottle.experiments.demo_contexts import (
    StoredContexts,
    ambiguous_contexts,
    evaluate_head,
    one_token_pairs,
    shown_contexts,
    train_head,
)
from unbottle.experiments.demo_text import TokenScores, compare_groups, extreme_sentences, marked_text, token_groups
from unbottle.experiments.demo_workspace import (
    BEFORE,
    CONTEXT_METHODS,
    METHODS,
    NAMES,
    SECONDS,
    TINY_GPT2,
    DemoPreset,
    DemoWorkspace,
)
from unbottle.experiments.language_tables import num_parameters
from unbottle.experiments.presets import Json
from unbottle.experiments.results import BROKEN, Experiment, ResultRow, RowKey
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.experiments.runner import Steps, run_experiment
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.pretrained import NO_CODE
from unbottle.progress import portion

# -- act one: ambiguous contexts


def run_contexts(workspace: DemoWorkspace, *, seeds: int) -> Json:
    """Heads trained on ambiguous contexts, and tested on other words in another sentence, with each seed."""
    runs: list[Json] = [
        workspace.cached(f"contexts-{seed}", partial(measure_contexts, workspace, seed)) for seed in range(seeds)
    ]
    return {
        "methods": CONTEXT_METHODS,
        "settings": asdict(workspace.preset.contexts),
        "train": runs[0]["train"],
        "test": runs[0]["test"],
        "shown": [{"prompt": item.prompt, "words": [*item.answers, *item.distractors]} for item in shown_contexts()],
        "models": {name: [run["models"][name] for run in runs] for name in (BEFORE, *CONTEXT_METHODS)},
    }


def measure_contexts(workspace: DemoWorkspace, seed: int) -> Json:
    """All heads of one seed: they read the same hidden states in the same order."""
    settings, size, progress = workspace.preset.contexts, workspace.size, workspace.progress
    first, base = (2.0, 0.4) if workspace.preset.wheel else (16.0, 0.9)  # weight, and share of the backbone in it
    steps = Steps(progress, first + len(CONTEXT_METHODS))
    with steps.step("ambiguous contexts", first) as workspace.progress:
        with workspace.phase(0, base):  # where a model is downloaded or trained
            model, tokenizer = cast(HeadMixin, workspace.untrained(size)), workspace.tokenizer
        contexts, stored = ambiguous_contexts(one_token_pairs(tokenizer), settings, seed=seed), {}
        for part, start, end in (("train", base, (2 + base) / 3), ("test", (2 + base) / 3, 1)):
            with workspace.phase(start, end):
                stored[part] = StoredContexts.read(model, tokenizer, contexts[part], workspace.progress)
    num_shown = len(shown_contexts())
    models = {BEFORE: evaluate_head(model, stored["test"], num_shown)}
    for name, method in CONTEXT_METHODS.items():
        spec, started = RowSpec.parse(method), time.monotonic()
        with steps.step(f"{spec.title} on ambiguous contexts", 1) as report:
            model = cast(HeadMixin, workspace.with_new_head(spec, seed, size))
            train_head(model, stored["train"], settings, seed=seed, progress=report)
        models[name] = evaluate_head(model, stored["test"], num_shown) | {"seconds": time.monotonic() - started}
    workspace.progress = progress
    steps.finish()
    return {"train": len(contexts["train"]), "test": len(contexts["test"]) - num_shown, "models": models}


# -- act two: real text

TRAINED = 0.9  # share of a row's time before its held-out windows are scored


def measure(workspace: DemoWorkspace, row: RowKey) -> Json:
    """Train a row, then score each token of the held-out windows from stored hidden states."""
    started = time.monotonic()
    if row.method == PLAIN:
        model = workspace.untrained(row.size)
        for part, start, end in (("train", 0, 0.5), ("test", 0.5, TRAINED)):
            with workspace.phase(start, end):
                workspace.stored_windows(model, part)
    else:
        with workspace.phase(0, TRAINED):
            folder = workspace.trained_model(*row)
        model = workspace.load(folder)
    trained = time.monotonic()
    with workspace.phase(TRAINED, 1):
        reader = cast(LanguageModel, workspace.reader(model, "test"))
        metrics = TokenScores.of(reader, workspace.eval_windows("test"), workspace.labelled("held-out text")).to_dict()
    if row.method != PLAIN:
        metrics["head_parameters"] = num_parameters(model.get_submodule("head"))
        workspace.discard(folder)
    return metrics | {"seconds": trained - started}


def show_models(workspace: DemoWorkspace, rows: Sequence[ResultRow]) -> Json:
    """What the models of the first seed do. Everything is computed once: further seeds do not change it."""
    if any(row.is_broken for row in rows):
        return {}
    windows, tokenizer = workspace.eval_windows("test"), workspace.tokenizer
    scores = {NAMES[row.method]: scores_of(row) for row in rows if row.seed == 0}
    found = extreme_sentences(windows, tokenizer, scores["softmax"], scores["cpr"])
    parts = {
        part: {"files": workspace.num_files[part], "tokens": len(windows) * windows.length, "windows": len(windows)}
        for part, windows in workspace.parts.items()
    }
    return {
        "sizes": parts | {"parameters": num_parameters(workspace.models[BEFORE])},
        "sentences": {
            name: marked_text(workspace.models, tokenizer, windows[window]["input_ids"], start, end)
            for name, (window, start, end) in found.items()
        },
    }


def scores_of(row: ResultRow) -> TokenScores:
    return TokenScores(losses=row.metrics["losses"], correct=row.metrics["correct"])


def run_text(workspace: DemoWorkspace, *, seeds: int, cost: bool) -> Json:
    """Both heads trained on real text with each seed, and everything that is said about them."""
    experiment = Experiment(
        name="demo",
        title=f"A softmax head and a CPR head on {workspace.size}",
        methods=tuple(NAMES),
        measure=measure,
        columns=(),
        workspace=DemoWorkspace,
        finish=show_models,
        command="unbottle demo",
        seconds=SECONDS,
    )
    wanted = [row for row in experiment.rows(workspace.preset, range(seeds)) if row.method != PLAIN or row.seed == 0]
    results = run_experiment(experiment, workspace, workspace.folder / "found", wanted)
    rows = [row for row in results.sorted() if row.key in wanted]
    for row in rows:
        if row.is_broken:
            raise ValueError(f"training of {NAMES[row.method]}, seed {row.seed}, diverged: {row.metrics[BROKEN]}")
    preset, sizes = workspace.preset, results.together["sizes"]
    scores = {name: [scores_of(row) for row in rows if NAMES[row.method] == name] for name in NAMES.values()}
    groups = token_groups(workspace.eval_windows("test"), workspace.tokenizer, preset.tagger_of_names)
    return {
        "model": describe_model(preset) | {"parameters": sizes["parameters"]},
        "text": {
            "what": workspace.text.description,
            "licence": LICENCE,
            "train": sizes["train"],
            "test": sizes["test"],
            "names": preset.tagger_of_names.description,
        },
        "methods": METHODS,
        "training": {name: getattr(preset.rows, name) for name in ("lr", "batch", "length", "epochs")}
        | {"form": preset.form},
        "groups": compare_groups(scores, groups),
        "sentences": results.together["sentences"],
        "heads": {
            NAMES[row.method]: {"parameters": row.metrics["head_parameters"], "seconds": row.metrics["seconds"]}
            for row in rows
            if row.seed == 0 and row.method != PLAIN
        },
        "cost": workspace.cached("cost", lambda: measure_cost(workspace)) if cost else [],
        "models": {
            BEFORE: without_home(Path(workspace.base(workspace.size))),
            **{name: str(workspace.folder / name / "model") for name in METHODS},
        },
    }


# -- act three: what it costs

NOT_SHAPE = ("architectures", "dtype", "model_type", "transformers_version", "vocab_size", "_name_or_path")
DECODING_CONTEXT = 128  # tokens before a decoding step


def measure_cost(workspace: DemoWorkspace) -> list[Json]:
    """Time of a forward pass and of a decoding step, and memory of the former, for the plain model and each method.

    Models of the same shape with random weights cost what the trained ones do.
    """
    config = AutoConfig.from_pretrained(workspace.base(workspace.size), **NO_CODE)
    shape = Shape(
        name="the model",
        model_type=config.model_type,
        config={name: value for name, value in config.to_dict().items() if name not in NOT_SHAPE},
        vocabulary=config.vocab_size,
    )
    variants = tuple(HeadVariant(method=method) for method in (PLAIN, *METHODS.values()))
    length, threads = workspace.preset.rows.length, torch.get_num_threads()
    forward = Point(shape=shape, measure="forward", batch=1, length=length)
    decode = replace(forward, measure="decode", context=min(DECODING_CONTEXT, length))
    runs = (
        (forward, BenchSettings(repeats=3, threads=threads, memory=workspace.preset.memory)),
        (decode, BenchSettings(repeats=9, threads=threads, memory=False)),  # a decoding step is short
    )
    rows: list[Json] = []
    for number, (point, settings) in enumerate(runs):
        report = portion(workspace.progress, number, 1, len(runs))
        bench = Bench(settings, report=report, groups=[CaseGroup(point=point, variants=variants)])
        bench.run()
        rows += [row.to_dict() for row in bench.rows]
    return rows


# -- all acts


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
            claim = f"CPR is {said[better['text']]} here, where two words are possible and on real text."
        else:
            contexts, text = said[better["contexts"]], said[better["text"]]
            claim = f"CPR is {contexts} here where two words are possible, and {text} on real text."
        return f"{claim} {self._contexts()} {self._text()}{self._seeds()}"

    def _contexts(self) -> str:
        softmax, cpr = (exp(fmean(map(log, values))) for values in (self.softmax, self.cpr))
        times = f"{self.ratio:.1f} times lower" if self.ratio >= 1 else f"{1 / self.ratio:.1f} times higher"
        return f"Two possible words: perplexity {cpr:.1f}, {times} than that of the softmax head ({softmax:.1f})."

    def _text(self) -> str:
        everything = self.groups["all"]
        low, high = everything["low"], everything["high"]
        around = "" if low is None else f" (95 % interval {low:+.1%} to {high:+.1%})"
        names = {"names": "names", "context": "words used before", "new": "new words"}
        changes = {name: self.groups[group]["change"] for group, name in names.items() if group in self.groups}
        parts = [f"{change:+.1%} at {name}" for name, change in changes.items()]
        return f"Real text: perplexity {everything['change']:+.1%} over all words{around}; {', '.join(parts)}."

    def _seeds(self) -> str:
        seeds = len(self.ratios)
        return " With one seed; --thorough tries three." if seeds == 1 else f" With {seeds} seeds."


def demo_result(workspace: DemoWorkspace, contexts: Json, text: Json) -> Json:
    """Everything that the terminal and the page show."""
    verdict = Verdict.of(contexts["models"], text["groups"])
    return {
        "plan": workspace.preset.name,
        "contexts": contexts,
        **text,
        "machine": machine(),
        "verdict": verdict.to_dict(),
    }


def describe_model(preset: DemoPreset) -> Json:
    """What the backbone is, and its licence."""
    if preset.wheel is None:
        about = f"trained from scratch on {preset.base_tokens:,} tokens of other files and on such sentences"
        return {"title": TINY_GPT2, "about": about, "licence": None}
    about = f"from the package {preset.wheel} on the package index: {preset.wheel.made}"
    return {"title": preset.wheel.title, "about": about, "licence": preset.wheel.licence}


def without_home(path: Path) -> str:
    """A path that does not say whose home it is in."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
