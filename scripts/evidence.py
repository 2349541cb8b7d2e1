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
from unbottle.recipes.compare import summary_rows
from unbottle.recipes.compare.comparison import BASELINES, CPR
from unbottle.recipes.compare.measure import together
from unbottle.recipes.experiment import Row
from unbottle.recipes.variant import Variant
from unbottle.report import Estimate

ROOT = Path(__file__).parents[1]
NAMES = {  # of folders of results/
    "smollm2": "SmolLM2-135M", "stories": "stories15M", "induction": "A GPT-2 of 1.9 million parameters, trained here",
}  # fmt: skip
SUMMARIES = "t5"
PLAIN = "plain"
TEXTS = {"python": "Python's standard library", "wikitext-2": "WikiText-2", "openwebtext": "OpenWebText"}
TEXTS_ORDER = [*TEXTS.values()]
TRAINED = {"head": "head only", "all": "all weights", "lora": "LoRA and head"}
SHOWN = {
    "evenness": ("evenness", 3), "mass": ("mass on the list", 3), "changes": ("winner changes", 3),
    "repeated": ("mass repeated", 3), "rank": ("effective rank", 0), "directions": ("directions", 0),
    "gradient": ("gradient", 4), "head": ("head, M", 1), "cpu": ("training, CPU s", 0),
}  # fmt: skip
FAR = 0.25  # nats above the baseline
WRITTEN = {
    "document": ("in the dialogue", 2), "elsewhere": ("elsewhere", 2), "r1": ("R1", 2), "r2": ("R2", 2),
    "rl": ("RL", 2), "support": ("support", 3), "novel-2": ("novel 2", 3), "repetition-3": ("repeated 3", 3),
    "length": ("words", 1),
}  # fmt: skip


def command_of(table: str) -> str:
    """A line for each row."""
    told = next(line for line in table.splitlines() if line.startswith("`unbottle")).split("`")[1]
    lines = told.replace(" --method ", " \\\n    --method ")
    return f"```sh\n{lines}\n```"


def label(method: str) -> str:
    """Shorter than its title: what differs between rows of this page can be told from its value."""
    variant = Variant.parse(method)
    if variant.method is None:
        return variant.title
    told = (value if name in ("form", "convention") else f"{name} {value}" for name, value in variant.options)
    return ", ".join([variant.method.title, *told])


class Run:
    """One comparison of language models."""

    def __init__(self, folder: Path) -> None:
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        self.preset, self.data = data["settings"]["preset"], data["settings"]["data"]
        self.model, self.train = NAMES[folder.parent.name], self.preset["rows"]["train"]
        self.rows: dict[str, dict[int, dict[str, Any]]] = {}
        for row in data["rows"]:
            self.rows.setdefault(row["method"], {})[row["seed"]] = row["found"]
        self.baseline = BASELINES[self.train]
        self.together = together(None, [Row(**row) for row in data["rows"]], baseline=self.baseline)
        table = (folder / "table.md").read_text(encoding="utf-8")
        self.lr = table.split("learning rate ")[1].split(" unless")[0]
        self.command = command_of(table)

    @property
    def text(self) -> str:
        return next(title for name, title in TEXTS.items() if self.data.startswith(name))

    @property
    def title(self) -> str:
        return f"{self.text}, {TRAINED[self.train]}"

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
            lines.append([label(method), cells[0], *told, *cells[1:]])
        header = [
            "",
            "perplexity",
            "to the baseline",
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
            [label(method), *(self._cell(method, name, SHOWN[name][1], first=True) for name in names)]
            for method in self.rows
        ]
        return markdown(["", *(SHOWN[name][0] for name in names)], lines)

    def _cell(self, method: str, name: str, digits: int, *, first: bool = False) -> str:
        found = self.estimate(method, name)
        if found is None:
            return ""
        return f"{found.mean:.{digits}f}" if first else shown(found, digits)

    def verdict(self) -> str:
        """In words, what the intervals say."""
        groups: dict[str, list[str]] = {"better": [], "worse": [], "not told apart": [], "broken": []}
        for method, pair in self.together.items():
            if pair["difference"] == "broken":
                groups["broken"].append(label(method))
            elif method != PLAIN and pair["low"] is not None:
                name = "better" if pair["high"] < 0 else "worse" if pair["low"] > 0 else "not told apart"
                groups[name].append(label(method))
        said = [f"{name[0].upper()}{name[1:]}: {'; '.join(methods)}" for name, methods in groups.items() if methods]
        best = self.best()
        where = self.where(best)
        return (
            f"Beside {label(self.baseline)}, the baseline, by the 95 % intervals. {'. '.join(said)}.\n\n"
            f"The lowest is **{label(best)}**, {exp(self.mean_loss(best)):.2f} beside "
            f"{exp(self.mean_loss(self.baseline)):.2f}{where}. Learning rate {self.lr}, {self.seeds} "
            f"{'seed' if self.seeds == 1 else 'seeds'}, {self.preset['train_tokens']:,} tokens to train on, "
            f"{self.preset['test_tokens']:,} held out."
        )

    def best(self) -> str:
        return min((method for method in self.rows if method != PLAIN), key=self.mean_loss)

    def shown(self) -> list[str]:
        """Rows of the picture: neither broken nor so far away that the others would be a dot."""
        return [
            method
            for method, pair in self.together.items()
            if method != PLAIN and pair.get("low") is not None and pair["low"] < FAR
        ]

    def cpr(self) -> str:
        """In the form steady, if there is such a row that did not break."""
        rows = [method for method in self.rows if method.startswith(CPR) and self.mean_loss(method) < inf]
        return next((method for method in rows if "form=steady" in method and "release" not in method), rows[0])

    def where(self, method: str) -> str:
        if method == self.baseline:
            return ""
        pairs = []
        for name, title in (("context", "in context"), ("top", "in W(100)"), ("elsewhere", "elsewhere")):
            one, other = self.estimate(method, name), self.estimate(self.baseline, name)
            if one is not None and other is not None:
                pairs.append(f"{title} {one.mean / other.mean - 1:+.1%}")
        return f" ({', '.join(pairs)})"

    def difference(self, method: str) -> float:
        """Of losses, with the seeds that both have."""
        one, other = self.rows[method], self.rows[self.baseline]
        return mean(
            one[seed]["loss"] - other[seed]["loss"] for seed in one.keys() & other.keys() if "loss" in one[seed]
        )

    def mean_loss(self, method: str) -> float:
        """Infinite where a training broke."""
        return mean(found.get("loss", inf) for found in self.rows[method].values())


def number(values: list[float], digits: int) -> str:
    return shown(Estimate.of(values), digits)


def shown(found: Estimate, digits: int) -> str:
    return f"{found.mean:.{digits}f}" if found.count == 1 else found.show(digits)


def runs() -> list[Run]:
    found = [Run(folder) for name in NAMES for folder in folders(name)]
    models, order = [*NAMES.values()], [*TRAINED]
    return sorted(found, key=lambda run: (models.index(run.model), order.index(run.train), TEXTS_ORDER.index(run.text)))


def folders(name: str) -> list[Path]:
    found = sorted((ROOT / "results" / name).glob("*/results.json"))
    return [path.parent for path in found if not path.parent.name.endswith("-lr")]


def document(found: list[Run]) -> str:
    parts = [INTRODUCTION, in_short(found), LESSONS]
    for run in found:
        parts += [f"## {run.model}: {run.title}", run.verdict(), run.table(), run.command]
    for folder in folders(SUMMARIES):
        parts += summaries(folder)
    parts += [OTHERS]
    for run in found:
        parts += [f"**{run.model}: {run.title}**", run.others()]
    return "\n\n".join([*parts, SMALL_PRINT]) + "\n"


def in_short(found: list[Run]) -> str:
    """The baseline, CPR in the form that is the default there, and what did best."""
    lines = []
    for run in found:
        cells = [f"{run.model}, {run.title}", f"{exp(run.mean_loss(run.baseline)):.2f}"]
        for method in (run.cpr(), run.best()):
            pair = run.together.get(method, {})
            cells += [label(method), f"{pair.get('difference', '')} ({pair.get('interval', '')})"]
        lines.append(cells)
    header = ["", "baseline", "CPR", "to the baseline (95 %)", "lowest of all rows", "to the baseline (95 %)"]
    return markdown(header, lines)


def summaries(folder: Path) -> list[str]:
    """An encoder-decoder: title, what the intervals say, a table, the command."""
    data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    table = (folder / "table.md").read_text(encoding="utf-8")
    pairs = together(None, [Row(**row) for row in data["rows"]], baseline=summary_rows.BASELINE)
    by_method: dict[str, list[dict[str, Any]]] = {}
    for row in data["rows"]:
        by_method.setdefault(row["method"], []).append(row["found"])
    lines = []
    for method, found in by_method.items():
        pair, (low, high) = pairs.get(method, {}), found[0]["intervals"]["r1"]
        seeds = found[:1] if method == PLAIN else found
        numbers = [number([each[name] for each in seeds], digits) for name, (_, digits) in WRITTEN.items()]
        told = [pair.get(name, "") for name in ("difference", "interval", "wins")]
        perplexity = number([each["perplexity"] for each in seeds], 2)
        lines.append([label(method), perplexity, *told, *numbers, f"{low:.1f} to {high:.1f}"])
    header = ["", "perplexity", "to Softmax", "95 %", "better", *(title for title, _ in WRITTEN.values()), "R1, 95 %"]
    preset = data["settings"]["preset"]
    budget = (
        f"All weights, {preset['pairs']:,} dialogues in batches of {preset['rows']['batch']}, learning rate "
        f"{preset['rows']['lr']:g}; perplexity of {preset['held_out']:,} true summaries of the test set, the "
        f"rest of the first {preset['test_pairs']:,} summaries that each model wrote (the interval: first seed)."
    )
    title = f"## Flan-T5-small: SAMSum, {TRAINED[preset['rows']['train']]}"
    return [title, budget, markdown(header, lines), command_of(table)]


def picture(found: list[Run], path: Path) -> None:
    """Differences to the baseline and their intervals: a line of panels for each model, a panel for each comparison."""
    lines = [[run for run in found if run.model == model and run.together] for model in NAMES.values()]
    lines = [line for line in lines if line]
    rows = [list(dict.fromkeys(method for run in line for method in run.shown())) for line in lines]
    plt.rcParams.update({"svg.hashsalt": "unbottle", "svg.fonttype": "none"})
    wide, high = max(map(len, lines)), sum(map(len, rows))
    figure = plt.figure(figsize=(3 + 2.6 * wide, 1.1 * len(lines) + 0.27 * high), layout="constrained")
    for part, line, methods in zip(
        figure.subfigures(len(lines), 1, height_ratios=[4 + len(each) for each in rows], squeeze=False)[:, 0],
        lines, rows, strict=True,
    ):  # fmt: skip
        panels = part.subplots(1, len(line), sharey=True, squeeze=False)[0]
        for panel, run in zip(panels, line, strict=True):
            draw(panel, run, methods)
        panels[0].set_yticks(range(len(methods)), [label(method) for method in methods])
        panels[0].invert_yaxis()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw(panel: Any, run: Run, methods: list[str]) -> None:
    panel.axvline(0, color="#888888", linewidth=0.8)
    for place, method in enumerate(methods):
        pair = run.together.get(method)
        if pair is None or method not in run.shown():
            continue
        middle = 100 * (exp(run.difference(method)) - 1)
        low, high = (100 * (exp(end) - 1) for end in (pair["low"], pair["high"]))
        colour = "#1b7837" if high < 0 else "#b2182b" if low > 0 else "#555555"
        panel.plot([low, high], [place, place], color=colour, linewidth=2)
        panel.plot([middle], [place], "o", color=colour, markersize=5)
    panel.set_title(f"{run.model}\n{run.title}", fontsize=8)
    panel.set_xlabel("perplexity to the baseline, %", fontsize=8)
    panel.tick_params(labelsize=8)


INTRODUCTION = """# Does it help the models people use today?

The paper stops at GPT-2, T5 and BART. Here are output layers on pretrained models of today, with what did not
work. Every table is by `unbottle compare` ([guide](guides/compare.md)), and this page by `python
scripts/evidence.py` from `results/`.

All rows of a table start from the same weights and see the same windows in the same order, once, with one learning
rate: that with which the baseline, *Softmax + Mi*, predicts a validation part best, so whatever advantage there is in
choosing it, the baseline has it. Beside a frozen model and LoRA the baseline and all heads are in the form *steady*
([maths](maths.md#forms)); rows without this word are in the paper's. Intervals are paired: held-out windows are drawn
again, the same for both rows, with losses averaged over seeds. They say what another text of this kind would do,
not what another model would. No correction is made for the number of rows. A number without ± is of the first
seed, others are of as many as the column *better* says. Rows and seeds that a command does not name were added by the
same command with other `--method` and `--seeds`.

![Differences to the baseline](images/evidence.svg)"""
LESSONS = """The lowest row is chosen by the held-out text itself, which favours it; CPR is named beforehand.

- **A frozen model of today gains a little, on every text.** SmolLM2 predicts the words of its context well already.
  With the form, the learning rate and the windows of the baseline, CPR and CR are the lowest rows on source code,
  WikiText-2 and OpenWebText, by less than a hundredth; C and P gain about half as much, R alone next to nothing. That
  is the order of the paper. The gain is at words that the context has, and part of it is lost at the others.
- **A learning rate is worth as much.** Earlier this page chose it by a third of the validation part, for each row
  on its own or for the baseline in the paper's form, and showed gains and losses several times as large, which were
  the rates' (`LOG.md`).
- **The paper's form breaks on Llama** at the learning rate that suits the softmax. The form *steady* does not; it is
  what `unbottle train lm` takes for frozen models and with LoRA.
- **A real T5 gains more**: CEPR:20, CE and PS lower the perplexity of true summaries, by the intervals; ROUGE and
  the support of names can not be told apart on so few summaries, and words that the dialogue does not have become
  less likely.
- **Where the text is new to a small model the gain is large**, whether all weights are trained or LoRA.
- **Induction**, the fifth partition and not the paper's, brings nothing to SmolLM2, which does this itself, and much
  to a small GPT-2."""
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
