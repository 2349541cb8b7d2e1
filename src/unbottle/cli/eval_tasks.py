"""unbottle eval analogy, eval probe and eval lm-eval: tasks that bring their own contexts, prompts or examples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from unbottle.cli.options import (
    MODEL_HELP,
    MODELS_HELP,
    BatchSize,
    DryRun,
    ModelsArgument,
    OutputFolder,
    argument,
    check_file,
    check_model,
    option,
)
from unbottle.cli.output import config_of, prepare, prepare_file, show, write_run
from unbottle.data.analogy import KINDS, PARTS, RELATIONS, SIZE, analogies, read_word_pairs
from unbottle.data.analogy import training_text as texts_of
from unbottle.files import write_text
from unbottle.progress import progress
from unbottle.tables import Table, number

if TYPE_CHECKING:
    from unbottle.eval.analogy import AnalogyResult

ANALOGY_EXAMPLES = """
unbottle eval analogy gpt2 runs/cpr/model
unbottle eval analogy runs/cpr/model --kind diagonal --relation family --part valid --output runs/family
unbottle eval analogy runs/cpr/model --pairs questions-words.txt
unbottle eval analogy --training-text analogies.txt --write analogies.jsonl
"""
PROBE_EXAMPLES = """
unbottle eval probe gpt2 runs/cpr/model --picture probe.png
unbottle eval probe runs/cpr/model --prompt "We have [tea], [milk] and [juice], and I would like" --shuffles 6
unbottle eval probe runs/cpr/model --prompt "I like [-tennis], [-golf], and" --k 10 --output runs/probe
"""
LM_EVAL_EXAMPLES = """
unbottle eval lm-eval runs/cpr/model --tasks lambada_openai
unbottle eval lm-eval runs/cpr/model --tasks hellaswag,piqa --limit 100 --output runs/harness
"""


def eval_analogy(
    model: Annotated[list[str] | None, argument("MODEL...", MODELS_HELP)] = None,
    kind: Annotated[list[str] | None, option("KIND", f"{', '.join(KINDS)}; repeatable. [all]")] = None,
    relation: Annotated[list[str] | None, option("RELATION", f"{', '.join(RELATIONS)}; repeatable. [all]")] = None,
    part: Annotated[str, option("PART", f"{', '.join(PARTS)}; they share no word.")] = "test",
    pairs: Annotated[Path | None, option("FILE", "Pairs of words, as in questions-words.txt. [our own]")] = None,
    seed: Annotated[int, option("N", "Random seed for the parts and the contexts.")] = 0,
    size: Annotated[int, option("N", "Maximum number of contexts per kind and relation.")] = SIZE,
    batch: BatchSize = 32,
    write: Annotated[Path | None, option("FILE", "Write the contexts to a jsonl file.")] = None,
    training_text: Annotated[
        Path | None, option("FILE", "Write the contexts of the train part with their answers, a text per line.")
    ] = None,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Perplexity where exactly two words are equally likely: king or woman (diagonal), king or queen (edge).

    No model is below 2, the floor. The same cross entropy for each token of the answers is lower where words have
    several tokens. Beside it stand the mean probability of both answers and of the two words of the parallelogram that
    are wrong. With --write or --training-text no model is needed.
    """
    models = list(model or ())
    choice = {"kind": kind, "relation": relation, "part": part, "pairs": pairs, "seed": seed, "size": size}
    settings = {"models": models, **choice, "batch": batch, "write": write, "training_text": training_text}
    config = config_of("eval analogy", settings, dry_run=dry_run)
    if not (models or write or training_text):
        raise ValueError("no model to evaluate. Give a folder, or --write or --training-text FILE.")
    check_model(*models)
    check_file(pairs)
    words = None if pairs is None else read_word_pairs(pairs)
    contexts = partial(analogies, seed=seed, kinds=kind or KINDS, relations=relation, pairs=words, size=size)
    items = contexts(parts=(part,))
    prepare(output)
    for file in (write, training_text):
        prepare_file(file)
    if write is not None:
        write_text(write, "".join(json.dumps(item.to_dict(), ensure_ascii=False) + "\n" for item in items))
        print(f"{len(items)} contexts ({part}): {write}")
    if training_text is not None:
        texts = texts_of(contexts(parts=("train",)), seed=seed)
        write_text(training_text, "".join(f"{text}\n" for text in texts))
        print(f"{len(texts)} texts (train): {training_text}")
    results: dict[str, AnalogyResult] = {}
    if models:
        from unbottle.cli.models import causal_models
        from unbottle.eval.analogy import analogy

        for name, network, tokenizer in causal_models(models):
            with progress() as report:
                results[name] = analogy(network, tokenizer, items, batch=batch, report=report)
        print(analogy_table(results))
    write_run(output, config, {"part": part, "models": {name: result.to_dict() for name, result in results.items()}})


def analogy_table(results: Mapping[str, AnalogyResult]) -> str:
    """A line for each model, kind and relation."""
    title = ("model", "kind", "relation", "contexts", "perplexity", "floor", "per token", "floor", "answers", "others")
    rows = [
        (
            name,
            row.kind,
            row.relation,
            str(row.items),
            *map(wide_number, (row.perplexity, row.floor, row.token_perplexity, row.token_floor)),
            *(f"{value:.4f}" for value in (row.answer_mass, row.distractor_mass)),
        )
        for name, result in results.items()
        for row in result.rows
    ]
    return Table(title, rows).text()


def wide_number(value: float) -> str:
    """Perplexities in columns: an untrained model has huge ones."""
    return f"{value:.3f}" if value < 1e6 else f"{value:.2e}"


def eval_probe(
    model: ModelsArgument,
    prompt: Annotated[
        list[str] | None,
        option(
            "TEXT",
            "Listed options in brackets: [tea], or [-tea] if it should not be repeated; repeatable. [the paper's]",
        ),
    ] = None,
    k: Annotated[int, option("N", "Number of words per model.", "--k")] = 5,
    shuffles: Annotated[int, option("N", "Maximum number of orders of the options.")] = 20,
    seed: Annotated[int, option("N", "Random seed for the orders.")] = 0,
    picture: Annotated[
        Path | None, option("FILE", "Draw the options of each prompt in two orders, to a .png file.")
    ] = None,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """The most likely next words after a prompt, with the partition that set each, and the test of order bias.

    Order bias: the listed options are shuffled. "listed" is their probability together: what should be near 1, or near
    0 where they are not to be repeated. "evenness" is the entropy among them, divided by log n. "winner changes" is the
    share of the orders in which another option than usual is the most likely.
    """
    check_model(*([] if dry_run else model))
    from unbottle.cli.models import causal_models
    from unbottle.eval.next_words import PROMPTS, Prompt, probe
    from unbottle.eval.order_bias import order_bias
    from unbottle.report.sections import order_table

    prompts = [Prompt.parse(text) for text in prompt] if prompt else list(PROMPTS)
    settings = {"models": model, "prompts": [item.marked() for item in prompts], "k": k, "shuffles": shuffles}
    settings |= {"seed": seed} | ({} if picture is None else {"picture": picture})
    config = config_of("eval probe", settings, dry_run=dry_run)
    prepare(output)
    prepare_file(picture)
    loaded = {name: (network, tokenizer) for name, network, tokenizer in causal_models(model)}
    models = {name: network for name, (network, _) in loaded.items()}
    tokenizers = {name: tokenizer for name, (_, tokenizer) in loaded.items()}
    probed = probe(models, tokenizers, prompts, k=k)
    print(probed)
    with progress() as report:
        order = {
            name: order_bias(*pair, prompts, shuffles=shuffles, seed=seed, report=report).to_dict()
            for name, pair in loaded.items()
        }
    if any(bias["rows"] for bias in order.values()):
        print(f"\n{order_table(order).text()}")
        if picture is not None:
            from unbottle.experiments.figures import draw_options, listed_options

            draw_options({name: listed_options(*pair, prompts) for name, pair in loaded.items()}, picture)
            print(f"\nPicture: {picture}")
    write_run(output, config, {**probed.to_dict(), "order_bias": order})


def eval_lm_eval(
    model: Annotated[str, argument("MODEL", MODEL_HELP)],
    tasks: Annotated[str, option("TASK,TASK", "Names of tasks.")],
    batch: BatchSize = 8,
    limit: Annotated[int | None, option("N", "Maximum number of examples per task. [all]")] = None,
    shots: Annotated[int | None, option("N", "Number of few-shot examples. [the task's own]")] = None,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Run tasks of EleutherAI's lm-evaluation-harness, as `lm_eval --model hf` does.

    The harness loads the folder itself; all that is added here is support for our heads.
    """
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    settings = {"model": model, "tasks": names, "batch": batch, "limit": limit, "shots": shots}
    config = config_of("eval lm-eval", settings, dry_run=dry_run)
    if not names:
        raise ValueError(f"tasks {tasks!r}: expected names, as in hellaswag,piqa.")
    check_model(model)
    prepare(output)
    from unbottle.cli.methods import plain_model
    from unbottle.cli.models import fetched
    from unbottle.eval.harness import harness

    plain_model(model)  # refuses what is not a language model, in one sentence
    result = harness(fetched(model), names, batch=batch, limit=limit, shots=shots)
    show(task_table(cast(Mapping[str, Mapping[str, object]], result["results"])))
    write_run(output, config, result)


def task_table(results: Mapping[str, Mapping[str, object]]) -> str:
    """A Markdown table with a row for each task and metric."""
    rows = [
        [f"{task}, {metric.removesuffix(',none')}", number(value, 4)]
        for task, scores in results.items()
        for metric, value in scores.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return Table(["task, metric", "value"], rows).markdown()
