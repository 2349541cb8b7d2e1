"""unbottle demo: a softmax head and a CPR head on the same model, and what it prints about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.tables import Estimate, Table

if TYPE_CHECKING:
    from unbottle.experiments.presets import Json

GROUPS = ("context", "top", "elsewhere")
MEASURES = {"forward": "forward pass, {length} words", "decode": "step of decoding after {context}"}


def format_result(result: Json) -> str:
    """The content of result.json as text for a terminal."""
    return "\n\n".join(
        [
            about(result),
            "Perplexity of held-out text, by where the next word was (lower is better)\n" + perplexities(result),
            result["verdict"]["said"],
            "The next word after a prompt, and the partition that set it\n" + next_words(result["words"]),
            "Lists in different orders: probability of all listed words, evenness among them, how often another wins\n"
            + orders(result["order"]),
            "Cost relative to the plain model\n" + costs(result["cost"]),
        ]
    )


def about(result: Json) -> str:
    """The model, the text and the training."""
    model, text, training = result["model"], result["text"], result["training"]
    licence = f" ({model['licence']})" if model["licence"] else ""
    parts = [f"{text[part]['tokens']:,} tokens of {text[part]['files']} files" for part in ("train", "test")]
    return "\n".join(
        [
            f"Model: {model['title']}{licence}, {model['parameters'] / 1e6:.1f} M parameters, frozen; {model['about']}",
            f"Text:  {text['what']} ({text['licence']}): {parts[0]} to train on, {parts[1]} held out",
            f"Heads: {' and '.join(result['methods'].values())}, same hidden states, same order, one pass, "
            f"learning rate {training['lr']:g}; form: {training['form']}",
        ]
    )


def perplexities(result: Json) -> str:
    """A line for each model: means over seeds, for all words and for each group."""
    runs_by_name = result["perplexity"]
    names = {"before": "before training"} | result["methods"]
    first = runs_by_name["before"][0]
    header = ["", "all words", "in the context", f"in W({first['k']})", "elsewhere"]
    rows = [
        [names[name], _mean([run["perplexity"] for run in runs])]
        + [_mean([run["groups"][group]["perplexity"] for run in runs]) for group in GROUPS]
        for name, runs in runs_by_name.items()
    ]
    rows.append(["share of the words", "100%", *(f"{first['groups'][group]['share']:.0%}" for group in GROUPS)])
    seeds = len(runs_by_name["cpr"])
    return Table(header, rows).text() + (f"\n(mean of {seeds} seeds ± its standard error)" if seeds > 1 else "")


def next_words(words: Json) -> str:
    from unbottle.eval.next_words import Probe, Probed, ProbedWord

    probes = [
        Probed(**{**probed, "words": tuple(ProbedWord(**word) for word in probed["words"])})
        for probed in words["found"]
    ]
    return str(Probe(found=tuple(probes)))


def orders(biases: Mapping[str, Json]) -> str:
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


def costs(rows: Sequence[Json]) -> str:
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


def _mean(values: Sequence[float | None]) -> str:
    """Empty if no token was of that kind."""
    numbers = [value for value in values if value is not None]
    return Estimate.of(numbers).show() if numbers else ""


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
        bool, typer.Option("--quick", help="Use a tiny model trained on the spot: two minutes, no download.")
    ] = False,
    seeds: Annotated[
        int, typer.Option(metavar="N", help="Number of seeds with which both heads are trained.", min=1)
    ] = 3,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for models and results. [runs/demo, or runs/demo-quick]")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the downloaded model. [your cache folder]")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="Parameterisation of the heads: scaled, paper, residual or steady. [scaled]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole config and exit.")] = False,
    plan: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Give one frozen language model a softmax head and a CPR head, train both alike, and compare them.

    The model is SmolLM2-135M-Instruct from the package index, the text is the source code of Python's standard
    library. The demo shows perplexity before and after, by where the next word was; next words after prompts, with the
    partition that set each; what the order of a list does; time and memory. DIR/report.html is all of it as a page,
    DIR/softmax/model and DIR/cpr/model are the trained models. If interrupted, rerun the same command to resume.
    """
    from unbottle.cli.output import config_of, prepare, write_run
    from unbottle.experiments.demo import demo_preset
    from unbottle.files import write_text

    name = plan or ("quick" if quick else "full")
    folder = output or Path("runs/demo" if name == "full" else f"runs/demo-{name}")
    settings = {"plan": name, "seeds": seeds, "output": str(folder), "cache": None if cache is None else str(cache)}
    preset = demo_preset(name, form)
    if dry_run:
        print(json.dumps(config_of("demo", settings | {"plan": preset.to_dict()}), indent=1))
        return
    prepare(folder)
    from unbottle.experiments.demo import run_demo
    from unbottle.experiments.demo_model import user_cache
    from unbottle.progress import one_line_warnings, progress
    from unbottle.report.page import page
    from unbottle.report.sections import demo_sections
    from unbottle.train.callbacks import quiet_logging

    with quiet_logging(), one_line_warnings(), progress() as report:
        result = run_demo(preset, folder, seeds=seeds, cache=cache or user_cache(), progress=report)
    print(format_result(result))
    config = config_of("demo", settings | {"form": preset.form})
    write_text(folder / PAGE, page(TITLE, demo_sections(result)))
    write_run(folder, config, result)
    model = result["models"]["cpr"]
    print(f"See {folder / PAGE}; in Python: import unbottle; model = unbottle.load({model!r})")
