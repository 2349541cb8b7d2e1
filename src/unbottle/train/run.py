"""Train a model in a folder, from the first check to the saved model: `train_lm` and `train_summarize`.

The folder of a run holds run.json, which identifies it, checkpoints, logs, and in the end the model. It belongs to one
process group at a time, and to one set of arguments.
"""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import torch
from huggingface_hub import upload_folder
from torch.utils.data import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback, TrainerState, set_seed
from transformers.integrations import TensorBoardCallback
from transformers.trainer_utils import IntervalStrategy

from unbottle.files import Json, folder_lock, read_json, write_json
from unbottle.head.projection import OLD_NAMES, current_name
from unbottle.hf.attach import innermost
from unbottle.hf.integrations.callbacks import HeadGradientCallback
from unbottle.hf.model_card import TrainingRecord
from unbottle.hf.model_identity import backbone_name
from unbottle.hf.modeling import HeadMixin
from unbottle.hf.pretrained import keep_prefix, source_limit, target_limit
from unbottle.progress import Progress
from unbottle.train.arguments import HeadTrainingArguments, LMTrainingArguments, SummarizeTrainingArguments
from unbottle.train.callbacks import OnTrainBegin, Preemption, ProgressCallback, quiet_logging, tensorboard_callback
from unbottle.train.checkpoints import latest, step_of
from unbottle.train.distributed import Row, check_same_everywhere, is_first, on_first_process, rank
from unbottle.train.divergence import number_rows
from unbottle.train.modes import MODEL, MODES
from unbottle.train.presets import Settings, SummarizeSettings, full_names
from unbottle.train.trainer import CHECKPOINTS, TRAINER_STATE, WRITING, HeadTrainer

RECORD = "run.json"
ALIGNED = 64  # bytes
NOT_WITH_FROZEN_BACKBONE = ("label_smoothing_factor", "neftune_noise_alpha")


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

    def to_dict(self) -> dict[str, object]:
        perplexities = [(step, math.exp(min(loss, 700.0))) for step, loss in self.valid_losses]
        return asdict(self) | {"valid_perplexities": perplexities}


class RunOptions(TypedDict, total=False):
    """What a run may be given besides model, data and arguments. `tokenizer` is saved beside the model; `data_name` is
    for the model card, which names a Hub data set, but no path."""

    report: Progress | None
    tokenizer: PreTrainedTokenizerBase | None
    data_name: str | None


def train_lm(
    model: PreTrainedModel,
    train: Dataset[Row],
    valid: Dataset[Row] | None,
    args: LMTrainingArguments | Settings,
    **options: Unpack[RunOptions],
) -> Result:
    """Train a causal model, with a head or without, on windows of tokens. The model is modified in place.

    `train` and `valid` (or None) are data sets of {"input_ids", "labels"}. The trained model is saved to
    output_dir/model. `options` are those of `RunOptions`: report, tokenizer, data_name.
    If interrupted, call it again to resume: the run ends with the weights and losses of an uninterrupted one, bit for
    bit, in one process on the same machine.
    """
    args = args if isinstance(args, HeadTrainingArguments) else args.arguments()
    check_lm(model, train, args)
    return run(model, train, valid, args, **options)


def train_summarize(
    model: PreTrainedModel,
    train: Dataset[Row],
    valid: Dataset[Row] | None,
    args: SummarizeTrainingArguments | SummarizeSettings,
    **options: Unpack[RunOptions],
) -> Result:
    """Train an encoder-decoder model, with a head or without, on pairs. The model is modified in place.

    `train` and `valid` (or None) are data sets of {"input_ids", "labels"}, as `unbottle.data.Pairs`. Everything else is
    as in `train_lm`. The saved config keeps the prefix of the documents, for generation (`unbottle.hf.pretrained`).
    `tokens` of the result are those of the documents, with padding.
    """
    args = args if isinstance(args, HeadTrainingArguments) else args.arguments()
    check_summarize(model, train, args)
    prefix = getattr(train, "prefix", args.source_prefix)
    if prefix is not None:
        keep_prefix(model, prefix)
    return run(model, train, valid, args, **options)


def run(
    model: PreTrainedModel,
    train: Dataset[Row],
    valid: Dataset[Row] | None,
    args: HeadTrainingArguments,
    *,
    report: Progress | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    data_name: str | None = None,
) -> Result:
    """Train in the folder args.output_dir, from its last checkpoint, if there is one.

    Several processes do all of this at once; the first alone writes and reports.
    """
    folder = Path(str(args.output_dir))
    args = copy.copy(args)
    if valid is None:
        args.eval_strategy = IntervalStrategy.NO
    preemption = Preemption(folder)
    with ExitStack() as stack, quiet_logging(), preemption.listening():
        on_first_process(lambda: stack.enter_context(folder_lock(folder)))
        this_run = identity(model, train, valid, args)
        check_same_everywhere(this_run)
        record = on_first_process(lambda: claim(folder, this_run))
        if not (folder / RECORD).is_file():
            raise ValueError(f"process {rank()} does not see {folder / RECORD}: give a folder that all machines share.")
        report = report if is_first() else None
        set_seed(args.seed)
        align(model)
        mode = MODES[args.train_mode](model, train, valid, args, report)
        checkpoint = on_first_process(lambda: last_checkpoint(folder))
        use_cache = getattr(model.config, "use_cache", None)
        trainer = HeadTrainer(mode.model, args, number_rows(mode.train), mode.valid)
        trainer.remove_callback(PrinterCallback)
        if isinstance(innermost(model), HeadMixin) and not trainer.is_deepspeed_enabled:  # it hides gradients
            trainer.add_callback(HeadGradientCallback())
        if args.eval_strategy != IntervalStrategy.NO and "before" not in record:
            _evaluate_before(trainer, record)
        _train(trainer, checkpoint, report, preemption)
        if use_cache is not None:
            model.config.use_cache = use_cache  # the Trainer turned it off, and it would be saved
        result = _result(trainer, record)
        mode.save(folder, tokenizer, _training_record(trainer, result, data_name, _data_name(train)))
        if args.push_to_hub:
            on_first_process(lambda: _upload(trainer, folder / MODEL))
        on_first_process(lambda: shutil.rmtree(folder / WRITING, ignore_errors=True))
        return result


# -- checks


def check_lm(model: PreTrainedModel, train: Dataset[Row], args: LMTrainingArguments) -> None:
    """Refuse models, windows and arguments that do not go together."""
    target = innermost(model)
    if target.config.is_encoder_decoder:
        raise ValueError(f"{target._get_name()} is an encoder-decoder model; a causal language model is needed.")
    _check_mode(model, args)
    if not hasattr(train, "__len__"):
        if args.max_steps < 0:
            raise ValueError("the text is a stream, whose end is not known: give max_steps instead of epochs.")
    elif not len(train):
        raise ValueError("there is nothing to train on: no window of text.")
    limit = getattr(target.config.get_text_config(), "max_position_embeddings", None)
    length = getattr(train, "length", args.window_length)
    if limit is not None and length > limit:
        raise ValueError(
            f"window_length {length}: {target._get_name()} reads at most {limit} tokens. Give shorter windows."
        )
    tokens = getattr(train, "tokens", None)
    if tokens is not None and len(tokens):
        _check_token(target, int(tokens.max()))


def check_summarize(model: PreTrainedModel, train: Dataset[Row], args: SummarizeTrainingArguments) -> None:
    """Refuse models, pairs and arguments that do not go together."""
    target = innermost(model)
    if not target.config.is_encoder_decoder:
        raise ValueError(f"{target._get_name()} is a causal language model; an encoder-decoder model is needed.")
    _check_mode(model, args)
    if not hasattr(train, "__len__"):
        raise ValueError("the pairs are a stream: give a data set that knows its length, as unbottle.data.Pairs.")
    if not len(train):
        raise ValueError("there is nothing to train on: no pair of document and summary.")
    for name, value, text, limit, longest in (
        ("source", args.max_source_length, "document", source_limit(target.config), "longest_source"),
        ("target", args.max_target_length, "summary", target_limit(target.config), "longest_target"),
    ):
        length = getattr(train, longest, None)
        if limit is not None and length is not None and length > limit:
            raise ValueError(
                f"max_{name}_length {value}: a {text} has {length} tokens, and {target._get_name()} takes at most "
                f"{limit}. Set max_{name}_length to {limit} to truncate longer ones."
            )
    if (largest := getattr(train, "largest_token", None)) is not None:
        _check_token(target, largest)


def _check_mode(model: PreTrainedModel, args: HeadTrainingArguments) -> None:
    target = innermost(model)
    if not args.output_dir:
        raise ValueError("output_dir is empty: name a folder for the run.")
    if args.train_mode == "lora" and target is not model:
        raise ValueError("train_mode 'lora': this model has adapters already. Give the plain model, or train 'all'.")
    if args.train_mode != "head":
        return
    if not isinstance(target, HeadMixin):
        raise ValueError("train_mode 'head': this model has no head. Attach one first: unbottle.attach(model, method).")
    for name in NOT_WITH_FROZEN_BACKBONE:
        if getattr(args, name):
            raise ValueError(f"{name} {getattr(args, name)}: not supported with train_mode 'head'.")


def _check_token(target: PreTrainedModel, largest: int) -> None:
    size = target.get_output_embeddings().weight.shape[0]
    if largest >= size:
        raise ValueError(
            f"the text has token {largest}, and the vocabulary of the model has {size}: it was tokenized for another "
            "model."
        )


# -- the folder of a run


def identity(
    model: PreTrainedModel, train: Dataset[Row], valid: Dataset[Row] | None, args: HeadTrainingArguments
) -> dict[str, dict[str, object]]:
    """What must not change while a run is interrupted: arguments, model and data."""
    target = innermost(model)
    return {
        "settings": args.record(),
        "model": {
            "class": target._get_name(),
            "head": str(target.head.config.method) if isinstance(target, HeadMixin) else None,
            "form": _stored_form(target),
            "weights": backbone_name(target),
        },
        "data": {"train": _data_name(train), "valid": _data_name(valid)},
    }


def claim(folder: Path, this_run: dict[str, dict[str, object]]) -> Json:
    """Write the record of a run, or return the one of the run that is resumed. Refuses a folder of another run."""
    path = folder / RECORD
    if not path.exists():
        write_json(path, this_run)
        return dict(this_run)
    record: Json = read_json(path)
    for part, values in this_run.items():
        stored = full_names(record.get(part, {})) if part == "settings" else record.get(part, {})
        for name, value in values.items():
            # earlier versions recorded fewer arguments
            if (name in stored or part != "settings") and value != stored.get(name):
                raise ValueError(
                    f"{folder} holds a run with other settings: {name if part == 'settings' else f'{part} {name}'} was "
                    f"{stored.get(name)!r} and is {value!r} now. Give another output folder, or the settings of before "
                    "to resume it."
                )
    return record


def form_of(folder: Path) -> str | None:
    """The form of the head that a run trains; None if there is no run yet, or no head."""
    if not (folder / RECORD).is_file():
        return None
    model = read_json(folder / RECORD).get("model", {})
    return None if model.get("head") is None else current_name(model.get("form") or "paper")


def _stored_form(target: PreTrainedModel) -> str | None:
    """The form of the head under the name that records use; None without a head, or for the paper's form."""
    if not isinstance(target, HeadMixin) or (form := target.head.config.form) == "paper":
        return None
    return {new: old for old, new in OLD_NAMES.items()}.get(form, form)


def _data_name(data: Dataset[Row] | None) -> str | None:
    if data is None:
        return None
    if hasattr(data, "fingerprint"):
        return str(data.fingerprint())[:16]
    return f"{len(data)} windows" if hasattr(data, "__len__") else "a stream"


def last_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to resume from. Removes what a killed session left incomplete."""
    (folder / CHECKPOINTS).mkdir(exist_ok=True)
    shutil.rmtree(folder / WRITING, ignore_errors=True)
    return latest(folder / CHECKPOINTS)


# -- steps of a run


@torch.no_grad()
def align(model: PreTrainedModel) -> None:
    """Copy weights that are mapped from a file: how products round depends on the alignment of their factors."""
    for parameter in model.parameters():
        if parameter.data_ptr() % ALIGNED:
            parameter.data = parameter.data.clone()


def _evaluate_before(trainer: HeadTrainer, record: Json) -> None:
    """Record the validation loss before training, now or as soon as the model can be used."""

    def evaluate(loss: Callable[[], float]) -> None:
        record["before"] = {"valid_loss": loss()}
        on_first_process(lambda: write_json(trainer.folder / RECORD, record))

    if trainer.shards_model:
        trainer.add_callback(OnTrainBegin(lambda: evaluate(trainer.validation_loss)))
    else:
        evaluate(lambda: trainer.evaluate()["eval_loss"])


def _train(trainer: HeadTrainer, checkpoint: Path | None, report: Progress | None, preemption: Preemption) -> None:
    args, path = trainer.args, None if checkpoint is None else str(checkpoint)
    if path is not None:
        state = TrainerState.load_from_json(str(Path(path) / TRAINER_STATE))
        if state.global_step >= state.max_steps:  # killed after its last step
            trainer._load_from_checkpoint(path)
            trainer.state = state
            trainer.restore_midway(path)
            if args.load_best_model_at_end:
                trainer._load_best_model()
            return
    trainer.add_callback(ProgressCallback(trainer, report, path))
    trainer.remove_callback(TensorBoardCallback)
    if "tensorboard" in (args.report_to or ()) and is_first():
        trainer.add_callback(tensorboard_callback(trainer.folder, 0 if checkpoint is None else step_of(checkpoint)))
    set_seed(args.seed + rank())  # whatever was drawn before; dropout differs between processes
    trainer.add_callback(preemption)
    with preemption.after_step():
        trainer.train(resume_from_checkpoint=path)


def _result(trainer: HeadTrainer, record: Json) -> Result:
    history = trainer.state.log_history
    before = [(0, record["before"]["valid_loss"])] if "before" in record else []
    after = [(int(line["step"]), line["eval_loss"]) for line in history if "eval_loss" in line]
    seconds, tokens = trainer.seconds, int(trainer.state.num_input_tokens_seen)
    return Result(
        steps=trainer.state.global_step,
        losses=tuple((int(line["step"]), line["loss"]) for line in history if "loss" in line),
        valid_losses=(*before, *after),
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / max(seconds, 1e-9),
        folder=str(trainer.folder / MODEL),
    )


def _training_record(
    trainer: HeadTrainer, result: Result, data_name: str | None, data_fingerprint: str | None
) -> TrainingRecord:
    """What the model card says about the training: arguments that differ from the Trainer's, no paths."""
    args, losses = trainer.args, [loss for _, loss in result.valid_losses]
    best = trainer.state.best_metric if args.load_best_model_at_end else None
    return TrainingRecord(
        data=data_name,
        fingerprint=data_fingerprint,
        train=args.train_mode,
        steps=result.steps,
        tokens=result.tokens,
        settings=args.summary(),
        valid_losses=(losses[0], losses[-1] if best is None else best) if losses else None,
    )


def _upload(trainer: HeadTrainer, folder: Path) -> None:
    args = trainer.args
    upload_folder(
        repo_id=str(trainer.hub_model_id),
        folder_path=folder,
        commit_message="Upload trained model",
        token=args.hub_token,
        revision=args.hub_revision,
    )
