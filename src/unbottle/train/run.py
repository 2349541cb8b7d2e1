"""Result: what a training leaves behind, beside the model.

What trainings refuse before they touch anything.

The folder of a run: one process at a time, and one set of settings for all time.

run: a training from the first refusal to the saved model, whatever the task is.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, set_seed

from unbottle.files import folder_lock, read_json, write_json
from unbottle.head.projection import OLD_NAMES, current_name
from unbottle.hf.attach import innermost
from unbottle.hf.integrations.callbacks import HeadGradientCallback
from unbottle.hf.model_card import TrainingRecord
from unbottle.hf.model_identity import fingerprint
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.pretrained import source_limit, target_limit
from unbottle.progress import Progress
from unbottle.train.arguments import FREE, RunSettings, Settings, SummarizeSettings
from unbottle.train.callbacks import Before, Preemption, ProgressCallback, logs, quiet
from unbottle.train.checkpoints import latest, step_of
from unbottle.train.distributed import first_does, is_first, join, processes, rank, refuse_difference
from unbottle.train.divergence import numbered
from unbottle.train.modes import MODEL, TRAINED, Task
from unbottle.train.trainer import WRITING, ExactTrainer, arguments, collate


@dataclass(frozen=True, kw_only=True)
class Result:
    """`losses` are (step, mean since the one before); `valid_losses` are (step, mean over all tokens), 0 is before."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    valid_losses: tuple[tuple[int, float], ...]
    tokens: int
    seconds: float
    tokens_per_second: float
    folder: str  # where the trained model is

    def to_dict(self) -> dict[str, Any]:
        perplexities = [(step, math.exp(min(loss, 700.0))) for step, loss in self.valid_losses]
        return asdict(self) | {"valid_perplexities": perplexities}


def refuse(model: Any, train: Any, settings: Settings) -> None:
    """Models, windows and settings that do not go together."""
    target = innermost(model)
    _refuse_folder(settings)
    if target.config.is_encoder_decoder:
        raise ValueError(f"{target._get_name()} is an encoder-decoder model; a causal language model is needed.")
    _refuse_mode(model, settings)
    if not hasattr(train, "__len__"):
        if settings.max_steps is None:
            raise ValueError("the text is a stream, whose end is not known: give max_steps instead of epochs.")
    elif not len(train):
        raise ValueError("there is nothing to train on: no window of text.")
    text = target.config.get_text_config()
    limit, length = getattr(text, "max_position_embeddings", None), getattr(train, "length", settings.length)
    if limit is not None and length > limit:
        raise ValueError(f"length {length}: {target._get_name()} reads at most {limit} tokens. Give shorter windows.")
    tokens = getattr(train, "tokens", None)
    if tokens is not None and len(tokens):
        _refuse_token(target, int(tokens.max()))


def refuse_pairs(model: Any, train: Any, settings: SummarizeSettings) -> None:
    """Models, pairs and settings that do not go together."""
    target = innermost(model)
    _refuse_folder(settings)
    if not target.config.is_encoder_decoder:
        raise ValueError(f"{target._get_name()} is a causal language model; an encoder-decoder model is needed.")
    _refuse_mode(model, settings)
    if not hasattr(train, "__len__"):
        raise ValueError("the pairs are a stream: give a data set that knows its length, as unbottle.data.Pairs.")
    if not len(train):
        raise ValueError("there is nothing to train on: no pair of document and summary.")
    limits = (
        ("source_length", "document", source_limit(target.config), getattr(train, "longest_source", None)),
        ("target_length", "summary", target_limit(target.config), getattr(train, "longest_target", None)),
    )
    for setting, what, limit, longest in limits:
        if limit is not None and longest is not None and longest > limit:
            raise ValueError(
                f"{setting} {getattr(settings, setting)}: a {what} has {longest} tokens, and {target._get_name()} "
                f"takes at most {limit}. Set {setting} to {limit}, and longer ones are cut."
            )
    if (largest := getattr(train, "largest_token", None)) is not None:
        _refuse_token(target, largest)


def _refuse_folder(settings: RunSettings) -> None:
    if not settings.output:
        raise ValueError("output is empty: name a folder for the run.")


def _refuse_mode(model: Any, settings: RunSettings) -> None:
    target = innermost(model)
    if settings.train == "head" and not isinstance(target, HeadMixin):
        raise ValueError("train 'head': this model has no head. Give it one first: unbottle.attach(model, method).")
    if settings.train == "lora" and target is not model:
        raise ValueError("train 'lora': this model has adapters already. Give the plain model, or train 'all'.")


def _refuse_token(target: Any, largest: int) -> None:
    words = target.get_output_embeddings().weight.shape[0]
    if largest >= words:
        raise ValueError(
            f"the text has the token {largest}, and the model knows {words}: it is tokenised for another one."
        )


RECORD = "run.json"


def claim(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Write down what this run is; refuse if the folder holds another one. The record that counts is returned."""
    path = folder / RECORD
    if not path.exists():
        write_json(path, record)
        return record
    stored: dict[str, Any] = read_json(path)
    for part, values in record.items():
        old = stored.get(part, {})
        for name, value in values.items():
            if (part, name) in {("settings", free) for free in FREE}:
                continue
            if plain(value) != old.get(name):
                what = name if part == "settings" else f"{part} {name}"
                raise ValueError(
                    f"{folder} holds a run with other settings: {what} was {old.get(name)!r} and is {value!r} now. "
                    "Give another output folder, or the settings of before to go on with it."
                )
    return stored


def plain(value: Any) -> Any:
    """As it comes back from a file."""
    return list(value) if isinstance(value, tuple) else value


ALIGNED = 64  # bytes


def run(
    task: Task,
    model: Any,
    train: Any,
    valid: Any,
    settings: RunSettings,
    *,
    report: Progress | None,
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
        first_does(lambda: stack.enter_context(folder_lock(folder)))
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


def _train(trainer: ExactTrainer, checkpoint: Path | None, report: Progress | None, preemption: Preemption) -> None:
    resumed = None if checkpoint is None else str(checkpoint)
    if checkpoint is not None:
        state = read_json(checkpoint / "trainer_state.json")
        if state["global_step"] >= state["max_steps"]:  # killed after its last step
            trainer._load_from_checkpoint(str(checkpoint))
            trainer.state = type(trainer.state).load_from_json(str(checkpoint / "trainer_state.json"))
            trainer.restore_midway(str(checkpoint))
            return
    trainer.add_callback(ProgressCallback(trainer, report, resumed))
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
