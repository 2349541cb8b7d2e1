"""What is measured for each row of a comparison, and of all rows together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from unbottle.eval import perplexity, tagger
from unbottle.eval.effective_rank import effective_rank
from unbottle.eval.gradient_share import gradient_share
from unbottle.recipes.compare.compare_lab import BATCH, CompareLab
from unbottle.recipes.experiment import Column, Experiment, Row
from unbottle.recipes.paired import paired, percent
from unbottle.recipes.perplexities import WHERE, dots
from unbottle.recipes.prompts import order_of
from unbottle.recipes.variant import Variant
from unbottle.train.watch import BrokenTrainingError

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
        except BrokenTrainingError as error:
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
