"""Perplexity: one table and one picture, whatever the models are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from statistics import fmean
from typing import Any

from unbottle.report.bars import bars
from unbottle.report.html import table
from unbottle.report.numbers import Estimate
from unbottle.report.page import Section

GROUPS = {"context": "in the context", "top": "in W({k})", "elsewhere": "elsewhere"}
Found = Mapping[str, Sequence[Mapping[str, Any]]]  # model -> what was found with each seed


def perplexity_pieces(found: Found) -> list[str]:
    """The table, and bars of the mean loss by where the true token was."""
    first = next(iter(found.values()))[0]
    names = {name: GROUPS.get(name, name).format(k=first["k"]) for name in first["groups"]}
    header = ["model", "perplexity", *names.values()]
    rows = [
        [model, Estimate.of([each["perplexity"] for each in runs]).show(), *(_group(runs, name) for name in names)]
        for model, runs in found.items()
    ]
    shares = [f"{group['share']:.0%}" for group in first["groups"].values()]
    rows.append(["share of the tokens", "100%", *shares])
    best = [(_lowest(found, name), column) for column, name in enumerate((None, *names), start=1)]
    losses = {"all tokens": {model: [run["loss"] for run in runs] for model, runs in found.items()}} | {
        title: {model: _losses(runs, name) for model, runs in found.items() if _losses(runs, name)}
        for name, title in names.items()
    }
    picture = bars(losses, label="mean loss of a token in nats, lower is better")
    return [table(header, rows, [place for place in best if place[0] >= 0]), picture]


def sections(folder: Any, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    """Of `unbottle eval perplexity`."""
    found = {name: [each] for name, each in result["models"].items()}
    return [Section(title="Perplexity", body=tuple(perplexity_pieces(found)))]


def _group(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [run["groups"][name]["perplexity"] for run in runs]
    return "" if None in values else Estimate.of(values).show()


def _losses(runs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [loss for run in runs if (loss := run["groups"][name]["loss"]) is not None]


def _lowest(found: Found, name: str | None) -> int:
    """The row of the best model; -1 if there is none, or only one model."""
    means = [
        fmean(log(run["perplexity"]) if name is None else _losses([run], name)[0] for run in runs)
        if name is None or _losses(runs, name)
        else float("inf")
        for runs in found.values()
    ]
    return means.index(min(means)) if len(means) > 1 and min(means) < float("inf") else -1
