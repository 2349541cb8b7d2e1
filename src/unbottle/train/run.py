"""run: a training from the first refusal to the saved model, whatever the task is."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, set_seed

from unbottle.head.form import OLD_NAMES, current_name
from unbottle.hf.attach import innermost
from unbottle.hf.callback import HeadGradientCallback
from unbottle.hf.fingerprint import fingerprint
from unbottle.hf.mixin import HeadMixin
from unbottle.hf.training_record import TrainingRecord
from unbottle.train.callbacks import Before, Progress, Report, logs
from unbottle.train.checkpoints import latest, step_of
from unbottle.train.collate import collate
from unbottle.train.files import read_json, write_json
from unbottle.train.folder import RECORD, claim, locked
from unbottle.train.numbered import numbered
from unbottle.train.preemption import Preemption
from unbottle.train.processes import first_does, is_first, join, processes, rank, refuse_difference
from unbottle.train.quiet import quiet
from unbottle.train.result import Result
from unbottle.train.settings import FREE, RunSettings
from unbottle.train.task import Task
from unbottle.train.trained import MODEL, TRAINED
from unbottle.train.trainer import WRITING, ExactTrainer, arguments

ALIGNED = 64  # bytes


def run(
    task: Task,
    model: Any,
    train: Any,
    valid: Any,
    settings: RunSettings,
    *,
    report: Report | None,
    tokenizer: Any,
    data_name: str | None,
) -> Result:
    """Train in a folder that is ours alone, from its last whole checkpoint, if there is one.

    Several processes do all of this at once; the first one alone writes and reports.
    """
    task.refuse(model, train, settings)
    join(settings.device)
    refuse_share(settings)
    folder = Path(settings.output)
    preemption = Preemption(folder)
    with ExitStack() as stack, quiet(), preemption.listening():
        first_does(lambda: stack.enter_context(locked(folder)))
        about = identity(model, train, valid, settings)
        refuse_difference(about)
        record = first_does(lambda: claim(folder, about))
        refuse_unseen(folder)
        report = report if is_first() else None
        set_seed(settings.seed)
        align(model)
        trained = TRAINED[settings.train](model, train, valid, settings, report)
        checkpoint = first_does(lambda: _last(folder))
        use_cache = model.config.use_cache if hasattr(model.config, "use_cache") else None
        trainer = task.trainer(
            trained.model,
            arguments(settings, task.arguments, evaluates=valid is not None),
            settings=settings,
            data_collator=collate,
            train_dataset=numbered(trained.train),
            eval_dataset=trained.valid,
        )
        trainer.remove_callback(PrinterCallback)
        if isinstance(innermost(model), HeadMixin) and not trainer.is_deepspeed_enabled:  # it hides gradients
            trainer.add_callback(HeadGradientCallback())
        if valid is not None and "before" not in record:
            _look(trainer, record, folder)
        _train(trainer, checkpoint, report, preemption)
        if use_cache is not None:
            model.config.use_cache = use_cache  # the Trainer turned it off, and it would be saved
        result = _result(trainer, record, folder)
        trained.save(folder, tokenizer, _for_card(result, settings, data_name, _name(train)))
        first_does(lambda: shutil.rmtree(trainer.args.output_dir or "", ignore_errors=True))
        return result


def refuse_share(settings: RunSettings) -> None:
    """`batch` is what all processes read at a time, so that their number changes nothing."""
    if settings.batch % processes():
        raise ValueError(
            f"batch {settings.batch}: {processes()} processes share a batch. Give a multiple of {processes()}."
        )


def refuse_unseen(folder: Path) -> None:
    """Processes on several machines read the checkpoints of the first."""
    if not (folder / RECORD).is_file():
        raise ValueError(f"process {rank()} does not see {folder / RECORD}: give a folder that all machines share.")


def _last(folder: Path) -> Path | None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    shutil.rmtree(folder / WRITING, ignore_errors=True)  # of a run that was killed
    return latest(folder / "checkpoints")


def _look(trainer: ExactTrainer, record: dict[str, Any], folder: Path) -> None:
    """The validation loss before training, now or as soon as the model can be used."""

    def remember(loss: float) -> None:
        record["before"] = {"valid_loss": loss}
        first_does(lambda: write_json(folder / RECORD, record))

    if trainer.wraps_the_model:
        trainer.add_callback(Before(lambda: remember(trainer.valid_loss())))
    else:
        remember(trainer.evaluate()["eval_loss"])


def _train(trainer: ExactTrainer, checkpoint: Path | None, report: Report | None, preemption: Preemption) -> None:
    resumed = None if checkpoint is None else str(checkpoint)
    if checkpoint is not None:
        state = read_json(checkpoint / "trainer_state.json")
        if state["global_step"] >= state["max_steps"]:  # killed after its last step
            trainer._load_from_checkpoint(str(checkpoint))
            trainer.state = type(trainer.state).load_from_json(str(checkpoint / "trainer_state.json"))
            trainer.restore_midway(str(checkpoint))
            return
    trainer.add_callback(Progress(trainer, report, resumed))
    for callback in logs(trainer.settings, 0 if checkpoint is None else step_of(checkpoint)):
        trainer.add_callback(callback)
    # Whatever was drawn before, in this session or the first. Each process drops out other units of its rows.
    set_seed(trainer.settings.seed + rank())
    trainer.add_callback(preemption)
    with preemption.at_the_next_step():
        trainer.train(resume_from_checkpoint=resumed)


def _result(trainer: ExactTrainer, record: dict[str, Any], folder: Path) -> Result:
    history: list[dict[str, Any]] = trainer.state.log_history
    before = [(0, record["before"]["valid_loss"])] if "before" in record else []
    seconds, tokens = trainer.seconds, int(trainer.state.num_input_tokens_seen)
    return Result(
        steps=trainer.state.global_step,
        losses=tuple((line["step"], line["loss"]) for line in history if "loss" in line),
        valid_losses=tuple(before + [(line["step"], line["eval_loss"]) for line in history if "eval_loss" in line]),
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / max(seconds, 1e-9),
        folder=str(folder / MODEL),
    )


def _for_card(result: Result, settings: RunSettings, data_name: str | None, fingerprint: str | None) -> TrainingRecord:
    """What the card of the trained model says: no paths of this machine, and nothing that changes no weight."""
    losses = [loss for _, loss in result.valid_losses]
    return TrainingRecord(
        data=data_name,
        fingerprint=fingerprint,
        train=settings.train,
        steps=result.steps,
        tokens=result.tokens,
        settings={name: value for name, value in settings.to_dict().items() if name not in (*FREE, "train")},
        valid_losses=(losses[0], losses[-1]) if losses else None,
    )


def identity(model: Any, train: Any, valid: Any, settings: RunSettings) -> dict[str, Any]:
    """What must not change while a run is interrupted."""
    target = innermost(model)
    weights = json.dumps(fingerprint(target), sort_keys=True)
    return {
        "settings": settings.to_dict(),
        "model": {
            "class": target._get_name(),
            "head": str(target.head.config.method) if isinstance(target, HeadMixin) else None,
            "form": _form(target),
            "weights": hashlib.sha256(weights.encode()).hexdigest()[:16],
        },
        "data": {"train": _name(train), "valid": _name(valid)},
    }


def form_of(folder: Path) -> str | None:
    """The form of the head that this run trains; None if there is no run yet, or no head."""
    if not (folder / RECORD).is_file():
        return None
    model = read_json(folder / RECORD).get("model", {})
    return None if model.get("head") is None else current_name(model.get("form") or "paper")


def _form(target: Any) -> str | None:
    """Of the head, as the first runs named it; of the paper's form they said nothing."""
    if not isinstance(target, HeadMixin) or (form := target.head.config.form) == "paper":
        return None
    return {new: old for old, new in OLD_NAMES.items()}.get(form, form)


def _name(data: Any) -> str | None:
    if data is None:
        return None
    if hasattr(data, "fingerprint"):
        return str(data.fingerprint())[:16]
    return f"{len(data)} windows" if hasattr(data, "__len__") else "a stream"


@torch.no_grad()
def align(model: Any) -> None:
    """Weights that lie in a file get memory of their own: how products round depends on where their factors lie."""
    for parameter in model.parameters():
        if parameter.data_ptr() % ALIGNED:
            parameter.data = parameter.data.clone()
