"""Write the generated blocks of README.md and the docs: python scripts/readme.py

A block stands between a comment that names it and END. The tables of methods are what `unbottle methods --markdown`
prints; every measured number is read from results/.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from evidence_runs import BALANCED, NAMES, ROOT, TRAINED, Run, runs, summaries

from unbottle.cli.main import main
from unbottle.experiments.compare import SOFTMAX
from unbottle.head.projection import DEFAULT_FORM
from unbottle.tables import Table

END = "<!-- end of generated block -->\n"
LEARNING_RATES = ROOT / "results" / "learning-rates" / "rows.jsonl"
ADAM_EPS = 1e-8  # torch's and the Trainer's default
MODELS = {
    **NAMES,
    "t5": "Flan-T5-small",
    "gpt2-small": "small GPT-2",
    "marian": "OPUS-MT zh-en",
}  # of results/learning-rates
PLAIN = "none"


def methods() -> str:
    """The parts of the method language, then every method with the parameters it adds and the paper's perplexities."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert main(["methods", "--markdown"]) == 0
    return stream.getvalue()


def evidence() -> str:
    """CPR, which was chosen before measuring (CEPR for T5), against the baseline of each comparison.

    A frozen SmolLM2 stands there in the form that `--train head` has today, and each text with its longest training;
    docs/evidence.md has the others too.
    """
    candidates = [run for run in runs() if run.folder in (*BALANCED, "stories")]
    longest = {(run.folder in BALANCED, run.title): run for run in sorted(candidates, key=Run.tokens)}
    chosen = [(run, run.cpr()) for run in candidates if run in longest.values()]
    rows = []
    for run, method in [*chosen, *((run, run.cepr()) for run in summaries()[:1])]:  # in the default form
        if method not in run.rows:  # not measured yet
            continue
        perplexities = [run.cell(row, "perplexity", 2) for row in (run.baseline, method)]
        title = f"{run.model.partition(',')[0].removesuffix('-Instruct')}: {run.title}"
        rows.append([title, run.budget, *perplexities, *run.beside(method), run.change(method, "proper noun")])
    header = ["model: text, what is trained", "trained on", "softmax head", "CPR head", "change", "95 % interval"]
    return Table([*header, "seeds better", "at names"], rows).markdown() + f"\n\n{times()}\n"


def times() -> str:
    """A forward pass of some methods at GPT-2 small's shape, beside the paper's ratios."""
    rows = json.loads((ROOT / "results" / "bench" / "paper" / "bench.json").read_text(encoding="utf-8"))["rows"]
    ratios = {row["method"]: (row["cpu"]["ratio"], row["paper"]) for row in rows}
    shown = [f"{title} {ratios[method][0]:.2f} ({ratios[method][1]:.2f})" for title, method in TIMED.items()]
    heading = "CPU time of a forward pass at GPT-2 small's shape, relative to softmax (the paper's, on a GPU)"
    return f"{heading}: {', '.join(shown)}."


TIMED = {"CPR + Mi": "softmax+cpr:20,100+mi", "C + Mi": "softmax+c+mi", "PS": "ps", "PG": "pg", "MoS + Mi": "mos+mi"}
DEMO_ROWS = {
    "before": "the model as it is", "softmax": "softmax head", "mos": "mixture of three softmaxes", "c": "C head",
    "cpr": "CPR head",
}  # fmt: skip


def demo() -> str:
    """Ambiguous contexts, as the last committed run of `unbottle demo` measured them."""
    contexts = json.loads((ROOT / "results" / "demo" / "result.json").read_text(encoding="utf-8"))["contexts"]
    seeds = len(contexts["models"]["cpr"])
    lines = [
        [title, f"{mean(run['perplexity'] for run in results):.1f}", f"{mean(run['answers'] for run in results):.0%}"]
        for title, results in ((title, contexts["models"][name]) for name, title in DEMO_ROWS.items())
    ]
    table = Table([f"{seeds} seed{'s' * (seeds > 1)}", "perplexity", "probability of the two words"], lines).markdown()
    return f"{table}\n"


def rows_beside(method: str) -> list[tuple[dict[str, Any], float]]:
    """Rows of CPR (CEPR for encoder-decoders) in the default form in results/learning-rates, each with the perplexity
    of the same recipe with another method, or without a head.

    Recipe "head" has nothing to train without a head: there it is the perplexity of the frozen model.
    """
    rows: list[dict[str, Any]] = [json.loads(line) for line in LEARNING_RATES.read_text(encoding="utf-8").splitlines()]
    same = ("model", "recipe", "lr", "eps", "seed")
    forms = ("", DEFAULT_FORM)  # plain fine-tuning has none
    others = {
        tuple(row[name] for name in same): row["perplexity"]
        for row in rows
        if row["method"] == method and row["form"] in forms
    }
    pairs = []
    for row in rows:
        if row["form"] == DEFAULT_FORM and ("cpr" in row["method"] or "cepr" in row["method"]):
            frozen = method == PLAIN and row["recipe"] == "head"
            other = row["before"] if frozen else others.get(tuple(row[name] for name in same))
            if other is not None:  # or it was not measured at this learning rate yet
                pairs.append((row, other))
    return pairs


def learning_rates() -> str:
    """A line for each model and recipe: by how much the perplexity of CPR differs, at each learning rate."""
    changes: dict[tuple[str, str], dict[float, list[float]]] = {}
    for row, without in rows_beside(PLAIN):
        if row["eps"] != ADAM_EPS:
            continue
        cells = changes.setdefault((row["model"], row["recipe"]), {})
        cells.setdefault(row["lr"], []).append(row["perplexity"] / without - 1)
    rates = sorted({rate for cells in changes.values() for rate in cells})
    lines = [
        [f"{MODELS[model]}: {TRAINED[recipe]}", *(f"{mean(cells[r]):+.1%}" if r in cells else "" for r in rates)]
        for (model, recipe), cells in sorted(changes.items(), key=lambda item: [*MODELS].index(item[0][0]))
    ]
    return Table(["model: what is trained", *(f"{rate:.0e}" for rate in rates)], lines).markdown() + "\n"


def expectation() -> str:
    """The same in one sentence."""
    pairs, trained_alike = rows_beside(PLAIN), rows_beside(SOFTMAX)
    below, below_softmax = (sum(row["perplexity"] < other for row, other in found) for found in (pairs, trained_alike))
    rates, steps = sorted({row["lr"] for row, _ in pairs}), sorted({row["budget"]["steps"] for row, _ in pairs})
    seeds = max(row["seed"] for row, _ in pairs) + 1
    each = "1 seed" if seeds == 1 else f"1 to {seeds} seeds"
    return (
        f"In {below} of {len(pairs)} short runs ({steps[0]} to {steps[-1]} steps, learning rates {rates[0]:.0e} to "
        f"{rates[-1]:.0e}, {each}) CPR or CEPR ended below the same recipe\nwithout a head (or the frozen model), in "
        f"{below_softmax} of {len(trained_alike)} below a softmax head trained alike: "
        "[all runs](docs/guides/language-models.md#learning-rate).\n"
    )


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"demo": demo, "evidence": evidence, "expectation": expectation},
    "docs/methods.md": {"methods": methods},
    "docs/guides/language-models.md": {"learning rates": learning_rates},
}


def updated(document: str, text: str) -> str:
    """The text of a document, its blocks written again."""
    for name, block in BLOCKS[document].items():
        start = f"<!-- generated by scripts/readme.py: {name} -->\n"
        before, marker, rest = text.partition(start)
        _, end, after = rest.partition(END)
        if not marker or not end:
            raise ValueError(f"{document}: needs the lines {start.strip()} and {END.strip()}.")
        text = f"{before}{start}{block()}{END}{after}"
    return text


if __name__ == "__main__":
    for document in BLOCKS:
        path: Path = ROOT / document
        path.write_text(updated(document, path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"Written to {path}")
