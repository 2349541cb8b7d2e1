"""What `unbottle demo` prints: the numbers, and what they say.

unbottle demo: see softmax fail and CPR do better, on a real model, in minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle.cli.options import DryRun
from unbottle.tables import Estimate, Table

GROUPS = ("context", "top", "elsewhere")
MEASURES = {"forward": "forward pass, {length} words", "decode": "step of decoding after {context}"}


def document(found: Mapping[str, Any]) -> str:
    """All parts, below each other."""
    return "\n\n".join(
        [
            about(found),
            "Perplexity of text that was not trained on, by where the next word was (lower is better)\n"
            + perplexities(found),
            found["verdict"]["said"],
            "The next word after a prompt, and the partition that set it\n" + next_words(found["words"]),
            "Lists in different orders: probability of all listed words, evenness among them, how often another wins\n"
            + orders(found["order"]),
            "What it costs beside the plain model\n" + costs(found["cost"]),
        ]
    )


def about(found: Mapping[str, Any]) -> str:
    model, text, training = found["model"], found["text"], found["training"]
    licence = f" ({model['licence']})" if model["licence"] else ""
    parts = [f"{text[part]['tokens']:,} tokens of {text[part]['files']} files" for part in ("train", "test")]
    return "\n".join(
        [
            f"Model: {model['title']}{licence}, {model['parameters'] / 1e6:.1f} M parameters, frozen; {model['about']}",
            f"Text:  {text['what']} ({text['licence']}): {parts[0]} to train on, {parts[1]} held out",
            f"Heads: {' and '.join(found['methods'].values())}, same hidden states, same order, one pass, "
            f"learning rate {training['lr']:g}; form: {training['form']}",
        ]
    )


def perplexities(found: Mapping[str, Any]) -> str:
    measured = found["perplexity"]
    names = {"before": "before training"} | {name: f"{method}" for name, method in found["methods"].items()}
    first = measured["before"][0]
    header = ["", "all words", "in the context", f"in W({first['k']})", "elsewhere"]
    rows = [
        [names[name], *(_show(each) for each in (_all(runs), *(_of(runs, group) for group in GROUPS)))]
        for name, runs in measured.items()
    ]
    rows.append(["share of the words", "100%", *(f"{first['groups'][group]['share']:.0%}" for group in GROUPS)])
    seeds = len(measured["cpr"])
    return Table(header, rows).text() + (f"\n(mean of {seeds} seeds ± its standard error)" if seeds > 1 else "")


def next_words(words: Mapping[str, Any]) -> str:
    from unbottle.eval.next_words import Probe, Probed, ProbedWord

    found = [
        Probed(**{**probed, "words": tuple(ProbedWord(**word) for word in probed["words"])})
        for probed in words["found"]
    ]
    return str(Probe(found=tuple(found)))


def orders(biases: Mapping[str, Any]) -> str:
    rows = [
        (
            ", ".join(row["options"]),
            name,
            f"{row['mass']:.3f}",
            "1" if row["repeats"] else "0",
            f"{row['evenness']:.3f}",
            f"{row['winner_changes']:.0%}",
        )
        for together in zip(*(bias["rows"] for bias in biases.values()), strict=True)
        for name, row in zip(biases, together, strict=True)
    ]
    return Table(("list", "model", "listed", "should be", "evenness", "winner changes"), rows).text()


def costs(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        (
            MEASURES[row["measure"]].format(**row),
            row["method"],
            f"{1000 * row['wall']['median']:.1f}",
            f"{row['wall']['ratio']:.2f}",
            f"{row['memory']['ratio']:.2f}" if row["memory"] else "",
        )
        for row in rows
    ]
    if not any(line[-1] for line in lines):
        return Table(("", "head", "ms", "time ratio"), [line[:-1] for line in lines]).text()
    return Table(("", "head", "ms", "time ratio", "memory ratio"), lines).text()


def _all(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    return [run["perplexity"] for run in runs]


def _of(runs: Sequence[Mapping[str, Any]], group: str) -> list[float]:
    return [value for run in runs if (value := run["groups"][group]["perplexity"]) is not None]


def _show(values: Sequence[float]) -> str:
    return Estimate.of(values).show() if values else ""


EXAMPLES = """
unbottle demo
unbottle demo --quick
unbottle demo --seeds 1 --output runs/mine
unbottle demo --dry-run
"""
PAGE = "report.html"
TITLE = "Unbottle: a softmax head and a CPR head, side by side"


def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="A tiny model trained on the spot: two minutes, no download.")
    ] = False,
    seeds: Annotated[int, typer.Option(metavar="N", help="How often both heads are trained.", min=1)] = 3,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the demo. [runs/demo, or runs/demo-quick]")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the fetched model is kept. [your cache folder]")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="How heads are parameterised: scaled, or paper, residual, steady. [scaled]"),
    ] = None,
    dry_run: DryRun = False,
    plan: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Give one frozen language model a softmax head and a CPR head, train both alike, and compare them.

    The model is SmolLM2-135M-Instruct from the package index, the text is the source code of Python's standard
    library. Shown are: perplexity before and after, by where the next word was; next words after prompts, with the
    partition that set each; what the order of a list does; time and memory. DIR/report.html is all of it as a page,
    DIR/softmax/model and DIR/cpr/model are the trained models. The same command again goes on where it was stopped.
    """
    from unbottle.cli.output import config_of, prepare, write_run
    from unbottle.experiments.demo_plan import chosen_plan
    from unbottle.files import write_text

    name = plan or ("quick" if quick else "full")
    folder = output or Path("runs/demo" if name == "full" else f"runs/demo-{name}")
    settings = {"plan": name, "seeds": seeds, "output": str(folder), "cache": None if cache is None else str(cache)}
    chosen = chosen_plan(name, form)
    if dry_run:
        print(json.dumps(config_of("demo", settings | {"plan": chosen.to_dict()}), indent=1))
        return
    prepare(folder)
    found = execute(chosen, folder, seeds, cache)
    from unbottle.report.page import page
    from unbottle.report.sections import demo_sections

    print(document(found))
    config = config_of("demo", settings | {"form": chosen.form})
    write_text(folder / PAGE, page(TITLE, demo_sections(found)))
    write_run(folder, config, found)
    model = found["models"]["cpr"]
    print(f"See {folder / PAGE}; in Python: import unbottle; model = unbottle.load({model!r})")


def execute(plan: Any, folder: Path, seeds: int, cache: Path | None) -> dict:
    """Run the steps that are not done yet, with one bar for all of them."""
    from unbottle.experiments.demo import demo as run
    from unbottle.experiments.demo_model import user_cache
    from unbottle.progress import one_line_warnings, progress
    from unbottle.train.callbacks import quiet

    with quiet(), one_line_warnings(), progress() as report:
        return run(plan, folder, seeds=seeds, cache=cache or user_cache(), report=report)
