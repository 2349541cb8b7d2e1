"""Collate: windows become a batch.

DistributedTrainer: the Trainer of Hugging Face, where several processes end where one would end.

ExactTrainer: the Trainer of Hugging Face, with checkpoints that are whole and a validation loss per token.
"""

from __future__ import annotations

import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import IterableDataset, SequentialSampler
from transformers import Seq2SeqTrainer, TrainingArguments, set_seed
from transformers.trainer_utils import EvalLoopOutput

from unbottle.files import explain_full_disk, read_json, write_json
from unbottle.train.arguments import RunSettings
from unbottle.train.checkpoints import (
    OPTIMIZER,
    PREFIX,
    SCHEDULE,
    PlainCheckpoints,
    read_state,
    rotate,
    seal,
    write_state,
)
from unbottle.train.distributed import (
    SharedBatches,
    SharedRows,
    backend,
    first_does,
    is_first,
    on_cpu,
    processes,
    put,
    rank,
    set_zero_state,
    split_state,
    total,
    wait,
    whole_state,
    whole_tensors,
    zero_state,
)
from unbottle.train.divergence import Watch

PADDING = {"input_ids": 0, "labels": -100}  # under the mask, any word will do


def collate(windows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Rows of equal length; only a batch with a shorter window is padded, and only it gets an attention mask."""
    batch = {
        name: pad_sequence([window[name] for window in windows], batch_first=True, padding_value=PADDING.get(name, 0))
        for name in windows[0]
    }
    lengths = torch.tensor([len(window["input_ids"]) for window in windows])
    if (lengths != lengths.max()).any():
        batch["attention_mask"] = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
    return batch


def refuse_engine(fsdp_version: int | None, zero_stage: int | None) -> None:
    """Engines that take weights away unless the module they belong to is called. The head reads W without."""
    if fsdp_version == 1:
        raise ValueError("FSDP 1 flattens the weights that the head reads. Set fsdp_version: 2.")
    if zero_stage == 3:
        raise ValueError(
            "DeepSpeed ZeRO 3 takes the output embeddings away before the head has read them. Use ZeRO 2, or FSDP2, "
            "which splits weights too: examples/launch."
        )


@contextmanager
def embeddings_in_root(model: Any) -> Iterator[None]:
    """accelerate would give embeddings that are tied a unit of their own, and knows two modules of them; T5 has four.

    In the root they are gathered for the whole forward pass, which the head needs in any case.
    """
    names = [name for name in ("get_input_embeddings", "get_output_embeddings") if hasattr(model, name)]
    for name in names:
        object.__setattr__(model, name, lambda: None)
    try:
        yield
    finally:
        for name in names:
            object.__delattr__(model, name)


class DistributedTrainer(PlainCheckpoints):
    """Processes share each batch, and write the same files as one: weights and AdamW's state by name, in whole.

    So a run can go on with another number of processes, or with another engine: DDP, FSDP2, ZeRO 2, or none.
    """

    settings: RunSettings

    # -- engines

    def create_accelerator_and_postprocess(self) -> None:
        """As always, but FSDP2 works on CPUs too. Asked for it there, accelerate would take DDP and say nothing."""
        super().create_accelerator_and_postprocess()
        asked = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true" and processes() > 1
        if asked and not self.is_fsdp_enabled:
            from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

            self.accelerator.state.distributed_type = DistributedType.FSDP
            self.accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()
            self.is_fsdp_enabled = True
        refuse_engine(
            self.accelerator.state.fsdp_plugin.fsdp_version if self.is_fsdp_enabled else None,
            self.accelerator.state.deepspeed_plugin.zero_stage if self.is_deepspeed_enabled else None,
        )

    def _prepare_for_training(self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None) -> Any:
        """As always, but DeepSpeed would look for a checkpoint of its own kind, which runs code when it is read."""
        ours = resume_from_checkpoint if self.is_deepspeed_enabled else None
        theirs = None if self.is_deepspeed_enabled else resume_from_checkpoint
        with embeddings_in_root(self.model) if self.is_fsdp_enabled else nullcontext():
            prepared = super()._prepare_for_training(max_steps, train_dataloader, theirs)
        if ours is not None:
            self._load_from_checkpoint(ours)
            self._load_optimizer_and_scheduler(ours)
        return prepared

    @property
    def wraps_the_model(self) -> bool:
        """Whether the model can only be used once training has begun: before, it may be too large for a device."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)

    # -- data

    def get_train_dataloader(self) -> Any:
        """A stream is read by the first process, which deals out windows; of other data each process reads its part."""
        data: Any = self.train_dataset
        if processes() == 1 or isinstance(data, IterableDataset):
            return super().get_train_dataloader()
        return self._shared(data, self._order(data))

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        data: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if processes() == 1 or isinstance(data, IterableDataset):
            return super().get_eval_dataloader(eval_dataset)
        return self._shared(data, SequentialSampler(data))

    def _order(self, data: Any) -> Any:
        """That of one process, which follows from the seed and the epoch."""
        from accelerate.data_loader import SeedableRandomSampler

        seed = self.settings.seed
        return SeedableRandomSampler(data, data_seed=seed) if self.settings.shuffle else SequentialSampler(data)

    def _shared(self, data: Any, order: Any) -> Any:
        from accelerate.data_loader import DataLoaderShard

        return DataLoaderShard(
            SharedRows(data),
            device=self.accelerator.device,
            batch_sampler=SharedBatches(order, self.settings.batch, rank(), processes()),
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory,
        )

    def _track_num_input_tokens(self, inputs: Any) -> None:
        """As always; what a process without a part of the batch reads does not count."""
        nothing = processes() > 1 and bool((inputs["labels"] == -100).all())
        super()._track_num_input_tokens({"input_ids": inputs["input_ids"][:0]} if nothing else inputs)

    # -- checkpoints

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.wraps_the_model:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        state = zero_state(self.optimizer) if self.is_deepspeed_enabled else whole_state(self.optimizer)
        if self.args.should_save:
            write_state(Path(output_dir), OPTIMIZER, state)
            write_state(Path(output_dir), SCHEDULE, self.lr_scheduler.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if not self.wraps_the_model or checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        state = read_state(Path(checkpoint), OPTIMIZER)
        optimizer: Any = self.optimizer
        if self.is_deepspeed_enabled:
            set_zero_state(optimizer, state)
        else:
            optimizer.load_state_dict(split_state(optimizer, state))
        self.lr_scheduler.load_state_dict(read_state(Path(checkpoint), SCHEDULE))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Where another number of processes wrote the checkpoint, dropout goes on with numbers of its own."""
        if checkpoint is None or (Path(checkpoint) / f"{self._random_name}.json").is_file():
            super()._load_rng_state(checkpoint)
            return
        warnings.warn(
            f"{checkpoint} was written by another number of processes: the order of the data stays, dropout will not "
            "be what it would have been.",
            stacklevel=2,
        )
        set_seed(self.settings.seed + self.state.global_step + rank())


WEIGHTS, MIDWAY = "weights.safetensors", "midway.json"
WRITING = ".writing"  # folder of what is not whole yet
HEAD = ".head."


class ExactTrainer(DistributedTrainer):
    """Writes a checkpoint under another name first, and only what training changes: the rest comes with the model.

    Abstract: LanguageTrainer and SummaryTrainer know which labels are predicted.
    """

    model: Any

    @staticmethod
    def predicted(labels: Tensor) -> Tensor:
        """The labels that the loss is about, of B T."""
        raise NotImplementedError

    def __init__(self, *args: Any, settings: RunSettings, **kwargs: Any) -> None:
        self.settings = settings
        super().__init__(*args, **kwargs)
        self.checkpoints = Path(settings.output) / "checkpoints"
        self.loss = math.nan  # of the last step
        vocabulary = getattr(self.model.config.get_text_config(), "vocab_size", 0)
        self.watch = Watch(Path(settings.output), vocabulary, settings.lr)
        self.seconds_before, self.started = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Of training, all sessions of this run together."""
        return self.seconds_before + time.monotonic() - self.started

    # -- steps

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """As always; the head in groups of its own where its learning rate differs."""
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if fresh and self.settings.head_lr != 1.0:
            head = {id(p) for name, p in self.model.named_parameters() if HEAD in f".{name}"}
            for group in [*optimizer.param_groups]:
                theirs = [p for p in group["params"] if id(p) in head]
                group["params"] = [p for p in group["params"] if id(p) not in head]
                lr = group["lr"] * self.settings.head_lr
                optimizer.add_param_group({**group, "params": theirs, "lr": lr})
        return optimizer

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Tensor:
        """As always, but a loss that is no number, or explodes, ends the run before it gets into a checkpoint."""
        self.watch.batch(self.state.global_step + 1, inputs)
        loss = super().training_step(model, inputs, *args, **kwargs)
        self.loss = (total(loss) / processes()).item() * self.current_gradient_accumulation_steps
        self.watch.loss(self.loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """As always, before the optimizer takes its step. Float16 scales its loss, and knows how to skip a step."""
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        if self._scaler is None:
            self.watch.gradient(norm)
        return norm

    def evaluation_loop(self, dataloader: Any, description: str, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """The mean loss of all tokens that were predicted, however they fall into batches."""
        self.model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        rows = 0
        quick = {"skip_logits": True} if hasattr(self.model, "head") else {}
        with torch.no_grad():
            for batch in dataloader:
                inputs = self._prepare_inputs(batch)
                count = (self.predicted(inputs["labels"]) != -100).sum()
                some = count.clamp(min=1)  # a process may have nothing to do with the last rows
                counted = {"num_items_in_batch": some} if self.model_accepts_loss_kwargs else {}
                with self.accelerator.autocast():
                    loss = self.model(**inputs, **quick, **counted)["loss"]
                sums += torch.stack([loss.double().where(count > 0, 0.0) * count, count.double()])
                rows += len(inputs["labels"])
        loss_sum, tokens = total(sums).tolist()
        return EvalLoopOutput(None, None, {"eval_loss": loss_sum / max(tokens, 1.0)}, rows)  # type: ignore[arg-type]

    def valid_loss(self) -> float:
        """Now, without a line in any log."""
        found = self.evaluation_loop(self.get_eval_dataloader(), "validation").metrics
        assert found is not None
        return found["eval_loss"]

    # -- checkpoints

    def changing(self) -> dict[str, Tensor]:
        """What training changes, by name: parameters that get a gradient, and buffers that are saved."""
        parameters = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        buffers = {name: value for name, value in self.model.state_dict().items() if name not in parameters}
        trained = {name: p.detach() for name, p in self.model.named_parameters() if p.requires_grad}
        return trained | {name: value for name, value in buffers.items() if isinstance(value, Tensor)}

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """All processes write their part; when it is there, the first one gives it its name."""
        temporary = Path(str(self.args.output_dir)) / f"{PREFIX}{self.state.global_step}"
        first_does(lambda: shutil.rmtree(temporary, ignore_errors=True))
        midway = {
            "loss": (total(self._tr_loss) / processes()).item(),  # of the steps since the last line of the log
            "logged": self._globalstep_last_logged,
            "seconds": self.seconds,
        }
        with explain_full_disk(self.checkpoints):
            try:
                super()._save_checkpoint(model, trial)
                wait()
                first_does(lambda: self._seal(temporary, midway))
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise

    def _seal(self, temporary: Path, midway: dict[str, Any]) -> None:
        write_json(temporary / MIDWAY, midway)
        seal(temporary, self.checkpoints)
        rotate(self.checkpoints, self.settings.keep)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The weights of a checkpoint."""
        assert output_dir is not None
        tensors = whole_tensors(self.changing())
        if is_first():
            trained = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
            self.watch.weights({name: value for name, value in tensors.items() if name in trained})
            Path(output_dir).mkdir(parents=True, exist_ok=True)
            save_file({name: value.contiguous().clone() for name, value in tensors.items()}, Path(output_dir) / WEIGHTS)

    @torch.no_grad()
    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """Into the memory where the weights lie: where they lie, their products round alike."""
        stored, here = load_file(Path(resume_from_checkpoint) / WEIGHTS), self.changing()
        if missing := sorted(set(stored) ^ set(here)):
            raise ValueError(f"{resume_from_checkpoint} belongs to another model: {missing[0]} is only in one of them.")
        for name, value in stored.items():
            put(here[name], value)

    def restore_midway(self, checkpoint: str) -> None:
        """What the Trainer forgets: the loss since the last line of the log, and the time."""
        midway = read_json(Path(checkpoint) / MIDWAY)
        self._tr_loss = torch.tensor(midway["loss"], device=self.args.device)
        self._globalstep_last_logged = midway["logged"]
        self.seconds_before, self.started = midway["seconds"], time.monotonic()


class LanguageTrainer(ExactTrainer):
    """Of causal models, which shift labels themselves."""

    @staticmethod
    def predicted(labels: Tensor) -> Tensor:
        return labels[:, 1:]


class SummaryTrainer(ExactTrainer, Seq2SeqTrainer):
    """Of encoder-decoder models: every label is predicted, the first one too."""

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """T5, BART and their kin take num_items_in_batch and pass it over: theirs is the mean of the labels here."""
        found = super().compute_loss(model, inputs, True, num_items_in_batch)
        loss, outputs = found
        if num_items_in_batch is not None and not hasattr(self.model, "head"):
            count = (inputs["labels"] != -100).sum()
            loss = (loss * (count / num_items_in_batch)).where(count > 0, 0.0)
        return (loss, outputs) if return_outputs else loss

    @staticmethod
    def predicted(labels: Tensor) -> Tensor:
        return labels


def arguments(settings: RunSettings, kind: type[TrainingArguments], *, evaluates: bool) -> TrainingArguments:
    """Our settings in the Trainer's words. What it writes itself goes to a folder for things that are not whole yet."""
    never = 10**9
    each = settings.batch // processes()
    return kind(
        output_dir=str(Path(settings.output) / WRITING),
        per_device_train_batch_size=each,
        per_device_eval_batch_size=each,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.lr,
        adam_epsilon=settings.eps,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.clip,
        lr_scheduler_type="constant_with_warmup" if settings.schedule == "constant" else settings.schedule,
        warmup_steps=settings.warmup_steps,
        num_train_epochs=settings.epochs,
        max_steps=-1 if settings.max_steps is None else settings.max_steps,
        seed=settings.seed,
        data_seed=settings.seed,
        train_sampling_strategy="random" if settings.shuffle else "sequential",
        bf16=settings.precision == "bfloat16",
        fp16=settings.precision == "float16",
        use_cpu=on_cpu(settings.device),
        ddp_backend=backend(),
        logging_strategy="steps",
        logging_steps=settings.log_every,
        logging_nan_inf_filter=False,
        eval_strategy="steps" if evaluates else "no",
        eval_steps=settings.eval_every or never,
        save_strategy="steps",
        save_steps=settings.save_every or never,
        include_num_input_tokens_seen="all",
        remove_unused_columns=False,
        label_names=["labels"],
        report_to=[name for name in settings.report_to or () if name != "tensorboard"] or "none",
        run_name=Path(settings.output).name,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=torch.cuda.is_available(),
    )
