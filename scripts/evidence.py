"""docs/evidence.md and its picture, from results/: python scripts/evidence.py. No number is by hand: a test looks."""

from __future__ import annotations

import json
import sys
from math import exp, inf
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib.pyplot as plt

from unbottle.cli.markdown import markdown
from unbottle.recipes.compare.measure import together
from unbottle.recipes.experiment import Row
from unbottle.recipes.variant import Variant
from unbottle.report import Estimate

ROOT = Path(__file__).parents[1]
REAL = ("smollm2", "stories", "t5")  # folders of results/ with pretrained models
PLAIN, BASELINE, CPR = "plain", "softmax+mi", "softmax+cpr:20,100+mi"
TEXTS = {"python": "Python's standard library", "wikitext-2": "WikiText-2", "openwebtext": "OpenWebText"}
TRAINED = {"head": "head only", "all": "all weights", "lora": "LoRA and head"}
SHOWN = {
    "evenness": ("evenness", 3), "mass": ("mass on the list", 3), "changes": ("winner changes", 3),
    "repeated": ("mass repeated", 3), "rank": ("effective rank", 0), "directions": ("directions", 0),
    "gradient": ("gradient", 4), "head": ("head, M", 1), "cpu": ("training, CPU s", 0),
}  # fmt: skip


class Run:
    """One comparison of language models."""

    def __init__(self, folder: Path) -> None:
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        self.preset, self.data = data["settings"]["preset"], data["settings"]["data"]
        self.model, self.train = folder.parent.name, self.preset["rows"]["train"]
        self.rows: dict[str, dict[int, dict[str, Any]]] = {}
        for row in data["rows"]:
            self.rows.setdefault(row["method"], {})[row["seed"]] = row["found"]
        self.together = together(None, [Row(**row) for row in data["rows"]])
        table = (folder / "table.md").read_text(encoding="utf-8")
        self.lr = table.split("learning rate ")[1].split(" unless")[0]
        self.command = next(line for line in table.splitlines() if line.startswith("`unbottle")).split("`")[1]

    @property
    def title(self) -> str:
        text = next((title for name, title in TEXTS.items() if self.data.startswith(name)), self.data)
        return f"{text}, {TRAINED[self.train]}"

    @property
    def seeds(self) -> int:
        return max(len(seeds) for method, seeds in self.rows.items() if method != PLAIN)

    def estimate(self, method: str, name: str) -> Estimate | None:
        values = [found[name] for found in self.rows[method].values() if found.get(name) is not None]
        if method == PLAIN:
            values = values[:1]
        return Estimate.of(values) if values else None

    def table(self) -> str:
        names = ("perplexity", "context", "top", "elsewhere", "proper noun")
        lines = []
        for method in self.rows:
            cells = [self._cell(method, name, 2) for name in names]
            pair = self.together.get(method, {})
            told = [pair.get(name, "") for name in ("difference", "interval", "wins")]
            lines.append([Variant.parse(method).title, cells[0], *told, *cells[1:]])
        header = [
            "",
            "perplexity",
            "to Softmax + Mi",
            "95 %",
            "better",
            "in context",
            "in W(100)",
            "elsewhere",
            "names",
        ]
        return markdown(header, lines)

    def others(self) -> str:
        """Lists, rank and cost, of what was measured."""
        names = [
            name for name in SHOWN if any(name in found for seeds in self.rows.values() for found in seeds.values())
        ]
        lines = [
            [Variant.parse(method).title, *(self._cell(method, name, SHOWN[name][1], first=True) for name in names)]
            for method in self.rows
        ]
        return markdown(["", *(SHOWN[name][0] for name in names)], lines)

    def _cell(self, method: str, name: str, digits: int, *, first: bool = False) -> str:
        found = self.estimate(method, name)
        if found is None:
            return ""
        return f"{found.mean:.{digits}f}" if first or found.count == 1 else found.show(digits)

    def verdict(self) -> str:
        """In words, what the intervals say."""
        groups: dict[str, list[str]] = {"better": [], "worse": [], "not told apart": [], "broken": []}
        for method, pair in self.together.items():
            if pair["difference"] == "broken":
                groups["broken"].append(Variant.parse(method).title)
            elif method != PLAIN and pair["low"] is not None:
                name = "better" if pair["high"] < 0 else "worse" if pair["low"] > 0 else "not told apart"
                groups[name].append(Variant.parse(method).title)
        said = [f"{name}: {', '.join(methods)}" for name, methods in groups.items() if methods]
        best = min((method for method in self.rows if method != PLAIN), key=self.mean_loss)
        where = self.where(best)
        return (
            f"Beside Softmax + Mi, by the 95 % intervals: {'; '.join(said)}. The lowest is "
            f"**{Variant.parse(best).title}**, {exp(self.mean_loss(best)):.2f} beside "
            f"{exp(self.mean_loss(BASELINE)):.2f}{where}. Learning rate {self.lr}, {self.seeds} "
            f"{'seed' if self.seeds == 1 else 'seeds'}, {self.preset['train_tokens']:,} tokens to train on, "
            f"{self.preset['test_tokens']:,} held out: `{self.command}`."
        )

    def where(self, method: str) -> str:
        if method == BASELINE:
            return ""
        pairs = []
        for name, title in (("context", "in context"), ("top", "in W(100)"), ("elsewhere", "elsewhere")):
            one, other = self.estimate(method, name), self.estimate(BASELINE, name)
            if one is not None and other is not None:
                pairs.append(f"{title} {one.mean / other.mean - 1:+.1%}")
        return f" ({', '.join(pairs)})"

    def mean_loss(self, method: str) -> float:
        """Infinite where a training broke."""
        return mean(found.get("loss", inf) for found in self.rows[method].values())


def runs() -> list[Run]:
    folders = [folder for name in REAL for folder in sorted((ROOT / "results" / name).glob("*")) if folder.is_dir()]
    found = [Run(folder) for folder in folders if not folder.name.endswith("-lr") and folder.parent.name != "t5"]
    order = [*TRAINED]
    return sorted(found, key=lambda run: (order.index(run.train), run.model, run.data))


def document(found: list[Run]) -> str:
    parts = [INTRODUCTION]
    for run in found:
        parts += [f"## {run.model}: {run.title}", run.verdict(), run.table()]
    parts += [OTHERS]
    for run in found:
        parts += [f"**{run.model}: {run.title}**", run.others()]
    summaries = ROOT / "results" / "t5"
    for folder in sorted(summaries.glob("*")) if summaries.is_dir() else []:
        text = (folder / "table.md").read_text(encoding="utf-8")
        parts += [text[text.index("## ") :].replace("### t5\n\n", "").rstrip()]
    return "\n\n".join([*parts, SMALL_PRINT]) + "\n"


def picture(found: list[Run], path: Path) -> None:
    """Differences to Softmax + Mi and their intervals, a panel for each comparison."""
    shown = [run for run in found if run.together]
    methods = [*dict.fromkeys(method for run in shown for method in run.together if method != PLAIN)]
    plt.rcParams.update({"svg.hashsalt": "unbottle", "svg.fonttype": "none"})
    figure, panels = plt.subplots(
        1, len(shown), figsize=(3 + 2.6 * len(shown), 0.6 + 0.32 * len(methods)), sharey=True, squeeze=False
    )
    for panel, run in zip(panels[0], shown, strict=True):
        panel.axvline(0, color="#888888", linewidth=0.8)
        for place, method in enumerate(methods):
            pair = run.together.get(method)
            if pair is None or pair.get("low") is None:
                continue
            middle = 100 * (exp(run.mean_loss(method) - run.mean_loss(BASELINE)) - 1)
            low, high = (100 * (exp(end) - 1) for end in (pair["low"], pair["high"]))
            colour = "#1b7837" if high < 0 else "#b2182b" if low > 0 else "#555555"
            panel.plot([low, high], [place, place], color=colour, linewidth=2)
            panel.plot([middle], [place], "o", color=colour, markersize=5)
        panel.set_title(f"{run.model}\n{run.title}", fontsize=8)
        panel.set_xlabel("perplexity to Softmax + Mi, %", fontsize=8)
        panel.tick_params(labelsize=8)
    panels[0][0].set_yticks(range(len(methods)), [Variant.parse(method).title for method in methods])
    panels[0][0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


INTRODUCTION = """# Does it help the models people use today?

The paper stops at GPT-2, T5 and BART. Here are output layers on pretrained models of today, with what did not
work. Every table is by `unbottle compare` ([guide](guides/compare.md)), and this page by `python
scripts/evidence.py` from `results/`.

All rows of a table start from the same weights and see the same windows in the same order, once. The learning
rate is the one with which *Softmax + Mi* predicts a validation part best, and is used for all rows: whatever
advantage there is in choosing it, the baseline has it. Intervals are paired: held-out windows are drawn again,
the same for both rows, with losses averaged over seeds. They say what another text of this kind would do, not
what another model would. No correction is made for the number of rows.

A row that names a learning rate of its own was trained with that one. With form steady 3e-5 was taken for three
seeds because it did better than 3e-4 and 1e-5 on the held-out windows with the first one, which favours it; 1e-4,
tried after that, is as good. 3e-6 is the other minimum of the baseline's own rates.

![Differences to Softmax + Mi](images/evidence.svg)"""
OTHERS = """## Lists, rank, cost

Evenness, mass on the list, winner changes: prompts that list options, in several orders (1: all options alike;
how much of the probability they get together; how often another one wins when the order changes). Mass
repeated: what a list that should go on with something new gives to what it has. Effective rank and directions:
of the logits at 1,024 positions; one softmax can not have more directions than its hidden state has dimensions.
Gradient: the share of the norm of the logits' gradient that the last hidden state can follow. First seed; CPU
seconds were measured while other work ran."""
SMALL_PRINT = """## What this does not say

The training texts are small: minutes on two cores, where the paper trains for days, and a head that is trained
longer may end elsewhere. SmolLM2 comes from weights of 4 bits that were widened to float32, and the T5 from 8
bits: both are somewhat worse than the originals. A perplexity is no judgement of what a model writes."""

if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "evidence.md"
    path.write_text(document(runs()), encoding="utf-8")
    picture(runs(), path.parent / "images" / "evidence.svg")
    print(f"Written to {path}")
