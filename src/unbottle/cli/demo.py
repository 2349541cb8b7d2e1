"""unbottle demo: a softmax head and a CPR head on the same model, and what it prints about them."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from textwrap import dedent, fill
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
The problem: where the next word can be king or woman, a language model also considers queen and man, which nobody
mentioned, because its last step, a softmax, compares all words with one single vector."""
HEADS = """\
The model stays as it is. Only its last step, the output layer or "head", is replaced. The softmax head is what models
have: one vector for all words. The CPR head has vectors of their own for words of the text and for likely words. Both
are trained alike."""
PERPLEXITY = 'Perplexity: how many words a model "hesitates between". Lower is better, and here 2 is the best possible.'
WIDTH = 80  # columns of a terminal
BAR = 10  # letters of a bar for a probability of 1
EIGHTHS = " ▏▎▍▌▋▊▉"  # of a letter
TITLES = {"before": "as it is", "softmax": "softmax head", "cpr": "CPR head"}


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
    """Act one as text for a terminal: the problem, the bars of four words, then all ambiguous contexts."""
    from unbottle.report.sections import MODELS

    models = contexts["models"]
    blocks = [wrapped(PROBLEM), wrapped(HEADS)]
    for number, shown in enumerate(contexts["shown"]):
        values = [models[name][0]["shown"][number] for name in TITLES]
        rows = [
            [word, "possible" if place < 2 else "", *(bar(probabilities[place]) for probabilities in values)]
            for place, word in enumerate(shown["words"])
        ]
        first = "1. Two words are possible\n\n" if number == 0 else ""
        blocks.append(
            f"{first}{wrapped(shown['prompt'] + ' ...', WIDTH - 16)}\n{Table(['', '', *TITLES.values()], rows).text()}"
        )
    rows = [
        [
            MODELS[name][0],
            *(f"{fmean(run[key] for run in runs):.0%}" for key in ("answers", "between")),
            Estimate.of([run["perplexity"] for run in runs]).show(1),
        ]
        for name, runs in models.items()
    ]
    header = ["", "the two words", "the words between", "perplexity"]
    trained = f"{contexts['train']} sentences with other words and other patterns"
    about = (
        f"Probabilities in {contexts['test']} such sentences, after training on {trained}. The words between are queen "
        f"and man, if king or woman is possible. {PERPLEXITY}"
    )
    return "\n\n".join([*blocks, f"{wrapped(about)}\n{Table(header, rows).text()}"])


def wrapped(text: str, width: int = WIDTH) -> str:
    """A paragraph in lines that fit a terminal; words and options are not broken."""
    return fill(text, width, break_long_words=False, break_on_hyphens=False)


def bar(probability: float) -> str:
    """A probability and a bar of that length, in eighths of a letter."""
    letters, rest = divmod(round(8 * BAR * probability), 8)
    return f"{probability:6.1%} {'█' * letters}{EIGHTHS[rest].strip()}".ljust(7 + BAR)


def format_text(result: Json) -> str:
    """Acts two and three, the verdict and what to do next."""
    from unbottle.report.page import plain_text
    from unbottle.report.sections import cost_table, head_table

    model, text, models = result["model"], result["text"], result["models"]
    licence = f" ({model['licence']})" if model["licence"] else ""
    sentences = {"gained": "Where CPR helps most", "lost": "Where CPR loses most"}
    right = [f"{fmean(result['groups']['all']['models'][name]['accuracy']):.1%}" for name in ("softmax", "cpr")]
    about = (
        f"Both heads are trained on {text['what']} ({text['licence']}), {text['train']['tokens']:,} tokens, and tested "
        f"on {text['test']['tokens']:,} tokens of other parts. Perplexity, and its change from softmax to CPR:"
    )
    cost = (
        f"The model is {model['title']}{licence}, {model['parameters'] / 1e6:.1f} M parameters, {model['about']}. It "
        "stays as it is; a head adds:"
    )
    return "\n\n".join(
        [
            f"2. Real text\n\n{wrapped(about)}\n{groups(result['groups'])}",
            wrapped(f"The first guess is right at {right[0]} of all words with the softmax head, {right[1]} with CPR."),
            *(
                f"{title}\n{sentence(result['sentences'][name], gained=name == 'gained')}"
                for name, title in sentences.items()
                if name in result["sentences"]
            ),
            f"3. What it costs\n\n{wrapped(cost)}\n{plain_text(head_table(result))}",
            *([plain_text(cost_table(result["cost"]))] if result["cost"] else []),
            f"Verdict\n\n{wrapped(result['verdict']['said'])}",
            f"Next: compare both models in a browser\n  unbottle app {models['softmax']} {models['cpr']} --open\n"
            f"Use one in Python\n  model = unbottle.load({models['cpr']!r})\n"
            f"Give your own model such a head\n  model = unbottle.attach(model, {result['methods']['cpr']!r})",
        ]
    )


def groups(values: Json) -> str:
    """A line for each group of tokens; means over seeds."""
    from unbottle.report.sections import TOKENS

    rows = []
    for name in (name for name in TOKENS if name in values):
        group = values[name]
        perplexities = [Estimate.of(group["models"][model]["perplexity"]).show(1) for model in TITLES]
        around = "" if group["low"] is None else f"{group['low']:+.1%} to {group['high']:+.1%}"
        rows.append([TOKENS[name], *perplexities, f"{group['change']:+.1%}", around])
    return Table(["", *TITLES.values(), "change", "95 % interval"], rows).text()


def sentence(text: Json, *, gained: bool) -> str:
    """A sentence with the words that changed most."""
    from unbottle.report.palette import colour_of
    from unbottle.report.sections import changed_words

    changes = changed_words(text, gained=gained)
    rows = [
        [f"  {word['text']}", f"{word['before']:.1%}", f"{word['after']:.1%}", colour_of(word["partition"]).meaning]
        for word in changes
    ]
    lines = dedent("".join(text["tokens"]).strip("\n")).splitlines()
    shown = "\n".join(f"  | {line.rstrip()[: WIDTH - 4]}" for line in lines if line.strip())
    return f"{shown}\n{Table(['', 'softmax', 'CPR', 'set by'], rows).text()}" if rows else shown
