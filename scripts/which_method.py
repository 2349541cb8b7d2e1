"""docs/which-method.md, from results/: python scripts/which_method.py. No number there is by hand; a test compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from unbottle.method import Method
from unbottle.tables import Table

ROOT = Path(__file__).parents[1]
PLAIN, PLAIN_MI, FULL = "softmax", "softmax+mi", "softmax+cpr:20,100+mi"
CHEAP = 1.25  # times the plain softmax


def results(*names: str) -> Any:
    return json.loads(ROOT.joinpath("results", *names).read_text(encoding="utf-8"))


def by_method(experiment: str) -> dict[str, dict[str, float]]:
    """The mean over seeds of every number; a row that two processes wrote counts once."""
    data = results("cpu", experiment, "results.json")
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for row in data["rows"]:
        rows.setdefault(row["method"], {})[row["seed"]] = row["found"]
    found = {}
    for method, seeds in rows.items():
        names = [name for name, value in next(iter(seeds.values())).items() if isinstance(value, (int, float))]
        found[method] = {name: mean(each[name] for each in seeds.values()) for name in names} | {"seeds": len(seeds)}
        found[method] |= data["together"].get(method, {})
    return found


def document() -> str:
    table = dict(sorted(by_method("table1").items(), key=lambda item: item[1]["perplexity"]))
    return "\n\n".join(["# Which method should I use?", *advice(table), *costs(), *order(), *small_print(table)]) + "\n"


def advice(table: dict[str, dict[str, float]]) -> list[str]:
    best = next(iter(table))
    single = next(method for method in table if Method.parse(method).base != "mos")
    cheap = next(method for method, row in table.items() if row.get("time", 9) <= CHEAP)
    plain, full = table[PLAIN_MI], table[FULL]
    numbers = ("perplexity", "context", "top", "elsewhere", "size", "time")
    rows = [
        [f"`{method}`", *(f"{row[name]:.2f}" if name in row else "" for name in numbers)]
        for method, row in table.items()
    ]
    title = ["method", "perplexity", "in context", "in W(100)", "elsewhere", "parameters (M)", "time of a forward pass"]
    gain = "it loses" if full["elsewhere"] > plain["elsewhere"] else "it gains too"
    return [
        "From our own measurements, all of them in `results/`: `python scripts/which_method.py` writes this page.",
        "- **A pretrained model of today** gains far less than the small one whose numbers follow: "
        "[measured](evidence.md).\n"
        f"- **Text that says names and things again** (stories, dialogues, documents, code): `{single}`, the lowest of "
        f"all methods with one softmax, {table[single]['perplexity']:.2f} beside {plain['perplexity']:.2f} of "
        f"`{PLAIN_MI}`.\n"
        f"- **Most for little**: `{cheap}` has {table[cheap]['perplexity']:.2f} for {table[cheap]['time']:.2f} times "
        f"the forward pass of the plain softmax, the lowest of those below {CHEAP}.\n"
        f"- **Perplexity at any price**: `{best}`, {table[best]['perplexity']:.2f} for {table[best]['time']:.2f} times "
        "the forward pass.\n"
        "- **Summaries** (encoder-decoder models): the paper's `s+cepr:20`, or `s+cepr:20+mi`.\n"
        "- **Nothing to copy, no ambiguity**: stay with the plain softmax. The gain is at words that stand in the "
        f"context, {plain['context']:.2f} -> {full['context']:.2f} for `{FULL}`; elsewhere {gain}, "
        f"{plain['elsewhere']:.2f} -> {full['elsewhere']:.2f}. What copies takes its probability from somewhere.",
        "## Perplexity",
        "Test perplexity, and by where the true next token was: in the context, else among the 100 most likely words "
        "of the plain model, else elsewhere.",
        Table(title, rows).markdown(),
    ]


def costs() -> list[str]:
    """GPT-2 and T5, random weights, beside the plain model."""
    rows = []
    for row in results("bench", "promises", "bench.json")["rows"]:
        if row["method"] != "plain" and row["measure"] in ("train", "loss", "decode"):
            where = f" at {row['context']}" if row["context"] else ""
            memory = row["memory"]["ratio"] if row.get("memory") else None
            ratios = [row["cpu"]["ratio"], row["wall"]["ratio"], memory]
            shown = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
            rows.append([f"`{row['method']}`", row["shape"], row["measure"] + where, *shown])
    return [
        "## Cost",
        "What it costs on models of usual size, as a ratio to the plain model (`unbottle bench`): a training step, the "
        "loss in evaluation, one step of decoding.",
        Table(["method", "model", "measure", "CPU time", "wall time", "peak memory"], rows).markdown(),
    ]


def order() -> list[str]:
    table = by_method("order-bias")
    names = {
        "mass": "mass on the list",
        "changes": "winner changes",
        "evenness": "evenness",
        "repeated": "mass repeated",
    }
    rows = [[f"`{method}`", *(f"{row[name]:.3f}" for name in names)] for method, row in table.items()]
    return [
        "## Lists",
        "How much probability goes to the words of a list, and whether their order decides which of them wins "
        "(`unbottle reproduce order-bias`). What copies sees the list, and its order too.",
        Table(["method", *names.values()], rows).markdown(),
    ]


def small_print(table: dict[str, dict[str, float]]) -> list[str]:
    seeds = sorted({int(row["seeds"]) for row in table.values()})
    span = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    data = results("cpu", "table1", "results.json")
    return [
        "## What this does not say",
        f"The model has {table[PLAIN]['size']:.1f} million parameters with its plain softmax head, was trained here on "
        f"{data['settings']['data']}, and each row is of {span} seed{'' if span == '1' else 's'}. The paper's "
        "models are larger and their distances smaller; its numbers stand beside ours in `results/cpu/*/table.md`, and "
        "`unbottle methods` prints them.",
    ]


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "which-method.md"
    path.write_text(document(), encoding="utf-8")
    print(f"Written to {path}")
