"""unbottle eval probe: next-word predictions of models side by side, and their order bias."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.eval_options import ModelsArgument
from unbottle.cli.options import DryRun, OutputFolder, check_model
from unbottle.progress import progress
from unbottle.tables import Table

if TYPE_CHECKING:
    from unbottle.eval.order_bias import OrderBias

EXAMPLES = """
unbottle eval probe gpt2 runs/cpr/model --picture probe.png
unbottle eval probe runs/cpr/model --prompt "We have [tea], [milk] and [juice], and I would like" --shuffles 6
unbottle eval probe runs/cpr/model --prompt "I like [-tennis], [-golf], and" --k 10 --output runs/probe
"""


def eval_probe(
    model: ModelsArgument,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Listed options in brackets: [tea], or [-tea] if it should not be repeated; repeatable. [the paper's]",
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", help="Number of words per model.")] = 5,
    shuffles: Annotated[int, typer.Option(metavar="N", help="Maximum number of orders of the options.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for the orders.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the options of each prompt in two orders, to a .png file.")
    ] = None,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """The most likely next words after a prompt, with the partition that set each, and the test of order bias.

    Order bias: the listed options are shuffled. "listed" is their probability together: what should be near 1, or near
    0 where they are not to be repeated. "evenness" is the entropy among them, divided by log n. "winner changes" is the
    share of the orders in which another option than usual is the most likely.
    """
    for path in [] if dry_run else model:
        check_model(path)
    from unbottle.cli.models import causal_model, short_names
    from unbottle.cli.output import config_of, prepare, prepare_file, write_run
    from unbottle.eval.next_words import PROMPTS, Prompt, probe
    from unbottle.eval.order_bias import order_bias

    prompts = [Prompt.parse(text) for text in prompt] if prompt else list(PROMPTS)
    settings = {"models": model, "prompts": [item.marked() for item in prompts], "k": k, "shuffles": shuffles}
    drawing = {} if picture is None else {"picture": str(picture)}
    config = config_of("eval probe", {**settings, "seed": seed, **drawing})
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    prepare(output)
    prepare_file(picture)
    names = short_names(model)
    loaded = {name: causal_model(path) for name, path in zip(names, model, strict=True)}
    models = {name: network for name, (network, _) in loaded.items()}
    tokenizers = {name: tokenizer for name, (_, tokenizer) in loaded.items()}
    probed = probe(models, tokenizers, prompts, k=k)
    print(probed)
    with progress() as report:
        biases = {
            name: order_bias(*pair, prompts, shuffles=shuffles, seed=seed, report=report)
            for name, pair in loaded.items()
        }
    if any(bias.rows for bias in biases.values()):
        print(f"\n{table(biases)}")
        if picture is not None:
            from unbottle.experiments.language_tables import draw_options, listed_options

            draw_options({name: listed_options(*pair, prompts) for name, pair in loaded.items()}, picture)
            print(f"\nPicture: {picture}")
    order = {name: bias.to_dict() for name, bias in biases.items()}
    write_run(output, config, {**probed.to_dict(), "order_bias": order})


def table(biases: Mapping[str, OrderBias]) -> str:
    """A line for each prompt and model; models of one prompt below each other."""
    title = ("options", "model", "orders", "listed", "should be", "evenness", "winner", "winner changes")
    rows = [
        (
            ", ".join(row.options),
            name,
            str(row.orders),
            f"{row.mass:.4f}",
            "1" if row.repeats else "0",
            f"{row.evenness:.4f}",
            row.winner,
            f"{row.winner_changes:.0%}",
        )
        for place in zip(*(bias.rows for bias in biases.values()), strict=True)
        for name, row in zip(biases, place, strict=True)
    ]
    return Table(title, rows).text()
