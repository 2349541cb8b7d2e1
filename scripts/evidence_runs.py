"""The comparisons of real models in results/, as docs/evidence.md and README.md show them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from unbottle.experiments import compare_summaries
from unbottle.experiments.compare import CPR, METHODS, SOFTMAX
from unbottle.experiments.paired import differences_to
from unbottle.experiments.results import ResultRow
from unbottle.experiments.row_spec import RowSpec
from unbottle.tables import Estimate, Table

ROOT = Path(__file__).parents[1]
NAMES = {  # of folders of results/
    "smollm2": "SmolLM2-135M-Instruct", "smollm2-balanced": "SmolLM2-135M-Instruct, form balanced",
    "smollm2-131k": "SmolLM2-135M-Instruct, 131,072 tokens",
    "smollm2-1m": "SmolLM2-135M-Instruct, 1,048,576 tokens",
    "smollm2-long": "SmolLM2-135M-Instruct, eight times the text",
    "neighbours": "SmolLM2-135M-Instruct, neighbours of context words",
    "pointers": "SmolLM2-135M-Instruct, starts of pointers, induction", "stories": "stories15M",
}  # fmt: skip
BALANCED = (
    "smollm2-balanced",
    "smollm2-131k",
    "smollm2-1m",
)  # SmolLM2 with today's defaults, by the tokens of training
T5 = {"t5": "Flan-T5-small", "t5-paper-form": "Flan-T5-small, form paper"}  # encoder-decoders
PLAIN = "plain"
TEXTS = {
    "python": "Python's standard library", "wikitext-2": "WikiText-2", "openwebtext": "OpenWebText",
    "samsum-dialogues": "SAMSum dialogues",
}  # fmt: skip
TEXTS_ORDER = [*TEXTS.values()]
TRAINED = {"head": "head only", "all": "all weights", "lora": "LoRA and head"}
SHOWN = {
    "evenness": ("evenness", 3), "mass": ("mass on the list", 3), "changes": ("winner changes", 3),
    "repeated": ("mass repeated", 3), "rank": ("effective rank", 0), "directions": ("directions", 0),
    "gradient": ("gradient", 2), "head": ("head (M)", 1), "cpu": ("training (CPU s)", 0),
}  # fmt: skip
FAR = 0.05  # nats above the baseline
WRITTEN = {
    "document": ("in the dialogue", 2), "elsewhere": ("elsewhere", 2), "r1": ("R1", 2), "r2": ("R2", 2),
    "rl": ("RL", 2), "support": ("support", 3), "novel-2": ("novel 2", 3), "repetition-3": ("repeated 3", 3),
    "length": ("words", 1),
}  # fmt: skip


FORMS = ("", " form=steady", " form=paper")  # in the order of preference for a baseline


def in_order(methods: tuple[str, ...]) -> tuple[str, ...]:
    """All rows that these methods may have, form by form."""
    return tuple(f"{method}{form}" for form in FORMS for method in methods if "form=" not in method)


def label(method: str) -> str:
    """Shorter than its title: what differs between rows of this page can be told from its value."""
    variant = RowSpec.parse(method)
    if variant.method is None:
        return variant.title
    options = (value if name in ("form", "convention") else f"{name} {value}" for name, value in variant.options)
    return ", ".join([variant.method.title, *options])


def shown(estimate: Estimate, digits: int) -> str:
    return f"{estimate.mean:.{digits}f}" if estimate.count == 1 else estimate.show(digits)


class Results:
    """One folder of results/: rows by method and seed, and each beside the baseline."""

    def __init__(self, folder: Path, baseline: str, methods: tuple[str, ...]) -> None:
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        self.folder = folder.parent.name
        self.preset, self.data = data["settings"]["preset"], data["settings"]["data"]
        self.note = (folder / "table.md").read_text(encoding="utf-8")
        self.rows: dict[str, dict[int, dict[str, Any]]] = {}
        order = [str(RowSpec.parse(method)) for method in in_order(methods) if not method.startswith(f"{PLAIN} ")]
        places = {method: place for place, method in enumerate(order)}
        for row in sorted(data["rows"], key=lambda row: (places.get(row["method"], len(places)), row["seed"])):
            self.rows.setdefault(row["method"], {})[row["seed"]] = row["found"]
        self.baseline = next(f"{baseline}{form}" for form in FORMS if f"{baseline}{form}" in self.rows)
        rows = [
            ResultRow(method, seed, "", metrics)
            for method, seeds in self.rows.items()
            for seed, metrics in seeds.items()
        ]
        self.together = differences_to(self.baseline, rows)

    @property
    def command(self) -> str:
        """A line for each row."""
        command = next(line for line in self.note.splitlines() if line.startswith("`unbottle")).split("`")[1]
        lines = command.replace(" --method ", " \\\n    --method ")
        return f"```sh\n{lines}\n```"

    def estimate(self, method: str, name: str) -> Estimate | None:
        values = [metrics[name] for metrics in self.rows[method].values() if metrics.get(name) is not None]
        return Estimate.of(values[:1] if method == PLAIN else values) if values else None

    def cell(self, method: str, name: str, digits: int) -> str:
        estimate = self.estimate(method, name)
        return "" if estimate is None else shown(estimate, digits)

    def change(self, method: str, name: str) -> str:
        """By how much a number is above the baseline's; nothing, if one of them does not have it."""
        ratio = self.ratio(method, name)
        return "" if ratio is None else f"{ratio - 1:+.1%}"

    def ratio(self, method: str, name: str) -> float | None:
        """A number divided by the baseline's."""
        one, other = self.estimate(method, name), self.estimate(self.baseline, name)
        return None if one is None or other is None else one.mean / other.mean

    def beside(self, method: str) -> list[str]:
        """The difference to the baseline, its interval, and with how many seeds it is better."""
        return [self.together.get(method, {}).get(name, "") for name in ("difference", "interval", "wins")]

    def summary(self, method: str) -> str:
        """The difference and its interval, in one cell."""
        difference, interval, _ = self.beside(method)
        return f"{difference} ({interval})"


class Run(Results):
    """One comparison of language models."""

    def __init__(self, folder: Path) -> None:
        train = folder.name.rpartition("-")[2]
        super().__init__(folder, SOFTMAX, METHODS)
        self.model, self.train = NAMES[folder.parent.name], train
        self.lr = self.note.split("learning rate ")[1].split(" unless")[0]

    @property
    def text(self) -> str:
        return next(title for name, title in TEXTS.items() if self.data.startswith(name))

    @property
    def title(self) -> str:
        return f"{self.text}, {TRAINED[self.train]}"

    def tokens(self) -> int:
        """The size of the training text."""
        return int(self.preset["train_tokens"])

    @property
    def budget(self) -> str:
        """The size of the training text, with its unit."""
        return f"{self.tokens():,} tokens"

    @property
    def seeds(self) -> int:
        return max(len(seeds) for method, seeds in self.rows.items() if method != PLAIN)

    def table(self) -> str:
        names = ("perplexity", "context", "top", "elsewhere", "proper noun")
        lines = []
        for method in self.rows:
            first, *others = (self.cell(method, name, 2) for name in names)
            lines.append([label(method), first, *self.beside(method), *others])
        header = ["", "perplexity", "change", "95 % interval", "seeds better"]
        return Table([*header, "in context", "in W(100)", "elsewhere", "names"], lines).markdown()

    def others(self) -> str:
        """Lists, rank and cost, of what was measured."""
        names = [
            name for name in SHOWN if any(name in metrics for seeds in self.rows.values() for metrics in seeds.values())
        ]
        lines = [[label(method), *(self._mean(method, name) for name in names)] for method in self.rows]
        return Table(["", *(SHOWN[name][0] for name in names)], lines).markdown()

    def _mean(self, method: str, name: str) -> str:
        estimate = self.estimate(method, name)
        return "" if estimate is None else f"{estimate.mean:.{SHOWN[name][1]}f}"

    def verdict(self) -> str:
        """In words: better or worse by the interval and with every seed; what broke with a seed is neither."""
        groups: dict[str, list[str]] = {"better": [], "worse": [], "no clear difference": [], "diverged": []}
        for method in self.together:
            if method != PLAIN:
                groups[self.group(method)].append(label(method))
        said = [f"{name[0].upper()}{name[1:]}: {'; '.join(methods)}" for name, methods in groups.items() if methods]
        best = self.best()
        return (
            f"Compared with {label(self.baseline)}. {'. '.join(said)}.\n\n"
            f"The lowest perplexity is that of **{label(best)}**: {self.cell(best, 'perplexity', 2)}, baseline "
            f"{self.cell(self.baseline, 'perplexity', 2)}{self.where(best)}. Learning rate {self.lr}, {self.seeds} "
            f"{'seed' if self.seeds == 1 else 'seeds'}, {self.preset['train_tokens']:,} training tokens, "
            f"{self.preset['test_tokens']:,} held-out tokens."
        )

    def group(self, method: str) -> str:
        """What is said of it."""
        differences, pair = self.differences(method), self.together[method]
        if self.broke(method):
            return "diverged"
        if pair["low"] is not None and (pair["high"] < 0 or pair["low"] > 0):
            if max(differences) < 0:
                return "better"
            if min(differences) > 0:
                return "worse"
        return "no clear difference"

    def best(self) -> str:
        """By the seeds that it has in common with the baseline, none of which broke."""
        rows = [method for method in self.rows if method != PLAIN and self.differences(method)]
        return min((method for method in rows if not self.broke(method)), key=self.difference)

    def broke(self, method: str) -> bool:
        """With one of its seeds, or more."""
        return any("loss" not in metrics for metrics in self.rows[method].values())

    def shown(self) -> list[str]:
        """Rows of the picture: neither broken nor so far away that the others would be a dot."""
        return [
            method
            for method, pair in self.together.items()
            if method != PLAIN and pair.get("low") is not None and pair["low"] < FAR
        ]

    def cpr(self) -> str:
        """In the form of the baseline."""
        return self.baseline.replace(SOFTMAX, CPR)

    def where(self, method: str) -> str:
        if method == self.baseline:
            return ""
        groups = {"context": "in context", "top": "in W(100)", "elsewhere": "elsewhere", "proper noun": "names"}
        changes = {title: self.change(method, name) for name, title in groups.items()}
        return f" ({', '.join(f'{title} {change}' for title, change in changes.items() if change)})"

    def differences(self, method: str) -> list[float]:
        """Of losses, for each seed that did not break with either."""
        one, other = self.rows[method], self.rows[self.baseline]
        common = [seed for seed in one if "loss" in one[seed] and "loss" in other.get(seed, {})]
        return [one[seed]["loss"] - other[seed]["loss"] for seed in common]

    def difference(self, method: str) -> float:
        return mean(self.differences(method))


class Summaries(Results):
    """A comparison of encoder-decoders, which write summaries."""

    title = "SAMSum, all weights"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, compare_summaries.BASELINE, compare_summaries.SUMMARY_METHODS)
        self.model = T5[self.folder]
        self.lr = self.note.split("learning rate ")[1].split()[0]

    @property
    def budget(self) -> str:
        """The size of the training text."""
        return f"{self.preset['pairs']:,} dialogues"

    def settings(self) -> str:
        preset = self.preset
        return (
            f"All weights, {preset['pairs']:,} dialogues in batches of {preset['rows']['batch']}, learning rate "
            f"{self.lr}. Perplexity is that of {preset['held_out']:,} reference summaries of the test "
            f"set; the other metrics are of {preset['test_pairs']:,} generated summaries (interval: first seed)."
        )

    def table(self) -> str:
        lines = []
        for method, seeds in self.rows.items():
            low, high = seeds[0]["intervals"]["r1"]
            numbers = [self.cell(method, name, digits) for name, (_, digits) in WRITTEN.items()]
            first = self.cell(method, "perplexity", 2)
            lines.append([label(method), first, *self.beside(method), *numbers, f"{low:.1f} to {high:.1f}"])
        header = ["", "perplexity", "change", "95 % interval", "seeds better"]
        return Table([*header, *(title for title, _ in WRITTEN.values()), "R1, 95 % interval"], lines).markdown()

    def cepr(self) -> str:
        """In the form of the baseline."""
        return self.baseline.replace("softmax", "softmax+cepr:20")


def runs() -> list[Run]:
    all_runs = [Run(folder) for name in NAMES for folder in folders(name)]
    models, order = [*NAMES.values()], [*TRAINED]
    return sorted(
        all_runs, key=lambda run: (models.index(run.model), order.index(run.train), TEXTS_ORDER.index(run.text))
    )


def summaries() -> list[Summaries]:
    return [Summaries(folder) for name in T5 for folder in folders(name)]


def folders(name: str) -> list[Path]:
    files = sorted((ROOT / "results" / name).glob("*/results.json"))
    return [path.parent for path in files if not path.parent.name.endswith("-lr")]
