"""unbottle demo: a softmax head and a CPR head on the same model, and what it prints about them."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Annotated

from unbottle.cli.options import flag, option
from unbottle.cli.output import config_of, prepare, write_run
from unbottle.files import Json, write_text
from unbottle.progress import one_line_warnings, progress
from unbottle.tables import Estimate, Table

EXAMPLES = """
unbottle demo
unbottle demo --quick
unbottle demo --thorough --output runs/mine
unbottle demo --dry-run
"""
PAGE = "report.html"
PROBLEM = """\
1. The problem. A language model ends in a softmax: it compares one vector with one fixed vector for each word. If the
next word may be king or woman, that vector lies between the two, and so do queen and man, which nobody mentioned."""
BAR = 24  # letters of a bar for a probability of 1


def demo(
    quick: Annotated[bool, flag("--quick", "Use a tiny model trained on the spot: two minutes, no download.")] = False,
    thorough: Annotated[
        bool, flag("--thorough", "Train all heads with three seeds, and measure time and memory.")
    ] = False,
    seeds: Annotated[int | None, option("N", "Number of seeds. [1, or 3 with --thorough]", min=1)] = None,
    output: Annotated[
        Path | None, option("DIR", "Folder for models and results. [runs/demo, or runs/demo-quick]")
    ] = None,
    cache: Annotated[Path | None, option("DIR", "Folder for the downloaded model. [your cache folder]")] = None,
    form: Annotated[str | None, option("FORM", "Parameterisation of the heads, as in unbottle train. [scaled]")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Print the whole config and exit.")] = False,
    plan: Annotated[str | None, option(None, "", hidden=True)] = None,
) -> None:
    """Show what a softmax cannot do, on a real language model, and what a CPR head changes.

    First, sentences after which two words are equally likely: heads are trained on some words and tested on others.
    Then real text: a softmax head and a CPR head, trained alike, compared on names, on all words and on new words. The
    model is SmolLM2-135M-Instruct from the package index and stays frozen; the text is the documentation of Python.
    DIR/report.html is all of it as a page, DIR/softmax/model and DIR/cpr/model are the trained models. If interrupted,
    rerun the same command to resume.
    """
    from unbottle.experiments.demo_workspace import demo_preset

    name = plan or ("quick" if quick else "full")
    folder = output or Path("runs/demo" if name == "full" else f"runs/demo-{name}")
    num_seeds = seeds or (3 if thorough else 1)
    settings = {"plan": name, "seeds": num_seeds, "thorough": thorough, "output": folder, "cache": cache}
    preset = demo_preset(name, form)
    config_of("demo", settings | {"plan": preset.to_dict()}, dry_run=dry_run)
    prepare(folder)
    from unbottle.experiments.demo import demo_result, run_contexts, run_text
    from unbottle.experiments.demo_model import user_cache
    from unbottle.experiments.demo_workspace import DemoWorkspace
    from unbottle.report.page import page
    from unbottle.report.sections import demo_sections, headline
    from unbottle.train.callbacks import quiet_logging

    with quiet_logging(), one_line_warnings():
        with progress() as report:
            workspace = DemoWorkspace(folder, preset, cache or user_cache(), progress=report)
            contexts = run_contexts(workspace, seeds=num_seeds)
        print(format_contexts(contexts) + "\n")
        with progress() as workspace.progress:
            result = demo_result(workspace, contexts, run_text(workspace, seeds=num_seeds, cost=thorough))
    print(format_text(result))
    write_text(folder / PAGE, page(headline(result), demo_sections(result)))
    write_run(folder, config_of("demo", settings | {"form": preset.form}), result)
    print(f"See {folder / PAGE}")


def format_contexts(contexts: Json) -> str:
    """Act one as text for a terminal: the bars of four words, then all ambiguous contexts."""
    from unbottle.report.sections import MODELS, SHOWN

    models = contexts["models"]
    blocks = [PROBLEM]
    for number, shown in enumerate(contexts["shown"]):
        values = [models[name][0]["shown"][number] for name in SHOWN]
        rows = [
            [word, "possible" if place < 2 else "", *(bar(probabilities[place]) for probabilities in values)]
            for place, word in enumerate(shown["words"])
        ]
        blocks.append(f"{shown['prompt']} ...\n{Table(['', '', *(MODELS[name][0] for name in SHOWN)], rows).text()}")
    rows = [
        [
            MODELS[name][0],
            Estimate.of([run["perplexity"] for run in runs]).show(1),
            *(f"{fmean(run[key] for run in runs):.0%}" for key in ("answers", "between")),
        ]
        for name, runs in models.items()
    ]
    header = ["", "perplexity", "the two words", "the words between"]
    trained = f"{contexts['train']} sentences with other words"
    about = f"{contexts['test']} sentences like these, after training on {trained} (2.0 is perfect)"
    return "\n\n".join([*blocks, f"{about}\n{Table(header, rows).text()}"])


def bar(probability: float) -> str:
    return f"{probability:6.1%} {'█' * round(BAR * probability)}".ljust(8 + BAR)


def format_text(result: Json) -> str:
    """Acts two and three, and the verdict."""
    from unbottle.report.page import plain_text
    from unbottle.report.sections import cost_table, head_table

    model, text, models = result["model"], result["text"], result["models"]
    licence = f" ({model['licence']})" if model["licence"] else ""
    gained = result["sentences"].get("gained")
    return "\n\n".join(
        [
            f"2. Real text: {text['what']} ({text['licence']}), {text['train']['tokens']:,} tokens to train on, "
            f"{text['test']['tokens']:,} held out.\nPerplexity, and how often the first guess is right\n"
            + groups(result["groups"]),
            *([f"Where CPR helps most\n{sentence(gained)}"] if gained else []),
            f"3. What it costs. {model['title']}{licence}, {model['parameters'] / 1e6:.1f} M parameters, stays as it "
            f"is; {model['about']}.\n" + plain_text(head_table(result)),
            *([plain_text(cost_table(result["cost"]))] if result["cost"] else []),
            result["verdict"]["said"],
            f"Compare both models in a browser:  unbottle app {models['softmax']} {models['cpr']} --open\n"
            f"Use one in Python:                 model = unbottle.load({models['cpr']!r})\n"
            f"Give your own model such a head:   model = unbottle.attach(model, {result['methods']['cpr']!r})",
        ]
    )


def groups(values: Json) -> str:
    """A line for each group of tokens; means over seeds."""
    from unbottle.report.sections import SHOWN, TOKENS

    rows = []
    for name in (name for name in TOKENS if name in values):
        group = values[name]
        perplexities = [Estimate.of(group["models"][model]["perplexity"]).show() for model in SHOWN]
        around = "" if group["low"] is None else f"{group['low']:+.1%} to {group['high']:+.1%}"
        guesses = [f"{fmean(group['models'][model]['accuracy']):.1%}" for model in ("softmax", "cpr")]
        rows.append([TOKENS[name], f"{group['share']:.0%}", *perplexities, f"{group['change']:+.1%}", around, *guesses])
    header = ["", "share", "as it is", "softmax", "CPR", "change", "95 %", "softmax right", "CPR right"]
    return Table(header, rows).text()


def sentence(text: Json) -> str:
    """A sentence with the words that became more likely, and what set them."""
    softmax, cpr = (text["probabilities"][name] for name in ("softmax", "cpr"))
    order = sorted(range(len(cpr)), key=lambda place: softmax[place] - cpr[place])[:3]
    words = [
        f"{text['tokens'][place].strip()!r} {softmax[place]:.1%} -> {cpr[place]:.1%} ({text['partitions'][place]})"
        for place in order
    ]
    return f"... {''.join(text['tokens']).strip()}\nwith softmax -> with CPR: {', '.join(words)}"
