"""Training arguments: those of the Hugging Face Trainer with the paper's defaults, and a few of ours.

Use them as any TrainingArguments: in Python, with HfArgumentParser, or from the command line and YAML files
(`unbottle train lm --help-all`). `arguments.json` beside this file describes every field for the command line, which
must not import transformers to print its help; `python scripts/training_arguments.py` writes it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import torch
from transformers import TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SchedulerType

from unbottle.train.distributed import backend, join, launched, on_cpu
from unbottle.train.presets import NEVER, check_values, full_names

NOT_SUPPORTED = {  # flags of TrainingArguments: why they cannot be set here
    "auto_find_batch_size": "a run resumes exactly only with the batch size it started with",
    "enable_jit_checkpoint": "SIGTERM saves a checkpoint after the current step in any case",
    "ignore_data_skip": "a resumed run reads exactly what an uninterrupted one reads",
    "remove_unused_columns": "the Trainer would remove the columns that the head and error reports need",
    "resume_from_checkpoint": "a run resumes from its last checkpoint when the same command is run again",
    "save_only_model": "a checkpoint holds all that a run needs to resume",
}
FREE = {  # may change when a run is resumed: no weight and no loss depends on them
    "output_dir", "hidden_states_dir", "report_to", "run_name", "project", "trackio_space_id", "trackio_bucket_id",
    "trackio_static_space_id", "save_strategy", "save_steps", "save_total_limit", "save_on_each_node", "push_to_hub",
    "hub_token", "hub_private_repo", "hub_model_id", "hub_strategy", "hub_always_push", "hub_revision", "log_level",
    "log_level_replica", "log_on_each_node", "disable_tqdm", "use_cpu", "debug", "per_device_train_batch_size",
    "per_device_eval_batch_size", "dataloader_num_workers", "dataloader_pin_memory", "dataloader_persistent_workers",
    "dataloader_prefetch_factor", "dataloader_multiprocessing_context", "ddp_backend", "ddp_timeout",
    "ddp_bucket_cap_mb", "ddp_broadcast_buffers", "ddp_find_unused_parameters", "ddp_static_graph", "fsdp",
    "fsdp_config", "deepspeed", "accelerator_config", "parallelism_config", "local_rank", "do_train", "do_eval",
    "do_predict", "eval_strategy", "gradient_checkpointing", "gradient_checkpointing_kwargs",
    "torch_empty_cache_steps", "skip_memory_metrics", "eval_accumulation_steps", "prediction_loss_only",
}  # fmt: skip
SUMMARY = (
    "learning_rate", "head_lr_multiplier", "batch_size", "gradient_accumulation_steps", "num_train_epochs",
    "max_steps", "lr_scheduler_type", "warmup_steps", "adam_epsilon", "weight_decay", "max_grad_norm", "seed",
    "window_length", "max_source_length", "max_target_length", "source_prefix", "bf16", "fp16",
)  # fmt: skip


def _option(default: Any, text: str) -> Any:
    """A field with its help."""
    return field(default=default, metadata={"help": text})


@dataclass
class HeadTrainingArguments(TrainingArguments):
    """Arguments of every training. The defaults are the paper's for language models.

    Checkpoints, logs and the trained model go to `output_dir`; see `unbottle.train.train_lm`.
    """

    # --- Output layer and trained parameters ---
    output_dir: str | None = _option(None, "Folder of the run: checkpoints, logs, and the trained model.")
    train_mode: str = _option(
        "all",
        "What to train: all (every parameter that is not frozen), head (frozen backbone), or lora (adapters, and the "
        "full head).",
    )
    head_lr_multiplier: float = _option(1.0, "Learning rate of the head, as a multiple of learning_rate.")
    lora_r: int = _option(8, "Rank of the LoRA adapters.")
    lora_alpha: float = _option(16.0, "Scale of the LoRA adapters.")
    hidden_states_dir: str | None = _option(
        None, "Folder for the hidden states of a frozen backbone, which several runs may share. [output_dir/states]"
    )
    hidden_states_dtype: str = _option("float32", "Data type of stored hidden states: float32, bfloat16 or float16.")

    # --- Training Duration and Batch Size ---
    batch_size: int = _option(4, "Examples per batch, over all processes: their number changes no result.")
    per_device_train_batch_size: int = _option(0, "Examples per batch and process, instead of batch_size.")
    per_device_eval_batch_size: int = _option(0, "Examples per evaluation batch and process. [as in training]")
    num_train_epochs: float = 1.0

    # --- Other defaults than the Trainer's ---
    learning_rate: float = 1e-5
    lr_scheduler_type: SchedulerType | str = "constant_with_warmup"
    adam_epsilon: float = 1e-6
    weight_decay: float = 1.2e-6
    max_grad_norm: float = 0.25
    seed: int = 0
    logging_steps: float = 10
    logging_nan_inf_filter: bool = False
    eval_strategy: IntervalStrategy | str = "steps"
    eval_steps: float | None = _option(NEVER, "Steps between evaluations. [before and after training only]")
    save_total_limit: int | None = 2
    include_num_input_tokens_seen: str | bool = True
    remove_unused_columns: bool = False
    label_names: list[str] | None = field(default_factory=lambda: ["labels"])
    report_to: None | str | list[str] = _option(  # noqa: RUF009, RUF036  # the order that HfArgumentParser understands
        None, "Loggers: tensorboard, wandb, trackio, none, ... [tensorboard in output_dir/logs]"
    )
    disable_tqdm: bool | None = True
    log_level: str = "error"
    ddp_timeout: int = 86400  # the others wait while one process stores hidden states

    def __post_init__(self) -> None:
        check_values({field.name: getattr(self, field.name) for field in fields(self)})
        for name, reason in NOT_SUPPORTED.items():
            if getattr(self, name):
                raise ValueError(f"{name} is not supported: {reason}.")
        self._share_batch(launched())
        self.data_seed = self.seed if self.data_seed is None else self.data_seed
        self.run_name = self.run_name or Path(self.output_dir or "").name
        if self.report_to is None:
            self.report_to = ["tensorboard"] if importlib.util.find_spec("tensorboard") else []
        elif not isinstance(self.report_to, str):
            self.report_to = [*self.report_to]
        if "tensorboard" in self.report_to and not importlib.util.find_spec("tensorboard"):
            raise ValueError("report_to tensorboard: it is not installed. pip install tensorboard")
        self.dataloader_pin_memory = self.dataloader_pin_memory and torch.accelerator.is_available()
        join(self.use_cpu)
        # bf16 without an accelerator is autocast on the CPU, which transformers wants to be asked for
        wants_cpu = self.use_cpu or (self.bf16 and not torch.accelerator.is_available())
        self.use_cpu, self.ddp_backend = on_cpu(wants_cpu), self.ddp_backend or backend()
        super().__post_init__()

    def _share_batch(self, processes: int) -> None:
        """`batch_size` is what all processes read at a time, so that their number changes nothing."""
        if self.per_device_train_batch_size:
            self.batch_size = self.per_device_train_batch_size * processes
        elif self.batch_size % processes:
            raise ValueError(
                f"batch_size {self.batch_size}: {processes} processes share a batch. Give a multiple of {processes}."
            )
        self.per_device_train_batch_size = self.batch_size // processes
        self.per_device_eval_batch_size = self.per_device_eval_batch_size or self.per_device_train_batch_size

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> Self:
        """Arguments from a dict, under their own names or the short ones of `unbottle.train.presets`."""
        return cls(**full_names(values))  # type: ignore[arg-type]  # values are checked one by one in __post_init__

    def record(self) -> dict[str, object]:
        """Everything that weights and losses depend on, as JSON stores it: what a resumed run has in common with the
        interrupted one, on any machine and with any number of processes."""
        values = {name: value for name, value in self.to_dict().items() if name not in FREE}
        record: dict[str, object] = json.loads(json.dumps(values, default=str))
        return record

    def summary(self) -> dict[str, object]:
        """What a model card says about the training: the usual arguments, and those that were changed."""
        defaults = {f.name: f.default for f in fields(self)}
        return {
            name: value
            for name, value in self.record().items()
            if name in SUMMARY or (value != defaults[name] and name not in ("train_mode", "data_seed", "label_names"))
        }


@dataclass
class LMTrainingArguments(HeadTrainingArguments):
    """Arguments for a causal language model. The defaults are the paper's for GPT-2 small."""

    window_length: int = _option(200, "Number of tokens of a training window.")


@dataclass
class SummarizeTrainingArguments(HeadTrainingArguments):
    """Arguments for an encoder-decoder model. The defaults are the paper's."""

    batch_size: int = _option(8, "Pairs per batch, over all processes: their number changes no result.")
    learning_rate: float = 5e-5
    max_grad_norm: float = 1.0  # the Trainer's default; the paper does not say
    lr_scheduler_type: SchedulerType | str = "linear"
    warmup_steps: float = 1000
    num_train_epochs: float = 3.0
    max_source_length: int = _option(1024, "Maximum number of tokens of a document.")
    max_target_length: int = _option(128, "Maximum number of tokens of a summary.")
    source_prefix: str | None = _option(None, "Text before each document. [as the model's config says, or none]")
