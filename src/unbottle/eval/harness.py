"""EleutherAI's lm-evaluation-harness on a model directory, with or without a head."""

from __future__ import annotations

from collections.abc import Sequence

from unbottle.eval.inference import best_device
from unbottle.hf import pretrained  # noqa: F401  from here on the Auto classes, which the harness calls, know our models


def harness(
    path: str, tasks: Sequence[str], *, batch: int = 8, limit: int | None = None, shots: int | None = None
) -> dict[str, object]:
    """The results and versions of tasks, as `lm_eval --model hf --model_args pretrained=PATH --tasks ...` has them."""
    try:
        import lm_eval
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise ValueError("lm-eval needs EleutherAI's lm-evaluation-harness: pip install 'lm_eval[hf]'.") from error
    manager = TaskManager()
    known = manager.match_tasks([*tasks])
    if unknown := [task for task in tasks if "*" not in task and task not in known]:
        raise ValueError(f"task {unknown[0]!r}: the harness does not know it. lm_eval ls tasks lists all it knows.")
    output = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": path, "trust_remote_code": False},
        tasks=[*tasks],
        batch_size=batch,
        device=best_device(),
        limit=limit,
        num_fewshot=shots,
        task_manager=manager,
    )
    return {
        "results": output["results"],
        "task versions": output["versions"],
        "shots": output["n-shot"],
        "lm_eval": lm_eval.__version__,
    }
