"""unbottle eval lm-eval: tasks of EleutherAI's lm-evaluation-harness."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, cast

import typer

from unbottle.cli.eval_options import ModelArgument
from unbottle.cli.options import DryRun, OutputFolder, check_model
from unbottle.cli.output import show
from unbottle.tables import Table, number

EXAMPLES = """
unbottle eval lm-eval runs/cpr/model --tasks lambada_openai
unbottle eval lm-eval runs/cpr/model --tasks hellaswag,piqa --limit 100 --output runs/harness
"""


def eval_lm_eval(
    model: ModelArgument,
    tasks: Annotated[str, typer.Option(metavar="TASK,TASK", help="Names of tasks.")],
    batch: Annotated[int, typer.Option(metavar="N", help="Batch size.")] = 8,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Maximum number of examples per task. [all]")] = None,
    shots: Annotated[
        int | None, typer.Option(metavar="N", help="Number of few-shot examples. [the task's own]")
    ] = None,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Run tasks of EleutherAI's lm-evaluation-harness, as `lm_eval --model hf` does.

    The harness loads the folder itself; all that is added here is support for our heads.
    """
    from unbottle.cli.output import config_of, prepare, write_run

    names = [name.strip() for name in tasks.split(",") if name.strip()]
    settings = {"model": model, "tasks": names, "batch": batch, "limit": limit, "shots": shots}
    config = config_of("eval lm-eval", settings)
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    if not names:
        raise ValueError(f"tasks {tasks!r}: expected names, as in hellaswag,piqa.")
    check_model(model)
    prepare(output)
    from unbottle.cli.methods import plain_model
    from unbottle.cli.models import fetched
    from unbottle.eval.harness import harness

    plain_model(model)  # refuses what is not a language model, in one sentence
    result = harness(fetched(model), names, batch=batch, limit=limit, shots=shots)
    show(document(cast(Mapping[str, Mapping[str, object]], result["results"])))
    write_run(output, config, result)


def document(results: Mapping[str, Mapping[str, object]]) -> str:
    """A Markdown table with a row for each task and metric."""
    rows = [
        [f"{task}, {metric.removesuffix(',none')}", number(value, 4)]
        for task, scores in results.items()
        for metric, value in scores.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return Table(["task, metric", "value"], rows).markdown()
