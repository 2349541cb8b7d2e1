"""A model by its name, wherever it lies.

Windows to train on, to choose a learning rate by, and held out: from anywhere in a text.

Comparison: everything that a comparison of output layers depends on but the method and the seed.

CompareLab: where the rows of a comparison are trained.

What is measured for each row of a comparison, and of all rows together.

compare: choose a learning rate for the baseline, then train and measure every row.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unbottle.data import Windows
from unbottle.data.sources import is_python
from unbottle.eval import perplexity, tagger
from unbottle.eval.logit_rank import effective_rank, gradient_share
from unbottle.eval.perplexity import likely_tokens
from unbottle.experiments.corpora import Corpus, content_of
from unbottle.experiments.demo_text import code
from unbottle.experiments.language_tables import WHERE, dots, order_of
from unbottle.experiments.presets import AnyPreset, Backbone
from unbottle.experiments.replay import ReadAlready
from unbottle.experiments.results import Column, Experiment, Record, Row, paired, percent
from unbottle.experiments.row_spec import Variant
from unbottle.experiments.runner import reproduce
from unbottle.experiments.workspace import CONTENT, Lab
from unbottle.head.projection import DEFAULT_FORM
from unbottle.progress import Progress
from unbottle.train import Settings
from unbottle.train.divergence import DivergenceError
from unbottle.train.hidden_state_cache import WindowsWithStates, cache_hidden_states
from unbottle.train.presets import TINY


def named_model(preset: AnyPreset) -> dict[str, Backbone]:
    """The backbones of a preset without the folders of this machine."""
    return {
        title: replace(backbone, pretrained=Path(str(backbone.pretrained)).name)
        for title, backbone in preset.backbones.items()
    }


LIBRARY = {"train": "train", "valid": "base", "test": "test"}  # its parts; no model is trained from nothing here
EACH = 2  # windows of a file, at most: many files say more than long ones
CUT = (0.8, 0.1, 0.1)  # of a text in one piece


def windows_of(data: str, tokenizer: Any, length: int, tokens: dict[str, int]) -> dict[str, Windows]:
    """Windows of each part, at least so many tokens of it."""
    if is_python(data):
        library = code()
        return {
            part: library.windows(LIBRARY[part], tokenizer, length=length, tokens=count, each=EACH)[0]
            for part, count in tokens.items()
        }
    corpus = Corpus.of(data, tokenizer, CUT)
    return {part: spread(getattr(corpus, part), length, count, part) for part, count in tokens.items()}


def spread(tokens: np.ndarray, length: int, wanted: int, part: str) -> Windows:
    """Whole windows at equal distances: the first ones of a text would be of one or two articles."""
    have, count = len(tokens) // length, -(-wanted // length)
    if have < count:
        raise ValueError(
            f"the part {part!r} of the text has {len(tokens):,} tokens, and {count * length:,} are wanted. Give more "
            "text, or ask for fewer tokens."
        )
    starts = [place * have // count * length for place in range(count)]
    return Windows(np.concatenate([tokens[start : start + length] for start in starts]), length, whole=True)


SOFTMAX = "softmax+mi"
CPR = "softmax+cpr:20,100+mi"
OTHERS = (
    "mos+mi", "pg+mi", "ps+mi", "softmax+c+mi", "softmax+p+mi", "softmax+r:20,100+mi", "softmax+cr:20,100+mi", CPR,
    f"{CPR} convention=release", "mos+cpr:20,100+mi",
)  # fmt: skip
PAPER = "form=paper"  # which breaks on models of today at the learning rate of the others: LOG.md
METHODS = ("plain", "softmax", SOFTMAX, *OTHERS, f"{SOFTMAX} {PAPER}", f"{CPR} {PAPER}")
LEARNING_RATES = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4)
ROWS = Settings(
    output="",
    train="head",
    length=256,
    batch=2,
    eps=TINY,
    clip=1.0,
    schedule="linear",
    warmup_steps=10,
    report_to=(),
    save_every=None,
    keep=1,
)


@dataclass(frozen=True, kw_only=True)
class Comparison(AnyPreset):
    """All rows start from one pretrained model. Learning rates are tried for the baseline, the best one is for all."""

    name: str = "compare"
    about: str = "Output layers on a model and a text of one's own."
    rows: Settings = ROWS
    lrs: tuple[float, ...] = LEARNING_RATES
    train_tokens: int = 24_576
    valid_tokens: int = 4_096
    test_tokens: int = 12_288
    k: int = 100  # words of W(k), by which tokens are grouped
    tagger: str = "auto"  # of names
    shuffles: int = 6  # orders of each list
    gradients: int = 0  # positions at which the share of the gradient is measured, which takes seconds each
    baseline: ClassVar[str] = SOFTMAX  # the row that all others are compared with

    def to_dict(self) -> dict[str, Any]:
        """The model, the text and the tagger's model by their names, wherever they lie."""
        kind, colon, path = self.tagger.partition(":")
        tagger = f"{kind}{colon}{Path(path).name}"
        return AnyPreset.to_dict(replace(self, data=Path(self.data).name, backbones=named_model(self), tagger=tagger))


def comparison(model: str, data: str, **options: Any) -> Comparison:
    """Of this model."""
    return Comparison(data=data, backbones={Path(model).name: Backbone(pretrained=model)}, **options)


BATCH = 2  # windows that are evaluated at once: their logits fill 100 MB if there are 49,152 words


class CompareLab(Lab):
    """One pretrained model, one text. A frozen model reads each window once, for all rows and seeds."""

    form = DEFAULT_FORM
    lr: float | None = None  # of all rows, once it is chosen
    keep_models = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cpu: dict[Path, float] = {}  # seconds of all threads, for what was trained just now
        self._likely: dict[tuple[str, str], list[Any]] = {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        models = {size: content_of(str(backbone.pretrained)) for size, backbone in self.preset.backbones.items()}
        return {
            "preset": self.preset.to_dict(),
            "data": Path(self.data).name,
            CONTENT: content_of(self.data),
            "models": models,
        }

    @property
    def frozen(self) -> bool:
        return bool(self.preset.rows.train == "head")

    @property
    def usual(self) -> Any:
        """How rows are trained."""
        rows = replace(self.preset.rows, states=str(self.folder / "states"))
        return rows if self.lr is None else replace(rows, lr=self.lr)

    @cached_property
    def parts(self) -> dict[str, Any]:
        self.report(0, 1, "reading the text")
        preset = self.preset
        tokens = {"train": preset.train_tokens, "valid": preset.valid_tokens, "test": preset.test_tokens}
        return windows_of(self.data, self.tokenizer, preset.rows.length, tokens)

    def reader(self, model: Any, part: str) -> Any:
        """What predicts the windows of a part: the model, or its head and what the frozen model said about them."""
        return ReadAlready(model, self.cache_hidden_states(model, part)) if self.frozen else model

    def cache_hidden_states(self, model: Any, part: str) -> WindowsWithStates:
        return cache_hidden_states(model, self.parts[part], self.usual, self.report)

    def before(self, size: str) -> Any:
        """A fresh head predicts what the plain model does, and has a place for hidden states."""
        return self.with_head(Variant.parse(self.preset.baseline), 0, size).eval()

    def likely(self, part: str, size: str) -> list[Any]:
        """Which tokens are in W(k) of the plain model: the groups of all rows."""
        key = (part, size)
        if key not in self._likely:
            windows = self.parts[part]
            reader = self.reader(self.before(size), part)
            self._likely[key] = likely_tokens(reader, windows, k=self.preset.k, batch=BATCH)
        return self._likely[key]

    def trained(self, method: str, seed: int, *, size: str, share: float = 1.0) -> Path:
        assert share == 1, "rows of a comparison are trained in full"
        name = "rows" if self.lr is None else f"rows-{self.lr:g}"
        return self.row(lambda: self.parts["train"], self.usual, method, seed, name, size)

    def fit(self, model: Any, data: Any, settings: Any, *, report: Progress, tokenizer: Any) -> None:
        if self.frozen:
            cache_hidden_states(model, data, settings, report)  # once for all rows: no part of this one's time
        started = time.process_time()
        super().fit(model, data, settings, report=report, tokenizer=tokenizer)
        self.cpu[Path(settings.output)] = time.process_time() - started

    def done_with(self, model: Path) -> None:
        """A hundred models of half a gigabyte: only their numbers are kept, unless somebody wants them."""
        if not self.keep_models:
            shutil.rmtree(model.parent)


NAMES = "proper noun"  # the group of tokens that the tagger finds


def measure(lab: CompareLab, method: str, seed: int, size: str, *, part: str = "test") -> dict[str, Any]:
    """Train, then the perplexity of a part; with the first seed, what else is said of the model.

    The same windows and groups for all methods. The trained model is not kept. A training that breaks is a result too.
    """
    variant, folder = Variant.parse(method), None
    if variant.method is None:
        model = lab.before(size)
    else:
        try:
            folder = lab.trained(method, seed, size=size)
        except DivergenceError as error:
            return {"broken": str(error).split(", on rows")[0]}
        model = lab.load(folder)
    reader = lab.reader(model, part)
    found = perplexity(
        reader,
        lab.parts[part],
        k=lab.preset.k,
        likely=lab.likely(part, size),
        tokenizer=lab.tokenizer,
        tagger=tagger(lab.preset.tagger),
        batch=BATCH,
    ).to_dict()
    groups = {name: found["groups"][name]["perplexity"] for name in (*WHERE, NAMES)}
    shares = {f"share of {name}": found["groups"][name]["share"] for name in (*WHERE, NAMES)}
    numbers = {
        "head": 0.0 if folder is None else sum(weight.numel() for weight in model.head.parameters()) / 1e6,
        "loss": found["loss"],
        "perplexity": found["perplexity"],
        "tokens": found["tokens"],
        "tagger": found["tagger"],
        **groups,
        **shares,
        "windows": found["windows"],
    }
    if folder is not None and folder.parent in lab.cpu:
        numbers["cpu"] = lab.cpu[folder.parent]
    if seed == 0 and part == "test":
        numbers |= order_of(model, lab.tokenizer, lab.preset.shuffles)
        rank = effective_rank(reader, lab.parts[part])
        numbers |= {"rank": rank.effective, "directions": float(rank.numerical)}
        if lab.preset.gradients:
            numbers["gradient"] = gradient_share(model, lab.parts[part], positions=lab.preset.gradients).share
    if folder is not None:
        lab.done_with(folder)
    return numbers


def together(lab: Any, rows: Sequence[Row], *, baseline: str) -> dict[str, Any]:
    """Each method against the baseline, on the windows and seeds that both have."""
    found: dict[str, dict[int, Any]] = {}
    said: dict[str, Any] = {}
    broken = Counter(row.method for row in rows if "windows" not in row.found)
    for row in rows:
        if "windows" in row.found:
            found.setdefault(row.method, {})[row.seed] = row.found["windows"]
        else:
            said[row.method] = {"difference": "broken", "interval": row.found["broken"]}
    if baseline not in found:
        return said
    for method, seeds in found.items():
        common = sorted(seeds.keys() & found[baseline].keys())
        if method == baseline or not common:
            continue
        pair = paired([seeds[seed] for seed in common], [found[baseline][seed] for seed in common])
        said[method] = {
            "difference": percent(pair.difference),
            "interval": pair.interval,
            "wins": f"{pair.wins} of {len(common)}" + (f" and {broken[method]} broken" if method in broken else ""),
            "low": pair.low,
            "high": pair.high,
        }
    return said


def rates(methods: tuple[str, ...], name: str, told: str) -> Experiment:
    """Rows with several learning rates, on text that is neither trained on nor held out."""
    return Experiment(
        name=name,
        title="Which learning rate suits a row? Perplexity of the validation part",
        methods=methods,
        measure=partial(measure, part="valid"),
        columns=(Column("Perplexity", "perplexity"),),
        lab=CompareLab,
        told=told,
    )


def comparison_of(
    methods: tuple[str, ...], name: str, *, title: str, told: str, lr: float, baseline: str
) -> Experiment:
    return Experiment(
        name=name,
        title=title,
        methods=methods,
        measure=measure,
        columns=(
            Column("Perplexity", "perplexity"),
            Column("to the baseline", "difference"),
            Column("95 %", "interval"),
            Column("better", "wins"),
            Column("in context", "context", 2, "by token"),
            Column("in W(100)", "top", 2, "by token"),
            Column("elsewhere", "elsewhere", 2, "by token"),
            Column("names", NAMES, 2, "by token"),
            Column("head, M", "head", 1, "other"),
            Column("training, CPU s", "cpu", 0, "other"),
            Column("evenness", "evenness", 3, "other"),
            Column("mass on the list", "mass", 3, "other"),
            Column("winner changes", "changes", 3, "other"),
            Column("mass repeated", "repeated", 3, "other"),
            Column("effective rank", "rank", 0, "other"),
            Column("directions", "directions", 0, "other"),
            Column("gradient", "gradient", 2, "other"),
        ),
        lab=CompareLab,
        finish=partial(together, baseline=baseline),
        plot=partial(dots, mark=Variant.parse(baseline).title),
        note=NOTE.format(lr=lr, baseline=Variant.parse(baseline).title),
        told=told,
    )


NOTE = (
    "All rows: the same windows in the same order, learning rate {lr:g} unless a row names its own. "
    "To the baseline, which is {baseline}: difference of perplexities, "
    "the interval by drawing the held-out windows again (paired, losses averaged over seeds), and with how many seeds "
    "it is better. In context, in W(100), elsewhere: by where the true next token was, W(100) is that of the model "
    "before training; names: by the tagger that results.json tells. Evenness, mass on the list and winner changes: "
    "over lists to choose from, each in several orders; mass repeated: what a list that should go on with something "
    "new gives to what was listed. Effective rank of the logits at 1,024 positions (exp of the entropy of their "
    "singular values), and singular values above 1e-5 of the largest. Gradient: share of the norm of the logits' "
    "gradient that the last hidden state can follow, if asked for. These seven: first seed."
)


TRAINED = {
    "head": "only the head is trained",
    "all": "all weights are trained",
    "lora": "LoRA and the head are trained",
}


def compare(lab: CompareLab, output: Path, methods: Sequence[str], *, seeds: Sequence[int], told: str) -> Record:
    """The record of all rows; what is done already is not done again."""
    size, data, train = next(iter(lab.preset.backbones)), Path(lab.data).name, lab.preset.rows.train
    lab.lr, rows = with_rates(lab, output, [Variant.parse(method) for method in methods], told)
    experiment = comparison_of(
        tuple(dict.fromkeys(map(str, rows))),
        f"{data}-{train}",
        title=f"Output layers of {size} on {data}: {TRAINED[train]}",
        told=told,
        lr=lab.lr,
        baseline=lab.preset.baseline,
    )
    return reproduce(experiment, lab, output, seeds=seeds)


def with_rates(lab: CompareLab, output: Path, rows: list[Variant], told: str) -> tuple[float, list[Variant]]:
    """A learning rate for all, and the rows that have several with one: what predicts the validation part best.

    The one for all is chosen for the baseline.
    """
    usual = [Variant.parse(f"{lab.preset.baseline} lr={rate:g}") for rate in lab.preset.lrs]
    choices = [each for each in (usual, *(row.choices for row in rows)) if len(each) > 1]
    tried = tuple(dict.fromkeys(str(variant) for each in choices for variant in each))
    losses: dict[str, float] = {}
    if tried:
        data, train = Path(lab.data).name, lab.preset.rows.train
        record = reproduce(rates(tried, f"{data}-{train}-lr", told), lab, output)
        losses = {row.method: row.found["loss"] for row in record.rows if "loss" in row.found}
    best = _best(usual, losses)
    return dict(zip(usual, lab.preset.lrs, strict=True))[best], [_best(row.choices, losses) for row in rows]


def _best(choices: Sequence[Variant], losses: dict[str, float]) -> Variant:
    if len(choices) == 1:
        return choices[0]
    learnt = [each for each in choices if str(each) in losses]
    if not learnt:
        raise ValueError(f"{', '.join(map(str, choices))}: training broke with each. Give lower rates.")
    return min(learnt, key=lambda each: losses[str(each)])
