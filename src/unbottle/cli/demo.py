"""unbottle demo: see softmax fail and CPR do better, on a real model, in minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole config, do nothing.")] = False,
    plan: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Give one frozen language model a softmax head and a CPR head, train both alike, and compare them.

    The model is SmolLM2-135M-Instruct from the package index, the text is the source code of Python's standard
    library. Shown are: perplexity before and after, by where the next word was; next words after prompts, with the
    partition that set each; what the order of a list does; time and memory. DIR/report.html is all of it as a page,
    DIR/softmax/model and DIR/cpr/model are the trained models. The same command again goes on where it was stopped.
    """
    from unbottle.cli.run_folder import config_of, prepare, write_run, write_text
    from unbottle.recipes.demo.plan import chosen_plan

    name = plan or ("quick" if quick else "full")
    folder = output or Path("runs/demo" if name == "full" else f"runs/demo-{name}")
    settings = {"plan": name, "seeds": seeds, "output": str(folder), "cache": None if cache is None else str(cache)}
    chosen = chosen_plan(name, form)
    if dry_run:
        print(json.dumps(config_of("demo", settings | {"plan": chosen.to_dict()}), indent=1))
        return
    prepare(folder)
    found = execute(chosen, folder, seeds, cache)
    from unbottle.cli.demo_document import document
    from unbottle.report.page import page
    from unbottle.report.sections.demo import sections

    print(document(found))
    config = config_of("demo", settings | {"form": chosen.form})
    write_text(folder / PAGE, page(TITLE, sections(folder, config, found)))
    write_run(folder, config, found)
    model = found["models"]["cpr"]
    print(f"See {folder / PAGE}; in Python: import unbottle; model = unbottle.load({model!r})")


def execute(plan: Any, folder: Path, seeds: int, cache: Path | None) -> dict:
    """Run the steps that are not done yet, with one bar for all of them."""
    from unbottle.cli.phases import one_line_warnings
    from unbottle.cli.progress import progress
    from unbottle.recipes.demo.pretrained import user_cache
    from unbottle.recipes.demo.run import demo as run
    from unbottle.train.quiet import quiet

    with quiet(), one_line_warnings(), progress() as report:
        return run(plan, folder, seeds=seeds, cache=cache or user_cache(), report=report)
