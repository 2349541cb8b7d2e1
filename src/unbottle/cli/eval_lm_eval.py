"""unbottle eval lm-eval: the tasks of EleutherAI's lm-evaluation-harness."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from unbottle.cli.options import MODEL_HELP, DryRun, OutputFolder, check_model
from unbottle.cli.output import show
from unbottle.tables import Table, number

EXAMPLES = """
unbottle eval lm-eval runs/cpr/model --tasks lambada_openai
unbottle eval lm-eval runs/cpr/model --tasks hellaswag,piqa --limit 100 --output runs/harness
"""


def eval_lm_eval(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    tasks: Annotated[str, typer.Option(metavar="TASK,TASK", help="Tasks of the harness.")],
    batch: Annotated[int, typer.Option(metavar="N", help="Texts at once.")] = 8,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Examples of each task, at most. [all]")] = None,
    shots: Annotated[
        int | None, typer.Option(metavar="N", help="Solved examples before each. [the task's own]")
    ] = None,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Run tasks of EleutherAI's lm-evaluation-harness, as `lm_eval --model hf` does.

    The harness loads the folder itself, unchanged; all that is added here is that it knows our heads.
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
    found = evaluate(model, names, batch=batch, limit=limit, shots=shots)
    show(document(found))
    write_run(output, config, found)


def evaluate(model: str, tasks: list[str], **options: Any) -> dict[str, Any]:
    from unbottle.cli.methods import plain_model
    from unbottle.cli.models import fetched
    from unbottle.eval.harness import harness

    plain_model(model)  # what is no language model is refused here, in one sentence, not by the harness
    return harness(fetched(model), tasks, **options)


def document(found: dict[str, Any]) -> str:
    """A row for each task and metric."""
    rows = [
        [f"{task}, {metric.removesuffix(',none')}", number(value, 4)]
        for task, scores in found["results"].items()
        for metric, value in scores.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return Table(["task, metric", "value"], rows).markdown()
